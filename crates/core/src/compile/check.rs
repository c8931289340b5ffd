//! Checks that declarations exist once and that steps use them as declared (G42).

use std::collections::{BTreeMap, BTreeSet};

use workrail_model::capability::Capability;
use workrail_model::compiled::{AssessmentDefinition, CompiledStep, CompiledWorkflow, ResolveFrom};
use workrail_model::limits::{PINNED_WORKFLOW_BYTES_MAX, RENDERED_STEP_BYTES_MAX};
use workrail_model::name::StepId;

use super::Library;
use super::diagnostic::Code;
use super::nearest::suggestion;
use super::path::DocPath;
use super::report::{DiagnosticReport, DraftDiagnostic, shown};
use super::source::{AuthoredStep, BodySource, StandardStep, Workflow};
use crate::paths::is_absolute;
use crate::render::prompt::too_long_as_authored;

/// Checks that ids in the workflow's own lists are unique.
pub(super) fn declarations(source: &Workflow, report: &mut DiagnosticReport) {
    let root = DocPath::root();
    unique(
        source.assessments.iter().map(|assessment| assessment.id.as_str()),
        &root.key("assessments"),
        report,
    );
    unique(
        source.extension_points.iter().map(|point| point.slot_id.as_str()),
        &root.key("extensionPoints"),
        report,
    );
    unique(source.references.iter().map(|reference| reference.id.as_str()), &root.key("references"), report);
    unique(source.conditions.iter().map(|condition| condition.id.as_str()), &root.key("conditions"), report);
    unique(
        source.functions.iter().map(|function| function.name.as_str()),
        &root.key("functionDefinitions"),
        report,
    );
    for (index, assessment) in source.assessments.iter().enumerate() {
        let at = root.key("assessments").index(index).key("dimensions");
        unique(assessment.dimensions.iter().map(|dimension| dimension.id.as_str()), &at, report);
    }
}

fn unique<'a>(names: impl Iterator<Item = &'a str>, at: &DocPath, report: &mut DiagnosticReport) {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name) {
            report.push(
                DraftDiagnostic::on(Code::DuplicateId, &at.index(index))
                    .message(format!("`{}` is declared twice", shown(name)))
                    .why("steps refer to it by name, and could mean either")
                    .fix("give one of them another name"),
            );
        }
    }
}

/// Checks that references lead to files inside their folder.
pub(super) fn references(source: &Workflow, library: &Library, report: &mut DiagnosticReport) {
    for (index, own) in source.references.iter().enumerate() {
        let path = own.source.as_str();
        let base = match own.resolve_from {
            ResolveFrom::Workspace => "the workspace",
            ResolveFrom::Package => "the folder of the workflow's package",
        };
        let (message, why) = if path.contains("://") {
            ("is a web address", "references are files; web addresses are not passed to the agent".to_owned())
        } else if is_absolute(path) || path.starts_with('~') {
            ("is an absolute path", format!("references are resolved inside {base}"))
        } else if leaves_folder(path) {
            ("points outside its folder", format!("references are resolved inside {base} only"))
        } else if library.is_missing(own.resolve_from, path) {
            ("was not found", format!("there is no such file in {base}"))
        } else {
            continue;
        };
        report.push(
            DraftDiagnostic::on(
                Code::ReferenceSource,
                &DocPath::root().key("references").index(index).key("source"),
            )
            .message(format!("`{}` {message}", shown(path)))
            .why(format!("{why}; runs report this one as not found"))
            .fix(match path.contains("://") {
                true => "name the address in a prompt instead, or keep a copy of the document in the project",
                false if library.is_missing(own.resolve_from, path) => {
                    "correct the path, or add the document"
                }
                false => "move the document into the project, and write its relative path",
            }),
        );
    }
}

fn leaves_folder(path: &str) -> bool {
    let mut depth = 0_i32;
    path.split(['/', '\\']).any(|part| {
        match part {
            ".." => depth -= 1,
            "" | "." => {}
            _ => depth += 1,
        }
        depth < 0
    })
}

/// Checks that the workflow does not use what it disables.
pub(super) fn disabled_capabilities(source: &Workflow, report: &mut DiagnosticReport) {
    let disabled = &source.capabilities.disabled;
    let mut refuse = |at: &DocPath, what: String, name: &str| {
        report.push(
            DraftDiagnostic::on(Code::Capability, at)
                .message(format!("{what}, but `capabilities` disables `{name}`"))
                .why("the agent would get contradictory instructions")
                .fix(format!("remove `{name}` from `disabled`, or remove this")),
        );
    };
    if disabled.contains(&Capability::Delegation) {
        let mut queue: Vec<&AuthoredStep> = source.steps.iter().collect();
        while let Some(step) = queue.pop() {
            match step {
                AuthoredStep::Parallel(step) => {
                    refuse(
                        &step.at,
                        format!("`{}` delegates to other agents", shown(&step.id)),
                        "delegation",
                    );
                }
                AuthoredStep::Loop(step) => match &step.body {
                    BodySource::Inline(body) => queue.extend(body),
                    BodySource::Named(_) => {}
                },
                AuthoredStep::Standard(_) => {}
            }
        }
        for used in source.features.iter().filter(|used| used.id == "wr.features.subagent_guidance") {
            refuse(&used.at, "the feature is about subagents".to_owned(), "delegation");
        }
    }
}

/// Checks that a step's assessments are declared, and that its consequences use their levels.
pub(super) fn assessments(source: &Workflow, step: &StandardStep, report: &mut DiagnosticReport) {
    let at = &step.at;
    let known: Vec<&str> = source.assessments.iter().map(|assessment| assessment.id.as_str()).collect();
    let mut referenced: Vec<&AssessmentDefinition> = Vec::new();
    for (index, name) in step.assessment_refs.iter().enumerate() {
        match source.assessments.iter().find(|assessment| assessment.id.as_str() == name) {
            Some(own) => referenced.push(own),
            None => report.push(
                DraftDiagnostic::on(Code::UnknownAssessment, &at.key("assessmentRefs").index(index))
                    .message(format!("there is no assessment `{}`", shown(name)))
                    .why("the agent would be asked for a rating that is not defined")
                    .fix(suggestion(name, &known)),
            ),
        }
    }
    let list = at.key("assessmentConsequences");
    if !step.consequences.is_empty() && step.assessment_refs.is_empty() {
        report.push(
            DraftDiagnostic::on(Code::Consequence, &list)
                .message("consequences need assessmentRefs")
                .why("without an assessment no level is ever given")
                .fix("add \"assessmentRefs\": [\"...\"]"),
        );
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, consequence) in step.consequences.iter().enumerate() {
        let item_path = list.index(index);
        let when = &consequence.when;
        if !seen.insert((&when.any_equals_level, &when.for_assessment)) {
            report.push(
                DraftDiagnostic::on(Code::Consequence, &item_path)
                    .message(format!("the level {:?} has two consequences", shown(&when.any_equals_level)))
                    .why("only one of them could be followed")
                    .fix("join them into one"),
            );
        }
        if let Some(name) = &when.for_assessment
            && !step.assessment_refs.contains(name)
        {
            let refs: Vec<&str> = step.assessment_refs.iter().map(String::as_str).collect();
            report.push(
                DraftDiagnostic::on(Code::Consequence, &item_path.key("when").key("forAssessment"))
                    .message(format!("`{}` is not among the step's assessmentRefs", shown(name)))
                    .why("the step never gives that assessment")
                    .fix(suggestion(name, &refs)),
            );
            continue;
        }
        level_declared(
            &when.any_equals_level,
            when.for_assessment.as_deref(),
            &referenced,
            &item_path,
            report,
        );
    }
}

fn level_declared(
    level: &str,
    scope: Option<&str>,
    referenced: &[&AssessmentDefinition],
    at: &DocPath,
    report: &mut DiagnosticReport,
) {
    let scoped =
        referenced.iter().filter(|assessment| scope.is_none_or(|name| assessment.id.as_str() == name));
    let levels: Vec<&str> = scoped
        .flat_map(|assessment| &assessment.dimensions)
        .flat_map(|dimension| dimension.levels.iter().map(String::as_str))
        .collect();
    if levels.is_empty() || levels.contains(&level) {
        return;
    }
    let mut known = levels;
    known.sort_unstable();
    known.dedup();
    report.push(
        DraftDiagnostic::on(Code::AssessmentLevel, &at.key("when").key("anyEqualsLevel"))
            .message(format!("no dimension has the level {:?}", shown(level)))
            .why("the consequence could never apply")
            .fix(suggestion(level, &known)),
    );
}

pub(super) fn assessments_used(source: &Workflow, steps: &[CompiledStep], report: &mut DiagnosticReport) {
    if source.assessments.is_empty() {
        return;
    }
    let used: BTreeSet<&str> =
        steps.iter().flat_map(|step| &step.assessment_refs).map(|name| name.as_str()).collect();
    for (index, own) in source.assessments.iter().enumerate() {
        if !used.contains(own.id.as_str()) {
            report.push(
                DraftDiagnostic::on(Code::AssessmentUnused, &DocPath::root().key("assessments").index(index))
                    .message(format!("no step asks for the assessment `{}`", own.id))
                    .why("agents are never asked for this rating")
                    .fix("name it in a step's assessmentRefs, or remove it"),
            );
        }
    }
}

/// The steps whose text cannot fit. Rendering every step is most of the cost of compiling, so it is skipped if
/// everything that was written could not fill one step.
fn steps_over_budget(workflow: &CompiledWorkflow, text_bytes: usize) -> Vec<&StepId> {
    /// A step shows an authored text at most twice, and an unset variable at most doubles it.
    const GROWTH_MAX: usize = 4;
    /// Built-in texts of a step: its contract with the template to fill in, and the sentences around everything.
    const BUILT_IN_BYTES: usize = 64 * 1024;
    if text_bytes.saturating_mul(GROWTH_MAX).saturating_add(BUILT_IN_BYTES) <= RENDERED_STEP_BYTES_MAX {
        return Vec::new();
    }
    too_long_as_authored(workflow)
}

/// Checks that the compiled form and every text in it are within their limits.
pub(super) fn sizes(
    workflow: &CompiledWorkflow,
    text_bytes: usize,
    step_paths: &BTreeMap<String, DocPath>,
    report: &mut DiagnosticReport,
) {
    for step_id in steps_over_budget(workflow, text_bytes) {
        let at = step_paths.get(step_id.as_str()).cloned().unwrap_or_else(|| DocPath::root().key("steps"));
        report.push(
            DraftDiagnostic::on(Code::StepTooLong, &at)
                .message(format!(
                    "the text of `{step_id}` has more than {RENDERED_STEP_BYTES_MAX} bytes before any value is \
                     filled in"
                ))
                .why("an agent gets a step's text as a whole, and no value could make it shorter")
                .fix("split the step, or move material into references"),
        );
    }
    // The size of a step in the compiled form besides its texts.
    const STEP_BYTES: usize = 600;
    let about = (text_bytes + workflow.steps.len() * STEP_BYTES) as u64;
    if about <= PINNED_WORKFLOW_BYTES_MAX {
        return;
    }
    let bytes = workflow.to_canonical().map_or(0, |bytes| bytes.len() as u64);
    if bytes > PINNED_WORKFLOW_BYTES_MAX {
        report.push(
            DraftDiagnostic::on(Code::WorkflowTooLarge, &DocPath::root().key("steps"))
                .message(format!(
                    "the compiled workflow has {bytes} bytes, at most {PINNED_WORKFLOW_BYTES_MAX} are allowed"
                ))
                .why("a compiled workflow is stored and read as a whole")
                .fix("split it into several workflows"),
        );
    }
}
