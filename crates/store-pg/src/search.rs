//! Searches every row of a tenant for bytes: once a text was purged, no row may hold it (G85).

use workrail_model::id::SessionId;
use workrail_ports::file_system::{FsError, FsOp};

use crate::error::StatementError;
use crate::open::PgStore;
use crate::transaction::{Purpose, Transaction};

/// How many rows are in memory at once.
const ROWS_AT_ONCE: usize = 64;

/// A row that matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundRow {
    /// The table and the row's identity, for users.
    pub location: String,
    /// The session that it belongs to.
    pub session: Option<SessionId>,
}

/// A table whose rows hold texts of users or agents.
struct SearchedTable {
    table: &'static str,
    /// SQL that identifies a row.
    name: &'static str,
    of_session: bool,
    columns: &'static [&'static str],
}

const TABLES: [SearchedTable; 10] = [
    of_session("segment", "next_event", &["events", "manifest"]),
    of_session("projection", "version", &["state"]),
    of_session("session_summary", "version", &["summary"]),
    of_session("wish", "run", &["preferences", "coalesce(proof, '')"]),
    of_session("segment_aside", "number", &["events", "manifest"]),
    of_store("content", "kind || ' ' || encode(sha256, 'hex')", &["bytes"]),
    of_store("content_aside", "kind || ' ' || encode(sha256, 'hex')", &["bytes"]),
    of_store("passkey_log", "''", &["bytes"]),
    of_store("passkey_log_aside", "encode(sha256, 'hex')", &["bytes"]),
    of_store("passkey_head", "''", &["last_line"]),
];

const fn of_session(
    table: &'static str,
    name: &'static str,
    columns: &'static [&'static str],
) -> SearchedTable {
    SearchedTable { table, name, of_session: true, columns }
}

const fn of_store(
    table: &'static str,
    name: &'static str,
    columns: &'static [&'static str],
) -> SearchedTable {
    SearchedTable { table, name, of_session: false, columns }
}

impl PgStore {
    /// Every row of the tenant for which `holds` is true; with a session, only its rows.
    pub fn rows_with(
        &self,
        session: Option<SessionId>,
        holds: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Vec<FoundRow>, FsError> {
        let mut found = Vec::new();
        for searched in TABLES.iter().filter(|searched| session.is_none() || searched.of_session) {
            let rows = self.in_transaction(Purpose::Reading, |transaction| {
                rows_of(transaction, searched, session, holds)
            });
            found.extend(rows.map_err(|failed| failed.at(FsOp::Read, searched.table))?);
        }
        found.sort();
        Ok(found)
    }
}

fn rows_of(
    transaction: &mut Transaction<'_>,
    searched: &SearchedTable,
    session: Option<SessionId>,
    holds: &dyn Fn(&[u8]) -> bool,
) -> Result<Vec<FoundRow>, StatementError> {
    let SearchedTable { table, name, of_session, columns } = searched;
    let of = if *of_session { "session" } else { "NULL::text" };
    // An id has no characters that are special in SQL.
    let filter = session.map_or_else(String::new, |session| format!(" WHERE session = '{session}'"));
    transaction.batch(&format!(
        "DECLARE searched NO SCROLL CURSOR FOR SELECT {of}, ({name})::text, {} FROM workrail.{table}{filter}",
        columns.join(", ")
    ))?;
    let mut found = Vec::new();
    loop {
        let rows = transaction.query(&format!("FETCH {ROWS_AT_ONCE} FROM searched"), &[])?;
        for row in &rows {
            if (2..row.len()).any(|column| holds(row.get(column))) {
                let session = row.get::<_, Option<&str>>(0);
                let name: &str = row.get(1);
                let location =
                    [Some("workrail."), Some(table), session.map(|_| " "), session, Some(" "), Some(name)];
                found.push(FoundRow {
                    location: location.into_iter().flatten().collect::<String>().trim_end().to_owned(),
                    session: session.and_then(|id| SessionId::parse(id).ok()),
                });
            }
        }
        if rows.len() < ROWS_AT_ONCE {
            // The transaction of a held session stays open, and the next table declares it again.
            transaction.batch("CLOSE searched")?;
            return Ok(found);
        }
    }
}
