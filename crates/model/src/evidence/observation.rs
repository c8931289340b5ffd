//! What a host's hook saw, before it is recorded.

use serde::{Deserialize, Serialize};

use super::{Evidence, EvidenceGrade};
use crate::limits::EVIDENCE_OUTPUT_BYTES_MAX;
use crate::text::BoundedText;
use crate::time::Timestamp;

/// Why a hook cannot have seen this.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObservationError {
    #[error("a hook observes; only the engine checks")]
    NotObserved,
    #[error("what a command wrote is handed over as text, not as a reference")]
    HasReference,
    #[error("{0}")]
    Invalid(&'static str),
}

/// What a host's hook saw, waiting for the next advance to record it. Never the source of truth: it may be lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", try_from = "WrittenObservation")]
pub struct HookObservation {
    seen_at: Timestamp,
    host: BoundedText<32>,
    evidence: Evidence,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<BoundedText<EVIDENCE_OUTPUT_BYTES_MAX>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WrittenObservation {
    seen_at: Timestamp,
    host: BoundedText<32>,
    evidence: Evidence,
    #[serde(default)]
    output: Option<BoundedText<EVIDENCE_OUTPUT_BYTES_MAX>>,
}

impl TryFrom<WrittenObservation> for HookObservation {
    type Error = ObservationError;

    fn try_from(written: WrittenObservation) -> Result<Self, ObservationError> {
        let WrittenObservation { seen_at, host, evidence, output } = written;
        Ok(Self { output, ..Self::new(seen_at, host, evidence)? })
    }
}

impl HookObservation {
    pub fn new(
        seen_at: Timestamp,
        host: BoundedText<32>,
        evidence: Evidence,
    ) -> Result<Self, ObservationError> {
        if evidence.grade() != EvidenceGrade::Observed {
            return Err(ObservationError::NotObserved);
        }
        if !evidence.blob_refs().is_empty() {
            return Err(ObservationError::HasReference);
        }
        evidence.check().map_err(ObservationError::Invalid)?;
        Ok(Self { seen_at, host, evidence, output: None })
    }

    /// Adds the command's output; the end is kept, because that is where failures are.
    pub fn with_output(mut self, output: &str) -> Self {
        self.output = (!output.is_empty()).then(|| BoundedText::clip(last_bytes(output)));
        self
    }

    pub fn seen_at(&self) -> &Timestamp {
        &self.seen_at
    }

    pub fn host(&self) -> &BoundedText<32> {
        &self.host
    }

    pub fn evidence(&self) -> &Evidence {
        &self.evidence
    }

    pub fn output(&self) -> Option<&str> {
        self.output.as_ref().map(|output| output.as_str())
    }
}

/// The end of a text, as much as fits in an observation.
fn last_bytes(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(EVIDENCE_OUTPUT_BYTES_MAX))..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{CheckResult, CheckRun, NotRunReason};
    use crate::name::CheckName;

    fn at() -> Timestamp {
        Timestamp::parse("2026-01-02T03:04:05.678Z").unwrap()
    }

    #[test]
    fn a_hook_cannot_submit_a_check() {
        let check = CheckRun {
            name: CheckName::parse("test").unwrap(),
            argv: Vec::new(),
            outcome: CheckResult::NotRun { reason: NotRunReason::Untrusted },
        };
        let host = BoundedText::clip("claude-code");
        let refused = HookObservation::new(at(), host, Evidence::CheckRun(check.clone()));
        assert_eq!(refused, Err(ObservationError::NotObserved));
        let forged = serde_json::json!({
            "seenAt": at(), "host": "claude-code", "evidence": Evidence::CheckRun(check),
        });
        assert!(serde_json::from_value::<HookObservation>(forged).is_err());
    }

    #[test]
    fn an_observation_keeps_the_end_of_what_a_command_wrote() {
        let command = Evidence::CommandRun {
            command: BoundedText::clip("cargo test"),
            exit_code: Some(101),
            duration_ms: Some(12),
            output_ref: None,
        };
        let long = format!("{}ü failed", "x".repeat(EVIDENCE_OUTPUT_BYTES_MAX));
        let seen =
            HookObservation::new(at(), BoundedText::clip("codex"), command).unwrap().with_output(&long);
        assert!(seen.output().unwrap().ends_with("ü failed"));
        assert!(seen.output().unwrap().len() <= EVIDENCE_OUTPUT_BYTES_MAX);
        let again: HookObservation = serde_json::from_value(serde_json::to_value(&seen).unwrap()).unwrap();
        assert_eq!(again, seen);
    }
}
