-- What people decide about sessions, and what a repair puts aside before it changes anything.

ALTER TABLE workrail.session ADD COLUMN is_kept boolean NOT NULL DEFAULT false;
CREATE INDEX session_kept ON workrail.session (tenant, id) WHERE is_kept;

-- Damaged sessions as they were before a repair, each under a number of its own.
CREATE TABLE workrail.session_aside (
    tenant text NOT NULL CHECK (tenant <> ''),
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    next_event bigint NOT NULL,
    next_manifest bigint NOT NULL,
    manifest_bytes bigint NOT NULL,
    anchor_bytes bigint NOT NULL,
    anchor bytea NOT NULL,
    chain bytea NOT NULL,
    PRIMARY KEY (tenant, session, number)
);

CREATE TABLE workrail.segment_aside (
    tenant text NOT NULL CHECK (tenant <> ''),
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    next_event bigint NOT NULL,
    first_event bigint NOT NULL,
    next_manifest bigint NOT NULL,
    manifest_bytes bigint NOT NULL,
    manifest bytea NOT NULL,
    events bytea NOT NULL,
    chain bytea NOT NULL,
    PRIMARY KEY (tenant, session, number, next_event)
);

-- Damaged content that an intact copy took the place of.
CREATE TABLE workrail.content_aside (
    tenant text NOT NULL CHECK (tenant <> ''),
    kind text NOT NULL,
    sha256 bytea NOT NULL,
    number bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (tenant, kind, sha256, number)
);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['session_aside', 'segment_aside', 'content_aside']
    LOOP
        EXECUTE format('ALTER TABLE workrail.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE workrail.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant ON workrail.%I USING (tenant = current_setting(''workrail.tenant'', true))', name);
    END LOOP;
END
$$;
