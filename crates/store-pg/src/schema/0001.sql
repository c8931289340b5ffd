-- Every key is led by the tenant, and every table hides the rows of other tenants: a transaction that set no tenant
-- sees nothing. Forced, because the role that runs WorkRail owns the tables.

-- Where a session's log ends. Moved only from the end that the writer has read.
CREATE TABLE workrail.session (
    tenant text NOT NULL CHECK (tenant <> ''),
    id text COLLATE "C" NOT NULL,
    next_event bigint NOT NULL,
    next_manifest bigint NOT NULL,
    manifest_bytes bigint NOT NULL,
    anchor_bytes bigint NOT NULL,
    anchor bytea NOT NULL,
    chain bytea NOT NULL,
    PRIMARY KEY (tenant, id)
);

-- One append: the canonical bytes of its events, the manifest records that attest them, and the digest of all
-- manifest records up to here.
CREATE TABLE workrail.segment (
    tenant text NOT NULL CHECK (tenant <> ''),
    session text COLLATE "C" NOT NULL,
    next_event bigint NOT NULL,
    first_event bigint NOT NULL,
    next_manifest bigint NOT NULL,
    manifest_bytes bigint NOT NULL,
    manifest bytea NOT NULL,
    events bytea NOT NULL,
    chain bytea NOT NULL,
    PRIMARY KEY (tenant, session, next_event),
    FOREIGN KEY (tenant, session) REFERENCES workrail.session (tenant, id) ON DELETE CASCADE
);
-- Canonical JSON in rows of a few kilobytes: lz4 or pglz would cost more time than it saves on them.
ALTER TABLE workrail.segment ALTER COLUMN events SET STORAGE EXTERNAL;

-- The dedupe key of every event, as a fingerprint: no event is recorded twice.
CREATE TABLE workrail.event_key (
    tenant text NOT NULL CHECK (tenant <> ''),
    session text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    PRIMARY KEY (tenant, session, fingerprint)
);

-- Snapshots, blobs and compiled workflows, each once per tenant, under its digest.
CREATE TABLE workrail.content (
    tenant text NOT NULL CHECK (tenant <> ''),
    kind text NOT NULL CHECK (kind IN ('snapshot', 'blob', 'workflow')),
    sha256 bytea NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (tenant, kind, sha256)
);

-- The last activity number that was handed out.
CREATE TABLE workrail.activity (
    tenant text NOT NULL CHECK (tenant <> ''),
    number bigint NOT NULL,
    PRIMARY KEY (tenant)
);

CREATE TABLE workrail.keyring (
    tenant text NOT NULL CHECK (tenant <> ''),
    v bigint NOT NULL,
    current bytea NOT NULL,
    previous bytea,
    check_digest bytea NOT NULL,
    PRIMARY KEY (tenant)
);

-- Keyrings that could not be used and were replaced on command.
CREATE TABLE workrail.keyring_aside (
    tenant text NOT NULL CHECK (tenant <> ''),
    number bigint NOT NULL,
    v bigint NOT NULL,
    current bytea NOT NULL,
    previous bytea,
    check_digest bytea NOT NULL,
    PRIMARY KEY (tenant, number)
);

CREATE TABLE workrail.passkey_log (
    tenant text NOT NULL CHECK (tenant <> ''),
    bytes bytea NOT NULL,
    PRIMARY KEY (tenant)
);

-- The digest of the log's last line, apart from the log: one that was cut off or deleted is noticed.
CREATE TABLE workrail.passkey_head (
    tenant text NOT NULL CHECK (tenant <> ''),
    last_line bytea NOT NULL,
    PRIMARY KEY (tenant)
);

-- Damaged passkey logs that were given up on command.
CREATE TABLE workrail.passkey_log_aside (
    tenant text NOT NULL CHECK (tenant <> ''),
    sha256 bytea NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (tenant, sha256)
);

-- What people asked of a run and no step has applied yet, and what a passkey signed of it.
CREATE TABLE workrail.wish (
    tenant text NOT NULL CHECK (tenant <> ''),
    session text COLLATE "C" NOT NULL,
    run text COLLATE "C" NOT NULL,
    preferences bytea NOT NULL,
    proof bytea,
    PRIMARY KEY (tenant, session, run)
);

-- Derived from the log, and rebuilt whenever it is missing.
CREATE TABLE workrail.projection (
    tenant text NOT NULL CHECK (tenant <> ''),
    session text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    next_event bigint NOT NULL,
    cursor bytea NOT NULL,
    state bytea NOT NULL,
    PRIMARY KEY (tenant, session)
);

CREATE TABLE workrail.session_summary (
    tenant text NOT NULL CHECK (tenant <> ''),
    version bigint NOT NULL,
    session text COLLATE "C" NOT NULL,
    stamp bytea NOT NULL,
    cursor bytea NOT NULL,
    summary bytea NOT NULL,
    PRIMARY KEY (tenant, version, session)
);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['session', 'segment', 'event_key', 'content', 'activity', 'keyring', 'keyring_aside',
                                'passkey_log', 'passkey_head', 'passkey_log_aside', 'wish', 'projection', 'session_summary']
    LOOP
        EXECUTE format('ALTER TABLE workrail.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE workrail.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant ON workrail.%I USING (tenant = current_setting(''workrail.tenant'', true))', name);
    END LOOP;
END
$$;
