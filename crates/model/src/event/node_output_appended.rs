//! `node_output_appended`: durable notes and artifacts; corrections link, nothing is edited.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::BlobRef;
use crate::id::{AttemptId, OutputId};
use crate::limits::{NOTES_EVENT_BYTES_MAX, SAFE_INTEGER_MAX};
use crate::text::BoundedText;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputChannel {
    Recap,
    Artifact,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "payloadKind", rename_all = "snake_case")]
pub enum OutputPayload {
    #[serde(rename_all = "camelCase")]
    Notes {
        notes_markdown: BoundedText<NOTES_EVENT_BYTES_MAX>,
        /// The whole text, when the event holds only its beginning.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        full_text_ref: Option<BlobRef>,
    },
    #[serde(rename_all = "camelCase")]
    ArtifactRef { sha256: BlobRef, content_type: BoundedText<128>, byte_length: u64 },
}

impl OutputPayload {
    pub fn blob_ref(&self) -> Option<BlobRef> {
        match self {
            Self::Notes { full_text_ref, .. } => *full_text_ref,
            Self::ArtifactRef { sha256, .. } => Some(*sha256),
        }
    }

    pub fn channel(&self) -> OutputChannel {
        match self {
            Self::Notes { .. } => OutputChannel::Recap,
            Self::ArtifactRef { .. } => OutputChannel::Artifact,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeOutputAppended {
    pub output_id: OutputId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supersedes_output_id: Option<OutputId>,
    pub output_channel: OutputChannel,
    pub payload: OutputPayload,
    /// The attempt that produced it, so that forks of one node never mix their notes (G51).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt_id: Option<AttemptId>,
}

impl NodeOutputAppended {
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.output_channel != self.payload.channel() {
            return Err("outputChannel does not fit payload.payloadKind");
        }
        match &self.payload {
            OutputPayload::ArtifactRef { byte_length, .. } if *byte_length > SAFE_INTEGER_MAX => {
                Err("payload.byteLength is beyond 2^53-1")
            }
            OutputPayload::ArtifactRef { .. } | OutputPayload::Notes { .. } => Ok(()),
        }
    }
}
