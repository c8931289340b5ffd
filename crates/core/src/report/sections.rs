//! What every rendering shows of a report: which facts and tables, in which order, under which names.
//!
//! Renderers decide only how it looks. A value is a list of [`TextSpan`]s, so that a renderer can link, colour or
//! quote a part of it without knowing what it means. Texts are as recorded: each renderer escapes them
//! in its own way.

use std::collections::BTreeMap;

use workrail_model::evidence::EvidenceGrade;
use workrail_model::gap::Severity;
use workrail_model::id::{NodeId, RunId};
use workrail_model::preferences::RunStatus;

use super::{
    Attempt, Body, BranchReport, CapabilityReport, Covers, DivergenceReport, Field, GapReport,
    GapReportState, NodeReport, Outcome, PointName, PreferenceReport, Report, ReportedOutput, RunReport,
    Table, Times, branch_letter, words,
};

/// What the run ended with, or has produced so far.
pub const OUTCOME: &str = "Outcome";
pub const ABOUT: &str = "About this report";
pub const GRAPH: &str = "Graph";
pub const BRANCHES: &str = "Branches";
pub const STEPS: &str = "Step by step";
pub const SESSION_NOTES: &str = "Notes of the session";
pub const SAVED: &str = "Saved here";
pub const DECISIONS: &str = "Decided by WorkRail";
pub const CONTEXT_SET: &str = "Context set";
pub const CONTEXT_SENT: &str = "Sent context";
pub const PREFERENCES: &str = "Preferences";
const PREFERENCES_HERE: &str = "Preferences in effect here";
/// What the grades mean, in every rendering.
const GRADES: &str = "claimed: the agent said so; observed: a hook of its host saw it; checked: WorkRail looked or ran it itself. \
                      Status, times, decisions and gaps are WorkRail's own record.";
pub const UNREADABLE_CONTENT: &str = "Its content cannot be read.";

/// The meaning of a colour; renderings without colour lose nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanTone {
    Good,
    Warning,
    Bad,
    Quiet,
    /// Where the run continues.
    Current,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextSpan {
    Text(String),
    Strong(String),
    Toned(SpanTone, String),
    /// A name in its exact spelling.
    Code(String),
    /// A point of the same run.
    Point(PointName),
    /// Another run.
    Run {
        label: String,
        run_id: RunId,
    },
}

/// Where a fact is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactRole {
    Line,
    /// Next to the heading, in renderings that support it.
    Badge(SpanTone),
}

/// A name and its value. Facts without a value are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    pub name: String,
    pub value: Vec<TextSpan>,
    pub role: FactRole,
}

/// A table under a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportSection {
    pub title: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Vec<TextSpan>>>,
}

/// What is shown before everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Banner {
    pub tone: SpanTone,
    pub name: &'static str,
    pub text: String,
}

/// The first line about an attempt: its outcome, then the rest of the sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptHead {
    pub tone: SpanTone,
    pub ending: &'static str,
    pub rest: Vec<TextSpan>,
}

impl Report {
    /// The damage first, then what else a reader must know.
    pub fn banners(&self) -> Vec<Banner> {
        let damage =
            words::damage(self).map(|text| Banner { tone: SpanTone::Bad, name: "Damaged session.", text });
        let remarks = self.remarks.iter().map(|remark| Banner {
            tone: SpanTone::Warning,
            name: "Note.",
            text: remark.clone(),
        });
        damage.into_iter().chain(remarks).collect()
    }

    pub fn facts(&self, times: Times) -> Vec<Fact> {
        let covers = match self.covers {
            Covers::Session => Vec::new(),
            Covers::Run { run_id } => vec![text("run "), code(run_id), text(" alone")],
        };
        let mut facts = vec![
            line("Session", vec![code(self.session_id)]),
            line("Covers", covers),
            line("Time", plain(words::span(&self.span, times))),
        ];
        let observed = |fact: &super::Observed| line(&fact.key.replace('_', " "), vec![code(&fact.value)]);
        facts.extend(self.workspace.iter().map(observed));
        facts.push(line("Events", plain(self.events.to_string())));
        facts.push(line("Grades", plain(GRADES)));
        without_empty(facts)
    }
}

impl RunReport {
    pub fn facts(&self, times: Times) -> Vec<Fact> {
        let step = self.progress.as_ref().map(|progress| plain(progress.to_string())).unwrap_or_default();
        let parent = self.parent.as_ref().map(|parent| {
            vec![text("run "), TextSpan::Run { label: parent.label.clone(), run_id: parent.run_id }]
        });
        without_empty(vec![
            line("Goal", self.goal.clone().map(plain).unwrap_or_default()),
            line("Workflow", self.workflow_line()),
            Fact {
                name: "Status".to_owned(),
                value: plain(words::status(self)),
                role: FactRole::Badge(self.status_tone()),
            },
            line("Closed", words::closed(self, times).map(plain).unwrap_or_default()),
            line("Step", step),
            line("Started inside", parent.unwrap_or_default()),
            line("Started by", self.started_by.clone().map(plain).unwrap_or_default()),
            line("Time", plain(words::span(&self.span, times))),
            line("Counts", plain(words::counts(self))),
            line("Evidence", plain(words::evidence(self))),
            line("Run id", vec![code(self.run_id)]),
            line("Pinned as", vec![code(self.workflow.workflow_hash.digest())]),
        ])
    }

    fn workflow_line(&self) -> Vec<TextSpan> {
        let workflow = &self.workflow;
        let name = workflow.name.as_ref().map(|name| text(&format!("{name}, ")));
        let version = workflow.version.as_ref().map(|version| text(&format!(" {version}")));
        let source = text(&format!(", {}", words::plain(&workflow.source_kind)));
        name.into_iter().chain([code(&workflow.workflow_id)]).chain(version).chain([source]).collect()
    }

    /// The newest notes of a completed step on the branch where the run continues, and that step.
    pub fn outcome(&self) -> Option<(&NodeReport, &ReportedOutput)> {
        let on_branch = self.nodes.iter().rev().filter(|node| node.branch == 0);
        on_branch.into_iter().find_map(|node| {
            let done = |attempt: &&Attempt| matches!(attempt.outcome, Outcome::Advanced { .. });
            let outputs =
                node.attempts.iter().rev().filter(done).flat_map(|attempt| attempt.outputs.iter().rev());
            let is_notes =
                |output: &&ReportedOutput| matches!(output.body, Body::Notes { .. }) && !output.superseded;
            outputs.into_iter().find(is_notes).map(|notes| (node, notes))
        })
    }

    fn status_tone(&self) -> SpanTone {
        match self.status {
            _ if self.is_damaged => SpanTone::Bad,
            Some(RunStatus::Complete) => SpanTone::Good,
            Some(RunStatus::InProgress | RunStatus::Closed) => SpanTone::Quiet,
            Some(RunStatus::CompleteWithGaps) => SpanTone::Warning,
            Some(RunStatus::Blocked) | None => SpanTone::Bad,
        }
    }

    /// The tables about the run as a whole. Empty tables of the engine's own records are left
    /// out; an artifact's table without rows says that there were none.
    pub fn sections(&self, times: Times) -> Vec<ReportSection> {
        let mut sections: Vec<ReportSection> = Vec::new();
        // A single path is not a branching.
        let branches = if self.branches.len() > 1 { self.branches.as_slice() } else { &[] };
        let columns = ["branch", "from", "steps", "first notes", "now at", "started by"];
        sections.push(ReportSection::new(BRANCHES, &columns, branches.iter().map(branch)));
        sections.extend(records(&self.gaps, &self.divergences, &self.preferences, &self.capabilities, times));
        let rows = self
            .context
            .iter()
            .map(|value| vec![vec![code(&value.key)], plain(words::context_value(&value.value))]);
        sections.push(ReportSection::new("Context, as sent", &["key", "value"], rows));
        let filled = sections.into_iter().filter(|section| !section.rows.is_empty());
        // They are derived from artifacts.
        let claimed = |table: &Table| ReportSection {
            title: format!("{} ({})", table.title, EvidenceGrade::Claimed.as_str()),
            ..ReportSection::from(table)
        };
        self.tables.iter().map(claimed).chain(filled).collect()
    }

    /// The tables about one point: what was recorded there, and the preferences in effect there.
    pub fn sections_at(&self, node: &NodeReport, times: Times) -> Vec<ReportSection> {
        let gaps: Vec<GapReport> = self.gaps.iter().filter(|gap| gap.point == node.point).cloned().collect();
        let divergences: Vec<DivergenceReport> =
            self.divergences.iter().filter(|divergence| divergence.point == node.point).cloned().collect();
        let capabilities: Vec<CapabilityReport> =
            self.capabilities.iter().filter(|capability| capability.point == node.point).cloned().collect();
        let above = self.above(node);
        let holds =
            self.preferences.iter().rev().find(|preference| above.contains(&&preference.point)).cloned();
        let preferences: Vec<PreferenceReport> = holds.into_iter().collect();
        let mut sections = records(&gaps, &divergences, &preferences, &capabilities, times);
        for section in sections.iter_mut().filter(|section| section.title == PREFERENCES) {
            section.title = PREFERENCES_HERE.to_owned();
        }
        sections.retain(|section| !section.rows.is_empty());
        sections
    }

    /// The points from a point up to the root, including itself.
    fn above(&self, node: &NodeReport) -> Vec<&PointName> {
        let by_id: BTreeMap<NodeId, &NodeReport> =
            self.nodes.iter().map(|node| (node.node_id, node)).collect();
        let mut above = Vec::new();
        let mut next = by_id.get(&node.node_id);
        while let Some(own) = next {
            above.push(&own.point);
            next = own.parent.and_then(|parent| by_id.get(&parent));
        }
        above
    }
}

/// The tables of what is recorded at points.
fn records(
    gaps: &[GapReport],
    divergences: &[DivergenceReport],
    preferences: &[PreferenceReport],
    capabilities: &[CapabilityReport],
    times: Times,
) -> Vec<ReportSection> {
    let rows = divergences.iter().map(|divergence| {
        let step = divergence.related_step_id.as_ref().map(code);
        vec![
            at(&divergence.point),
            plain(words::plain(&divergence.reason)),
            plain(&divergence.summary),
            step.into_iter().collect(),
        ]
    });
    let divergences = ReportSection::new("Divergences (claimed)", &["at", "reason", "what", "step"], rows);
    let rows = preferences.iter().map(|preference| {
        let time = preference.at.as_ref().map(|at| times.shown(at)).unwrap_or_default();
        let values = words::preferences(preference.effective);
        let by = match &preference.signature {
            None => words::actor(preference.by).to_owned(),
            Some(signature) => format!("{} ({})", words::actor(preference.by), signature.briefly()),
        };
        vec![at(&preference.point), plain(values), plain(by), plain(time)]
    });
    let preferences = ReportSection::new(PREFERENCES, &["from", "preferences", "set by", "time"], rows);
    let rows = capabilities.iter().map(|report| {
        let (capability, status) = (words::plain(&report.capability), words::plain(&report.status));
        vec![
            at(&report.point),
            plain(capability),
            plain(status),
            plain(words::provenance(&report.provenance)),
        ]
    });
    let capabilities =
        ReportSection::new("Capabilities", &["at", "capability", "status", "how it is known"], rows);
    let gaps = ReportSection::new("Gaps", &["severity", "at", "what", "why", "state"], gaps.iter().map(gap));
    vec![gaps, divergences, preferences, capabilities]
}

impl ReportSection {
    pub(crate) fn new(title: &str, columns: &[&str], rows: impl Iterator<Item = Vec<Vec<TextSpan>>>) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { title: title.to_owned(), columns, rows: rows.collect() }
    }
}

impl From<&Field> for Fact {
    fn from(field: &Field) -> Self {
        line(&field.name, plain(&field.text))
    }
}

impl From<&Table> for ReportSection {
    fn from(table: &Table) -> Self {
        let row = |row: &Vec<String>| row.iter().map(plain).collect();
        Self {
            title: table.title.clone(),
            columns: table.columns.clone(),
            rows: table.rows.iter().map(row).collect(),
        }
    }
}

impl Attempt {
    pub fn head(&self, times: Times) -> AttemptHead {
        let by = words::caused(words::actor(self.by), self.who.as_deref());
        let (tone, ending, mut rest) = match &self.outcome {
            Outcome::Advanced { to_point: Some(point), .. } => (
                SpanTone::Good,
                "Completed",
                vec![text(&format!(" by {by}, on to ")), TextSpan::Point(point.clone())],
            ),
            Outcome::Advanced { to_point: None, .. } => {
                (SpanTone::Good, "Completed", plain(format!(" by {by}")))
            }
            Outcome::Blocked { .. } => (SpanTone::Bad, "Blocked attempt", plain(format!(" of {by}"))),
        };
        rest.push(TextSpan::Text(words::when(self, times)));
        AttemptHead { tone, ending, rest }
    }

    /// What was found about the attempt: blockers, problems, assessments and their consequences.
    pub fn findings(&self) -> Vec<Vec<TextSpan>> {
        let blockers = match &self.outcome {
            Outcome::Blocked { blockers } => blockers.as_slice(),
            Outcome::Advanced { .. } => &[],
        };
        let mut findings: Vec<Vec<TextSpan>> = Vec::new();
        findings.extend(blockers.iter().map(|blocker| {
            let message = ticked(&format!(": {}", blocker.message));
            std::iter::once(code(blocker.code.as_str())).chain(message).collect()
        }));
        findings.extend(self.problems.iter().map(|problem| ticked(&format!("Found wrong: {problem}"))));
        for assessment in &self.assessments {
            findings.extend(assessment.dimensions.iter().map(|dimension| {
                let grade = assessment.grade.as_str();
                let name = text(&format!(
                    "Assessed ({}, {grade}): {} ",
                    assessment.assessment_id, dimension.dimension_id
                ));
                let why = dimension.rationale.as_ref().map(|why| text(&format!(", {why}")));
                [name, TextSpan::Strong(dimension.level.to_string())].into_iter().chain(why).collect()
            }));
        }
        findings.extend(self.evidence.iter().map(|fact| {
            let seen_by = fact.host.as_ref().map(|host| format!(" by {host}")).unwrap_or_default();
            let grade = match fact.grade {
                EvidenceGrade::Claimed => "Claimed",
                EvidenceGrade::Observed => "Observed",
                EvidenceGrade::Checked => "Checked",
            };
            vec![TextSpan::Strong(grade.to_owned()), text(&format!("{seen_by}: {}", fact.summary))]
        }));
        findings.extend(
            self.consequences
                .iter()
                .map(|consequence| plain(format!("Asked for in addition: {consequence}"))),
        );
        findings
    }
}

impl ReportedOutput {
    /// What it is and how it is known (G130).
    pub fn caption(&self) -> Vec<TextSpan> {
        let grade = self.grade.as_str();
        match &self.body {
            Body::Notes { .. } => plain(format!("Notes, {grade}")),
            Body::Artifact { artifact } => vec![
                text("Artifact "),
                code(&artifact.artifact_kind),
                text(&format!(", {} bytes, {grade}", artifact.bytes)),
            ],
        }
    }
}

/// Context keys, one after the other.
pub fn keys(keys: &[String]) -> Vec<TextSpan> {
    let separated = keys.iter().enumerate().flat_map(|(index, key)| {
        let comma = (index > 0).then(|| text(", "));
        comma.into_iter().chain([code(key)])
    });
    separated.collect()
}

fn branch(branch: &BranchReport) -> Vec<Vec<TextSpan>> {
    let current = if branch.preferred { " (current)" } else { "" };
    vec![
        plain(format!("{}{current}", branch_letter(branch.number))),
        branch.from.as_ref().map(at).unwrap_or_default(),
        plain(branch.steps.to_string()),
        plain(&branch.summary),
        vec![TextSpan::Point(branch.last.clone()), text(&format!(". {}", words::step(&branch.current_step)))],
        branch.cause.map(words::cause).map(plain).unwrap_or_default(),
    ]
}

fn gap(gap: &GapReport) -> Vec<Vec<TextSpan>> {
    let tone = match gap.severity {
        Severity::Critical => SpanTone::Bad,
        Severity::Warning => SpanTone::Warning,
        Severity::Info => SpanTone::Quiet,
    };
    let state = match &gap.state {
        GapReportState::Open => vec![TextSpan::Toned(SpanTone::Warning, "open".to_owned())],
        GapReportState::Resolved { summary, point, .. } => vec![
            TextSpan::Toned(SpanTone::Good, "resolved".to_owned()),
            text(" at "),
            TextSpan::Point(point.clone()),
            text(&format!(": {summary}")),
        ],
    };
    vec![
        vec![TextSpan::Toned(tone, words::plain(&gap.severity))],
        at(&gap.point),
        plain(&gap.summary),
        plain(words::reason(gap.reason)),
        state,
    ]
}

fn without_empty(mut facts: Vec<Fact>) -> Vec<Fact> {
    facts.retain(|fact| !fact.value.is_empty());
    facts
}

fn line(name: &str, value: Vec<TextSpan>) -> Fact {
    Fact { name: name.to_owned(), value, role: FactRole::Line }
}

/// A value that is one text; empty if there is none.
pub(crate) fn plain(text: impl Into<String>) -> Vec<TextSpan> {
    Some(text.into()).filter(|text| !text.is_empty()).map(TextSpan::Text).into_iter().collect()
}

/// One of our texts, with names in backticks. With an odd number of them, one is quoted text, so none is interpreted.
pub fn ticked(prose: &str) -> Vec<TextSpan> {
    let parts: Vec<&str> = prose.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return plain(prose);
    }
    let spans = parts.iter().enumerate().filter(|(_, part)| !part.is_empty());
    spans.map(|(index, part)| if index % 2 == 1 { code(part) } else { text(part) }).collect()
}

fn text(text: &str) -> TextSpan {
    TextSpan::Text(text.to_owned())
}

fn code(name: impl ToString) -> TextSpan {
    TextSpan::Code(name.to_string())
}

fn at(point: &PointName) -> Vec<TextSpan> {
    vec![TextSpan::Point(point.clone())]
}
