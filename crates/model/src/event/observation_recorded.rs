//! `observation_recorded`: where the work happens, as anchors for finding it again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::closed_set::closed_set;
use crate::digest::Sha256;
use crate::limits::OBSERVATION_BYTES_MAX;
use crate::text::BoundedText;

closed_set! {
    "snake_case",
    pub enum ObservationKey {
        GitBranch,
        GitHeadSha,
        RepoRootHash,
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "value", rename_all = "snake_case")]
pub enum ObservationValue {
    ShortString(BoundedText<OBSERVATION_BYTES_MAX>),
    GitSha1(BoundedText<40>),
    Sha256(Sha256),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    // Part of the locked set. Git either answers or does not, so our observations are always `high`.
    Low,
    Med,
    High,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservationRecorded {
    pub key: ObservationKey,
    pub value: ObservationValue,
    pub confidence: Confidence,
    /// How often this key had changed before; lets a value come back (branch a, b, a).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<u32>,
}

impl ObservationRecorded {
    /// What the dedupe key contains instead of the value.
    pub(crate) fn value_digest(&self) -> Sha256 {
        match &self.value {
            ObservationValue::ShortString(text) => {
                Sha256::of_parts(&[b"short_string", text.as_str().as_bytes()])
            }
            ObservationValue::GitSha1(sha) => Sha256::of_parts(&[b"git_sha1", sha.as_str().as_bytes()]),
            ObservationValue::Sha256(digest) => Sha256::of_parts(&[b"sha256", digest.as_bytes()]),
        }
    }

    pub(super) fn check(&self) -> Result<(), &'static str> {
        match &self.value {
            ObservationValue::GitSha1(sha)
                if sha.as_str().len() != 40
                    || !sha.as_str().bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) =>
            {
                Err("value must be 40 lowercase hexadecimal digits")
            }
            ObservationValue::GitSha1(_) | ObservationValue::ShortString(_) | ObservationValue::Sha256(_) => {
                Ok(())
            }
        }
    }
}
