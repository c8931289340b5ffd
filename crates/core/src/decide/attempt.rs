//! One attempt at a step: already decided, or open. Only an open one can be decided (G30).

use workrail_model::canonical::CanonicalError;
use workrail_model::digest::Sha256;
use workrail_model::id::{AttemptId, NodeId};
use workrail_model::submission::Submission;

use crate::project::{AdvanceRecord, SessionState};

#[derive(Debug)]
pub enum AttemptState<'a> {
    /// Answer from the record; do not decide again.
    Recorded {
        record: AdvanceRecord,
        input_differs: bool,
    },
    Open(OpenAttempt<'a>),
}

/// An attempt without a record, with what it sends.
#[derive(Clone, Copy, Debug)]
pub struct OpenAttempt<'a> {
    pub(super) node: NodeId,
    pub(super) attempt_id: AttemptId,
    pub(super) sent: &'a Submission,
    pub(super) digest: Sha256,
}

impl<'a> AttemptState<'a> {
    pub fn find(
        facts: &SessionState,
        node: NodeId,
        attempt_id: AttemptId,
        sent: &'a Submission,
    ) -> Result<Self, CanonicalError> {
        let digest = sent.digest()?;
        Ok(match facts.advance(node, attempt_id) {
            None => Self::Open(OpenAttempt { node, attempt_id, sent, digest }),
            Some(record) => {
                let input_differs = record.request_digest.is_some_and(|recorded| recorded != digest);
                Self::Recorded { record: record.clone(), input_differs }
            }
        })
    }
}
