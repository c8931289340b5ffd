//! Dedupe keys: one recipe per kind, from stable identifiers only, so that a retry is a no-op (G8).

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use super::{EventData, Scope};
use crate::digest::Sha256;
use crate::id::{NodeId, RunId, SessionId};
use crate::limits::DEDUPE_KEY_BYTES_MAX;

/// `[a-z0-9_:>-]`, at most 256 bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct DedupeKey(Box<str>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a dedupe key holds 1 to {DEDUPE_KEY_BYTES_MAX} characters of a-z, 0-9, `_`, `:`, `>`, `-`")]
pub(crate) struct DedupeKeyError;

impl DedupeKey {
    pub(crate) fn parse(text: &str) -> Result<Self, DedupeKeyError> {
        let allowed =
            |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b':' | b'>' | b'-');
        if text.is_empty() || text.len() > DEDUPE_KEY_BYTES_MAX || !text.bytes().all(allowed) {
            return Err(DedupeKeyError);
        }
        Ok(Self(text.into()))
    }

    /// The key of an event, by the recipe of its kind. Never derived from the event id, which is
    /// new on every append.
    pub fn of(session: SessionId, scope: Scope, data: &EventData) -> Self {
        let kind = data.kind().as_str();
        let mut key = format!("{kind}:{session}");
        let mut part = |value: &dyn fmt::Display| {
            write!(key, ":{value}").expect("writing to a String cannot fail");
        };
        match data {
            EventData::SessionCreated(_) => {}
            EventData::RunStarted(_) => part(&RunKeyPart(scope)),
            EventData::NodeCreated(_) => {
                part(&RunKeyPart(scope));
                part(&NodeKeyPart(scope));
            }
            EventData::EdgeCreated(edge) => {
                part(&RunKeyPart(scope));
                part(&format_args!("{}->{}", edge.from_node_id, edge.to_node_id));
                part(&edge.edge_kind.as_str());
            }
            EventData::AdvanceRecorded(advance) => {
                part(&NodeKeyPart(scope));
                part(&advance.attempt_id);
            }
            EventData::NodeOutputAppended(output) => part(&output.output_id),
            EventData::PreferencesChanged(change) => part(&change.change_id),
            EventData::CapabilityObserved(observed) => part(&observed.cap_obs_id),
            EventData::GapRecorded(gap) => part(&gap.gap_id),
            EventData::DivergenceRecorded(divergence) => part(&divergence.divergence_id),
            EventData::DecisionTraceAppended(trace) => part(&trace.trace_id),
            EventData::ContextSet(set) => part(&set.context_id),
            EventData::ValidationPerformed(validation) => part(&validation.validation_id),
            EventData::AssessmentRecorded(record) => part(&record.record_id),
            EventData::AssessmentConsequenceApplied(applied) => part(&applied.consequence_id),
            EventData::ApprovalRecorded(approval) => part(&approval.approval_id),
            EventData::RunClosed(closed) => part(&closed.closure_id),
            EventData::EvidenceRecorded(recorded) => part(&recorded.evidence_id),
            EventData::ObservationRecorded(observation) => {
                part(&observation.key.as_str());
                // A digest, not the value: free text has characters that a key may not contain.
                part(&&observation.value_digest().hex()[..32]);
                if let Some(occurrence) = observation.occurrence {
                    part(&occurrence);
                }
            }
        }
        Self::parse(&key).expect("kinds, ids, digests and counters fit the key's alphabet and length")
    }

    /// A 16-byte fingerprint for in-memory indexes.
    pub fn fingerprint(&self) -> [u8; 16] {
        let mut short = [0; 16];
        short.copy_from_slice(&Sha256::of(self.0.as_bytes()).as_bytes()[..16]);
        short
    }
}

struct RunKeyPart(Scope);
struct NodeKeyPart(Scope);

impl fmt::Display for RunKeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.run().map_or(Ok(()), |run: RunId| run.fmt(f))
    }
}

impl fmt::Display for NodeKeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.node().map_or(Ok(()), |node: NodeId| node.fmt(f))
    }
}

impl fmt::Display for DedupeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for DedupeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<'de> Deserialize<'de> for DedupeKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for DedupeKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "DedupeKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[a-z0-9_:>-]+$", "maxLength": DEDUPE_KEY_BYTES_MAX })
    }
}
