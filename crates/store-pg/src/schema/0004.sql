-- The index of sessions is asked for what a question is about, and not read as a whole.

-- The version of summaries that it is kept for. Whoever raises it marks every session as not indexed.
CREATE TABLE workrail.index_version (
    tenant text NOT NULL CHECK (tenant <> ''),
    version bigint NOT NULL,
    PRIMARY KEY (tenant)
);

-- Sessions whose log is not the one that was indexed, and where that log ends.
CREATE TABLE workrail.unindexed (
    tenant text NOT NULL CHECK (tenant <> ''),
    session text COLLATE "C" NOT NULL,
    chain bytea NOT NULL,
    PRIMARY KEY (tenant, session)
);

CREATE TABLE workrail.indexed_run (
    tenant text NOT NULL CHECK (tenant <> ''),
    session text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    stage bigint NOT NULL,
    activity bigint NOT NULL,
    PRIMARY KEY (tenant, session, number)
);
CREATE INDEX indexed_run_newest ON workrail.indexed_run (tenant, stage, activity DESC, session);

-- Compared with `=` alone: what row-level security does not know to be safe could not use an index.
CREATE TABLE workrail.indexed_term (
    tenant text NOT NULL CHECK (tenant <> ''),
    term bigint NOT NULL,
    session text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, term, session)
);

-- What is in `indexed_term` of the session.
ALTER TABLE workrail.session_summary ADD COLUMN terms bigint[] NOT NULL DEFAULT '{}';

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['index_version', 'unindexed', 'indexed_run', 'indexed_term']
    LOOP
        EXECUTE format('ALTER TABLE workrail.%I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE workrail.%I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant ON workrail.%I USING (tenant = current_setting(''workrail.tenant'', true))', name);
    END LOOP;
END
$$;

-- By a trigger, so that no writer can forget it.
CREATE FUNCTION workrail.mark_unindexed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO workrail.unindexed (tenant, session, chain) VALUES (NEW.tenant, NEW.id, NEW.chain)
    ON CONFLICT (tenant, session) DO UPDATE SET chain = excluded.chain;
    RETURN NULL;
END
$$;
CREATE TRIGGER session_changed AFTER INSERT OR UPDATE OF next_event, manifest_bytes, chain ON workrail.session
FOR EACH ROW EXECUTE FUNCTION workrail.mark_unindexed();
