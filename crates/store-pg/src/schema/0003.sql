-- Tokens with which members of a team act: a digest of each, never itself.
CREATE TABLE workrail.access_token (
    tenant text NOT NULL CHECK (tenant <> ''),
    id text COLLATE "C" NOT NULL,
    name text NOT NULL,
    role text NOT NULL,
    digest text NOT NULL,
    created_at text COLLATE "C" NOT NULL,
    expires_at text COLLATE "C" NOT NULL,
    revoked_at text COLLATE "C",
    PRIMARY KEY (tenant, id)
);

ALTER TABLE workrail.access_token ENABLE ROW LEVEL SECURITY;
ALTER TABLE workrail.access_token FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant ON workrail.access_token USING (tenant = current_setting('workrail.tenant', true));
