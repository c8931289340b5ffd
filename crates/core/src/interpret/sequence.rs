//! The order of a workflow's steps, prepared once for the checks of many snapshots (G9).
//!
//! It owns what it needs, so that a caller can keep it without the workflow, and every question about it takes the
//! same time however long the workflow is.

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::compiled::{
    CompiledLoop, CompiledWorkflow, ConditionTest, ForCount, LoopControl, PlanItem,
};
use workrail_model::name::{ConditionId, LoopId, StepId};

/// The positions that a workflow has, and the order in which they are reached.
#[derive(Debug)]
pub struct Positions {
    /// The plan, then the body of every loop that the plan reaches.
    sequences: Vec<StepSequence>,
    /// The sequence of each loop; `None` for a loop that the plan does not reach.
    loops: BTreeMap<LoopId, Option<usize>>,
    steps: BTreeSet<StepId>,
    /// Where each step is in the plan itself, in ascending order.
    in_plan: BTreeMap<StepId, Vec<usize>>,
    /// The first item of the plan that is the step or contains it.
    first_in_plan: BTreeMap<StepId, usize>,
    possible_steps: u64,
}

/// The plan, or the body of a loop.
#[derive(Debug)]
pub(super) struct StepSequence {
    items: Vec<SequenceItem>,
    /// For each item, the next one that no run passes without doing a step in it; the length if there is none.
    next_required: Vec<usize>,
    /// `None` for the plan.
    looped: Option<LoopRules>,
}

#[derive(Debug)]
pub(super) enum SequenceItem {
    Step { step_id: StepId, skippable: bool },
    Loop { sequence: usize },
}

/// When a loop runs, as far as it does not depend on a run's values.
#[derive(Debug)]
struct LoopRules {
    loop_id: LoopId,
    max_iterations: u32,
    /// `None` if values or decisions of the run decide how often it runs.
    fixed_count: Option<u32>,
    /// Whether a condition or an empty list may pass over the whole loop.
    may_not_run: bool,
    /// The sequence that contains the loop, and where.
    within: (usize, usize),
}

pub(super) enum LoopLookup {
    Unknown,
    /// The workflow defines it, but no run reaches it.
    NotInPlan,
    At(usize),
}

impl SequenceItem {
    pub(super) fn is_step(&self, wanted: &StepId) -> bool {
        match self {
            Self::Step { step_id, .. } => step_id == wanted,
            Self::Loop { .. } => false,
        }
    }

    pub(super) fn is_loop(&self, wanted: usize) -> bool {
        match self {
            Self::Step { .. } => false,
            Self::Loop { sequence } => *sequence == wanted,
        }
    }
}

impl StepSequence {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn item(&self, index: usize) -> Option<&SequenceItem> {
        self.items.get(index)
    }

    /// The first item from `start` on that no run passes without doing a step in it.
    pub(super) fn next_required(&self, start: usize) -> usize {
        self.next_required.get(start).copied().unwrap_or(self.items.len())
    }

    /// Whether conditions may skip all of it.
    pub(super) fn is_skippable(&self) -> bool {
        self.next_required(0) == self.items.len()
    }

    pub(super) fn loop_id(&self) -> Option<&LoopId> {
        self.looped.as_ref().map(|rules| &rules.loop_id)
    }

    pub(super) fn max_iterations(&self) -> u32 {
        self.looped.as_ref().map_or(1, |rules| rules.max_iterations)
    }

    /// Where the loop is in the sequence around it.
    pub(super) fn within(&self) -> Option<(usize, usize)> {
        self.looped.as_ref().map(|rules| rules.within)
    }

    /// How often the loop runs, if the workflow says so.
    pub(super) fn fixed_count(&self) -> Option<u32> {
        self.looped.as_ref().and_then(|rules| rules.fixed_count)
    }

    /// Whether the loop may end after this iteration without doing another step.
    pub(super) fn may_end_after(&self, iteration: u32) -> bool {
        let done = iteration.saturating_add(1);
        let is_counted_out = self.fixed_count().is_none_or(|count| done >= count.min(self.max_iterations()));
        is_counted_out || self.is_skippable()
    }

    /// Whether a run may come past the whole loop without doing a step in it.
    fn may_be_passed(&self) -> bool {
        self.looped.as_ref().is_some_and(|rules| rules.may_not_run) || self.is_skippable()
    }
}

impl Positions {
    pub fn of(workflow: &CompiledWorkflow) -> Self {
        let mut positions = Self {
            sequences: Vec::new(),
            loops: workflow.loops.iter().map(|looped| (looped.loop_id.clone(), None)).collect(),
            steps: workflow.steps.iter().map(|step| step.step_id.clone()).collect(),
            in_plan: BTreeMap::new(),
            first_in_plan: BTreeMap::new(),
            possible_steps: 0,
        };
        positions.add_sequences(workflow);
        positions.index_plan();
        positions.find_required();
        positions
    }

    /// Adds the plan and then the loops it reaches, each after the sequence that contains it. A loop occurs only once,
    /// so this ends. Counts on the way how many step instances a run can complete at most.
    fn add_sequences(&mut self, workflow: &CompiledWorkflow) {
        let mut sources: Vec<(&[PlanItem], Option<LoopRules>, u64)> = vec![(&workflow.plan, None, 1)];
        let mut next = 0;
        while next < sources.len() {
            let (source, passes) = (sources[next].0, sources[next].2);
            let mut items = Vec::with_capacity(source.len());
            for item in source {
                match item {
                    PlanItem::Step { step_id } => {
                        self.possible_steps = self.possible_steps.saturating_add(passes);
                        let step = workflow.step(step_id);
                        let condition = step.and_then(|step| step.run_condition.as_ref());
                        let skippable = may_be_false(workflow, condition);
                        items.push(SequenceItem::Step { step_id: step_id.clone(), skippable });
                    }
                    PlanItem::Loop { loop_id } => {
                        // `CompiledWorkflow::check` refuses a plan with a loop that is not defined.
                        let Some(looped) = workflow.loop_by_id(loop_id) else { continue };
                        let sequence = sources.len();
                        let rules = LoopRules::of(workflow, looped, (next, items.len()));
                        let passes = passes.saturating_mul(u64::from(looped.max_iterations.max(1)));
                        sources.push((&looped.body, Some(rules), passes));
                        self.loops.insert(loop_id.clone(), Some(sequence));
                        items.push(SequenceItem::Loop { sequence });
                    }
                }
            }
            let looped = sources[next].1.take();
            self.sequences.push(StepSequence { items, next_required: Vec::new(), looped });
            next += 1;
        }
    }

    fn index_plan(&mut self) {
        // The item of the plan that each sequence belongs to; a sequence comes after the one that contains it.
        let mut outermost: Vec<usize> = Vec::with_capacity(self.sequences.len());
        for (number, sequence) in self.sequences.iter().enumerate() {
            let around = match sequence.within() {
                Some((0, index)) => Some(index),
                Some((parent, _)) => outermost.get(parent).copied(),
                None => None,
            };
            outermost.push(around.unwrap_or(0));
            for (index, item) in sequence.items.iter().enumerate() {
                let SequenceItem::Step { step_id, .. } = item else { continue };
                let at = around.unwrap_or(index);
                let first = self.first_in_plan.entry(step_id.clone()).or_insert(at);
                *first = (*first).min(at);
                if number == 0 {
                    self.in_plan.entry(step_id.clone()).or_default().push(index);
                }
            }
        }
    }

    /// Inner loops first: whether a loop can be passed depends on its body.
    fn find_required(&mut self) {
        for number in (0..self.sequences.len()).rev() {
            let sequence = &self.sequences[number];
            let mut required = sequence.len();
            let mut next_required = vec![required; sequence.len()];
            for (index, item) in sequence.items.iter().enumerate().rev() {
                let is_skippable = match item {
                    SequenceItem::Step { skippable, .. } => *skippable,
                    SequenceItem::Loop { sequence } => self.sequences[*sequence].may_be_passed(),
                };
                if !is_skippable {
                    required = index;
                }
                next_required[index] = required;
            }
            self.sequences[number].next_required = next_required;
        }
    }

    pub(super) fn plan(&self) -> &StepSequence {
        // `add_sequences` adds the plan first.
        &self.sequences[0]
    }

    /// The item of the plan that is this loop, if it is there and not inside another.
    pub(super) fn plan_item_of(&self, number: usize) -> Option<&SequenceItem> {
        match self.sequence(number)?.within()? {
            (0, index) => self.plan().item(index),
            (_, _) => None,
        }
    }

    pub(super) fn sequence(&self, number: usize) -> Option<&StepSequence> {
        self.sequences.get(number)
    }

    pub(super) fn sequence_of(&self, loop_id: &LoopId) -> LoopLookup {
        match self.loops.get(loop_id) {
            None => LoopLookup::Unknown,
            Some(None) => LoopLookup::NotInPlan,
            Some(Some(number)) => LoopLookup::At(*number),
        }
    }

    pub(super) fn knows_step(&self, step: &StepId) -> bool {
        self.steps.contains(step)
    }

    /// The first place of a step in the plan itself, from `start` on.
    pub(super) fn plan_index(&self, step: &StepId, start: usize) -> Option<usize> {
        let found = self.in_plan.get(step)?;
        found.get(found.partition_point(|index| *index < start)).copied()
    }

    /// The first item of the plan that is the step or contains it, after which the walk continues.
    pub(super) fn first_plan_index(&self, step: &StepId) -> Option<usize> {
        self.first_in_plan.get(step).copied()
    }

    pub(super) fn possible_steps(&self) -> u64 {
        self.possible_steps
    }

    /// The first step that a run cannot avoid in this item.
    pub(super) fn first_step<'a>(
        &'a self,
        mut sequence: &'a StepSequence,
        mut index: usize,
    ) -> Option<&'a StepId> {
        loop {
            match sequence.items.get(index)? {
                SequenceItem::Step { step_id, .. } => return Some(step_id),
                SequenceItem::Loop { sequence: inner } => {
                    sequence = self.sequences.get(*inner)?;
                    index = sequence.next_required(0);
                }
            }
        }
    }
}

impl LoopRules {
    fn of(workflow: &CompiledWorkflow, looped: &CompiledLoop, within: (usize, usize)) -> Self {
        let fixed_count = match &looped.control {
            LoopControl::For { count: ForCount::Fixed { value } } => Some(*value),
            LoopControl::For { count: ForCount::FromContext { .. } }
            | LoopControl::ForEach { .. }
            | LoopControl::While { .. }
            | LoopControl::Until { .. } => None,
        };
        Self {
            loop_id: looped.loop_id.clone(),
            max_iterations: looped.max_iterations,
            fixed_count,
            may_not_run: may_not_run(workflow, looped),
            within,
        }
    }
}

/// Whether a condition, a number or an empty list may pass over the whole loop.
pub(crate) fn may_not_run(workflow: &CompiledWorkflow, looped: &CompiledLoop) -> bool {
    let may_run_zero_times = match &looped.control {
        LoopControl::For { count: ForCount::Fixed { value } } => *value == 0,
        // The number may be 0 and the list empty.
        LoopControl::For { count: ForCount::FromContext { .. } } | LoopControl::ForEach { .. } => true,
        // A loop that an agent decides about runs at least once.
        LoopControl::While { condition_id } | LoopControl::Until { condition_id } => {
            may_be_false(workflow, Some(condition_id))
        }
    };
    may_run_zero_times || may_be_false(workflow, looped.run_condition.as_ref())
}

/// Whether values of the run decide about this condition.
fn may_be_false(workflow: &CompiledWorkflow, condition: Option<&ConditionId>) -> bool {
    condition.and_then(|id| workflow.condition(id)).is_some_and(|condition| match condition.test {
        ConditionTest::Context { .. } => true,
        ConditionTest::LoopControl { .. } => false,
    })
}
