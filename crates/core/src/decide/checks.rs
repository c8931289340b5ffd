//! What the step's checks found, and whether its result is known well enough (G107, G120).

use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer};
use workrail_model::compiled::{CheckRequest, CompiledStep, RequiredGrade};
use workrail_model::digest::Sha256;
use workrail_model::evidence::{
    CheckResult, CheckRun, EndedCheck, EndedProcess, Evidence, NotRunReason, ProcessEnding, TreeInspection,
};
use workrail_model::id::{AttemptId, NodeId};
use workrail_model::limits::{EVIDENCE_ARGUMENT_BYTES_MAX, EVIDENCE_ARGUMENTS_MAX, EVIDENCE_TAIL_BYTES_MAX};
use workrail_model::name::{CheckName, ContractRef};
use workrail_model::plan::Attachment;
use workrail_model::reason::{ContractViolation, Reason};
use workrail_model::reply::{Warning, WarningCode};
use workrail_model::snapshot::PendingStep;
use workrail_model::text::BoundedText;

use super::advance::PreparedAttempt;
use super::evidence::EvidenceDemand;
use crate::evidence::{self, not_run};
use crate::interpret::{CRITERIA_REF, Finding, UnprovenClaim};
use crate::label::RunLabel;
use crate::project::SessionState;

/// A check of the step, when the advance is decided.
#[derive(Clone, Debug)]
pub enum CheckStatus {
    /// It ran for this attempt, or was not run.
    Run { run: CheckRun, output: Option<Attachment> },
    /// It passed in an attempt that this one retries, and nothing has changed since.
    PassedBefore(CheckRun),
}

impl CheckStatus {
    /// A check that was not run.
    pub fn not_run(name: CheckName, argv: &[String], reason: NotRunReason) -> Self {
        let run = CheckRun { name, argv: recorded_argv(argv), outcome: CheckResult::NotRun { reason } };
        Self::Run { run, output: None }
    }

    /// A check that ran, judged by what the step expects. Its output is moved to the content store if the event
    /// cannot hold it.
    pub fn ended(
        request: &CheckRequest,
        argv: &[String],
        process: &EndedProcess,
        trees: (Option<Sha256>, Option<Sha256>),
    ) -> Self {
        let text = process.output.text();
        let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(EVIDENCE_TAIL_BYTES_MAX))..];
        let output = (tail.len() < text.len()).then(|| Attachment::blob(text.as_bytes().to_vec()));
        let exit_code = match process.ending {
            ProcessEnding::Exited(code) => Some(code),
            ProcessEnding::Signalled | ProcessEnding::TimedOut => None,
        };
        let ended = EndedCheck {
            exit_code,
            duration_ms: process.duration_ms,
            confinement: process.confinement,
            tail: BoundedText::clip(tail),
            output_bytes: process.output.total(),
            output_ref: output.as_ref().map(Attachment::blob_ref),
            tree_before: trees.0,
            tree_after: trees.1,
        };
        let outcome = match process.ending {
            ProcessEnding::TimedOut => CheckResult::TimedOut(ended),
            ProcessEnding::Exited(code) if code == i32::from(request.expect.exit_code) => {
                CheckResult::Passed(ended)
            }
            ProcessEnding::Exited(_) | ProcessEnding::Signalled => CheckResult::Failed(ended),
        };
        let run = CheckRun { name: request.command.clone(), argv: recorded_argv(argv), outcome };
        Self::Run { run, output }
    }

    pub(crate) fn run(&self) -> &CheckRun {
        match self {
            Self::Run { run, .. } | Self::PassedBefore(run) => run,
        }
    }
}

/// The argv as recorded. Arguments that do not fit were refused when the checks file was read.
fn recorded_argv(argv: &[String]) -> Vec<BoundedText<EVIDENCE_ARGUMENT_BYTES_MAX>> {
    argv.iter().take(EVIDENCE_ARGUMENTS_MAX).map(|argument| BoundedText::clip(argument)).collect()
}

/// The newest run of each check in the attempts that this one retries, if it passed.
pub fn passes_in_chain(facts: &SessionState, node: NodeId, attempt: AttemptId) -> Vec<CheckRun> {
    let retried = facts.retry_chain(node, attempt);
    let of_chain = facts
        .evidence(node)
        .iter()
        .filter(|recorded| recorded.data.attempt_id.is_some_and(|attempt| retried.contains(&attempt)));
    let mut newest: Vec<CheckRun> = Vec::new();
    for run in of_chain.filter_map(|recorded| recorded.data.evidence.check_run()) {
        newest.retain(|other| other.name != run.name);
        newest.push(run.clone());
    }
    newest.retain(|run| run.outcome.has_passed());
    newest
}

/// Whether a pass is still valid: the same command on an unchanged tree would give the same result. If the tree is
/// unknown, nothing is carried over.
pub fn still_holds(run: &CheckRun, name: &CheckName, argv: &[String], tree: Option<Sha256>) -> bool {
    let CheckResult::Passed(ended) = &run.outcome else { return false };
    run.name == *name
        && run.argv == recorded_argv(argv)
        && tree.is_some()
        && ended.tree_before == tree
        && ended.tree_after == tree
}

/// Whether only a person can get the check to run.
fn is_for_people(reason: NotRunReason) -> bool {
    match reason {
        NotRunReason::Untrusted | NotRunReason::NotHere => true,
        NotRunReason::NoWorkspace
        | NotRunReason::Undefined
        | NotRunReason::InvalidFile
        | NotRunReason::ProgramMissing
        | NotRunReason::OutsideWorkspace
        | NotRunReason::NotStarted => false,
    }
}

const LOCAL_SERVER_NEEDED: &str = "Ask the user to connect you through `workrail mcp` on the machine of the repository. \
                                   With the same store, this run continues there.";

/// The next step after a check that was not run.
fn next_step(reason: NotRunReason, label: &str) -> String {
    match reason {
        NotRunReason::Untrusted => format!(
            "Ask the user to run `workrail trust --run {label}` in the workspace. It is for people: do not run it yourself."
        ),
        NotRunReason::Undefined => {
            "Ask the user to define it; `workrail trust propose` writes a `.workrail/checks.toml` to start from.".to_owned()
        }
        NotRunReason::InvalidFile => "`workrail trust` says what is wrong with the file.".to_owned(),
        NotRunReason::ProgramMissing => "Install the program, or ask the user to correct the check.".to_owned(),
        NotRunReason::OutsideWorkspace => {
            "Ask the user to name a directory below the root of the workspace.".to_owned()
        }
        NotRunReason::NoWorkspace => "Send `workspacePath` with the call.".to_owned(),
        NotRunReason::NotStarted => "Run the command yourself to see why, and tell the user.".to_owned(),
        NotRunReason::NotHere => {
            "Checks run only where the workspace is, with `workrail mcp` on that machine.".to_owned()
        }
    }
}

impl PreparedAttempt<'_> {
    fn step(&self) -> Option<&CompiledStep> {
        self.command.workflow.step(&self.pending.step_id)
    }

    fn label(&self) -> String {
        RunLabel::of(self.node.run_id).to_string()
    }

    pub(super) fn checks(&self) -> impl Iterator<Item = &CheckRun> {
        self.command.evidence.checks.iter().map(CheckStatus::run)
    }

    /// Checks of the step without a result.
    fn not_run(&self) -> impl Iterator<Item = (&CheckName, NotRunReason)> {
        let requests = self.step().map(|step| step.checks.as_slice()).unwrap_or_default();
        requests.iter().filter_map(move |request| {
            match self.checks().find(|run| run.name == request.command).map(|run| &run.outcome) {
                Some(CheckResult::NotRun { reason }) => Some((&request.command, *reason)),
                Some(CheckResult::Passed(_) | CheckResult::Failed(_) | CheckResult::TimedOut(_)) => None,
                None => Some((&request.command, NotRunReason::NotStarted)),
            }
        })
    }

    /// Checks that ran and did not pass (G120).
    fn failed_checks(&self) -> impl Iterator<Item = &CheckRun> {
        self.checks().filter(|run| match run.outcome {
            CheckResult::Failed(_) | CheckResult::TimedOut(_) => true,
            CheckResult::Passed(_) | CheckResult::NotRun { .. } => false,
        })
    }

    /// One finding for all failed checks, so that they become one gap in a mode that never stops.
    pub(super) fn check_finding(&self, pending: &PendingStep) -> Option<Finding> {
        let failed: Vec<String> = self.failed_checks().map(evidence::check).collect();
        if failed.is_empty() {
            return None;
        }
        let blocker = Blocker {
            code: BlockerCode::CheckFailed,
            pointer: BlockerPointer::WorkflowStep { step_id: pending.step_id.clone() },
            message: BoundedText::clip(&format!(
                "WorkRail ran the checks of this step: {}.",
                failed.join("; ")
            )),
            suggested_fix: Some(BoundedText::clip(
                "Fix what the output shows, then send this step again: the check runs again. Do not change what the check \
                 runs to make it pass.",
            )),
            decision: None,
        };
        Some(Finding { reason: Reason::ContractViolation(ContractViolation::CheckFailed), blocker })
    }

    /// Names and final output of failed checks, for the reply.
    pub(super) fn failed_outputs(&self) -> Vec<(String, String)> {
        let tail = |run: &CheckRun| {
            run.outcome.ended().map(|ended| (run.name.to_string(), ended.tail.as_str().to_owned()))
        };
        self.failed_checks().filter_map(tail).collect()
    }

    /// What the reply says about checks besides failures.
    pub(super) fn check_warnings(&self) -> Vec<Warning> {
        match self.command.evidence.demand {
            EvidenceDemand::Enforced | EvidenceDemand::EnforcedFromAfar => {}
            EvidenceDemand::Assumed => return Vec::new(),
        }
        let label = self.label();
        let not_run = self.not_run().map(|(name, reason)| Warning {
            code: WarningCode::CheckNotRun,
            message: format!(
                "Check `{name}` was not run: {}. {}",
                not_run(reason),
                next_step(reason, &label)
            ),
        });
        let changed = self.checks().filter(|run| run.outcome.has_changed_tree()).map(|run| Warning {
            code: WarningCode::CheckChangedTree,
            message: format!(
                "Files in the repository changed while check `{}` ran, so its result may not apply to the files as they \
                 are now.",
                run.name
            ),
        });
        not_run.chain(changed).collect()
    }

    /// The grades of evidence that the step has (G107). A trial assumes all of them.
    pub(super) fn known_grades(&self) -> Vec<RequiredGrade> {
        let holds = |grade: &RequiredGrade| match self.command.evidence.demand {
            EvidenceDemand::Assumed => true,
            EvidenceDemand::Enforced | EvidenceDemand::EnforcedFromAfar => match grade {
                RequiredGrade::Observed => self.is_observed(),
                RequiredGrade::Checked => self.is_checked(),
            },
        };
        RequiredGrade::ALL.iter().copied().filter(holds).collect()
    }

    /// What needs evidence that it does not have: the step itself, and what the notes claim (G107).
    fn unmet_demands(&self, unproven: &[UnprovenClaim]) -> Vec<UnmetDemand> {
        let known = self.known_grades();
        let rule = self.step().and_then(|step| step.evidence).filter(|rule| !known.contains(&rule.min));
        let of_step = rule.map(|rule| UnmetDemand { claim: None, min: rule.min });
        let of_claims =
            unproven.iter().map(|claim| UnmetDemand { claim: Some(claim.message.clone()), min: claim.min });
        of_step.into_iter().chain(of_claims).collect()
    }

    /// One finding for all missing evidence (G107), of the step and of claims in the notes; its text explains the first
    /// that can be explained.
    pub(super) fn evidence_finding(
        &self,
        pending: &PendingStep,
        unproven: &[UnprovenClaim],
    ) -> Option<Finding> {
        let demands = self.unmet_demands(unproven);
        let (index, (mut message, mut fix)) = demands.iter().enumerate().find_map(|(index, demand)| {
            Some((index, self.missing_evidence(&demand.subject(), demand.min)?))
        })?;
        let others = demands.iter().enumerate().filter(|(other, _)| *other != index);
        let others: Vec<String> = others.map(|(_, demand)| demand.named()).collect();
        if !others.is_empty() {
            // The author's words, which may end with a full stop, are quoted at the beginning.
            let need = if others.len() == 1 { "needs" } else { "need" };
            message.push_str(&format!(" {} also {need} evidence.", others.join(" and ")));
        }
        // What the pointer names decides whether the notes of the retry replace these.
        let mut pointer = BlockerPointer::WorkflowStep { step_id: pending.step_id.clone() };
        if demands.iter().any(|demand| demand.claim.is_some()) {
            fix.push_str(" Or send notes that do not claim it: new notes replace the old ones.");
            if let Ok(contract_ref) = ContractRef::parse(CRITERIA_REF) {
                pointer = BlockerPointer::OutputContract { contract_ref };
            }
        }
        let blocker = Blocker {
            code: BlockerCode::EvidenceMissing,
            pointer,
            message: BoundedText::clip(&message),
            suggested_fix: Some(BoundedText::clip(&fix)),
            decision: None,
        };
        Some(Finding { reason: Reason::ContractViolation(ContractViolation::EvidenceMissing), blocker })
    }

    /// What is missing and how to continue, for a subject that needs this grade. `None` if a check failed: that is a
    /// finding of its own.
    fn missing_evidence(&self, subject: &str, min: RequiredGrade) -> Option<(String, String)> {
        let has_checks = self.step().is_some_and(|step| !step.checks.is_empty());
        let is_from_afar = self.command.evidence.demand == EvidenceDemand::EnforcedFromAfar;
        Some(match min {
            RequiredGrade::Observed if is_from_afar => (
                format!("{subject} needs evidence that was observed, and this server cannot see your repository."),
                LOCAL_SERVER_NEEDED.to_owned(),
            ),
            RequiredGrade::Checked if is_from_afar && !has_checks => (
                format!("{subject} needs evidence that WorkRail checked, and this server cannot see your repository."),
                LOCAL_SERVER_NEEDED.to_owned(),
            ),
            RequiredGrade::Observed => (
                format!(
                    "{subject} needs evidence that was observed, and there is only your word: no hook of the host saw a \
                     command, an edit or a subagent since the step began, and no file changed."
                ),
                "Do the work with the host's tools and send this step again. If hooks are not installed, ask the user to run \
                 `workrail install`."
                    .to_owned(),
            ),
            RequiredGrade::Checked if !has_checks => (
                format!("{subject} needs evidence that WorkRail checked, and it could not look at the repository."),
                "Send `workspacePath` of the git repository in which you work.".to_owned(),
            ),
            RequiredGrade::Checked => {
                let missing: Vec<(&CheckName, NotRunReason)> = self.not_run().collect();
                let (_, first) = *missing.first()?;
                let words: Vec<String> =
                    missing.iter().map(|(name, reason)| format!("check `{name}` was not run: {}", not_run(*reason))).collect();
                (
                    format!("{subject} needs evidence that WorkRail checked: {}.", words.join("; ")),
                    format!("{} Then send this step again.", next_step(first, &self.label())),
                )
            }
        })
    }

    /// Whether all of the missing evidence is a person's to allow: never-stop does not ask the agent for it.
    pub(super) fn evidence_is_for_people(&self, unproven: &[UnprovenClaim]) -> bool {
        if self.command.evidence.demand == EvidenceDemand::EnforcedFromAfar {
            return true;
        }
        self.unmet_demands(unproven).iter().all(|demand| demand.min == RequiredGrade::Checked)
            && self.not_run().next().is_some()
            && self.not_run().all(|(_, reason)| is_for_people(reason))
    }

    /// Whether every check of the step passed; in a step without checks, whether WorkRail could look at the repository.
    fn is_checked(&self) -> bool {
        if self.step().is_none_or(|step| step.checks.is_empty()) {
            return match self.command.evidence.workspace.tree {
                TreeInspection::Seen(_) => true,
                TreeInspection::NoRepository | TreeInspection::NotSeen(_) => false,
            };
        }
        self.not_run().next().is_none() && self.failed_checks().next().is_none()
    }

    /// Whether anybody but the agent saw work in this attempt or in those that it retries.
    fn is_observed(&self) -> bool {
        let available = &self.command.evidence;
        let recorded = self.command.facts.evidence(self.node.node_id).iter().filter(|recorded| {
            recorded.data.attempt_id.is_some_and(|attempt| self.retried.contains(&attempt))
        });
        available.observations.iter().map(|seen| seen.evidence()).any(shows_work)
            || recorded.map(|recorded| &recorded.data.evidence).any(shows_work)
            || available.workspace.changed.as_ref().is_some_and(|changed| !changed.is_empty())
            || self.checks().any(|run| run.outcome.has_passed())
    }
}

/// Something that needs evidence of a grade and does not have it.
struct UnmetDemand {
    /// The message of the criterion whose claim it is; `None` for the step.
    claim: Option<String>,
    min: RequiredGrade,
}

impl UnmetDemand {
    fn subject(&self) -> String {
        match &self.claim {
            None => "This step".to_owned(),
            Some(message) => {
                format!("Your notes claim what a criterion asks for (\"{message}\"). The claim")
            }
        }
    }

    fn named(&self) -> String {
        match &self.claim {
            // The step comes first, so this begins a sentence.
            None => "The step".to_owned(),
            Some(message) => format!("\"{message}\""),
        }
    }
}

/// Work that a host's hook saw, or a check that passed.
fn shows_work(evidence: &Evidence) -> bool {
    match evidence {
        Evidence::CommandRun { .. } | Evidence::FilesEdited { .. } | Evidence::SubagentStarted { .. } => true,
        Evidence::CheckRun(run) => run.outcome.has_passed(),
        Evidence::WorkspaceState(_)
        | Evidence::WorkspaceNotSeen { .. }
        | Evidence::EditRefused { .. }
        | Evidence::CommandRefused { .. }
        | Evidence::SubagentEnded { .. }
        | Evidence::ChatWatched => false,
    }
}
