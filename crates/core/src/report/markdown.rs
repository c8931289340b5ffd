//! A report as Markdown, readable both as text and rendered.
//!
//! Recorded text cannot break the structure around it: notes are quoted line by line, artifacts are in a fence
//! longer than any inside, and everything inside a line is escaped.

use workrail_model::event::NodeKind;
use workrail_model::id::NodeId;
use workrail_model::text::clean;

use super::graph::{self, GraphDetail, Strokes};
use super::sections::{self, Fact, ReportSection, TextSpan};
use super::{
    Artifact, ArtifactView, Attempt, Body, BranchPosition, NodeReport, Report, ReportedOutput, RunReport,
    StepReport, Times, words,
};

/// The whole report.
pub fn render(report: &Report, times: Times) -> String {
    let mut page = MarkdownPage { text: String::new(), times };
    page.heading(1, &words::title(report));
    page.banners(report);
    page.facts(&report.facts(times));
    for run in &report.runs {
        page.run(run);
    }
    if !report.notes.is_empty() {
        page.heading(2, sections::SESSION_NOTES);
        report.notes.iter().for_each(|output| page.output(output));
    }
    page.finish()
}

/// One point of a run, as `workrail show` prints it.
pub fn render_node(report: &Report, node: NodeId, times: Times) -> Option<String> {
    let mut found = report.runs.iter().flat_map(|run| run.nodes.iter().map(move |node| (run, node)));
    let (run, node) = found.find(|(_, other)| other.node_id == node)?;
    let mut page = MarkdownPage { text: String::new(), times };
    page.heading(1, &format!("Run {} · {}", run.label, run.workflow.workflow_id));
    page.banners(report);
    page.node(node);
    Some(page.finish())
}

#[derive(Debug)]
struct MarkdownPage {
    text: String,
    times: Times,
}

impl MarkdownPage {
    fn finish(self) -> String {
        format!("{}\n", self.text.trim_end())
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn heading(&mut self, level: usize, text: &str) {
        self.blank();
        self.line(&format!("{} {}", "#".repeat(level), inline_text(text)));
        self.blank();
    }

    /// One empty line, never two.
    fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn facts(&mut self, facts: &[Fact]) {
        for fact in facts {
            self.fact(&fact.name, &inline(&fact.value));
        }
    }

    fn fact(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.line(&format!("- {name}: {value}"));
        }
    }

    fn keys(&mut self, name: &str, keys: &[String]) {
        self.fact(name, &inline(&sections::keys(keys)));
    }

    fn table(&mut self, section: &ReportSection) {
        let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        self.line(&row(section.columns.iter().map(|column| cell(&sections::plain(column))).collect()));
        self.line(&row(section.columns.iter().map(|_| "---".to_owned()).collect()));
        for cells in &section.rows {
            self.line(&row(cells.iter().map(|spans| cell(spans)).collect()));
        }
        self.blank();
    }

    fn quote(&mut self, text: &str) {
        for line in clean(text).trim_end().lines() {
            self.line(format!("> {line}").trim_end());
        }
        self.blank();
    }

    fn fence(&mut self, language: &str, text: &str) {
        let text = clean(text);
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat((longest + 1).max(3));
        self.line(&format!("{fence}{language}\n{}\n{fence}", text.trim_end()));
        self.blank();
    }

    fn banners(&mut self, report: &Report) {
        for banner in report.banners() {
            self.quote(&format!("**{}** {}", banner.name, inline_text(&banner.text)));
        }
    }

    fn run(&mut self, run: &RunReport) {
        self.heading(2, &format!("Run {}", run.label));
        self.facts(&run.facts(self.times));
        self.heading(3, sections::GRAPH);
        let rows = graph::rows(&run.nodes, GraphDetail::Condensed);
        let lines = graph::drawn(&rows, &run.nodes, Strokes::Unicode);
        let lines: Vec<String> = lines.iter().map(|line| format!("{} {}", line.strokes, line.text)).collect();
        self.fence("text", &lines.join("\n"));
        for section in run.sections(self.times) {
            self.heading(3, &section.title);
            self.table(&section);
        }
        self.heading(3, sections::STEPS);
        for node in &run.nodes {
            self.node(node);
        }
    }

    fn node(&mut self, node: &NodeReport) {
        self.heading(4, &format!("{}. {}", node.point, words::point(node)));
        self.fact("Point", &code(&node.link));
        if let StepReport::Pending { step_id, .. } = &node.step {
            self.fact("Step", &code(step_id.as_str()));
        }
        self.fact("Reached", &reached(node, self.times));
        self.keys(sections::CONTEXT_SET, &node.context_keys);
        for approval in &node.approvals {
            self.fact("Decision", &inline_text(&words::approval(approval, self.times)));
        }
        for attempt in &node.attempts {
            self.attempt(attempt);
        }
        if !node.saved.is_empty() {
            self.blank();
            self.line(&format!("{}:", sections::SAVED));
            node.saved.iter().for_each(|output| self.output(output));
        }
        if !node.decisions.is_empty() {
            self.blank();
            self.line(&format!("{}:", sections::DECISIONS));
            self.blank();
            for decision in &node.decisions {
                self.line(&format!("- {}", inline_text(&decision.summary)));
            }
        }
        if node.kind == NodeKind::Step
            && node.attempts.is_empty()
            && node.branch_position != BranchPosition::Passed
        {
            match node.step {
                StepReport::Complete => {}
                StepReport::Pending { .. } | StepReport::Unreadable => {
                    self.blank();
                    self.line("Not completed yet.");
                }
            }
        }
    }

    fn attempt(&mut self, attempt: &Attempt) {
        let head = attempt.head(self.times);
        self.blank();
        let spans: Vec<TextSpan> =
            [TextSpan::Strong(head.ending.to_owned())].into_iter().chain(head.rest).collect();
        self.line(&inline(&spans));
        self.blank();
        for finding in attempt.findings() {
            self.line(&format!("- {}", inline(&finding)));
        }
        self.keys(sections::CONTEXT_SENT, &attempt.context_keys);
        attempt.outputs.iter().for_each(|output| self.output(output));
    }

    fn output(&mut self, output: &ReportedOutput) {
        self.blank();
        if output.superseded {
            self.line("Corrected later:");
            self.blank();
        }
        self.line(&inline(&output.caption()));
        self.blank();
        match &output.body {
            Body::Notes { markdown } => self.quote(markdown),
            Body::Artifact { artifact } => self.artifact(artifact),
        }
    }

    fn artifact(&mut self, artifact: &Artifact) {
        match &artifact.shown {
            ArtifactView::Tables { tables, fields } => {
                for field in fields {
                    self.fact(&inline_text(&field.name), &inline_text(&field.text));
                }
                for table in tables {
                    self.blank();
                    self.line(&inline_text(&table.title));
                    self.blank();
                    self.table(&table.into());
                }
            }
            ArtifactView::Json { value } => self.fence("json", &words::json(value)),
            ArtifactView::Text { text } => self.fence("text", text),
            ArtifactView::Unreadable => self.line(sections::UNREADABLE_CONTENT),
        }
    }
}

fn reached(node: &NodeReport, times: Times) -> String {
    let at = node.at.as_ref().map(|at| times.shown(at));
    let cause = node.reached_by.map(words::cause);
    match (at, cause) {
        (Some(at), Some(cause)) => format!("{at}, {cause}"),
        (Some(at), None) => at,
        (None, Some(cause)) => cause.to_owned(),
        (None, None) => String::new(),
    }
}

/// How names are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameStyle {
    Code,
    /// In a table a bar ends the cell, and inside code not every reader can unescape it.
    Text,
}

/// Spans as Markdown, with white space as it was recorded.
fn spelled(spans: &[TextSpan], style: NameStyle) -> String {
    let mut out = String::new();
    for span in spans {
        match span {
            TextSpan::Text(text) | TextSpan::Toned(_, text) => out.push_str(&escaped(text)),
            TextSpan::Strong(text) => out.push_str(&format!("**{}**", inline_text(text))),
            TextSpan::Code(name) => match style {
                NameStyle::Code => out.push_str(&code(name)),
                NameStyle::Text => out.push_str(&escaped(name)),
            },
            TextSpan::Point(name) => out.push_str(&name.to_string()),
            TextSpan::Run { label, run_id } => {
                out.push_str(&format!("{} ({})", escaped(label), code(&run_id.to_string())));
            }
        }
    }
    out
}

/// Spans as one line.
fn inline(spans: &[TextSpan]) -> String {
    joined(&spelled(spans, NameStyle::Code))
}

fn inline_text(text: &str) -> String {
    joined(&escaped(text))
}

/// A table cell: line breaks become breaks that every renderer knows.
fn cell(spans: &[TextSpan]) -> String {
    let lines = spelled(spans, NameStyle::Text);
    lines.trim().lines().map(joined).collect::<Vec<_>>().join("<br>")
}

fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Text with everything escaped that Markdown or HTML would interpret.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in clean(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#' | '~' | '&' | '!') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

/// A name as it is spelled.
fn code(text: &str) -> String {
    let text = words::one_line(text).replace('`', "'");
    format!("`{text}`")
}
