//! An agent's claims compared with what is known: which reported results rest on more than its word (G104), and which
//! are contradicted (G124).
//!
//! Only certain facts are reported. A command counts as the reported one if its line ends with it and it is certain that
//! the line's exit code is the command's; `cargo test | tail` says nothing about the tests.

mod exit_code;
mod files;

use serde_json::Value;
use workrail_model::event::EvidenceRecorded;
use workrail_model::evidence::{CheckResult, Evidence, EvidenceGrade, HookObservation};

use crate::builtins::VERIFICATION_KIND;
use crate::contract::artifact_kind;
use crate::evidence;
use exit_code::{RunResult, ends_with, result_of};

const HANDOFF_CONTRACT: &str = "wr.contracts.coding_handoff";
/// The number of checks that a report can name, and the length of their commands. One with more is invalid, but it may
/// still be recorded, and it is compared while the session is locked.
const CHECKS_MAX: usize = 100;
const COMMAND_BYTES_MAX: usize = 2000;

/// A known fact about a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownFact<'a> {
    evidence: &'a Evidence,
    /// The host whose hook saw it.
    host: Option<&'a str>,
}

impl<'a> KnownFact<'a> {
    pub(crate) fn recorded(record: &'a EvidenceRecorded) -> Self {
        Self { evidence: &record.evidence, host: record.host.as_ref().map(|host| host.as_str()) }
    }

    /// What the engine itself found out in this attempt.
    pub(crate) fn checked(evidence: &'a Evidence) -> Self {
        Self { evidence, host: None }
    }

    /// What a hook saw and the next advance will record.
    pub(crate) fn waiting(observation: &'a HookObservation) -> Self {
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
        let command = member("command").filter(|command| command.len() <= COMMAND_BYTES_MAX);
        Some(Self { name: member("name")?, command, result: member("result")? })
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
pub(crate) struct Contradiction {
    /// Distinguishes it from others at the same step.
    pub(crate) about: String,
    pub(crate) text: String,
}

/// How well each check in a report is known, in order; empty for other artifacts.
pub(crate) fn grades(artifact: &Value, known: &[KnownFact<'_>]) -> Vec<String> {
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
pub(crate) fn contradictions(
    artifacts: &[Value],
    known: &[KnownFact<'_>],
    changed: Option<&[String]>,
) -> Vec<Contradiction> {
    let tests = artifacts.iter().flat_map(|artifact| test_contradictions(artifact, known));
    let files = artifacts.iter().flat_map(|artifact| {
        changed.map(|changed| files::contradictions(artifact, changed)).unwrap_or_default()
    });
    tests.chain(files).collect()
}

fn reported_checks(artifact: &Value) -> &[Value] {
    let checks = artifact.get("checks").filter(|_| artifact_kind(artifact) == VERIFICATION_KIND);
    checks.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn test_contradictions(artifact: &Value, known: &[KnownFact<'_>]) -> Vec<Contradiction> {
    let checks = reported_checks(artifact).iter().take(CHECKS_MAX);
    let claims: Vec<TestClaim<'_>> =
        checks.filter_map(TestClaim::of).filter(TestClaim::says_passed).collect();
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
    // The last line that may have run it decides, also if it says nothing: an earlier result may be out of date.
    let observed = || {
        let mut runs = known.iter().rev().map(|fact| observed(claim, fact));
        match runs.find(|run| !matches!(run, ObservedRun::OtherCommand)) {
            Some(ObservedRun::Ended { passed, fact }) => Some((EvidenceGrade::Observed, passed, fact)),
            Some(ObservedRun::ResultUnknown | ObservedRun::OtherCommand) | None => None,
        }
    };
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

/// What a command line that a hook saw says about a reported command.
enum ObservedRun {
    /// It did not run the command.
    OtherCommand,
    /// It may have run the command, and the result is not known.
    ResultUnknown,
    Ended {
        passed: bool,
        fact: String,
    },
}

fn observed(claim: TestClaim<'_>, known: &KnownFact<'_>) -> ObservedRun {
    let (Evidence::CommandRun { command, exit_code, .. }, Some(claimed)) = (known.evidence, claim.command)
    else {
        return ObservedRun::OtherCommand;
    };
    match result_of(claimed, command.as_str(), *exit_code) {
        None => ObservedRun::OtherCommand,
        Some(RunResult::Unknown) => ObservedRun::ResultUnknown,
        Some(RunResult::Certain(code)) => ObservedRun::Ended {
            passed: code == 0,
            fact: format!("the last run that {} saw ended with exit code {code}", hooks(known.host)),
        },
    }
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
        json!({ "kind": VERIFICATION_KIND, "result": "passed", "checks": [check] })
    }

    /// After `&&` and `||`, only one kind of exit code is certainly that of the last command (G124).
    #[test_case("true || cargo test", 0, &["claimed"]; "the tests did not run")]
    #[test_case("false || cargo test", 1, &["contradicted"]; "the tests ran and failed")]
    #[test_case("cargo fmt --check && cargo test", 1, &["claimed"]; "the format may have failed")]
    #[test_case("cargo fmt --check && CI=1 cargo test", 1, &["claimed"]; "the same with a variable")]
    #[test_case("cargo fmt --check && cargo test", 0, &["observed"]; "both passed")]
    #[test_case("cargo fmt --check; cargo test", 1, &["contradicted"]; "the tests ran in any case")]
    #[test_case("true || CI=1 cargo test 2>&1", 0, &["claimed"]; "the tests did not run, with a redirection")]
    #[test_case("false && echo y | cargo test", 1, &["claimed"]; "the pipeline did not run")]
    #[test_case("true || echo y | cargo test", 0, &["claimed"]; "the pipeline did not run either")]
    #[test_case("echo y | cargo test", 1, &["contradicted"]; "the end of a pipeline")]
    #[test_case("set -o pipefail; false | cargo test", 1, &["claimed"]; "another part may have failed")]
    #[test_case("true # && cargo test", 0, &["claimed"]; "a comment")]
    #[test_case("cd app && cargo test", 101, &["contradicted"]; "the folder is there")]
    #[test_case("cd app && cargo test", 1, &["claimed"]; "the folder may be missing")]
    #[test_case("cd app && cargo build && cargo test", 101, &["claimed"]; "the build may have failed")]
    fn an_exit_code_counts_only_for_a_command_that_certainly_ran(line: &str, code: i32, expected: &[&str]) {
        let seen = [ran(line, Some(code))];
        let report = report(Some("cargo test"), "passed");
        let grades = grades(&report, &known(&seen));
        let first_words: Vec<&str> = grades.iter().filter_map(|grade| grade.split(' ').next()).collect();
        assert_eq!(first_words, expected);
        let is_contradicted = !contradictions(&[report], &known(&seen), None).is_empty();
        assert_eq!(is_contradicted, expected == ["contradicted"]);
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

    /// A later line that may have run the command, or not, leaves nothing certain.
    #[test_case(0, "cargo build && cargo test", Some(1); "the build may have failed")]
    #[test_case(101, "cargo fmt --check && cargo test", Some(1); "the format may have failed")]
    #[test_case(101, "cargo test", None; "no exit code")]
    #[test_case(101, "cargo test 2>&1 | tail -5", Some(0); "a pipe after it")]
    #[test_case(101, "(cd a && cargo test)", Some(0); "a subshell")]
    #[test_case(0, "set -e; cargo fmt --check; cargo test", Some(1); "the shell ends at the first failure")]
    fn an_earlier_result_does_not_count_if_a_later_one_is_uncertain(
        earlier: i32,
        later: &str,
        code: Option<i32>,
    ) {
        let seen = [ran("cargo test", Some(earlier)), ran(later, code)];
        let claim = report(Some("cargo test"), "passed");
        assert_eq!(grades(&claim, &known(&seen)), ["claimed"]);
        assert_eq!(contradictions(&[claim], &known(&seen), None), []);
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
    fn only_as_much_is_compared_as_a_report_can_hold() {
        let seen = [ran("make", Some(2))];
        let check = json!({ "name": "tests", "result": "passed", "command": "make" });
        let report = |checks: Vec<Value>| json!({ "kind": VERIFICATION_KIND, "checks": checks });
        let found = contradictions(&[report(vec![check.clone(); CHECKS_MAX + 1])], &known(&seen), None);
        assert_eq!(found.len(), CHECKS_MAX);
        let mut longest = check;
        longest["command"] = json!(format!("make{}", " ".repeat(COMMAND_BYTES_MAX - 4)));
        assert_eq!(contradictions(&[report(vec![longest.clone()])], &known(&seen), None).len(), 1);
        longest["command"] = json!(format!("make{}", " ".repeat(COMMAND_BYTES_MAX - 3)));
        assert_eq!(contradictions(&[report(vec![longest])], &known(&seen), None), []);
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
}
