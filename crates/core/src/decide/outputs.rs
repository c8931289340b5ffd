//! Turns what an agent sent into durable outputs: notes first, then artifacts in digest order.

use serde_json::Value;
use workrail_model::canonical::value_to_canonical;
use workrail_model::digest::Sha256;
use workrail_model::event::{Context, EventData, NodeOutputAppended, OutputChannel, OutputPayload, Scope};
use workrail_model::id::{AttemptId, NodeId, OutputId, SessionId};
use workrail_model::limits::{BLOB_BYTES_MAX, NOTES_BYTES_MAX, NOTES_EVENT_BYTES_MAX};
use workrail_model::placeholder::placeholder_in;
use workrail_model::plan::Attachment;
use workrail_model::submission::{StepOutput, Submission};
use workrail_model::text::BoundedText;

use super::DecideError;
use super::draft::PlanDraft;
use crate::derive;
use crate::project::SessionState;

/// Refuses what no step may send, before anything else examines it: what is too long, and our own placeholders,
/// which would be recorded in place of the caller's text.
pub(super) fn check_sent(sent: &Submission) -> Result<(), DecideError> {
    check_output(&sent.output)?;
    check_context(&sent.context)
}

pub(super) fn check_output(output: &StepOutput) -> Result<(), DecideError> {
    let bytes = output.notes_markdown.as_deref().map_or(0, str::len);
    if bytes > NOTES_BYTES_MAX {
        return Err(DecideError::NotesTooLong { bytes, max: NOTES_BYTES_MAX });
    }
    for (position, artifact) in output.artifacts.iter().enumerate() {
        if let Some(inner) = placeholder_in(artifact) {
            return Err(DecideError::Placeholder {
                location: format!("output.artifacts[{position}]{inner}"),
            });
        }
        let bytes = value_to_canonical(artifact)?.len();
        if bytes as u64 > BLOB_BYTES_MAX {
            return Err(DecideError::ArtifactTooLong { position, bytes, max: BLOB_BYTES_MAX });
        }
    }
    Ok(())
}

/// Refuses a context with one of our placeholders in place of a value.
pub(super) fn check_context(context: &Context) -> Result<(), DecideError> {
    let found = context.as_map().iter().find_map(|(key, value)| Some((key, placeholder_in(value)?)));
    match found {
        None => Ok(()),
        Some((key, inner)) => Err(DecideError::Placeholder { location: format!("context.{key}{inner}") }),
    }
}

/// Which attempt the outputs belong to, and what they replace.
pub(super) struct OutputTarget<'a> {
    pub facts: &'a SessionState,
    pub node: NodeId,
    pub attempt: AttemptId,
    /// The blocked attempts of this retry chain: notes sent now supersede theirs (G51).
    pub retried: &'a [AttemptId],
}

impl OutputTarget<'_> {
    pub(super) fn push(
        &self,
        draft: &mut PlanDraft,
        on_node: Scope,
        output: &StepOutput,
    ) -> Result<(), DecideError> {
        if let Some(notes) = output.own_notes() {
            let payload = notes_payload(draft, notes);
            draft.push(on_node, self.event(payload, Sha256::of(notes.as_bytes()), Supersede::Channel));
        }
        for (digest, bytes) in sorted_artifacts(&output.artifacts)? {
            let payload = artifact_payload(draft, bytes);
            draft.push(on_node, self.event(payload, digest, Supersede::Nothing));
        }
        Ok(())
    }

    fn event(&self, payload: OutputPayload, digest: Sha256, supersede: Supersede) -> EventData {
        let channel = payload.channel();
        EventData::NodeOutputAppended(NodeOutputAppended {
            output_id: derive::output_id(self.node, self.attempt, channel, digest),
            supersedes_output_id: match supersede {
                Supersede::Channel => self.replaced(channel),
                Supersede::Nothing => None,
            },
            output_channel: channel,
            payload,
            attempt_id: Some(self.attempt),
        })
    }

    /// The current output of the same channel, left by a blocked attempt of this chain.
    fn replaced(&self, channel: OutputChannel) -> Option<OutputId> {
        self.facts
            .outputs(self.node)
            .iter()
            .rev()
            .filter(|output| output.channel == channel && !output.superseded)
            .find(|output| output.attempt.is_some_and(|attempt| self.retried.contains(&attempt)))
            .map(|output| output.id)
    }
}

/// Notes and artifacts of the session itself. Their ids are derived only from their content, so that the same
/// words sent again are the same output. A known one is left out: a plan is either new or recorded, never both.
pub(super) fn push_session_notes(
    draft: &mut PlanDraft,
    session: SessionId,
    output: &StepOutput,
    is_known: impl Fn(OutputId) -> bool,
) -> Result<(), DecideError> {
    let new_id = |channel: OutputChannel, digest: Sha256| {
        let output_id = derive::session_output_id(session, channel, digest);
        (!is_known(output_id)).then_some(output_id)
    };
    if let Some(notes) = output.own_notes()
        && let Some(output_id) = new_id(OutputChannel::Recap, Sha256::of(notes.as_bytes()))
    {
        let payload = notes_payload(draft, notes);
        draft.push_once(Scope::Session, session_output(output_id, payload));
    }
    for (digest, bytes) in sorted_artifacts(&output.artifacts)? {
        if let Some(output_id) = new_id(OutputChannel::Artifact, digest) {
            let payload = artifact_payload(draft, bytes);
            draft.push_once(Scope::Session, session_output(output_id, payload));
        }
    }
    Ok(())
}

fn session_output(output_id: OutputId, payload: OutputPayload) -> EventData {
    EventData::NodeOutputAppended(NodeOutputAppended {
        output_id,
        supersedes_output_id: None,
        output_channel: payload.channel(),
        payload,
        attempt_id: None,
    })
}

enum Supersede {
    Channel,
    Nothing,
}

/// The event contains the beginning; longer notes are stored in full in the content store.
fn notes_payload(draft: &mut PlanDraft, notes: &str) -> OutputPayload {
    let full_text_ref = (notes.len() > NOTES_EVENT_BYTES_MAX).then(|| {
        let attachment = Attachment::blob(notes.as_bytes().to_vec());
        let reference = attachment.blob_ref();
        draft.attach(attachment);
        reference
    });
    OutputPayload::Notes { notes_markdown: BoundedText::clip(notes), full_text_ref }
}

fn artifact_payload(draft: &mut PlanDraft, bytes: Vec<u8>) -> OutputPayload {
    let attachment = Attachment::blob(bytes);
    let payload = OutputPayload::ArtifactRef {
        sha256: attachment.blob_ref(),
        content_type: BoundedText::clip("application/json"),
        byte_length: attachment.bytes().len() as u64,
    };
    draft.attach(attachment);
    payload
}

/// Equal artifacts count once; they are ordered by digest, not as in the call.
fn sorted_artifacts(artifacts: &[Value]) -> Result<Vec<(Sha256, Vec<u8>)>, DecideError> {
    let mut sorted = Vec::with_capacity(artifacts.len());
    for artifact in artifacts {
        let bytes = value_to_canonical(artifact)?;
        sorted.push((Sha256::of(&bytes), bytes));
    }
    sorted.sort();
    sorted.dedup();
    Ok(sorted)
}
