//! A plan cannot be copied before it is carried out.

use workrail_model::plan::AppendPlan;

fn copy(plan: &AppendPlan) -> AppendPlan {
    plan.clone()
}

fn main() {}
