//! Content by digest, verified on every read (G17).

use postgres_types::Type;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{BlobRef, Sha256, SnapshotRef, WorkflowHash};
use workrail_model::plan::AttachmentKind;
use workrail_model::snapshot::ExecutionSnapshot;
use workrail_ports::content::{ContentError, ContentStore};
use workrail_ports::file_system::FsOp;

use crate::open::PgStore;
use crate::transaction::Purpose;

pub(crate) fn kind_name(kind: AttachmentKind) -> &'static str {
    match kind {
        AttachmentKind::Snapshot => "snapshot",
        AttachmentKind::Blob => "blob",
        AttachmentKind::Workflow => "workflow",
    }
}

fn path_of(kind: AttachmentKind, digest: Sha256) -> String {
    format!("content/{}/{}", kind_name(kind), digest.hex())
}

impl PgStore {
    /// The bytes of a piece of content, verified against its digest.
    pub(crate) fn content_bytes(
        &self,
        kind: AttachmentKind,
        digest: Sha256,
    ) -> Result<Vec<u8>, ContentError> {
        let (name, key) = (kind_name(kind), digest.as_bytes().as_slice());
        let sql = "SELECT bytes FROM workrail.content WHERE kind = $1 AND sha256 = $2";
        let row = self.in_transaction(Purpose::Reading, |transaction| {
            transaction.query_opt(sql, &[(&name, Type::TEXT), (&key, Type::BYTEA)])
        });
        let path = path_of(kind, digest);
        let row = row.map_err(|failed| ContentError::Io(failed.at(FsOp::Read, &path)))?;
        let Some(row) = row else { return Err(ContentError::Missing { path }) };
        let bytes: Vec<u8> = row.get(0);
        if Sha256::of(&bytes) == digest { Ok(bytes) } else { Err(ContentError::Damaged { path }) }
    }
}

impl ContentStore for PgStore {
    fn snapshot(&self, reference: SnapshotRef) -> Result<ExecutionSnapshot, ContentError> {
        let bytes = self.content_bytes(AttachmentKind::Snapshot, reference.digest())?;
        let path = || path_of(AttachmentKind::Snapshot, reference.digest());
        ExecutionSnapshot::parse(&bytes).map_err(|source| ContentError::Snapshot { path: path(), source })
    }

    fn blob(&self, reference: BlobRef) -> Result<Vec<u8>, ContentError> {
        self.content_bytes(AttachmentKind::Blob, reference.digest())
    }

    fn workflow(&self, hash: WorkflowHash) -> Result<CompiledWorkflow, ContentError> {
        let bytes = self.content_bytes(AttachmentKind::Workflow, hash.digest())?;
        let path = || path_of(AttachmentKind::Workflow, hash.digest());
        CompiledWorkflow::parse(&bytes).map_err(|source| ContentError::Workflow { path: path(), source })
    }
}
