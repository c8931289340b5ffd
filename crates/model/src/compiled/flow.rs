//! The control flow of a compiled workflow: the plan, its loops and the closed language of conditions (G44).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::part::FunctionDefinition;
use super::{CompiledError, CompiledWorkflow};
use crate::name::{ConditionId, ContractRef, LoopId, StepId};

/// One position in the order of execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PlanItem {
    #[serde(rename_all = "camelCase")]
    Step { step_id: StepId },
    #[serde(rename_all = "camelCase")]
    Loop { loop_id: LoopId },
}

impl PlanItem {
    pub fn id(&self) -> &str {
        match self {
            Self::Step { step_id } => step_id.as_str(),
            Self::Loop { loop_id } => loop_id.as_str(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledLoop {
    pub loop_id: LoopId,
    pub title: String,
    pub control: LoopControl,
    /// A count, not an index: iterations run from 0 to one less.
    pub max_iterations: u32,
    pub on_limit: OnLimit,
    /// The context name of the iteration, counted from 1.
    pub iteration_var: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_condition: Option<ConditionId>,
    pub body: Vec<PlanItem>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionDefinition>,
}

/// What decides whether a loop continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LoopControl {
    #[serde(rename_all = "camelCase")]
    While {
        condition_id: ConditionId,
    },
    #[serde(rename_all = "camelCase")]
    Until {
        condition_id: ConditionId,
    },
    For {
        count: ForCount,
    },
    #[serde(rename_all = "camelCase")]
    ForEach {
        items: String,
        item_var: String,
        index_var: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ForCount {
    Fixed {
        value: u32,
    },
    #[serde(rename_all = "camelCase")]
    FromContext {
        context_key: String,
    },
}

/// What happens when the limit is reached and the loop wants to continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// The loop ends and the fact is disclosed.
    #[default]
    Advance,
    /// The step blocks until the agent says stop.
    Block,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompiledCondition {
    pub condition_id: ConditionId,
    pub test: ConditionTest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ConditionTest {
    /// The decision artifact of the loop's own body; `label` is another name it may be called by.
    #[serde(rename_all = "camelCase")]
    LoopControl {
        contract_ref: ContractRef,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        label: Option<String>,
    },
    /// A test on context values.
    Context { expr: Expr },
}

/// A test on context values, with the operator that decides already chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum Expr {
    Always,
    /// Says nothing: reaching it makes the whole condition false.
    Malformed,
    Truthy {
        var: String,
    },
    Equals {
        var: String,
        value: Value,
    },
    NotEquals {
        var: String,
        value: Value,
    },
    Gt {
        var: String,
        value: Value,
    },
    Gte {
        var: String,
        value: Value,
    },
    Lt {
        var: String,
        value: Value,
    },
    Lte {
        var: String,
        value: Value,
    },
    Contains {
        var: String,
        value: Value,
    },
    In {
        var: String,
        values: Vec<Value>,
    },
    And {
        all: Vec<Expr>,
    },
    Or {
        any: Vec<Expr>,
    },
    Not {
        inner: Box<Expr>,
    },
}

/// Checks that every name in the plan exists, and that no loop contains itself.
pub(super) fn check_plan(workflow: &CompiledWorkflow, ids: &BTreeSet<&StepId>) -> Result<(), CompiledError> {
    let bad = |field: &str, name: &dyn std::fmt::Display| {
        Err(CompiledError::Field { field: field.to_owned(), problem: format!("`{name}` is not defined") })
    };
    let bodies = workflow.loops.iter().flat_map(|owner| &owner.body);
    for item in workflow.plan.iter().chain(bodies) {
        match item {
            PlanItem::Step { step_id } if !ids.contains(step_id) => return bad("plan", step_id),
            PlanItem::Loop { loop_id } if workflow.loop_by_id(loop_id).is_none() => {
                return bad("plan", loop_id);
            }
            PlanItem::Step { .. } | PlanItem::Loop { .. } => {}
        }
    }
    let step_conditions = workflow.steps.iter().filter_map(|step| step.run_condition.as_ref());
    let loop_conditions = workflow.loops.iter().flat_map(|owner| {
        let control = match &owner.control {
            LoopControl::While { condition_id } | LoopControl::Until { condition_id } => Some(condition_id),
            LoopControl::For { .. } | LoopControl::ForEach { .. } => None,
        };
        control.into_iter().chain(&owner.run_condition)
    });
    for condition_id in step_conditions.chain(loop_conditions) {
        if workflow.condition(condition_id).is_none() {
            return bad("conditions", condition_id);
        }
    }
    check_each_loop_occurs_once(workflow)
}

/// A loop that occurs only once can neither contain itself nor be walked twice.
fn check_each_loop_occurs_once(workflow: &CompiledWorkflow) -> Result<(), CompiledError> {
    let bodies = workflow.loops.iter().flat_map(|owner| &owner.body);
    let mut seen = BTreeSet::new();
    for item in workflow.plan.iter().chain(bodies) {
        match item {
            PlanItem::Step { .. } => {}
            PlanItem::Loop { loop_id } => {
                if !seen.insert(loop_id) {
                    return Err(CompiledError::Field {
                        field: "loops".to_owned(),
                        problem: format!("`{loop_id}` occurs in two places"),
                    });
                }
            }
        }
    }
    Ok(())
}
