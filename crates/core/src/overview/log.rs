//! The event log for people: one line per event.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use workrail_model::approval::{ApprovalChannel, Descent};
use workrail_model::event::{
    AdvanceOutcome, CloseChannel, ContextSource, Event, EventData, NodeKind, ObservationValue, OutputPayload,
    ValidationResult,
};
use workrail_model::gap::Resolution;
use workrail_model::id::NodeId;
use workrail_model::passkey::KeyOrigin;
use workrail_model::time::Timestamp;

use crate::evidence as evidence_words;
use crate::label::RunLabel;
use crate::report::{PointName, Signature, Signatures, words};

const SUMMARY_CHARS_MAX: usize = 120;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogLine {
    pub event_index: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_id: Option<NodeId>,
    /// The number of the node's step, as everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub point: Option<PointName>,
    /// The step of the node, when it can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Who caused it, where the record says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    pub summary: String,
}

/// What the lines of a log need to know about nodes.
#[derive(Clone, Debug, Default)]
pub struct LoggedNodes {
    /// The name of each.
    pub names: BTreeMap<NodeId, PointName>,
    /// The step of each, if it can be read.
    pub steps: BTreeMap<NodeId, String>,
    /// The validity of the passkey signatures.
    pub signatures: Signatures,
}

impl LoggedNodes {
    /// Its name; a node without one is shown by its id.
    fn named(&self, node: NodeId) -> String {
        self.names.get(&node).map_or_else(|| node.to_string(), ToString::to_string)
    }
}

/// The line of an event.
pub fn line(event: &Event, nodes: &LoggedNodes) -> LogLine {
    let node = event.scope.node();
    let summary = words::one_line(&summary(event, nodes));
    let cut = summary.char_indices().nth(SUMMARY_CHARS_MAX).map(|(index, _)| index);
    LogLine {
        event_index: event.event_index.get(),
        at: event.at.clone(),
        kind: event.kind().as_str().to_owned(),
        run: event.scope.run().map(|run| RunLabel::of(run).to_string()),
        node_id: node,
        point: node.and_then(|node| nodes.names.get(&node).cloned()),
        step: node.and_then(|node| nodes.steps.get(&node).cloned()),
        actor: event.actor.as_ref().map(ToString::to_string),
        summary: match cut {
            None => summary,
            Some(index) => format!("{}…", &summary[..index]),
        },
    }
}

fn summary(event: &Event, nodes: &LoggedNodes) -> String {
    let signature = nodes.signatures.get(&event.event_index).map(Signature::briefly);
    let signed_with = |key: &KeyOrigin| {
        let proves = signature.as_deref().unwrap_or_default();
        format!(", key \"{}\", {proves}{}", key.name, after_resets(key.resets))
    };
    // The team's console asks for a member's token.
    let has_token = event.actor.as_ref().is_some_and(|actor| actor.token_id.is_some());
    match &event.data {
        EventData::SessionCreated(_) => "the session begins".to_owned(),
        EventData::ObservationRecorded(observed) => {
            let value = match &observed.value {
                ObservationValue::ShortString(text) => text.as_str().to_owned(),
                ObservationValue::GitSha1(text) => text.as_str().to_owned(),
                ObservationValue::Sha256(digest) => digest.to_string(),
            };
            format!("{} {value}", observed.key.as_str())
        }
        EventData::RunStarted(started) => {
            let inside = started.parent.map(|parent| format!(", inside {}", RunLabel::of(parent.run_id)));
            format!("{} starts{}", started.workflow_id, inside.unwrap_or_default())
        }
        EventData::NodeCreated(node) => match (node.node_kind, node.parent_node_id) {
            (NodeKind::Step, None) => "the first point".to_owned(),
            (NodeKind::Step, Some(_)) => "a new point".to_owned(),
            (NodeKind::Checkpoint, _) => "a checkpoint".to_owned(),
        },
        EventData::EdgeCreated(edge) => {
            let (from, to) = (nodes.named(edge.from_node_id), nodes.named(edge.to_node_id));
            format!("{from} to {to}: {}", words::cause(edge.cause.kind))
        }
        EventData::AdvanceRecorded(advance) => match &advance.outcome {
            AdvanceOutcome::Advanced { to_node_id } => {
                format!("completed, on to {}", nodes.named(*to_node_id))
            }
            AdvanceOutcome::Blocked { blockers } => {
                let codes: Vec<&str> =
                    blockers.blockers().iter().map(|blocker| blocker.code.as_str()).collect();
                format!("blocked: {}", codes.join(", "))
            }
        },
        EventData::NodeOutputAppended(output) => match &output.payload {
            OutputPayload::Notes { notes_markdown, .. } => format!("claimed: {}", notes_markdown.as_str()),
            OutputPayload::ArtifactRef { byte_length, .. } => {
                format!("claimed: an artifact of {byte_length} bytes")
            }
        },
        EventData::PreferencesChanged(change) => {
            let key = change.proof.as_ref().map(|proof| signed_with(&proof.key)).unwrap_or_default();
            format!("{} ({}{key})", words::preferences(change.effective), words::plain(&change.source))
        }
        EventData::CapabilityObserved(seen) => {
            let how = words::provenance(&seen.provenance);
            format!("{} is {}: {how}", words::plain(&seen.capability), words::plain(&seen.status))
        }
        EventData::GapRecorded(gap) => {
            let what = match gap.resolution {
                Resolution::Unresolved => words::plain(&gap.severity),
                Resolution::Resolves { resolves_gap_id } => format!("closes {resolves_gap_id}"),
            };
            format!("{what}: {}", gap.summary)
        }
        EventData::DivergenceRecorded(left) => {
            format!("claimed: {}: {}", words::plain(&left.reason), left.summary)
        }
        EventData::DecisionTraceAppended(trace) => {
            trace.entries.iter().map(|entry| entry.summary.as_str()).collect::<Vec<_>>().join(" ")
        }
        // Only keys: values may be anything that a user typed.
        EventData::ContextSet(set) => {
            let keys = set.context.as_map().keys().cloned().collect::<Vec<_>>().join(", ");
            if let Some(proof) = &set.proof {
                return format!("keys {keys} (passkey{})", signed_with(&proof.key));
            }
            match set.source {
                ContextSource::Initial | ContextSource::AgentDelta | ContextSource::Answer => {
                    format!("keys {keys}")
                }
                ContextSource::ChatAnswer => format!(
                    "keys {keys} (answered in the chat, through the program that runs the agent, which can answer by itself)"
                ),
                ContextSource::ConsoleAnswer if has_token => {
                    format!("keys {keys} (answered in the team's console, with this member's token)")
                }
                ContextSource::ConsoleAnswer => {
                    format!("keys {keys} (answered in the console, which an agent with a shell can open too)")
                }
            }
        }
        EventData::ValidationPerformed(checked) => match &checked.result {
            ValidationResult::Valid => "valid".to_owned(),
            ValidationResult::Invalid { issues } => {
                issues.iter().map(|issue| issue.as_str()).collect::<Vec<_>>().join("; ")
            }
        },
        EventData::AssessmentRecorded(record) => {
            let levels = record
                .dimensions
                .iter()
                .map(|dimension| format!("{} {}", dimension.dimension_id, dimension.level));
            format!("claimed: {}", levels.collect::<Vec<_>>().join(", "))
        }
        EventData::AssessmentConsequenceApplied(applied) => {
            format!("{} at {} asks for more", applied.dimension_id, applied.level)
        }
        EventData::ApprovalRecorded(approval) => {
            let key = approval.proof.as_ref().map(|proof| signed_with(&proof.key));
            let proves = match (approval.channel, approval.descends_from_server) {
                (ApprovalChannel::Passkey, _) => {
                    key.as_deref().unwrap_or(", whose signature was removed, so nothing here proves it")
                }
                (ApprovalChannel::Chat, _) => {
                    ", through the program that runs the agent, which can answer by itself"
                }
                (ApprovalChannel::Console, _) if has_token => {
                    ", in the team's console, with this member's token"
                }
                (ApprovalChannel::Console, _) => ", in the console, which an agent with a shell can open too",
                (ApprovalChannel::Terminal, Descent::Yes) => ", started by the agent's program",
                (ApprovalChannel::Terminal, Descent::No) => ", not started by the agent's program",
                (ApprovalChannel::Terminal, Descent::Unknown) => {
                    "; unknown whether the agent's program started it"
                }
            };
            format!(
                "step {} {} ({}{proves})",
                approval.step_id,
                words::plain(&approval.decision),
                words::plain(&approval.channel)
            )
        }
        EventData::EvidenceRecorded(recorded) => {
            format!("{}: {}", words::plain(&recorded.grade), evidence_words::line(&recorded.evidence))
        }
        EventData::RunClosed(closed) => {
            let by = match closed.channel {
                CloseChannel::CommandLine => "on the command line",
                CloseChannel::Console => "in the console",
            };
            format!("closed {by}: {}", closed.reason)
        }
    }
}

/// Empty if the keys were never reset.
fn after_resets(resets: u32) -> String {
    match resets {
        0 => String::new(),
        1 => ", after the passkeys had been reset once".to_owned(),
        count => format!(", after the passkeys had been reset {count} times"),
    }
}
