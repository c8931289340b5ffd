//! `decision_trace_appended`: why the engine chose what it chose; bounded, never needed for correctness.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::canonical::to_canonical;
use crate::id::TraceId;
use crate::limits::{SUMMARY_BYTES_MAX, TRACE_ENTRIES_MAX, TRACE_EVENT_BYTES_MAX, TRACE_REFS_MAX};
use crate::name::{ConditionId, LoopId, StepId};
use crate::text::BoundedText;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceKind {
    SelectedNextStep,
    EvaluatedCondition,
    EnteredLoop,
    ExitedLoop,
    DetectedNonTipAdvance,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum TraceRef {
    #[serde(rename_all = "camelCase")]
    StepId {
        step_id: StepId,
    },
    #[serde(rename_all = "camelCase")]
    LoopId {
        loop_id: LoopId,
    },
    #[serde(rename_all = "camelCase")]
    ConditionId {
        condition_id: ConditionId,
    },
    Iteration {
        value: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceEntry {
    pub kind: TraceKind,
    pub summary: BoundedText<SUMMARY_BYTES_MAX>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<TraceRef>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionTraceAppended {
    pub trace_id: TraceId,
    #[schemars(length(min = 1, max = 25))]
    pub entries: Vec<TraceEntry>,
}

impl DecisionTraceAppended {
    /// Builds a trace within its limits: entries beyond the maximum are dropped from the end, and
    /// summaries are shortened evenly until the whole fits. `None` if there is nothing to record.
    pub fn bounded(trace_id: TraceId, mut entries: Vec<TraceEntry>) -> Option<Self> {
        if entries.is_empty() {
            return None;
        }
        entries.truncate(TRACE_ENTRIES_MAX);
        for entry in &mut entries {
            entry.refs.truncate(TRACE_REFS_MAX);
        }
        let mut trace = Self { trace_id, entries };
        for budget in [256, 128, 64, 32] {
            if trace.check().is_ok() {
                break;
            }
            for entry in &mut trace.entries {
                let short = crate::text::truncate_with_marker(entry.summary.as_str(), budget);
                entry.summary = BoundedText::clip(&short);
            }
        }
        while trace.check().is_err() && trace.entries.len() > 1 {
            trace.entries.pop();
        }
        Some(trace)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.entries.is_empty() || self.entries.len() > TRACE_ENTRIES_MAX {
            return Err(format!("entries must hold 1 to {TRACE_ENTRIES_MAX} items"));
        }
        if self.entries.iter().any(|entry| entry.refs.len() > TRACE_REFS_MAX) {
            return Err(format!("an entry holds at most {TRACE_REFS_MAX} refs"));
        }
        let bytes = to_canonical(self).map_err(|error| error.to_string())?.len();
        if bytes > TRACE_EVENT_BYTES_MAX {
            return Err(format!("trace has {bytes} bytes, at most {TRACE_EVENT_BYTES_MAX} are allowed"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_trace_is_shortened_to_fit_its_limits() {
        let entry = TraceEntry {
            kind: TraceKind::EvaluatedCondition,
            summary: BoundedText::clip(&"\u{1}".repeat(512)),
            refs: (0..40)
                .map(|_| TraceRef::ConditionId {
                    condition_id: ConditionId::parse(&"c".repeat(256)).unwrap(),
                })
                .collect(),
        };
        let trace = DecisionTraceAppended::bounded(TraceId::from_bits([0; 10]), vec![entry; 60]).unwrap();
        assert_eq!(trace.check(), Ok(()));
    }
}
