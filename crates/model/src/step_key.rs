//! `StepInstanceKey`: which step, in which iteration of which loops (G9).
//!
//! Format: `stepId`, or `loop@iteration` frames joined by `/`, then `::stepId`; no part needs escaping.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::name::{LoopId, NameError, StepId};

/// One loop and the iteration it is in, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoopFrame {
    pub loop_id: LoopId,
    pub iteration: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepInstanceKey {
    pub loop_path: Vec<LoopFrame>,
    pub step_id: StepId,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StepKeyError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("loop frame {frame:?} must be `loopId@iteration`")]
    Frame { frame: String },
    #[error("the loop `{loop_id}` occurs twice in the path")]
    RepeatedLoop { loop_id: LoopId },
}

impl StepInstanceKey {
    pub(crate) fn new(loop_path: Vec<LoopFrame>, step_id: StepId) -> Result<Self, StepKeyError> {
        for (position, frame) in loop_path.iter().enumerate() {
            if loop_path[..position].iter().any(|earlier| earlier.loop_id == frame.loop_id) {
                return Err(StepKeyError::RepeatedLoop { loop_id: frame.loop_id.clone() });
            }
        }
        Ok(Self { loop_path, step_id })
    }

    pub(crate) fn parse(text: &str) -> Result<Self, StepKeyError> {
        let Some((path, step)) = text.split_once("::") else {
            return Self::new(Vec::new(), StepId::parse(text)?);
        };
        let frames = path.split('/').map(parse_frame).collect::<Result<_, _>>()?;
        Self::new(frames, StepId::parse(step)?)
    }
}

fn parse_frame(text: &str) -> Result<LoopFrame, StepKeyError> {
    let bad = || StepKeyError::Frame { frame: crate::text::truncate_with_marker(text, 80).into_owned() };
    let (loop_id, iteration) = text.split_once('@').ok_or_else(bad)?;
    let number: u32 = iteration.parse().map_err(|_| bad())?;
    // One spelling per number: no sign, no leading zeros.
    if number.to_string() != iteration {
        return Err(bad());
    }
    Ok(LoopFrame { loop_id: LoopId::parse(loop_id)?, iteration: number })
}

impl fmt::Display for StepInstanceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, frame) in self.loop_path.iter().enumerate() {
            let separator = if position > 0 { "/" } else { "" };
            write!(f, "{separator}{}@{}", frame.loop_id, frame.iteration)?;
        }
        if !self.loop_path.is_empty() {
            f.write_str("::")?;
        }
        write!(f, "{}", self.step_id)
    }
}

impl Serialize for StepInstanceKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StepInstanceKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for StepInstanceKey {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "StepInstanceKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^([a-z0-9_-]+@[0-9]+(/[a-z0-9_-]+@[0-9]+)*::)?[a-z0-9_-]+(\\.[a-z0-9_-]+)*$",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use test_case::test_case;

    #[test_case("triage")]
    #[test_case("outer@0/inner@2::triage")]
    #[test_case("a@10::phase.inner")]
    fn round_trips(text: &str) {
        assert_eq!(StepInstanceKey::parse(text).unwrap().to_string(), text);
    }

    #[test_case("a@01::x"; "leading zero")]
    #[test_case("a@+1::x"; "sign")]
    #[test_case("a@-1::x"; "negative")]
    #[test_case("a::x"; "no iteration")]
    #[test_case("::x"; "empty path")]
    #[test_case("a@1::"; "empty step")]
    #[test_case("a@1/a@2::x"; "same loop twice")]
    #[test_case("a@1::b@1::x"; "two separators")]
    #[test_case("a@99999999999::x"; "overflow")]
    fn refused(text: &str) {
        assert!(StepInstanceKey::parse(text).is_err());
    }

    proptest! {
        #[test]
        fn what_parses_formats_back(text in "[a-z0-9_@/:.-]{0,30}") {
            if let Ok(key) = StepInstanceKey::parse(&text) {
                prop_assert_eq!(key.to_string(), text);
            }
        }
    }
}
