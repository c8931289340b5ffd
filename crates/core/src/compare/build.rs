//! Builds a comparison from two sides.

use serde_json::Value;
use workrail_model::event::NodeKind;
use workrail_model::id::{NodeId, RunId};
use workrail_model::strict_json;

use super::align::{Aligned, align};
use super::sides::{Covered, ReachedStep, UnknownPart, is_advanced, is_shared, led_to};
use super::{
    ArtifactComparison, ComparedGapState, Comparison, ContextComparison, Continuation, CurrentSide, DiffLine,
    Difference, DifferenceCounts, End, Extent, FieldDifference, GapComparison, PartEnd, RunPart, Side,
    StepComparison, StepOutcome, StepSide, VERSION, diff, words,
};
use crate::report::{
    Artifact, Body, Covers, GapReport, GapReportState, Report, ReportInput, RunReport, StepReport, Times,
    branch_letter, elapsed, seen_context_value, words as report_words,
};

/// Larger artifacts are compared only by digest.
const ARTIFACT_BYTES_MAX: u64 = 1024 * 1024;

/// One side: a part of a run in a session.
#[derive(Clone, Debug)]
pub struct Compared<'a> {
    /// The session; `run` says which run is covered.
    pub subject: ReportInput<'a>,
    pub run: RunId,
    pub part: RunPart,
}

/// Compares two parts; an error names a part that its run does not have. The caller that can sign tokens adds the calls
/// that continue a side, at [`Side::continue_at`].
pub fn build(a: &Compared<'_>, b: &Compared<'_>) -> Result<Comparison, UnknownPart> {
    let (report_a, report_b) = (reported(a), reported(b));
    let (run_a, run_b) = (only_run(a, &report_a)?, only_run(b, &report_b)?);
    let (covered_a, covered_b) = (Covered::of(a, run_a)?, Covered::of(b, run_b)?);
    let steps = steps((a, &covered_a), (b, &covered_b));
    let (side_a, side_b) = (side(a, (&report_a, run_a), &covered_a), side(b, (&report_b, run_b), &covered_b));
    let continues = current_side(&side_a, &side_b);
    let latest = a.subject.facts.latest_touch(a.run).and_then(|index| {
        let end = usize::try_from(index.get()).ok()?;
        a.subject.events.get(end).map(|event| (index, event.at.clone()))
    });
    let mut why = Vec::new();
    for (name, side, covered) in [("A", &side_a, &covered_a), ("B", &side_b, &covered_b)] {
        let attempt = covered.steps.first().and_then(|step| step.attempt);
        why.extend(attempt.and_then(|attempt| words::attempt(name, side, attempt)));
    }
    match a.run == b.run {
        true => why.extend(words::why_of_one_run(continues, (&side_a, &side_b), run_a, latest)),
        false => why.extend([words::why_of_run("A", &side_a, run_a), words::why_of_run("B", &side_b, run_b)]),
    }
    let mut remarks = report_a.remarks.clone();
    remarks.extend(report_b.remarks.iter().filter(|remark| !report_a.remarks.contains(remark)).cloned());
    if run_a.workflow.workflow_id != run_b.workflow.workflow_id {
        remarks.push(words::OTHER_WORKFLOW.to_owned());
    }
    Ok(Comparison {
        version: VERSION,
        continues,
        why,
        counts: counts(&steps),
        steps,
        context: context(a, b, (&covered_a, &covered_b)),
        gaps: gaps((run_a, &covered_a), (run_b, &covered_b)),
        remarks,
        a: side_a,
        b: side_b,
    })
}

fn reported(compared: &Compared<'_>) -> Report {
    let covers = Covers::Run { run_id: compared.run };
    crate::report::build(&ReportInput { covers, ..compared.subject })
}

fn only_run<'a>(compared: &Compared<'_>, report: &'a Report) -> Result<&'a RunReport, UnknownPart> {
    report.runs.first().ok_or_else(|| UnknownPart::Run { run: compared.run.to_string() })
}

fn side(compared: &Compared<'_>, (report, run): (&Report, &RunReport), covered: &Covered<'_>) -> Side {
    let end = covered.end;
    let facts = compared.subject.facts;
    let reference = match &compared.part {
        RunPart { extent: Extent::Path, end: PartEnd::Current } => run.label.clone(),
        part => format!("{}@{}", run.label, named_by_point(part, covered)),
    };
    let last_at = covered.steps.last().and_then(|step| step.attempt?.at.as_ref()).or(end.at.as_ref());
    let (continue_at, continuation) = continuation(compared, run, covered);
    Side {
        reference,
        session_id: report.session_id,
        run_id: run.run_id,
        label: run.label.clone(),
        what: compared.part.extent,
        health: report.health.clone(),
        workflow_id: run.workflow.workflow_id.clone(),
        workflow_hash: run.workflow.workflow_hash,
        goal: run.goal.clone(),
        status: run.status,
        closed: report_words::closed(run, Times::UTC),
        branch: branch_letter(end.branch),
        end: End {
            point: end.point.clone(),
            node_id: end.node_id,
            link: end.link.clone(),
            step: report_words::point(end),
        },
        completed: covered.steps.iter().filter(|step| step.attempt.is_some_and(is_advanced)).count() as u64,
        refused_attempts: covered.steps.iter().map(|step| step.refused).sum(),
        elapsed_ms: elapsed(covered.steps.first().and_then(|step| step.node.at.as_ref()), last_at),
        preferences: facts.preferences(end.node_id),
        continuation,
        continue_at,
        next_call: None,
    }
}

/// Names the point instead of the node, because people do not type node ids.
fn named_by_point(part: &RunPart, covered: &Covered<'_>) -> RunPart {
    let end = match &part.end {
        PartEnd::Node(_) => PartEnd::Point(covered.end.point.clone()),
        end @ (PartEnd::Current | PartEnd::Branch(_) | PartEnd::Point(_)) => end.clone(),
    };
    RunPart { end, ..part.clone() }
}

/// Where an agent continues this side, and what that means for the run.
fn continuation(
    compared: &Compared<'_>,
    run: &RunReport,
    covered: &Covered<'_>,
) -> (Option<NodeId>, Continuation) {
    let facts = compared.subject.facts;
    let attempt = covered.steps.first().and_then(|step| step.attempt);
    let at = match compared.part.extent {
        Extent::Path | Extent::Point => covered.end.node_id,
        // The result of an attempt continues at the newest tip below it.
        Extent::Attempt { .. } => attempt.and_then(led_to).map_or(covered.end.node_id, |next| {
            let below = |tip: &&crate::project::NodeState| facts.is_ancestor_or_self(next, tip.node_id);
            let tip = run.tip.filter(|tip| facts.is_ancestor_or_self(next, *tip));
            let newest = || facts.tips(run.run_id).rev().find(below).map(|tip| tip.node_id);
            tip.or_else(newest).unwrap_or(next)
        }),
    };
    let is_complete = |node: NodeId| {
        run.nodes.iter().any(|other| other.node_id == node && other.step == StepReport::Complete)
    };
    if is_complete(at) {
        (None, Continuation::Nothing)
    } else if Some(at) == run.tip {
        (Some(at), Continuation::Current)
    } else if facts.is_tip(at) {
        (Some(at), Continuation::OtherBranch)
    } else {
        (Some(at), Continuation::NewBranch)
    }
}

fn current_side(a: &Side, b: &Side) -> CurrentSide {
    match (a.continuation == Continuation::Current, b.continuation == Continuation::Current) {
        (true, true) => CurrentSide::Both,
        (true, false) => CurrentSide::A,
        (false, true) => CurrentSide::B,
        (false, false) => CurrentSide::Neither,
    }
}

type Half<'a, 'c> = (&'a Compared<'c>, &'a Covered<'a>);

fn steps((a, own): Half<'_, '_>, (b, other): Half<'_, '_>) -> Vec<StepComparison> {
    let keys = |covered: &Covered<'_>| covered.steps.iter().map(ReachedStep::key).collect::<Vec<_>>();
    // A user who names two single points means those two, whatever their steps.
    let is_single = |compared: &Compared<'_>| compared.part.extent != Extent::Path;
    let aligned = match is_single(a) && is_single(b) {
        true => vec![Aligned::Both(0, 0)],
        false => align(&keys(own), &keys(other)),
    };
    let reported = aligned.into_iter().map(|aligned| {
        let (left, right) = match aligned {
            Aligned::Both(left, right) => (Some(&own.steps[left]), Some(&other.steps[right])),
            Aligned::A(left) => (Some(&own.steps[left]), None),
            Aligned::B(right) => (None, Some(&other.steps[right])),
        };
        step((a, left), (b, right))
    });
    reported.collect()
}

type MaybeStep<'a, 'c> = (&'a Compared<'c>, Option<&'a ReachedStep<'a>>);

fn step((a, left): MaybeStep<'_, '_>, (b, right): MaybeStep<'_, '_>) -> StepComparison {
    let node = left.or(right).map(|step| step.node);
    let step_id = node.and_then(|node| match &node.step {
        StepReport::Pending { step_id, .. } => Some(step_id.clone()),
        StepReport::Complete | StepReport::Unreadable => None,
    });
    let mut titles: Vec<String> =
        [left, right].into_iter().flatten().map(|step| report_words::point(step.node)).collect();
    titles.dedup();
    let is_one = left.zip(right).is_some_and(|(left, right)| a.run == b.run && is_shared(left, right));
    let (notes, artifacts, assessments) = match is_one {
        true => (Vec::new(), Vec::new(), Vec::new()),
        false => (notes(left, right), artifacts((a, left), (b, right)), assessments(left, right)),
    };
    let (left, right) = (left.map(step_side), right.map(step_side));
    let difference = match (&left, &right) {
        _ if is_one => Difference::Shared,
        (Some(_), None) => Difference::OnlyA,
        (None, _) => Difference::OnlyB,
        (Some(left), Some(right)) => {
            let is_same = notes.is_empty() && artifacts.is_empty() && assessments.is_empty();
            match is_same && left.outcome == right.outcome {
                true => Difference::Same,
                false => Difference::Differs,
            }
        }
    };
    let title = titles.join(" | ");
    StepComparison { step_id, title, difference, a: left, b: right, notes, artifacts, assessments }
}

fn step_side(step: &ReachedStep<'_>) -> StepSide {
    StepSide {
        point: step.node.point.clone(),
        node_id: step.node.node_id,
        outcome: match step.attempt {
            None => StepOutcome::Pending,
            Some(attempt) if is_advanced(attempt) => StepOutcome::Completed,
            Some(_) => StepOutcome::Refused,
        },
        attempts: step.attempts,
        elapsed_ms: step.attempt.and_then(|attempt| attempt.elapsed_ms),
    }
}

/// What was submitted; for a step without an attempt, what was saved there.
fn bodies<'a>(step: Option<&'a ReachedStep<'a>>) -> impl Iterator<Item = &'a Body> {
    let outputs = step.map(|step| step.attempt.map_or(&step.node.saved, |attempt| &attempt.outputs));
    // A later attempt may have superseded these outputs, but they are what the refused one submitted.
    let is_refused = step.and_then(|step| step.attempt).is_some_and(|attempt| !is_advanced(attempt));
    outputs
        .into_iter()
        .flatten()
        .filter(move |output| is_refused || !output.superseded)
        .map(|output| &output.body)
}

fn notes(a: Option<&ReachedStep<'_>>, b: Option<&ReachedStep<'_>>) -> Vec<DiffLine> {
    let text = |step: Option<&ReachedStep<'_>>| {
        let notes = bodies(step).filter_map(|body| match body {
            Body::Notes { markdown } => Some(markdown.as_str()),
            Body::Artifact { .. } => None,
        });
        notes.collect::<Vec<_>>().join("\n\n")
    };
    diff::lines(&text(a), &text(b))
}

/// Artifacts of the same kind are compared in order.
fn artifacts((a, left): MaybeStep<'_, '_>, (b, right): MaybeStep<'_, '_>) -> Vec<ArtifactComparison> {
    fn of<'a>(step: Option<&'a ReachedStep<'a>>) -> Vec<&'a Artifact> {
        let artifacts = bodies(step).filter_map(|body| match body {
            Body::Artifact { artifact } => Some(artifact),
            Body::Notes { .. } => None,
        });
        artifacts.collect()
    }
    let (own, other) = (of(left), of(right));
    let kinds = |all: &[&Artifact]| {
        all.iter().map(|artifact| Some(artifact.artifact_kind.clone())).collect::<Vec<_>>()
    };
    let reported = align(&kinds(&own), &kinds(&other)).into_iter().filter_map(|aligned| match aligned {
        Aligned::Both(left, right) if own[left].sha256 == other[right].sha256 => None,
        Aligned::Both(left, right) => Some(artifact((a, Some(own[left])), (b, Some(other[right])))),
        Aligned::A(left) => Some(artifact((a, Some(own[left])), (b, None))),
        Aligned::B(right) => Some(artifact((a, None), (b, Some(other[right])))),
    });
    reported.collect()
}

type MaybeArtifact<'a, 'c> = (&'a Compared<'c>, Option<&'a Artifact>);

fn artifact(a: MaybeArtifact<'_, '_>, b: MaybeArtifact<'_, '_>) -> ArtifactComparison {
    let value = |(compared, artifact): MaybeArtifact<'_, '_>| -> Result<Option<Value>, &'static str> {
        let Some(artifact) = artifact else { return Ok(None) };
        if artifact.bytes > ARTIFACT_BYTES_MAX {
            return Err("too long to be compared field by field");
        }
        let bytes = compared.subject.content.blob(artifact.sha256).ok_or("its content cannot be read")?;
        strict_json::parse(&bytes).map(Some).map_err(|_| "its content is not JSON")
    };
    let difference = match (a.1, b.1) {
        (Some(_), Some(_)) => Difference::Differs,
        (Some(_), None) => Difference::OnlyA,
        (None, _) => Difference::OnlyB,
    };
    let artifact_kind = a.1.or(b.1).map(|artifact| artifact.artifact_kind.clone()).unwrap_or_default();
    let (fields, fields_left_out, not_compared) = match (value(a), value(b)) {
        (Ok(a), Ok(b)) => {
            let (fields, left_out) = diff::fields(a.as_ref(), b.as_ref());
            (fields, left_out, None)
        }
        (Err(reason), _) | (_, Err(reason)) => (Vec::new(), 0, Some(reason.to_owned())),
    };
    ArtifactComparison { artifact_kind, difference, fields, fields_left_out, not_compared }
}

fn assessments(a: Option<&ReachedStep<'_>>, b: Option<&ReachedStep<'_>>) -> Vec<FieldDifference> {
    let value = |step: Option<&ReachedStep<'_>>| -> Option<Value> {
        let attempt = step.and_then(|step| step.attempt).filter(|attempt| !attempt.assessments.is_empty())?;
        let each = attempt.assessments.iter().map(|assessment| {
            let levels = assessment.dimensions.iter().map(|dimension| {
                (dimension.dimension_id.to_string(), Value::from(dimension.level.to_string()))
            });
            (assessment.assessment_id.clone(), Value::Object(levels.collect()))
        });
        Some(Value::Object(each.collect()))
    };
    diff::fields(value(a).as_ref(), value(b).as_ref()).0
}

fn counts(steps: &[StepComparison]) -> DifferenceCounts {
    let of = |wanted: Difference| steps.iter().filter(|step| step.difference == wanted).count() as u64;
    DifferenceCounts {
        shared: of(Difference::Shared),
        same: of(Difference::Same),
        different: of(Difference::Differs),
        only_a: of(Difference::OnlyA),
        only_b: of(Difference::OnlyB),
    }
}

/// Keys whose values differ where the sides end. Values are compared as they are and shown as in a report.
fn context(
    a: &Compared<'_>,
    b: &Compared<'_>,
    (own, other): (&Covered<'_>, &Covered<'_>),
) -> Vec<ContextComparison> {
    let at = |compared: &Compared<'_>, covered: &Covered<'_>| {
        compared.subject.facts.context_at(covered.end.node_id).unwrap_or_default()
    };
    let (left, right) = (at(a, own), at(b, other));
    let (left, right) = (left.as_map(), right.as_map());
    let keys = left.keys().chain(right.keys().filter(|key| !left.contains_key(*key)));
    // The goal is shown with each side.
    let reported = keys.filter(|key| key.as_str() != "goal").filter_map(|key| {
        let (own, other) = (left.get(key), right.get(key));
        let difference = match (own, other) {
            (Some(own), Some(other)) if own == other => return None,
            (Some(_), Some(_)) => Difference::Differs,
            (Some(_), None) => Difference::OnlyA,
            (None, _) => Difference::OnlyB,
        };
        let seen = |compared: &Compared<'_>, value: Option<&Value>| {
            value.map(|value| seen_context_value(key, value, compared.subject.context_values))
        };
        Some(ContextComparison { key: key.clone(), difference, a: seen(a, own), b: seen(b, other) })
    });
    reported.collect()
}

fn gaps(a: (&RunReport, &Covered<'_>), b: (&RunReport, &Covered<'_>)) -> Vec<GapComparison> {
    fn of<'a>((run, covered): (&'a RunReport, &Covered<'_>)) -> Vec<&'a GapReport> {
        let is_here = |gap: &&GapReport| {
            let node = run.nodes.iter().find(|node| node.point == gap.point);
            // A gap at a checkpoint belongs to its step.
            let step = node
                .and_then(|node| if node.kind == NodeKind::Step { Some(node.node_id) } else { node.parent });
            step.is_some_and(|step| covered.steps.iter().any(|other| other.node.node_id == step))
                || gap.point == covered.end.point
        };
        run.gaps.iter().filter(is_here).collect()
    }
    let (own, other) = (of(a), of(b));
    let keys = |gaps: &[&GapReport]| {
        gaps.iter()
            .map(|gap| Some((report_words::plain(&gap.severity), gap.summary.clone())))
            .collect::<Vec<_>>()
    };
    let state = |gap: &GapReport| match gap.state {
        GapReportState::Open => ComparedGapState::Open,
        GapReportState::Resolved { .. } => ComparedGapState::Resolved,
    };
    let reported = align(&keys(&own), &keys(&other)).into_iter().filter_map(|aligned| {
        let (left, right) = match aligned {
            Aligned::Both(left, right) => (Some(own[left]), Some(other[right])),
            Aligned::A(left) => (Some(own[left]), None),
            Aligned::B(right) => (None, Some(other[right])),
        };
        let difference = match (left, right) {
            (Some(left), Some(right)) if left.gap_id == right.gap_id => Difference::Shared,
            (Some(left), Some(right)) if state(left) == state(right) => Difference::Same,
            (Some(_), Some(_)) => Difference::Differs,
            (Some(_), None) => Difference::OnlyA,
            (None, _) => Difference::OnlyB,
        };
        let GapReport { severity, summary, .. } = left.or(right)?;
        let (a, b) = (left.map(state), right.map(state));
        Some(GapComparison { severity: *severity, summary: summary.clone(), difference, a, b })
    });
    reported.collect()
}
