//! From a step's id to its index, built on first use: a workflow may have a thousand steps, and every call
//! looks some of them up.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::CompiledStep;
use crate::name::StepId;

/// Derived from the steps, so it is not part of the value: equality ignores it.
#[derive(Debug, Default)]
pub struct StepIndex(OnceLock<BTreeMap<StepId, usize>>);

impl StepIndex {
    pub(super) fn find<'a>(&self, steps: &'a [CompiledStep], id: &StepId) -> Option<&'a CompiledStep> {
        let made = || steps.iter().enumerate().map(|(index, step)| (step.step_id.clone(), index)).collect();
        let index = *self.0.get_or_init(made).get(id)?;
        steps.get(index).filter(|step| step.step_id == *id)
    }
}

impl Clone for StepIndex {
    /// A copy starts empty, because it may be changed before its first use.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for StepIndex {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for StepIndex {}
