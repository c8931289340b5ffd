//! `inspect_workflow`: what a workflow is and needs, and its whole plan on demand (G72, G73).

use serde_json::{Map, Value};
use workrail_model::capability::Capability;
use workrail_model::compiled::{
    BindingSource, CompiledWarning, CompiledWarningCode, CompiledWorkflow, ResolveFrom,
};
use workrail_model::digest::WorkflowHash;
use workrail_model::discovery::{
    AUTHORING_SPEC_VERSION, DISCOVERY_TEXT_BYTES_MAX, DiscoveryWarning, DiscoveryWarningCode, IdStatus,
    InspectMode, InspectedBinding, InspectedContract, InspectedReference, Precedence, Staleness,
    WorkflowInspection,
};
use workrail_model::name::WorkflowId;
use workrail_model::reply::NextCall;
use workrail_model::tool::{ToolName, ToolSet};

use super::list::{GOAL_WANTED, legacy_text};
use super::{counted, one_line, outline, staleness, tags, within, workflow_kind};
use crate::agent_site::RunRights;
use crate::compile::{Code, DiagnosticSeverity, Diagnostics};

/// The share of the text for everything except the plan.
const METADATA_BYTES_MAX: usize = 5_000;
const LINE_BYTES_MAX: usize = 600;

/// A workflow with what is known about it besides its compiled form.
#[derive(Clone, Debug)]
pub struct Inspected<'a> {
    pub workflow: &'a CompiledWorkflow,
    pub hash: WorkflowHash,
    pub source_kind: Precedence,
    pub reference: &'a str,
    /// The id in the call, if it is not the workflow's own.
    pub asked: Option<&'a WorkflowId>,
    pub suggested: Option<String>,
    /// All diagnostics of the compiler; there are no errors among them.
    pub diagnostics: &'a Diagnostics,
    pub references: Vec<InspectedReference>,
    /// The tools that the server offers.
    pub tools: ToolSet,
    pub rights: RunRights,
}

pub fn inspect(input: Inspected<'_>, mode: InspectMode) -> WorkflowInspection {
    let workflow = input.workflow;
    let warnings = warnings(&input);
    let arguments = Map::from_iter([("workflowId".to_owned(), Value::from(workflow.workflow_id.as_str()))]);
    let why_no_start = input.rights.why_no_start();
    let starts = why_no_start.is_none() && input.tools.offers(ToolName::StartWorkflow);
    let mut body = WorkflowInspection {
        text: String::new(),
        mode,
        workflow_id: workflow.workflow_id.clone(),
        kind: workflow_kind(&workflow.workflow_id, input.reference),
        id_status: IdStatus::of(&workflow.workflow_id),
        canonical_id: input.asked.map(|_| workflow.workflow_id.to_string()),
        suggested_id: input.suggested,
        source_kind: input.source_kind,
        source_ref: input.reference.to_owned(),
        workflow_hash: input.hash,
        staleness: staleness(workflow, input.source_kind),
        name: workflow.name.clone(),
        version: workflow.version.clone(),
        description: workflow.description.clone(),
        about: workflow.about.clone(),
        tags: tags(workflow),
        examples: workflow.examples.clone(),
        preconditions: workflow.preconditions.clone(),
        clarification_prompts: workflow.clarification_prompts.clone(),
        recommended_autonomy: workflow.recommended.autonomy,
        recommended_risk_policy: workflow.recommended.risk_policy,
        required_capabilities: workflow.capabilities.required.clone(),
        preferred_capabilities: workflow.capabilities.preferred.clone(),
        features: workflow.features.iter().map(|feature| feature.feature_id.clone()).collect(),
        contracts: contracts(workflow),
        bindings: bindings(workflow),
        references: input.references,
        step_count: workflow.steps.len(),
        loop_count: workflow.loops.len(),
        plan: match mode {
            InspectMode::Metadata => Vec::new(),
            InspectMode::Preview => outline::plan(workflow),
        },
        warnings,
        next_call: starts.then_some(NextCall { tool: ToolName::StartWorkflow, arguments }),
    };
    body.text = text(&body);
    body.text.extend(why_no_start);
    body
}

fn contracts(workflow: &CompiledWorkflow) -> Vec<InspectedContract> {
    let packs = workflow.contracts.iter();
    packs
        .map(|pack| InspectedContract {
            contract_ref: pack.contract_ref.to_string(),
            artifact_kind: pack.artifact_kind.clone(),
            purpose: pack.purpose.clone(),
        })
        .collect()
}

fn bindings(workflow: &CompiledWorkflow) -> Vec<InspectedBinding> {
    let slots = workflow.bindings.iter();
    slots
        .map(|slot| InspectedBinding {
            slot_id: slot.slot_id.clone(),
            purpose: slot.purpose.clone(),
            value: slot.value.clone(),
            is_default: slot.source == BindingSource::Default,
        })
        .collect()
}

fn warnings(input: &Inspected<'_>) -> Vec<DiscoveryWarning> {
    let id = &input.workflow.workflow_id;
    let warning = |code: DiscoveryWarningCode, message: String| DiscoveryWarning {
        code,
        workflow_id: id.to_string(),
        message,
    };
    let mut warnings = Vec::new();
    if let Some(asked) = input.asked {
        let message = format!("`{asked}` is an old name of `{id}`; use `{id}`");
        warnings.push(warning(DiscoveryWarningCode::AliasUsed, message));
    }
    if IdStatus::of(id) == IdStatus::Legacy {
        let message = legacy_text(id.as_str(), input.suggested.as_deref());
        warnings.push(warning(DiscoveryWarningCode::LegacyWorkflowId, message));
    }
    if staleness(input.workflow, input.source_kind) == Some(Staleness::Likely) {
        let message = format!(
            "`{id}` was last checked against other authoring rules than today's (version {AUTHORING_SPEC_VERSION}); \
             its author should check it with `workrail workflow validate` and renew `validatedAgainstSpecVersion`"
        );
        warnings.push(warning(DiscoveryWarningCode::StaleWorkflow, message));
    }
    for reference in input.references.iter().filter(|reference| !reference.is_resolved) {
        let message = format!("the reference `{}` ({}) was not found", reference.id, reference.source);
        warnings.push(warning(DiscoveryWarningCode::ReferenceUnresolved, message));
    }
    for problem in
        input.diagnostics.problems.iter().filter(|problem| problem.severity == DiagnosticSeverity::Warning)
    {
        // Reported above, with the id that is available.
        if problem.code != Code::LegacyId {
            let message = format!("{} (at `{}`); {}", problem.message, problem.path, problem.fix);
            warnings.push(warning(DiscoveryWarningCode::CompilerWarning, message));
        }
    }
    for recorded in
        input.workflow.compiled_warnings.iter().filter(|recorded| !is_shown(recorded, input.diagnostics))
    {
        warnings.push(warning(DiscoveryWarningCode::CompilerWarning, compiled_text(recorded)));
    }
    warnings
}

/// True if a shown diagnostic says the same, with the position in the file and the fix.
fn is_shown(recorded: &CompiledWarning, diagnostics: &Diagnostics) -> bool {
    let same: &[Code] = match recorded.code {
        CompiledWarningCode::ConditionNeverHolds => &[Code::ConditionNeverHolds, Code::UnreachableStep],
        CompiledWarningCode::FeatureWithoutEffect => &[Code::FeatureWithoutEffect],
        CompiledWarningCode::LoopControlledByContext => &[Code::LoopByContext],
        CompiledWarningCode::LoopWithoutDecisionStep => &[Code::LoopWithoutDecision],
    };
    let mut shown =
        diagnostics.problems.iter().filter(|problem| problem.severity == DiagnosticSeverity::Warning);
    shown.any(|problem| same.contains(&problem.code))
}

fn compiled_text(recorded: &CompiledWarning) -> String {
    let subject = &recorded.subject;
    match recorded.code {
        CompiledWarningCode::ConditionNeverHolds => {
            format!("`{subject}` never runs: its condition can never hold")
        }
        CompiledWarningCode::FeatureWithoutEffect => {
            format!("the feature `{subject}` adds nothing: no step has promptBlocks")
        }
        CompiledWarningCode::LoopControlledByContext => format!(
            "the loop `{subject}` is decided by context values; if the agent forgets to set one, the loop ends \
             too early or runs too long"
        ),
        CompiledWarningCode::LoopWithoutDecisionStep => {
            format!("no step of the loop `{subject}` delivers its decision; it always runs to its limit")
        }
    }
}

fn text(body: &WorkflowInspection) -> String {
    let next = body.next_call.as_ref().map(|call| format!("Next: {}. {GOAL_WANTED}", call.in_a_line()));
    let next = next.unwrap_or_default();
    let mut text = within(&metadata(body), METADATA_BYTES_MAX, |left| {
        format!("… {left} more facts are left out of this text.")
    });
    if body.mode == InspectMode::Preview {
        let lines: Vec<String> = body.plan.iter().map(outline::line).collect();
        text.push_str("\nPlan:\n");
        let max = DISCOVERY_TEXT_BYTES_MAX.saturating_sub(text.len() + next.len() + 300);
        text.push_str(&within(&lines, max, |left| {
            format!("… {left} of {} lines are left out of this text.", lines.len())
        }));
        text.push_str("Prompts are delivered one step at a time in a run.\n");
    } else {
        text.push_str(&format!("\nThe plan: {} with \"mode\":\"preview\".\n", ToolName::InspectWorkflow));
    }
    text.push_str(&next);
    text
}

fn metadata(body: &WorkflowInspection) -> Vec<String> {
    let mut lines = vec![
        format!("{} · {} ({})", body.workflow_id, one_line(&body.name, 128), body.version),
        one_line(&body.description, LINE_BYTES_MAX),
        format!(
            "Source: {} {}. Hash: {}. {}, {}.",
            body.source_kind.word(),
            one_line(&body.source_ref, 200),
            body.workflow_hash,
            counted(body.step_count, "step"),
            counted(body.loop_count, "loop"),
        ),
    ];
    // A warning matters more than what follows, which may be cut.
    let warnings = body.warnings.iter().map(|warning| format!("- {}", one_line(&warning.message, 400)));
    section(&mut lines, "Warnings:", warnings);
    let short = |text: &String| format!("- {}", one_line(text, 300));
    section(&mut lines, "Preconditions:", body.preconditions.iter().map(short));
    section(&mut lines, "To settle with the user first:", body.clarification_prompts.iter().map(short));
    if let Some(recommended) = recommended(body) {
        lines.push(recommended);
    }
    if !body.required_capabilities.is_empty() {
        lines.push(format!("Needs: {}.", capabilities(&body.required_capabilities)));
    }
    if !body.preferred_capabilities.is_empty() {
        lines.push(format!("Better with: {}.", capabilities(&body.preferred_capabilities)));
    }
    let contracts = body.contracts.iter();
    let contracts = contracts.map(|pack| {
        format!("- {} ({}): {}", pack.contract_ref, pack.artifact_kind, one_line(&pack.purpose, 160))
    });
    section(&mut lines, "Required artifacts:", contracts);
    section(&mut lines, "References:", body.references.iter().map(reference_line));
    let bindings = body.bindings.iter().map(|slot| {
        let source = if slot.is_default { "default" } else { "chosen by the workspace" };
        format!(
            "- {} = {} ({source}): {}",
            slot.slot_id,
            one_line(&slot.value, 120),
            one_line(&slot.purpose, 160)
        )
    });
    section(&mut lines, "Extension points:", bindings);
    if !body.features.is_empty() {
        lines.push(format!("Features: {}.", body.features.join(", ")));
    }
    if !body.tags.is_empty() {
        lines.push(format!("Tags: {}.", body.tags.join(", ")));
    }
    section(&mut lines, "For example:", body.examples.iter().map(short));
    if let Some(about) = &body.about {
        lines.push(format!("About: {}", one_line(about, LINE_BYTES_MAX)));
    }
    lines
}

fn section(lines: &mut Vec<String>, title: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.collect();
    if !items.is_empty() {
        lines.push(title.to_owned());
        lines.extend(items);
    }
}

fn reference_line(reference: &InspectedReference) -> String {
    let from = match reference.resolve_from {
        ResolveFrom::Workspace => "workspace",
        ResolveFrom::Package => "package",
    };
    let weight = if reference.authoritative { "authoritative" } else { "for orientation" };
    let location = match &reference.path {
        Some(path) => one_line(path, 300),
        None => format!("[unresolved] {}", one_line(&reference.source, 300)),
    };
    let (title, purpose) = (one_line(&reference.title, 128), one_line(&reference.purpose, 160));
    format!("- {title}: {location} ({from}, {weight}): {purpose}")
}

fn recommended(body: &WorkflowInspection) -> Option<String> {
    let autonomy = body.recommended_autonomy.map(|autonomy| format!("autonomy {}", autonomy.as_str()));
    let risk = body.recommended_risk_policy.map(|risk| format!("risk policy {}", risk.as_str()));
    let parts: Vec<String> = autonomy.into_iter().chain(risk).collect();
    (!parts.is_empty()).then(|| format!("Recommended limits: {}.", parts.join(", ")))
}

fn capabilities(list: &[Capability]) -> String {
    let words: Vec<&str> = list
        .iter()
        .map(|capability| match capability {
            Capability::Delegation => "delegation",
            Capability::WebBrowsing => "web browsing",
        })
        .collect();
    words.join(", ")
}
