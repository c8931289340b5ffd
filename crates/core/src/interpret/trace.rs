//! Records why the interpreter chose what it chose, within the budget of one trace event.

use workrail_model::event::{TraceEntry, TraceKind, TraceRef};
use workrail_model::limits::TRACE_ENTRIES_MAX;
use workrail_model::name::{ConditionId, LoopId, StepId};
use workrail_model::text::BoundedText;

/// What a run condition is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConditionalPart<'a> {
    Step(&'a StepId),
    Loop(&'a LoopId),
}

/// Keeps the first and the last entries: the start of the walk and its outcome matter most.
#[derive(Debug, Default)]
pub(super) struct TraceLog {
    first: Vec<TraceEntry>,
    last: std::collections::VecDeque<TraceEntry>,
    left_out: usize,
}

const FIRST_MAX: usize = TRACE_ENTRIES_MAX / 2;
/// Two entries are reserved: one for the number of omitted entries, one for what the decision adds to the walk.
const LAST_MAX: usize = TRACE_ENTRIES_MAX - FIRST_MAX - 2;

impl TraceLog {
    fn push(&mut self, kind: TraceKind, summary: &str, refs: Vec<TraceRef>) {
        let entry = TraceEntry { kind, summary: BoundedText::clip(summary), refs };
        if self.first.len() < FIRST_MAX {
            self.first.push(entry);
            return;
        }
        self.last.push_back(entry);
        if self.last.len() > LAST_MAX {
            self.last.pop_front();
            self.left_out += 1;
        }
    }

    pub(super) fn selected(&mut self, step_id: &StepId) {
        let refs = vec![TraceRef::StepId { step_id: step_id.clone() }];
        self.push(TraceKind::SelectedNextStep, &format!("Next step: `{step_id}`."), refs);
    }

    /// The references name what is skipped; what runs has an entry of its own.
    pub(super) fn run_condition(
        &mut self,
        condition_id: &ConditionId,
        part: ConditionalPart<'_>,
        holds: bool,
    ) {
        let mut refs = vec![TraceRef::ConditionId { condition_id: condition_id.clone() }];
        let (name, reference) = match part {
            ConditionalPart::Step(id) => (id.as_str(), TraceRef::StepId { step_id: id.clone() }),
            ConditionalPart::Loop(id) => (id.as_str(), TraceRef::LoopId { loop_id: id.clone() }),
        };
        let outcome = if holds {
            "holds: it runs"
        } else {
            refs.push(reference);
            "does not hold: it is skipped"
        };
        self.push(TraceKind::EvaluatedCondition, &format!("The run condition of `{name}` {outcome}."), refs);
    }

    pub(super) fn loop_condition(
        &mut self,
        loop_id: &LoopId,
        iteration: u32,
        condition_id: Option<&ConditionId>,
        why: &str,
    ) {
        let mut refs = loop_refs(loop_id, iteration);
        refs.extend(
            condition_id.map(|condition_id| TraceRef::ConditionId { condition_id: condition_id.clone() }),
        );
        self.push(TraceKind::EvaluatedCondition, &format!("Loop `{loop_id}`: {why}."), refs);
    }

    pub(super) fn entered(&mut self, loop_id: &LoopId) {
        self.push(TraceKind::EnteredLoop, &format!("Entered loop `{loop_id}`."), loop_refs(loop_id, 0));
    }

    pub(super) fn exited(&mut self, loop_id: &LoopId, iterations: u32, why: &str) {
        let count =
            if iterations == 1 { "1 iteration".to_owned() } else { format!("{iterations} iterations") };
        let summary = format!("Left loop `{loop_id}` after {count}: {why}.");
        self.push(TraceKind::ExitedLoop, &summary, loop_refs(loop_id, iterations));
    }

    pub(super) fn finish(self) -> Vec<TraceEntry> {
        let mut entries = self.first;
        if self.left_out > 0 {
            entries.push(TraceEntry {
                kind: TraceKind::EvaluatedCondition,
                summary: BoundedText::clip(&format!("{} further decisions are not listed.", self.left_out)),
                refs: Vec::new(),
            });
        }
        entries.extend(self.last);
        entries
    }
}

/// What a run condition skipped, with that condition.
pub(crate) fn skipped(entry: &TraceEntry) -> Option<(ConditionalPart<'_>, &ConditionId)> {
    match entry.refs.as_slice() {
        [TraceRef::ConditionId { condition_id }, TraceRef::StepId { step_id }] => {
            Some((ConditionalPart::Step(step_id), condition_id))
        }
        [TraceRef::ConditionId { condition_id }, TraceRef::LoopId { loop_id }] => {
            Some((ConditionalPart::Loop(loop_id), condition_id))
        }
        _ => None,
    }
}

fn loop_refs(loop_id: &LoopId, iteration: u32) -> Vec<TraceRef> {
    vec![TraceRef::LoopId { loop_id: loop_id.clone() }, TraceRef::Iteration { value: iteration }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_steps_are_read_back_from_the_trace() {
        let condition = ConditionId::parse("is_large").unwrap();
        let mut log = TraceLog::default();
        let [design, build] = ["design", "build"].map(|id| StepId::parse(id).unwrap());
        let rounds = LoopId::parse("rounds").unwrap();
        log.run_condition(&condition, ConditionalPart::Step(&design), false);
        log.run_condition(&condition, ConditionalPart::Loop(&rounds), false);
        log.run_condition(&condition, ConditionalPart::Step(&build), true);
        log.selected(&build);
        log.loop_condition(&rounds, 1, Some(&condition), "its condition holds");
        let entries = log.finish();
        let found: Vec<_> = entries.iter().filter_map(skipped).collect();
        let expected = [ConditionalPart::Step(&design), ConditionalPart::Loop(&rounds)];
        assert_eq!(found, expected.map(|part| (part, &condition)));
    }
}
