//! An agent's claims compared with what is known: which reported results rest on more than its word (G104), and which
//! are contradicted (G124).
//!
//! Only certain facts are reported. A command counts as the reported one if its line ends with it, because then the
//! line's exit code is the command's; `cargo test | tail` says nothing about the tests.

use serde_json::Value;
use workrail_model::event::EvidenceRecorded;
use workrail_model::evidence::{CheckResult, Evidence, EvidenceGrade, HookObservation, PathList};

use crate::contract::kind_of;
use crate::{edits, evidence};

const VERIFICATION: &str = "wr.verification_report";
const HANDOFF: &str = "wr.coding_handoff";
const HANDOFF_CONTRACT: &str = "wr.contracts.coding_handoff";
/// The number of files that a handoff can name.
const NAMED_FILES_MAX: usize = 20;

/// A known fact about a step.
#[derive(Clone, Copy, Debug)]
pub struct KnownFact<'a> {
    evidence: &'a Evidence,
    /// The host whose hook saw it.
    host: Option<&'a str>,
}

impl<'a> KnownFact<'a> {
    pub fn recorded(record: &'a EvidenceRecorded) -> Self {
        Self { evidence: &record.evidence, host: record.host.as_ref().map(|host| host.as_str()) }
    }

    /// What the engine itself found out in this attempt.
    pub fn checked(evidence: &'a Evidence) -> Self {
        Self { evidence, host: None }
    }

    /// What a hook saw and the next advance will record.
    pub fn waiting(observation: &'a HookObservation) -> Self {
        Self { evidence: observation.evidence(), host: Some(observation.host().as_str()) }
    }
}

/// A result that an agent reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TestClaim<'a> {
    name: &'a str,
    command: Option<&'a str>,
    result: &'a str,
}

impl<'a> TestClaim<'a> {
    fn of(check: &'a Value) -> Option<Self> {
        let member = |name: &str| check.get(name).and_then(Value::as_str);
        Some(Self { name: member("name")?, command: member("command"), result: member("result")? })
    }

    fn says_passed(&self) -> bool {
        self.result == "passed"
    }
}

/// What is known about one claim.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Support {
    /// Only the agent's word.
    Nothing,
    Agrees(EvidenceGrade),
    Contradicts {
        grade: EvidenceGrade,
        fact: String,
    },
}

/// A claim that is known to be wrong, or that has no support where it would have been seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Distinguishes it from others at the same step.
    pub about: String,
    pub text: String,
}

/// How well each check in a report is known, in order; empty for other artifacts.
pub fn grades(artifact: &Value, known: &[KnownFact<'_>]) -> Vec<String> {
    let nothing_passed = why_nothing_passed(known);
    let words = |check: &Value| {
        let claim = TestClaim::of(check);
        match (claim.map(|claim| support(claim, known)), &nothing_passed) {
            (Some(Support::Agrees(grade)), _) => grade.as_str().to_owned(),
            (Some(Support::Contradicts { grade, fact }), _) => contradicted(grade, &fact),
            (Some(Support::Nothing), Some(fact)) if claim.is_some_and(|claim| claim.says_passed()) => {
                contradicted(EvidenceGrade::Observed, fact)
            }
            (Some(Support::Nothing) | None, _) => EvidenceGrade::Claimed.as_str().to_owned(),
        }
    };
    reported_checks(artifact).iter().map(words).collect()
}

fn contradicted(grade: EvidenceGrade, fact: &str) -> String {
    format!("contradicted ({}: {fact})", grade.as_str())
}

/// Whether a step's output says which files changed in the run, so that it is worth looking.
pub fn names_changed_files(contract: &str) -> bool {
    contract == HANDOFF_CONTRACT
}

/// Where artifacts contradict what is known. `changed` is every file that changed since the run began, if that was
/// determined.
pub fn contradictions(
    artifacts: &[Value],
    known: &[KnownFact<'_>],
    changed: Option<&[String]>,
) -> Vec<Contradiction> {
    let tests = artifacts.iter().flat_map(|artifact| test_contradictions(artifact, known));
    let files = artifacts.iter().flat_map(|artifact| {
        changed.map(|changed| file_contradictions(artifact, changed)).unwrap_or_default()
    });
    tests.chain(files).collect()
}

fn reported_checks(artifact: &Value) -> &[Value] {
    let checks = artifact.get("checks").filter(|_| kind_of(artifact) == VERIFICATION);
    checks.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn test_contradictions(artifact: &Value, known: &[KnownFact<'_>]) -> Vec<Contradiction> {
    let claims: Vec<TestClaim<'_>> =
        reported_checks(artifact).iter().filter_map(TestClaim::of).filter(TestClaim::says_passed).collect();
    let wrong = claims.iter().filter_map(|claim| match support(*claim, known) {
        Support::Contradicts { grade, fact } => Some(Contradiction {
            about: claim.name.to_owned(),
            text: format!(
                "Contradicted by what was {}: the report says that {} passed; {fact}.",
                grade.as_str(),
                claim.command.map_or_else(|| format!("\"{}\"", claim.name), |command| format!("`{command}`")),
            ),
        }),
        Support::Nothing | Support::Agrees(_) => None,
    });
    let wrong: Vec<Contradiction> = wrong.collect();
    match wrong.is_empty() && !claims.is_empty() {
        true => nothing_ran(claims.len(), known).into_iter().collect(),
        false => wrong,
    }
}

/// The latest fact about a claim; what the engine ran itself takes precedence over what a hook saw.
fn support(claim: TestClaim<'_>, known: &[KnownFact<'_>]) -> Support {
    let checked = known.iter().rev().find_map(|fact| checked(claim, fact));
    let observed = || known.iter().rev().find_map(|fact| observed(claim, fact));
    let Some((grade, passed, fact)) = checked.or_else(observed) else { return Support::Nothing };
    match (claim.result, passed) {
        ("passed", true) | ("failed", false) => Support::Agrees(grade),
        ("passed", false) => Support::Contradicts { grade, fact },
        // A check that does not count as passed may still have run.
        (_, _) => Support::Nothing,
    }
}

fn checked(claim: TestClaim<'_>, known: &KnownFact<'_>) -> Option<(EvidenceGrade, bool, String)> {
    let Evidence::CheckRun(run) = known.evidence else { return None };
    let argv = run.argv.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(" ");
    let is_same =
        run.name.as_str() == claim.name || claim.command.is_some_and(|claimed| ends_with(claimed, &argv));
    let passed = match &run.outcome {
        CheckResult::Passed(_) => true,
        CheckResult::Failed(_) | CheckResult::TimedOut(_) => false,
        CheckResult::NotRun { .. } => return None,
    };
    is_same.then(|| (EvidenceGrade::Checked, passed, evidence::line(known.evidence)))
}

fn observed(claim: TestClaim<'_>, known: &KnownFact<'_>) -> Option<(EvidenceGrade, bool, String)> {
    let Evidence::CommandRun { command, exit_code: Some(code), .. } = known.evidence else { return None };
    if !claim.command.is_some_and(|claimed| ends_with(command.as_str(), claimed)) {
        return None;
    }
    let fact = format!("the last run that {} saw ended with exit code {code}", hooks(known.host));
    Some((EvidenceGrade::Observed, *code == 0, fact))
}

/// Whether a line's exit code is that of a command: the line ends with it, except for redirections.
fn ends_with(line: &str, command: &str) -> bool {
    let mut line: Vec<&str> = line.split_whitespace().collect();
    while line.last().is_some_and(|word| is_redirection(word)) {
        line.pop();
    }
    let command: Vec<&str> = command.split_whitespace().filter(|word| !is_redirection(word)).collect();
    let Some(before) = line.len().checked_sub(command.len()).filter(|_| !command.is_empty()) else {
        return false;
    };
    // What precedes it must be another command, not part of this one.
    let is_whole = before == 0 || ["&&", ";", "||", "|"].iter().any(|end| line[before - 1].ends_with(end));
    line[before..] == command[..] && (is_whole || is_environment(&line[..before]))
}

/// `2>&1`, `>file`: a word by itself.
fn is_redirection(word: &str) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_digit());
    word.contains('>') && digits.trim_start_matches(['>', '&']).len() < digits.len()
}

/// `NAME=value` before a command.
fn is_environment(words: &[&str]) -> bool {
    let start = words.iter().rposition(|word| ["&&", ";", "||"].iter().any(|end| word.ends_with(end)));
    words[start.map_or(0, |index| index + 1)..].iter().all(|word| word.contains('='))
}

/// Claims without any run that could have shown them, in a chat whose commands would have been seen.
fn nothing_ran(claims: usize, known: &[KnownFact<'_>]) -> Option<Contradiction> {
    let fact = why_nothing_passed(known)?;
    let checks = if claims == 1 { "1 check".to_owned() } else { format!("{claims} checks") };
    Some(Contradiction {
        about: "checks".to_owned(),
        text: format!("Contradicted by what was observed: the report says that {checks} passed; {fact}."),
    })
}

/// Why nothing in this step can have passed, if that is known: the chat is watched, and its hooks saw no command, or only
/// commands that failed.
fn why_nothing_passed(known: &[KnownFact<'_>]) -> Option<String> {
    let watched = known.iter().rev().find(|fact| matches!(fact.evidence, Evidence::ChatWatched))?;
    let ends = known.iter().filter_map(|fact| match fact.evidence {
        Evidence::CommandRun { exit_code, .. } => Some(exit_code.is_none_or(|code| code == 0)),
        Evidence::CheckRun(run) => run.outcome.ended().map(|_| run.outcome.has_passed()),
        Evidence::WorkspaceState(_)
        | Evidence::WorkspaceNotSeen { .. }
        | Evidence::FilesEdited { .. }
        | Evidence::EditRefused { .. }
        | Evidence::CommandRefused { .. }
        | Evidence::SubagentStarted { .. }
        | Evidence::SubagentEnded { .. }
        | Evidence::ChatWatched => None,
    });
    let ends: Vec<bool> = ends.collect();
    let seen = match ends.as_slice() {
        [] => "saw no command in this step",
        all if all.iter().all(|passed| !passed) => "saw only commands that failed in this step",
        _ => return None,
    };
    Some(format!("{} {seen}", hooks(watched.host)))
}

fn hooks(host: Option<&str>) -> String {
    host.map_or_else(|| "a hook".to_owned(), |host| format!("the hooks of {host}"))
}

/// What a handoff says about changed files, compared with the repository (G123).
fn file_contradictions(artifact: &Value, changed: &[String]) -> Vec<Contradiction> {
    let named = artifact.get("filesChanged").filter(|_| kind_of(artifact) == HANDOFF);
    let Some(named) = named.and_then(Value::as_array) else { return Vec::new() };
    let named: Vec<&str> = named.iter().filter_map(Value::as_str).map(path_of).collect();
    let is_named = |file: &&String| named.iter().any(|path| edits::covers(path, file));
    let unchanged = named.iter().filter(|path| !changed.iter().any(|file| edits::covers(path, file)));
    let unchanged = PathList::new(unchanged.copied());
    // A full list may have left files out.
    let unnamed =
        PathList::new(changed.iter().filter(|file| !is_named(file) && named.len() < NAMED_FILES_MAX));
    let statements = [
        (
            "filesChanged.named",
            "`filesChanged` names files that did not change since the run began",
            unchanged,
        ),
        (
            "filesChanged.left_out",
            "files changed since the run began that `filesChanged` does not name",
            unnamed,
        ),
    ];
    let found = statements.into_iter().filter(|(_, _, files)| !files.is_empty());
    found
        .map(|(about, what, files)| Contradiction {
            about: about.to_owned(),
            text: format!("Contradicted by the repository: {what}: {}.", evidence::paths(&files)),
        })
        .collect()
}

/// Agents add remarks after a path: `src/a.rs (new)`, `src/a.rs: the flag`.
fn path_of(named: &str) -> &str {
    let end = named.find([' ', ':', '(']).unwrap_or(named.len());
    named[..end].trim_matches('`')
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use test_case::test_case;
    use workrail_model::text::BoundedText;

    use super::*;

    fn ran(command: &str, exit_code: Option<i32>) -> Evidence {
        Evidence::CommandRun {
            command: BoundedText::clip(command),
            exit_code,
            duration_ms: None,
            output_ref: None,
        }
    }

    fn known(evidence: &[Evidence]) -> Vec<KnownFact<'_>> {
        evidence.iter().map(|evidence| KnownFact { evidence, host: Some("claude-code") }).collect()
    }

    fn report(command: Option<&str>, result: &str) -> Value {
        let mut check = json!({ "name": "tests", "result": result });
        if let Some(command) = command {
            check["command"] = json!(command);
        }
        json!({ "kind": VERIFICATION, "result": "passed", "checks": [check] })
    }

    #[test_case("cargo test", "cargo test", true)]
    #[test_case("cd a && cargo  test", "cargo test", true)]
    #[test_case("cargo test 2>&1", "cargo test", true; "a redirection")]
    #[test_case("CI=1 cargo test", "cargo test", true; "a variable")]
    #[test_case("cargo test | tail", "cargo test", false; "the code is that of tail")]
    #[test_case("cargo test; true", "cargo test", false)]
    #[test_case("cargo test", "test", false; "a part of a word list")]
    #[test_case("cargo test-all", "cargo test", false)]
    #[test_case("echo cargo test", "cargo test", false; "an argument")]
    #[test_case("cargo test", "", false)]
    fn a_line_that_ends_with_a_command_has_its_exit_code(line: &str, command: &str, expected: bool) {
        assert_eq!(ends_with(line, command), expected);
    }

    #[test]
    fn the_last_run_of_the_reported_command_decides() {
        let seen = [ran("cargo test", Some(101)), ran("cargo test", Some(0))];
        assert_eq!(grades(&report(Some("cargo test"), "passed"), &known(&seen)), ["observed"]);
        let seen = [ran("cargo test", Some(0)), ran("cargo test", Some(101))];
        let found = contradictions(&[report(Some("cargo test"), "passed")], &known(&seen), None);
        assert_eq!(
            found[0].text,
            "Contradicted by what was observed: the report says that `cargo test` passed; the last run that the hooks of \
             claude-code saw ended with exit code 101."
        );
        assert_eq!(grades(&report(Some("cargo test"), "failed"), &known(&seen)), ["observed"]);
    }

    #[test]
    fn a_missing_run_contradicts_only_where_the_chat_is_watched() {
        let claim = [report(None, "passed")];
        assert_eq!(contradictions(&claim, &[], None), []);
        assert_eq!(contradictions(&claim, &known(&[ran("ls", None)]), None), []);
        let watched = contradictions(&claim, &known(&[Evidence::ChatWatched]), None);
        assert_eq!(
            watched[0].text,
            "Contradicted by what was observed: the report says that 1 check passed; the hooks of claude-code saw no command \
             in this step."
        );
        let seen = [Evidence::ChatWatched, ran("make", Some(2))];
        assert_eq!(contradictions(&claim, &known(&seen), None).len(), 1);
        let seen = [Evidence::ChatWatched, ran("make", Some(2)), ran("make", None)];
        assert_eq!(contradictions(&claim, &known(&seen), None), [], "one may have passed");
        assert_eq!(contradictions(&[report(None, "skipped")], &known(&[Evidence::ChatWatched]), None), []);
    }

    #[test]
    fn a_row_says_what_the_reply_says_about_a_missing_run() {
        let watched = [Evidence::ChatWatched];
        assert_eq!(
            grades(&report(None, "passed"), &known(&watched)),
            ["contradicted (observed: the hooks of claude-code saw no command in this step)"]
        );
        assert_eq!(grades(&report(None, "failed"), &known(&watched)), ["claimed"]);
        assert_eq!(grades(&report(None, "passed"), &[]), ["claimed"]);
    }

    #[test]
    fn named_files_are_compared_with_the_repository() {
        let handoff = json!({ "kind": HANDOFF, "filesChanged": ["src/a.rs (new)", "docs", "src/gone.rs"] });
        let changed = ["src/a.rs", "docs/x.md", "src/b.rs"].map(str::to_owned);
        let found = contradictions(&[handoff], &[], Some(&changed));
        let texts: Vec<&str> = found.iter().map(|claim| claim.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "Contradicted by the repository: `filesChanged` names files that did not change since the run began: src/gone.rs.",
                "Contradicted by the repository: files changed since the run began that `filesChanged` does not name: src/b.rs.",
            ]
        );
    }
}
