//! A report as Markdown: readable as text, and as a page.
//!
//! What was recorded cannot break out of its place: notes are quoted line by line, artifacts are in a fence
//! longer than any inside, and everything inside a line is escaped.

use workrail_model::approval::Descent;
use workrail_model::event::NodeKind;
use workrail_model::id::NodeId;

use super::graph::{self, Extent, Strokes};
use super::{
    Approval, Artifact, Attempt, Body, BranchReport, Covers, GapStanding, NodeReport, Outcome, Output,
    Report, RunReport, Shown, Span, Standing, Table, elapsed_text, shown, words,
};

/// Everything.
pub fn render(report: &Report) -> String {
    let mut page = Page::default();
    page.heading(1, &title(report));
    page.banner(report);
    page.session(report);
    for run in &report.runs {
        page.run(run);
    }
    if !report.notes.is_empty() {
        page.heading(2, "Notes of the session");
        report.notes.iter().for_each(|output| page.output(output));
    }
    page.finish()
}

/// One point of a run, as `sessions show` prints it.
pub fn render_node(report: &Report, node: NodeId) -> Option<String> {
    let mut found = report.runs.iter().flat_map(|run| run.nodes.iter().map(move |node| (run, node)));
    let (run, node) = found.find(|(_, own)| own.node_id == node)?;
    let mut page = Page::default();
    page.heading(1, &format!("Run {} · {}", run.label, run.workflow.workflow_id));
    page.banner(report);
    page.node(node);
    Some(page.finish())
}

/// What the report is about, in one line.
pub fn title(report: &Report) -> String {
    match (report.runs.as_slice(), report.covers) {
        ([run], _) => {
            let name = run.workflow.name.as_deref().unwrap_or(run.workflow.workflow_id.as_str());
            let goal =
                run.goal.as_deref().map(|goal| format!(": {}", words::one_line(goal))).unwrap_or_default();
            format!("{}{goal}", words::one_line(name))
        }
        ([], _) => "A session of notes".to_owned(),
        (runs, _) => format!("A session of {} runs", runs.len()),
    }
}

/// What is said first of a damaged session, in every rendering.
pub fn damage_text(report: &Report) -> Option<String> {
    let (until, reason) = report.damage()?;
    Some(format!(
        "This session is damaged: {reason}. The report covers the {} events before the damage, which are verified; \
         what came after is missing here.",
        until.get()
    ))
}

#[derive(Debug, Default)]
struct Page {
    text: String,
}

impl Page {
    fn finish(self) -> String {
        format!("{}\n", self.text.trim_end())
    }

    fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    fn heading(&mut self, level: usize, text: &str) {
        self.blank();
        self.line(&format!("{} {}", "#".repeat(level), inline(text)));
        self.blank();
    }

    /// One empty line, and never two.
    fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn fact(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.line(&format!("- {name}: {value}"));
        }
    }

    fn table(&mut self, columns: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
        self.line(&row(columns.iter().map(|column| cell(column)).collect()));
        self.line(&row(columns.iter().map(|_| "---".to_owned()).collect()));
        for cells in rows {
            self.line(&row(cells.iter().map(|text| cell(text)).collect()));
        }
        self.blank();
    }

    fn quote(&mut self, text: &str) {
        for line in words::clean(text).trim_end().lines() {
            self.line(format!("> {line}").trim_end());
        }
        self.blank();
    }

    fn fence(&mut self, language: &str, text: &str) {
        let text = words::clean(text);
        let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
        let fence = "`".repeat((longest + 1).max(3));
        self.line(&format!("{fence}{language}\n{}\n{fence}", text.trim_end()));
        self.blank();
    }

    fn banner(&mut self, report: &Report) {
        if let Some(text) = damage_text(report) {
            self.quote(&format!("**Damaged session.** {}", inline(&text)));
        }
        for remark in &report.remarks {
            self.quote(&format!("**Note.** {}", inline(remark)));
        }
    }

    fn session(&mut self, report: &Report) {
        self.fact("Session", &code(&report.session_id.to_string()));
        if let Covers::Run { run_id } = report.covers {
            self.fact("Covers", &format!("run {} alone", code(&run_id.to_string())));
        }
        self.fact("Time", &span(&report.span));
        for observed in &report.workspace {
            self.fact(&observed.key.replace('_', " "), &code(&observed.value));
        }
        self.fact("Events", &report.events.to_string());
    }

    fn run(&mut self, run: &RunReport) {
        self.heading(2, &format!("Run {}", run.label));
        self.run_facts(run);
        self.heading(3, "Graph");
        let rows = graph::rows(&run.nodes, Extent::Condensed);
        let lines = graph::drawn(&rows, &run.nodes, Strokes::Unicode);
        let lines: Vec<String> = lines.iter().map(|line| format!("{} {}", line.strokes, line.text)).collect();
        self.fence("text", &lines.join("\n"));
        self.of_run(run);
        self.heading(3, "Step by step");
        for node in &run.nodes {
            self.node(node);
        }
    }

    fn run_facts(&mut self, run: &RunReport) {
        let workflow = &run.workflow;
        let version =
            workflow.version.as_deref().map(|version| format!(" {}", inline(version))).unwrap_or_default();
        let name = workflow.name.as_deref().map(|name| format!("{}, ", inline(name))).unwrap_or_default();
        self.fact("Goal", &run.goal.as_deref().map(inline).unwrap_or_default());
        self.fact(
            "Workflow",
            &format!(
                "{name}{}{version}, {}",
                code(workflow.workflow_id.as_str()),
                words::plain(&workflow.source_kind)
            ),
        );
        self.fact("Status", &words::status(run));
        if let (Some(number), Some(count)) = (run.step_number, run.step_count) {
            self.fact("Step", &format!("{number} of {count}"));
        }
        if let Some(parent) = &run.parent {
            self.fact(
                "Started inside",
                &format!("run {} ({})", parent.label, code(&parent.run_id.to_string())),
            );
        }
        self.fact("Time", &span(&run.span));
        self.fact("Counts", &counts(run));
        self.fact("Run id", &code(&run.run_id.to_string()));
        self.fact("Pinned as", &code(&workflow.workflow_hash.digest().to_string()));
    }

    /// What concerns the run as a whole.
    fn of_run(&mut self, run: &RunReport) {
        for table in &run.tables {
            self.heading(3, &table.title);
            self.rows(table);
        }
        if run.branches.len() > 1 {
            self.heading(3, "Branches");
            let heading = ["branch", "from", "steps", "did first", "now at", "why"];
            self.table(&heading, run.branches.iter().map(branch));
        }
        if !run.gaps.is_empty() {
            self.heading(3, "Gaps");
            let rows = run.gaps.iter().map(|gap| {
                let state = match &gap.state {
                    GapStanding::Open => "open".to_owned(),
                    GapStanding::Resolved { summary, node, .. } => format!("resolved at {node}: {summary}"),
                };
                let severity = words::plain(&gap.severity);
                vec![severity, gap.node.to_string(), gap.summary.clone(), words::reason(gap.reason), state]
            });
            self.table(&["severity", "at", "what", "why", "state"], rows);
        }
        if !run.divergences.is_empty() {
            self.heading(3, "Divergences");
            let rows = run.divergences.iter().map(|divergence| {
                let step = divergence.related_step_id.as_ref().map(ToString::to_string).unwrap_or_default();
                vec![
                    divergence.node.to_string(),
                    words::plain(&divergence.reason),
                    divergence.summary.clone(),
                    step,
                ]
            });
            self.table(&["at", "reason", "what", "step"], rows);
        }
        self.heading(3, "Preferences");
        let rows = run.preferences.iter().map(|change| {
            let at = change.at.as_ref().map(shown).unwrap_or_default();
            vec![
                change.node.to_string(),
                words::preferences(change.effective),
                words::actor(change.by).to_owned(),
                at,
            ]
        });
        self.table(&["from", "preferences", "set by", "time"], rows);
        if !run.capabilities.is_empty() {
            self.heading(3, "Capabilities");
            let rows = run.capabilities.iter().map(|seen| {
                let how = words::provenance(&seen.provenance);
                vec![seen.node.to_string(), words::plain(&seen.capability), words::plain(&seen.status), how]
            });
            self.table(&["at", "capability", "status", "how it is known"], rows);
        }
        if !run.context.is_empty() {
            self.heading(3, "Context");
            let rows =
                run.context.iter().map(|entry| vec![entry.key.clone(), words::context_value(&entry.value)]);
            self.table(&["key", "value"], rows);
        }
    }

    fn node(&mut self, node: &NodeReport) {
        self.heading(4, &format!("{}. {}", node.number, words::point(node)));
        self.fact("Point", &code(&node.link));
        if let super::StepReport::Pending { step_id, .. } = &node.step {
            self.fact("Step", &code(step_id.as_str()));
        }
        self.fact("Reached", &reached(node));
        if !node.context_keys.is_empty() {
            let keys: Vec<String> = node.context_keys.iter().map(|key| code(key)).collect();
            self.fact("Context set", &keys.join(", "));
        }
        for approval in &node.approvals {
            self.fact("Approval", &inline(&approved_by(approval)));
        }
        for attempt in &node.attempts {
            self.attempt(attempt);
        }
        if !node.saved.is_empty() {
            self.blank();
            self.line("Saved here:");
            node.saved.iter().for_each(|output| self.output(output));
        }
        if !node.decisions.is_empty() {
            self.blank();
            self.line("Decided by WorkRail:");
            self.blank();
            for decision in &node.decisions {
                self.line(&format!("- {}", inline(&decision.summary)));
            }
        }
        if node.kind == NodeKind::Step && node.attempts.is_empty() && node.standing != Standing::Passed {
            match node.step {
                super::StepReport::Complete => {}
                super::StepReport::Pending { .. } | super::StepReport::Unreadable => {
                    self.blank();
                    self.line("Not completed yet.");
                }
            }
        }
    }

    fn attempt(&mut self, attempt: &Attempt) {
        let mut head = match &attempt.outcome {
            Outcome::Advanced { to_number: Some(number), .. } => {
                format!("**Completed** by {}, on to {number}", words::actor(attempt.by))
            }
            Outcome::Advanced { to_number: None, .. } => {
                format!("**Completed** by {}", words::actor(attempt.by))
            }
            Outcome::Blocked { .. } => format!("**Blocked attempt** of {}", words::actor(attempt.by)),
        };
        head.push_str(&when(attempt));
        self.blank();
        self.line(&head);
        self.blank();
        if let Outcome::Blocked { blockers } = &attempt.outcome {
            for blocker in blockers {
                self.line(&format!(
                    "- {}: {}",
                    code(blocker.code.as_str()),
                    inline(blocker.message.as_str())
                ));
            }
            self.blank();
        }
        for problem in &attempt.problems {
            self.fact("Found wrong", &inline(problem));
        }
        for assessment in &attempt.assessments {
            for dimension in &assessment.dimensions {
                let why = dimension.rationale.as_ref().map(|why| format!(", {}", inline(why.as_str())));
                let level = inline(dimension.level.as_str());
                let value = format!("{} {level}{}", dimension.dimension_id, why.unwrap_or_default());
                self.fact(&format!("Assessed ({})", assessment.assessment_id), &value);
            }
        }
        for consequence in &attempt.consequences {
            self.fact("Asked for in addition", &inline(consequence));
        }
        if !attempt.context_keys.is_empty() {
            let keys: Vec<String> = attempt.context_keys.iter().map(|key| code(key)).collect();
            self.fact("Sent context", &keys.join(", "));
        }
        attempt.outputs.iter().for_each(|output| self.output(output));
    }

    fn output(&mut self, output: &Output) {
        self.blank();
        if output.superseded {
            self.line("Corrected later:");
            self.blank();
        }
        match &output.body {
            Body::Notes { markdown } => self.quote(markdown),
            Body::Artifact { artifact } => self.artifact(artifact),
        }
    }

    fn artifact(&mut self, artifact: &Artifact) {
        self.line(&format!("Artifact {}, {} bytes", code(&artifact.artifact_kind), artifact.bytes));
        self.blank();
        match &artifact.shown {
            Shown::Tables { tables, fields } => {
                for field in fields {
                    self.fact(&inline(&field.name), &inline(&field.text));
                }
                for table in tables {
                    self.blank();
                    self.line(&inline(&table.title));
                    self.blank();
                    self.rows(table);
                }
            }
            // The alternate form indents.
            Shown::Json { value } => self.fence("json", &format!("{value:#}")),
            Shown::Text { text } => self.fence("text", text),
            Shown::Unreadable => self.line("Its content cannot be read."),
        }
    }

    fn rows(&mut self, table: &Table) {
        let columns: Vec<&str> = table.columns.iter().map(String::as_str).collect();
        self.table(&columns, table.rows.iter().cloned());
    }
}

/// What happened in a run, counted.
pub fn counts(run: &RunReport) -> String {
    let counts = &run.counts;
    let named = [
        (counts.advances, "step completed", "steps completed"),
        (counts.blocked_attempts, "blocked attempt", "blocked attempts"),
        (counts.checkpoints, "checkpoint", "checkpoints"),
        // One way through is not a branching.
        (if counts.branches > 1 { counts.branches } else { 0 }, "branch", "branches"),
        (counts.open_gaps, "open gap", "open gaps"),
        (counts.artifacts, "artifact", "artifacts"),
    ];
    let said = named.iter().filter(|(count, ..)| *count > 0).map(|(count, one, many)| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    });
    said.collect::<Vec<_>>().join(", ")
}

/// From when to when, and how long.
pub fn span(span: &Span) -> String {
    let elapsed = span.elapsed_ms.map(|ms| format!(" ({})", elapsed_text(ms))).unwrap_or_default();
    match (&span.from, &span.to) {
        (Some(from), Some(to)) if from == to => shown(from),
        (Some(from), Some(to)) => format!("{} to {}{elapsed}", shown(from), shown(to)),
        (Some(one), None) | (None, Some(one)) => shown(one),
        (None, None) => String::new(),
    }
}

fn branch(branch: &BranchReport) -> Vec<String> {
    let name =
        if branch.preferred { format!("{} (current)", branch.number) } else { branch.number.to_string() };
    let from = branch.from.map(|from| from.to_string()).unwrap_or_default();
    let cause = branch.cause.map(words::cause).unwrap_or_default();
    let stands = format!("{}. {}", branch.last, words::step(&branch.stands_at));
    vec![name, from, branch.steps.to_string(), branch.summary.clone(), stands, cause.to_owned()]
}

fn reached(node: &NodeReport) -> String {
    let at = node.at.as_ref().map(shown);
    let cause = node.reached_by.map(words::cause);
    match (at, cause) {
        (Some(at), Some(cause)) => format!("{at}, {cause}"),
        (Some(at), None) => at,
        (None, Some(cause)) => cause.to_owned(),
        (None, None) => String::new(),
    }
}

/// When an attempt was made, and how long after its point was reached.
pub fn when(attempt: &Attempt) -> String {
    let at = attempt.at.as_ref().map(|at| format!(", {}", shown(at))).unwrap_or_default();
    let after = attempt.elapsed_ms.filter(|ms| *ms > 0).map(|ms| format!(" after {}", elapsed_text(ms)));
    format!("{at}{}", after.unwrap_or_default())
}

/// An approval or rejection in words.
pub fn approved_by(approval: &Approval) -> String {
    let verb = if approval.approved { "approved" } else { "rejected" };
    let at = approval.at.as_ref().map(|at| format!(", {}", shown(at))).unwrap_or_default();
    let note = approval.note.as_deref().map(|note| format!(": {note}")).unwrap_or_default();
    let warning = match approval.descends_from_server {
        Descent::Yes => {
            " — warning: from a terminal of the program that runs the agent, which the agent can use too"
        }
        Descent::No | Descent::Unknown => "",
    };
    format!("{verb} by {} for step {}{at}{note}{warning}", words::actor(approval.by), approval.step_id)
}

/// Text inside a line, with nothing in it that Markdown or HTML would take for itself.
fn inline(text: &str) -> String {
    let mut escaped = String::new();
    for c in words::one_line(text).chars() {
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

/// A table cell: line ends become breaks that every renderer knows.
fn cell(text: &str) -> String {
    let lines = words::clean(text);
    lines.trim().lines().map(inline).collect::<Vec<_>>().join("<br>")
}
