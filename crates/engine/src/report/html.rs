//! A report as one HTML file: no script, nothing loaded, readable on screen and on paper, in light and dark.
//!
//! Text of ours and of others enters through [`escaped`]; notes alone are markup, and `notes.rs` makes them
//! harmless. The page forbids itself everything but its own style.

use std::fmt::Write as _;

use workrail_core::report::markdown::{approved_by, counts, damage_text, span, title, when};
use workrail_core::report::{
    Artifact, Attempt, Body, Covers, GapStanding, NodeReport, Outcome, Output, Report, RunReport, Shown,
    Standing, StepReport, Table, shown, words,
};
use workrail_model::event::NodeKind;
use workrail_model::gap::Severity;
use workrail_model::preferences::RunStatus;

use super::{notes, svg};

const STYLE: &str = include_str!("style.css");
/// Nothing is loaded and nothing runs, whatever a browser finds on the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

pub fn render(report: &Report) -> String {
    let name = escaped(&title(report));
    let mut page = Page::default();
    let _ = write!(
        page.out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{name}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n<h1>{name}</h1>\n"
    );
    page.session(report);
    for (place, run) in report.runs.iter().enumerate() {
        page.run(run, place == 0);
    }
    if !report.notes.is_empty() {
        page.out.push_str("<h2>Notes of the session</h2>\n");
        report.notes.iter().for_each(|output| page.output(output));
    }
    page.out.push_str("<footer>Made by WorkRail from its event log; times are shown as they were recorded, in UTC.</footer>\n");
    page.out.push_str("</main>\n</body>\n</html>\n");
    page.out
}

/// Text as HTML shows it, in content and in quoted attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in words::clean(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

fn code(text: &str) -> String {
    format!("<code>{}</code>", escaped(text))
}

fn anchor(node: &NodeReport) -> String {
    node.node_id.to_string()
}

#[derive(Debug, Default)]
struct Page {
    out: String,
}

impl Page {
    /// Names and values; the values are HTML already.
    fn facts(&mut self, facts: &[(&str, String)]) {
        self.out.push_str("<dl class=\"facts\">\n");
        for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
            let _ = writeln!(self.out, "<dt>{}</dt><dd>{value}</dd>", escaped(name));
        }
        self.out.push_str("</dl>\n");
    }

    fn heading(&mut self, text: &str) {
        let _ = writeln!(self.out, "<h3>{}</h3>", escaped(text));
    }

    /// Cells are HTML already.
    fn table(&mut self, columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        self.out.push_str("<div class=\"scroll\"><table><thead><tr>");
        for column in columns {
            let _ = write!(self.out, "<th>{}</th>", escaped(column));
        }
        self.out.push_str("</tr></thead><tbody>\n");
        for row in rows {
            self.out.push_str("<tr>");
            for cell in row {
                let _ = write!(self.out, "<td>{cell}</td>");
            }
            self.out.push_str("</tr>\n");
        }
        self.out.push_str("</tbody></table></div>\n");
    }

    fn rows(&mut self, table: &Table) {
        let columns: Vec<&str> = table.columns.iter().map(String::as_str).collect();
        self.table(&columns, table.rows.iter().map(|row| row.iter().map(|text| escaped(text)).collect()));
    }

    fn banner(&mut self, class: &str, name: &str, text: &str) {
        let _ = writeln!(self.out, "<div class=\"{class}\"><strong>{name}</strong> {}</div>", escaped(text));
    }

    fn session(&mut self, report: &Report) {
        if let Some(text) = damage_text(report) {
            self.banner("banner", "Damaged session.", &text);
        }
        for remark in &report.remarks {
            self.banner("banner remark", "Note.", remark);
        }
        let covers = match report.covers {
            Covers::Session => String::new(),
            Covers::Run { run_id } => format!("run {} alone", code(&run_id.to_string())),
        };
        let mut facts = vec![
            ("Session", code(&report.session_id.to_string())),
            ("Covers", covers),
            ("Time", span(&report.span)),
        ];
        let observed: Vec<(String, String)> =
            report.workspace.iter().map(|own| (own.key.replace('_', " "), code(&own.value))).collect();
        facts.extend(observed.iter().map(|(key, value)| (key.as_str(), value.clone())));
        facts.push(("Events", report.events.to_string()));
        self.facts(&facts);
    }

    fn run(&mut self, run: &RunReport, is_first: bool) {
        let (class, chip) = (if is_first { " class=\"first\"" } else { "" }, chip(run));
        let _ =
            writeln!(self.out, "<h2{class} id=\"{}\">Run {} {chip}</h2>", run.run_id, escaped(&run.label));
        let workflow = &run.workflow;
        let named = |text: &Option<String>| {
            text.as_deref().map(|text| format!("{} ", escaped(text))).unwrap_or_default()
        };
        let step = match (run.step_number, run.step_count) {
            (Some(number), Some(count)) => format!("{number} of {count}"),
            (Some(_) | None, _) => String::new(),
        };
        let parent = run
            .parent
            .as_ref()
            .map(|parent| format!("run <a href=\"#{}\">{}</a>", parent.run_id, escaped(&parent.label)));
        self.facts(&[
            ("Goal", run.goal.as_deref().map(escaped).unwrap_or_default()),
            (
                "Workflow",
                format!(
                    "{}{}{}({})",
                    named(&workflow.name),
                    named(&workflow.version),
                    code(workflow.workflow_id.as_str()) + " ",
                    words::plain(&workflow.source_kind)
                ),
            ),
            ("Step", step),
            ("Started inside", parent.unwrap_or_default()),
            ("Time", span(&run.span)),
            ("Counts", counts(run)),
            ("Run id", code(&run.run_id.to_string())),
            ("Pinned as", code(&workflow.workflow_hash.digest().to_string())),
        ]);
        self.heading("Graph");
        let drawing = svg::draw(&run.nodes, &anchor);
        let _ = writeln!(self.out, "<div class=\"scroll\">{drawing}</div>");
        self.of_run(run);
        self.heading("Step by step");
        run.nodes.iter().for_each(|node| self.node(node));
    }

    fn of_run(&mut self, run: &RunReport) {
        // Numbers lead to the point they name.
        let at = |number: u64| {
            let node = run.nodes.iter().find(|node| node.number == number);
            node.map_or_else(
                || number.to_string(),
                |node| format!("<a href=\"#{}\">{number}</a>", anchor(node)),
            )
        };
        for table in &run.tables {
            self.heading(&table.title);
            self.rows(table);
        }
        if run.branches.len() > 1 {
            self.heading("Branches");
            let rows = run.branches.iter().map(|branch| {
                let name = if branch.preferred {
                    format!("{} (current)", branch.number)
                } else {
                    branch.number.to_string()
                };
                vec![
                    name,
                    branch.from.map(at).unwrap_or_default(),
                    branch.steps.to_string(),
                    escaped(&branch.summary),
                    format!("{} {}", at(branch.last), escaped(&words::step(&branch.stands_at))),
                    branch.cause.map(words::cause).unwrap_or_default().to_owned(),
                ]
            });
            self.table(&["branch", "from", "steps", "did first", "now at", "why"], rows);
        }
        if !run.gaps.is_empty() {
            self.heading("Gaps");
            let rows = run.gaps.iter().map(|gap| {
                let state = match &gap.state {
                    GapStanding::Open => "<span class=\"warn\">open</span>".to_owned(),
                    GapStanding::Resolved { summary, node, .. } => {
                        format!("<span class=\"good\">resolved</span> at {}: {}", at(*node), escaped(summary))
                    }
                };
                let class = match gap.severity {
                    Severity::Critical => "bad",
                    Severity::Warning => "warn",
                    Severity::Info => "quiet",
                };
                let severity = format!("<span class=\"{class}\">{}</span>", words::plain(&gap.severity));
                vec![severity, at(gap.node), escaped(&gap.summary), words::reason(gap.reason), state]
            });
            self.table(&["severity", "at", "what", "why", "state"], rows);
        }
        if !run.divergences.is_empty() {
            self.heading("Divergences");
            let rows = run.divergences.iter().map(|own| {
                let step = own.related_step_id.as_ref().map(|step| code(step.as_str())).unwrap_or_default();
                vec![at(own.node), words::plain(&own.reason), escaped(&own.summary), step]
            });
            self.table(&["at", "reason", "what", "step"], rows);
        }
        self.heading("Preferences");
        let rows = run.preferences.iter().map(|own| {
            let time = own.at.as_ref().map(shown).unwrap_or_default();
            vec![at(own.node), words::preferences(own.effective), words::actor(own.by).to_owned(), time]
        });
        self.table(&["from", "preferences", "set by", "time"], rows);
        if !run.capabilities.is_empty() {
            self.heading("Capabilities");
            let rows = run.capabilities.iter().map(|own| {
                let how = escaped(&words::provenance(&own.provenance));
                vec![at(own.node), words::plain(&own.capability), words::plain(&own.status), how]
            });
            self.table(&["at", "capability", "status", "how it is known"], rows);
        }
        if !run.context.is_empty() {
            self.heading("Context");
            let rows = run
                .context
                .iter()
                .map(|own| vec![code(&own.key), escaped(&words::context_value(&own.value))]);
            self.table(&["key", "value"], rows);
        }
    }

    fn node(&mut self, node: &NodeReport) {
        let mut class = "node".to_owned();
        if node.standing == Standing::Tip {
            class.push_str(" tip");
        }
        if node.branch != 0 || node.kind == NodeKind::Checkpoint {
            class.push_str(" beside");
        }
        let mark = match (node.standing, &node.step) {
            (Standing::Tip, StepReport::Complete) => "<span class=\"chip good\">complete</span>",
            (Standing::Tip, _) => "<span class=\"chip\">current</span>",
            (Standing::BranchEnd, _) => "<span class=\"chip quiet\">end of a branch</span>",
            (Standing::Passed, _) => "",
        };
        let _ = writeln!(
            self.out,
            "<section class=\"{class}\" id=\"{}\">\n<header><span class=\"no\">{}</span><h4>{}</h4>{mark}</header>",
            anchor(node),
            node.number,
            escaped(&words::point(node))
        );
        let mut meta = Vec::new();
        if let StepReport::Pending { step_id, .. } = &node.step {
            meta.push(format!("step {}", code(step_id.as_str())));
        }
        meta.extend(node.reached_by.map(|cause| words::cause(cause).to_owned()));
        meta.extend(node.at.as_ref().map(|at| format!("reached {}", shown(at))));
        if node.branch != 0 {
            meta.push(format!("branch {}", node.branch));
        }
        meta.push(code(&node.link));
        let _ = writeln!(self.out, "<p class=\"meta\">{}</p>", meta.join(" · "));
        self.keys("Context set", &node.context_keys);
        for approval in &node.approvals {
            let class = if approval.approved { "good" } else { "bad" };
            let _ = writeln!(self.out, "<p class=\"{class}\">{}</p>", escaped(&approved_by(approval)));
        }
        node.attempts.iter().for_each(|attempt| self.attempt(attempt));
        if !node.saved.is_empty() {
            self.out.push_str("<div class=\"attempt\"><p class=\"head\">Saved here</p>\n");
            node.saved.iter().for_each(|output| self.output(output));
            self.out.push_str("</div>\n");
        }
        if !node.decisions.is_empty() {
            self.out.push_str("<div class=\"attempt\"><p class=\"head quiet\">Decided by WorkRail</p>\n<ul class=\"plain quiet\">\n");
            for own in &node.decisions {
                let _ = writeln!(self.out, "<li>{}</li>", escaped(&own.summary));
            }
            self.out.push_str("</ul></div>\n");
        }
        self.out.push_str("</section>\n");
    }

    fn keys(&mut self, name: &str, keys: &[String]) {
        if !keys.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| code(key)).collect();
            let _ = writeln!(self.out, "<p class=\"meta\">{name}: {}</p>", keys.join(", "));
        }
    }

    fn attempt(&mut self, attempt: &Attempt) {
        let by = words::actor(attempt.by);
        let head = match &attempt.outcome {
            Outcome::Advanced { to_node_id, to_number: Some(number) } => {
                format!(
                    "<span class=\"good\">Completed</span> by {by}, on to <a href=\"#{to_node_id}\">{number}</a>"
                )
            }
            Outcome::Advanced { to_number: None, .. } => {
                format!("<span class=\"good\">Completed</span> by {by}")
            }
            Outcome::Blocked { .. } => format!("<span class=\"bad\">Blocked attempt</span> of {by}"),
        };
        let _ = writeln!(self.out, "<div class=\"attempt\"><p class=\"head\">{head}{}</p>", when(attempt));
        let mut items: Vec<String> = Vec::new();
        if let Outcome::Blocked { blockers } = &attempt.outcome {
            items.extend(
                blockers
                    .iter()
                    .map(|own| format!("{} {}", code(own.code.as_str()), escaped(own.message.as_str()))),
            );
        }
        items.extend(attempt.problems.iter().map(|problem| format!("Found wrong: {}", escaped(problem))));
        for assessment in &attempt.assessments {
            items.extend(assessment.dimensions.iter().map(|own| {
                let why = own
                    .rationale
                    .as_ref()
                    .map(|why| format!(", {}", escaped(why.as_str())))
                    .unwrap_or_default();
                format!(
                    "Assessed ({}): {} <strong>{}</strong>{why}",
                    escaped(&assessment.assessment_id),
                    escaped(own.dimension_id.as_str()),
                    escaped(own.level.as_str())
                )
            }));
        }
        items.extend(
            attempt.consequences.iter().map(|own| format!("Asked for in addition: {}", escaped(own))),
        );
        if !items.is_empty() {
            let _ = writeln!(self.out, "<ul class=\"plain\"><li>{}</li></ul>", items.join("</li>\n<li>"));
        }
        self.keys("Sent context", &attempt.context_keys);
        attempt.outputs.iter().for_each(|output| self.output(output));
        self.out.push_str("</div>\n");
    }

    fn output(&mut self, output: &Output) {
        let superseded = if output.superseded { " superseded" } else { "" };
        match &output.body {
            Body::Notes { markdown } => {
                let _ =
                    writeln!(self.out, "<div class=\"notes{superseded}\">{}</div>", notes::render(markdown));
            }
            Body::Artifact { artifact } => {
                let _ = writeln!(self.out, "<div class=\"artifact{superseded}\">");
                self.artifact(artifact);
                self.out.push_str("</div>\n");
            }
        }
    }

    fn artifact(&mut self, artifact: &Artifact) {
        let kind = code(&artifact.artifact_kind);
        let _ = writeln!(self.out, "<p class=\"meta\">Artifact {kind}, {} bytes</p>", artifact.bytes);
        match &artifact.shown {
            Shown::Tables { tables, fields } => {
                let facts: Vec<(&str, String)> =
                    fields.iter().map(|field| (field.name.as_str(), escaped(&field.text))).collect();
                if !facts.is_empty() {
                    self.facts(&facts);
                }
                for table in tables {
                    let _ = writeln!(self.out, "<h5>{}</h5>", escaped(&table.title));
                    self.rows(table);
                }
            }
            Shown::Json { value } => {
                let _ = writeln!(self.out, "<pre>{}</pre>", escaped(&format!("{value:#}")));
            }
            Shown::Text { text } => {
                let _ = writeln!(self.out, "<pre>{}</pre>", escaped(text));
            }
            Shown::Unreadable => self.out.push_str("<p class=\"warn\">Its content cannot be read.</p>\n"),
        }
    }
}

fn chip(run: &RunReport) -> String {
    let class = match run.status {
        Some(RunStatus::Complete) => "good",
        Some(RunStatus::InProgress) => "quiet",
        Some(RunStatus::CompleteWithGaps) => "warn",
        Some(RunStatus::Blocked) | None => "bad",
    };
    format!("<span class=\"chip {class}\">{}</span>", words::status(run))
}
