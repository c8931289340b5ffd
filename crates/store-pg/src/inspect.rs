//! What a check of the whole store needs besides the sessions. Folders, leftovers and pending writes do not exist in
//! a database: a transaction happened entirely or not at all.

use std::collections::BTreeSet;

use postgres_types::Type;
use workrail_model::digest::Sha256;
use workrail_model::id::SessionId;
use workrail_model::plan::AttachmentKind;
use workrail_ports::file_system::{FsError, FsOp};
use workrail_ports::upkeep::{Inspection, Obstacle, PendingWrite, Stray};

use crate::content::kind_name;
use crate::open::PgStore;
use crate::reader::path_of;
use crate::transaction::Purpose;

impl Inspection for PgStore {
    fn is_kept(&self, session: SessionId) -> bool {
        let id = session.to_string();
        let sql = "SELECT is_kept FROM workrail.session WHERE id = $1";
        let row = self
            .in_transaction(Purpose::Reading, |transaction| transaction.query_opt(sql, &[(&id, Type::TEXT)]));
        // A mark that cannot be read may be set.
        row.map_or(true, |row| row.is_some_and(|row| row.get(0)))
    }

    fn kept(&self, mut sessions: BTreeSet<SessionId>) -> BTreeSet<SessionId> {
        let sql = "SELECT id FROM workrail.session WHERE is_kept";
        let rows = self.in_transaction(Purpose::Reading, |transaction| transaction.query(sql, &[]));
        if let Ok(rows) = rows {
            let kept: BTreeSet<&str> = rows.iter().map(|row| row.get(0)).collect();
            sessions.retain(|session| kept.contains(session.to_string().as_str()));
        }
        sessions
    }

    /// Session rows with an unknown form of id, which a newer build may use.
    fn foreign_folders(&self) -> Result<Vec<String>, FsError> {
        let sql = "SELECT id FROM workrail.session";
        let rows = self.in_transaction(Purpose::Reading, |transaction| transaction.query(sql, &[]));
        let rows = rows.map_err(|failed| failed.at(FsOp::List, "sessions"))?;
        let foreign = rows.iter().map(|row| row.get::<_, &str>(0)).filter(|id| SessionId::parse(id).is_err());
        Ok(foreign.map(|id| format!("workrail.session, id {id}")).collect())
    }

    fn obstacles(&self) -> Vec<Obstacle> {
        Vec::new()
    }

    fn segment_count(&self, session: SessionId) -> Result<u64, FsError> {
        let id = session.to_string();
        let sql = "SELECT count(*) FROM workrail.segment WHERE session = $1";
        let row = self
            .in_transaction(Purpose::Reading, |transaction| transaction.query_opt(sql, &[(&id, Type::TEXT)]));
        let row = row.map_err(|failed| failed.at(FsOp::List, &path_of(session)))?;
        Ok(row.map_or(0, |row| row.get::<_, i64>(0)).unsigned_abs())
    }

    fn contents(&self, kind: AttachmentKind) -> Result<Vec<Sha256>, FsError> {
        let name = kind_name(kind);
        let sql = "SELECT sha256 FROM workrail.content WHERE kind = $1 ORDER BY sha256";
        let rows = self
            .in_transaction(Purpose::Reading, |transaction| transaction.query(sql, &[(&name, Type::TEXT)]));
        let rows = rows.map_err(|failed| failed.at(FsOp::List, "content"))?;
        Ok(rows
            .iter()
            .filter_map(|row| row.get::<_, &[u8]>(0).try_into().ok())
            .map(Sha256::from_bytes)
            .collect())
    }

    fn strays(&self, _: usize) -> Result<(Vec<Stray>, u64), FsError> {
        Ok((Vec::new(), 0))
    }

    fn pending_writes(&self) -> Result<Vec<PendingWrite>, FsError> {
        Ok(Vec::new())
    }

    fn pending_write(&self, _: SessionId) -> Result<Option<PendingWrite>, FsError> {
        Ok(None)
    }
}
