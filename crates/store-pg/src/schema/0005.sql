-- Reading and appending as functions: their statements are planned once for each connection to the database, not for every
-- call, also behind a pooler that gives a connection to others in between. They run with the caller's rights, under row-level
-- security.

-- Moves the head and writes everything else, or returns false and writes nothing: when a key is known, needed content is missing,
-- or the head is not where the caller has read it.
CREATE FUNCTION workrail.append(
    own_session text,
    next_event bigint,
    next_manifest bigint,
    manifest_bytes bigint,
    anchor_bytes bigint,
    anchor bytea,
    chain bytea,
    first_event bigint,
    head_chain bytea,
    manifest bytea,
    events bytea,
    content_kinds text[],
    content_digests bytea[],
    contents bytea[],
    keys bytea[],
    needed_kinds text[],
    needed_digests bytea[]
) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    own_tenant text := pg_catalog.current_setting('workrail.tenant');
BEGIN
    IF EXISTS (
        SELECT FROM workrail.event_key k
        WHERE k.tenant = own_tenant AND k.session = own_session AND k.fingerprint = ANY (append.keys)
    ) THEN
        RETURN false;
    END IF;
    IF pg_catalog.cardinality(append.needed_kinds) > 0 AND EXISTS (
        SELECT FROM unnest(append.needed_kinds, append.needed_digests) AS n (kind, sha256)
        WHERE NOT EXISTS (
            SELECT FROM workrail.content c
            WHERE c.tenant = own_tenant AND c.kind = n.kind AND c.sha256 = n.sha256
        )
    ) THEN
        RETURN false;
    END IF;
    IF append.first_event = 0 THEN
        INSERT INTO workrail.session
            (tenant, id, next_event, next_manifest, manifest_bytes, anchor_bytes, anchor, chain)
        VALUES (own_tenant, own_session, append.next_event, append.next_manifest, append.manifest_bytes,
                append.anchor_bytes, append.anchor, append.chain)
        ON CONFLICT DO NOTHING;
    ELSE
        UPDATE workrail.session s
        SET next_event = append.next_event, next_manifest = append.next_manifest,
            manifest_bytes = append.manifest_bytes, anchor_bytes = append.anchor_bytes,
            anchor = append.anchor, chain = append.chain
        WHERE s.tenant = own_tenant AND s.id = own_session
          AND s.next_event = append.first_event AND s.chain = append.head_chain;
    END IF;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- In one order, so that two writers of the same content cannot block each other.
    IF pg_catalog.cardinality(append.content_kinds) > 0 THEN
        INSERT INTO workrail.content (tenant, kind, sha256, bytes)
        SELECT own_tenant, a.kind, a.sha256, a.bytes
        FROM unnest(append.content_kinds, append.content_digests, append.contents) AS a (kind, sha256, bytes)
        ORDER BY a.kind, a.sha256
        ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO workrail.event_key (tenant, session, fingerprint)
    SELECT own_tenant, own_session, k FROM pg_catalog.unnest(append.keys) AS k;
    INSERT INTO workrail.segment
        (tenant, session, first_event, next_event, next_manifest, manifest_bytes, manifest, events, chain)
    VALUES (own_tenant, own_session, append.first_event, append.next_event, append.next_manifest,
            append.manifest_bytes, append.manifest, append.events, append.chain);
    RETURN true;
END
$$;

-- The head of a session with its segments from the one that ends at the cursor on. That one comes without its events.
CREATE FUNCTION workrail.log_since(own_session text, since bigint, at_most bigint)
RETURNS TABLE (
    head_next_event bigint,
    head_next_manifest bigint,
    head_manifest_bytes bigint,
    head_anchor_bytes bigint,
    head_anchor bytea,
    head_chain bytea,
    first_event bigint,
    next_event bigint,
    next_manifest bigint,
    manifest_bytes bigint,
    manifest bytea,
    events bytea,
    chain bytea
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    own_tenant text := pg_catalog.current_setting('workrail.tenant', true);
BEGIN
    RETURN QUERY
    SELECT s.next_event, s.next_manifest, s.manifest_bytes, s.anchor_bytes, s.anchor, s.chain,
           g.first_event, g.next_event, g.next_manifest, g.manifest_bytes, g.manifest,
           CASE WHEN g.next_event > log_since.since THEN g.events ELSE ''::bytea END, g.chain
    FROM workrail.session s
    LEFT JOIN LATERAL (
        SELECT * FROM workrail.segment p
        WHERE p.tenant = own_tenant AND p.session = own_session AND p.next_event >= log_since.since
        ORDER BY p.next_event LIMIT log_since.at_most
    ) g ON true
    WHERE s.tenant = own_tenant AND s.id = own_session
    ORDER BY g.next_event;
END
$$;
