//! Reports: everything that happened, the same bytes for the same store, and harmless whatever the notes contain (G76).

use serde_json::json;
use workrail_core::report::sections::FactRole;
use workrail_core::report::{ContextValues, GapReportState, Report, Times, markdown};
use workrail_engine::report::render_html;
use workrail_engine::request::{CheckpointWorkflow, StartWorkflow};
use workrail_model::discovery::Precedence;
use workrail_model::preferences::Mode;
use workrail_model::submission::StepOutput;

use crate::rich::Rich;
use crate::scene::authored;

fn report(rich: &Rich) -> Report {
    rich.scene.engine.report(rich.session, ContextValues::NotShown).unwrap()
}

#[test]
fn a_report_tells_everything_that_happened() {
    let rich = Rich::play("First plan: *everything* at once.");
    insta::assert_snapshot!(markdown::render(&report(&rich), Times::UTC));
}

#[test]
fn a_report_on_a_run_covers_that_run_alone() {
    let rich = Rich::play("Plan.");
    let found = rich.scene.engine.find(&rich.labels[1]).unwrap();
    let report = rich.scene.engine.report(found, ContextValues::NotShown).unwrap();
    assert_eq!(report.runs.len(), 1);
    assert!(report.notes.is_empty());
    insta::assert_snapshot!(markdown::render(&report, Times::UTC));
}

#[test]
fn the_page_is_recorded_whole() {
    let rich = Rich::play("First plan: *everything* at once.");
    let html = render_html(&report(&rich));
    let body = html.split("<body>").nth(1).unwrap();
    // The page is one line; broken between elements it can be compared.
    insta::assert_snapshot!(body.replace("><", ">\n<"));
}

#[test]
fn the_page_and_the_text_show_the_same_facts_and_tables() {
    let rich = Rich::play("Plan.");
    let report = report(&rich);
    let (text, html) = (markdown::render(&report, Times::UTC), render_html(&report));
    for run in &report.runs {
        for fact in run.facts(Times::UTC) {
            assert!(text.contains(&format!("- {}: ", fact.name)), "{}", fact.name);
            let is_badge = fact.role != FactRole::Line;
            assert!(is_badge || html.contains(&format!("<dt>{}</dt>", fact.name)), "{}", fact.name);
        }
        for section in run.sections(Times::UTC) {
            assert!(text.contains(&format!("### {}\n", section.title)), "{}", section.title);
            assert!(html.contains(&format!("<h3>{}</h3>", section.title)), "{}", section.title);
        }
    }
}

#[test]
fn equal_stores_give_equal_bytes() {
    let rich = Rich::play("Plan.");
    let other = rich.scene.reopened();
    let again = other.report(rich.session, ContextValues::NotShown).unwrap();
    assert_eq!(serde_json::to_string(&report(&rich)).unwrap(), serde_json::to_string(&again).unwrap());
    assert_eq!(markdown::render(&report(&rich), Times::UTC), markdown::render(&again, Times::UTC));
    assert_eq!(render_html(&report(&rich)), render_html(&again));
    let replayed = Rich::play("Plan.");
    assert_eq!(render_html(&report(&rich)), render_html(&report(&replayed)));
}

#[test]
fn long_notes_are_reported_in_full() {
    let whole = format!("{} the very end", "word ".repeat(4_000));
    let rich = Rich::play(&whole);
    for text in [markdown::render(&report(&rich), Times::UTC), render_html(&report(&rich))] {
        assert!(text.contains("the very end") && !text.contains("[TRUNCATED]"));
    }
}

#[test]
fn a_secret_never_reaches_a_report() {
    let rich = Rich::play("Plan.");
    let report = rich.scene.engine.report(rich.session, ContextValues::Short).unwrap();
    let all = [
        markdown::render(&report, Times::UTC),
        render_html(&report),
        serde_json::to_string(&report).unwrap(),
    ];
    for text in all {
        assert!(!text.contains("s3cr3t-value") && text.contains("the June release"));
    }
    assert!(markdown::render(&report, Times::UTC).contains("| api\\_token | (withheld) |"));
}

/// G41: a closed gap stays visible, with what closed it.
#[test]
fn a_gap_that_was_closed_says_by_what() {
    let rich = Rich::play("Plan.");
    let steps = json!([{
        "id": "list", "title": "List", "prompt": "List.", "output": { "contractRef": "wr.contracts.changed_files" },
    }]);
    let listing = authored("team.listing", &json!({ "steps": steps }));
    rich.scene.shelf.put(Precedence::Project, "listing.json", &listing);
    let request = StartWorkflow {
        workflow_id: "team.listing".to_owned(),
        mode: Some(Mode::FullAutoNeverStop),
        ..StartWorkflow::default()
    };
    let started = rich.scene.engine.start_workflow(request).unwrap().into_structured();
    let refused = rich.advance(&started, "No list.", Vec::new());
    let refused = rich.advance(&refused, "Still no list.", Vec::new());
    let done = rich.advance(&refused, "No list.", Vec::new());
    let run = rich.scene.engine.find(started["run"]["label"].as_str().unwrap()).unwrap();
    let told = || rich.scene.engine.report(run, ContextValues::NotShown).unwrap();
    let gap = told().runs[0].gaps[0].gap_id;
    let closing = json!({ "kind": "wr.gap_resolution", "gapId": gap, "summary": "Listed in the notes." });
    let request = CheckpointWorkflow {
        checkpoint_token: done["checkpointToken"].as_str().map(str::to_owned),
        output: StepOutput { notes_markdown: None, artifacts: vec![closing] },
        ..CheckpointWorkflow::default()
    };
    rich.scene.engine.checkpoint_workflow(request).unwrap();
    let told = told();
    assert_eq!((told.runs[0].gaps.len(), told.runs[0].counts.open_gaps), (1, 0));
    assert!(
        matches!(&told.runs[0].gaps[0].state, GapReportState::Resolved { summary, .. } if summary == "Listed in the notes.")
    );
    assert!(markdown::render(&told, Times::UTC).contains("resolved at "));
}

/// Elements without an end tag in HTML.
const VOID: [&str; 3] = ["meta", "br", "hr"];

/// Checks that every element is closed where it must be, and returns all start tags.
fn well_formed(html: &str) -> Vec<String> {
    let (mut open, mut starts): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let style_end = html.find("</style>").unwrap();
    let style_start = html.find("<style>").unwrap() + "<style>".len();
    let html = format!("{}{}", &html[..style_start], &html[style_end..]);
    let mut rest = html.as_str();
    while let Some(at) = rest.find('<') {
        let end = rest[at..].find('>').map(|end| at + end).unwrap();
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "before {}", &rest[..rest.len().min(80)]);
            continue;
        }
        starts.push(tag.to_owned());
        let name = tag.split([' ', '\n', '/']).next().unwrap();
        if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name.to_owned());
        }
    }
    assert_eq!(open, [""; 0]);
    starts
}

#[test]
fn whatever_the_notes_contain_the_page_stays_intact_and_loads_nothing() {
    let table = format!("|a|b|\n|-|-|\n{}", "|x|y|\n".repeat(3_000));
    let long = "x".repeat(50_000);
    let hostile = [
        "</div></section></main><script>alert(1)</script>",
        "<img src=https://evil.example/p.png onerror=alert(1)> <a href=javascript:alert(2)>x</a>",
        "[x](javascript:alert(1)) ![y](https://evil.example/q.png) <https://evil.example>",
        "<style>@import 'https://evil.example';</style><link rel=stylesheet href=//evil.example>",
        "\u{1b}[31mred\u{7} \u{202e}txet desrever \u{0}",
        "```\nunclosed fence <script>",
        "\"><svg onload=alert(1)>",
        table.as_str(),
        long.as_str(),
    ];
    for notes in hostile {
        let rich = Rich::play(notes);
        let html = render_html(&report(&rich));
        for tag in well_formed(&html) {
            let name = tag.split([' ', '/']).next().unwrap();
            assert!(
                !["script", "img", "iframe", "link", "object", "embed", "form", "input", "base"]
                    .contains(&name),
                "{tag}"
            );
            for attribute in [" on", "src=", "srcset=", "url(", "javascript:", "action="] {
                assert!(!tag.contains(attribute), "{tag}");
            }
            if let Some(target) = tag.split("href=\"").nth(1) {
                assert!(target.starts_with('#'), "{tag}");
            }
        }
        let text = markdown::render(&report(&rich), Times::UTC);
        for text in [&html, &text] {
            assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
            assert!(!text.contains('\u{202e}'));
        }
        // Notes cannot end their own quotation.
        assert!(
            text.contains("\n#### ") && text.lines().filter(|line| line.starts_with("## Run")).count() == 2
        );
    }
}
