//! The tables, migrated step by step. A schema from a newer WorkRail is refused.

use crate::connection::Connection;
use crate::error::StatementError;
use crate::transaction::BEGIN;

/// The migration steps, in order; a released step never changes.
const STEPS: &[&str] = &[
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
    include_str!("schema/0006.sql"),
];

/// The version that this build writes.
pub(crate) const VERSION: i32 = STEPS.len() as i32;

/// Allows one migration at a time; the others wait and find nothing left to do.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtextextended('workrail/schema', 0))";

/// Queries the catalogue itself: `to_regclass` may answer from a cache that is older than the lock.
const EXISTS: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n \
                      ON n.oid = c.relnamespace WHERE n.nspname = 'workrail' AND c.relname = 'schema_version')";

/// The schema's version; 0 if there is none.
pub(crate) fn version(client: &mut Connection) -> Result<i32, StatementError> {
    let exists = client.query(EXISTS, &[])?;
    if !exists.first().is_some_and(|row| row.get(0)) {
        return Ok(0);
    }
    let newest = client.query("SELECT coalesce(max(version), 0) FROM workrail.schema_version", &[])?;
    Ok(newest.first().map_or(0, |row| row.get(0)))
}

/// Applies all missing steps or none; returns the version found under the lock. A newer schema is left alone.
pub(crate) fn migrate(client: &mut Connection) -> Result<i32, StatementError> {
    client.batch(&format!("{BEGIN}; {LOCK}"))?;
    let migrated = apply_missing(client);
    let end = if migrated.is_ok() { "COMMIT" } else { "ROLLBACK" };
    let ended = client.batch(end);
    let version = migrated?;
    ended?;
    Ok(version)
}

fn apply_missing(client: &mut Connection) -> Result<i32, StatementError> {
    let found = version(client)?;
    if found == 0 {
        client.batch(
            "CREATE SCHEMA IF NOT EXISTS workrail; \
             CREATE TABLE workrail.schema_version (version integer PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())",
        )?;
    }
    let missing = STEPS.iter().zip(1..).skip(usize::try_from(found).unwrap_or(usize::MAX));
    for (step, number) in missing {
        client.batch(step)?;
        client.batch(&format!("INSERT INTO workrail.schema_version (version) VALUES ({number})"))?;
    }
    Ok(found.max(VERSION))
}
