//! The checks of a step, run before its attempt is decided and outside the session's lock (G120).
//!
//! An attempt's checks run once per process, however often the same ack is sent meanwhile: a call that finds them
//! running waits for them, and one that finds them finished but not recorded takes the result. After a restart they
//! run again.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use workrail_core::agent_site::AgentSite;
use workrail_core::decide::checks::{CheckStatus, still_holds};
use workrail_core::decide::evidence::EvidenceDemand;
use workrail_model::compiled::{CheckRequest, CompiledWorkflow};
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::error::ErrorEnvelope;
use workrail_model::evidence::{CheckRun, NotRunReason, TreeInspection};
use workrail_model::id::{AttemptId, NodeId, SessionId};
use workrail_model::limits::CHECK_TIMEOUT_DEFAULT_MS;
use workrail_model::name::{CheckName, WorkflowId};
use workrail_ports::checks::{CheckRunError, Readiness};
use workrail_ports::workspace::WorkspacePath;

use crate::catalog::Filter;
use crate::{Engine, Store, error};

/// The checks that a workflow names, and the hash that a run of it is pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkflowChecks {
    pub workflow_id: WorkflowId,
    pub hash: WorkflowHash,
    pub checks: BTreeSet<CheckName>,
}

impl WorkflowChecks {
    fn of(workflow: &CompiledWorkflow, hash: WorkflowHash) -> Self {
        let checks = workflow.steps.iter().flat_map(|step| &step.checks);
        Self {
            workflow_id: workflow.workflow_id.clone(),
            hash,
            checks: checks.map(|check| check.command.clone()).collect(),
        }
    }
}

/// Receives progress messages of a call.
pub type CallProgress = Arc<dyn Fn(&str) + Send + Sync>;

/// Which evidence can be demanded of an agent that works there.
pub(crate) fn evidence_demand(site: &AgentSite) -> EvidenceDemand {
    match site {
        AgentSite::Local => EvidenceDemand::Enforced,
        AgentSite::Remote { .. } => EvidenceDemand::EnforcedFromAfar,
    }
}

/// Clients that time out without progress wait longer than this.
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// How many attempts are remembered; the oldest one that is not running is dropped first.
const REMEMBERED_MAX: usize = 64;

/// The attempt whose checks run.
pub(crate) type AttemptKey = (SessionId, NodeId, AttemptId);

/// The checks that an attempt needs.
#[derive(Debug)]
pub(crate) struct CheckDemand {
    pub(crate) key: AttemptKey,
    pub(crate) workflow: WorkflowHash,
    pub(crate) checks: Vec<CheckRequest>,
    /// Checks that passed in the attempts that this one retries.
    pub(crate) passed: Vec<CheckRun>,
    /// Where they run; `None` if the call is about no workspace, or about a different one than the run.
    pub(crate) folder: Option<WorkspacePath>,
}

/// The results of an attempt's checks.
#[derive(Debug)]
pub(crate) struct CheckedStep {
    pub(crate) checks: Vec<CheckStatus>,
    /// The repository before the first of them.
    before: Option<Sha256>,
    /// The repository after the last of them.
    pub(crate) tree: TreeInspection,
}

impl CheckedStep {
    /// Whether the results still apply to the repository as it is now.
    fn fits(&self, tree: Option<Sha256>) -> bool {
        tree.is_some() && (tree == self.before || tree == fingerprint(&self.tree))
    }
}

/// The checks of recent attempts.
#[derive(Debug, Default)]
pub(crate) struct AttemptChecks {
    slots: Mutex<Vec<(AttemptKey, Arc<CheckSlot>)>>,
}

#[derive(Debug, Default)]
struct CheckSlot {
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Clone, Debug, Default)]
enum SlotState {
    #[default]
    Running,
    Finished(Arc<CheckedStep>),
    /// The runner is gone without a result.
    Abandoned,
    /// The attempt is recorded: its reply answers every caller, including those still waiting.
    Recorded,
}

/// How the checks of another call ended.
enum SlotEnd {
    Finished(Arc<CheckedStep>),
    /// Its runner is gone, or the attempt is recorded: nothing is to be taken from it.
    WithoutResult,
}

impl CheckSlot {
    fn state(&self) -> SlotState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: SlotState) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
        self.changed.notify_all();
    }

    /// Waits up to `at_most` for the end; `None` while they run.
    fn wait(&self, at_most: Duration) -> Option<SlotEnd> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let running = |state: &mut SlotState| matches!(state, SlotState::Running);
        let waited = self.changed.wait_timeout_while(state, at_most, running);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &*state {
            SlotState::Running => None,
            SlotState::Finished(step) => Some(SlotEnd::Finished(Arc::clone(step))),
            SlotState::Abandoned | SlotState::Recorded => Some(SlotEnd::WithoutResult),
        }
    }
}

/// The call that runs an attempt's checks. Dropped without a result, it lets another call run them.
struct Runner<'a> {
    slot: &'a CheckSlot,
    has_result: bool,
}

impl Runner<'_> {
    fn finish(mut self, step: Arc<CheckedStep>) {
        self.has_result = true;
        self.slot.set(SlotState::Finished(step));
    }
}

impl Drop for Runner<'_> {
    fn drop(&mut self) {
        if !self.has_result {
            self.slot.set(SlotState::Abandoned);
        }
    }
}

enum SlotClaim {
    Run(Arc<CheckSlot>),
    Join(Arc<CheckSlot>),
    Take(Arc<CheckedStep>),
    Recorded,
}

impl AttemptChecks {
    fn claim(&self, key: AttemptKey, tree: Option<Sha256>) -> SlotClaim {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = slots.iter().find(|(other, _)| *other == key) {
            match slot.state() {
                SlotState::Running => return SlotClaim::Join(Arc::clone(slot)),
                SlotState::Finished(step) if step.fits(tree) => return SlotClaim::Take(step),
                SlotState::Recorded => return SlotClaim::Recorded,
                SlotState::Finished(_) | SlotState::Abandoned => {}
            }
        }
        slots.retain(|(other, _)| *other != key);
        if slots.len() >= REMEMBERED_MAX {
            let finished = slots.iter().position(|(_, slot)| !matches!(slot.state(), SlotState::Running));
            if let Some(finished) = finished {
                slots.remove(finished);
            }
        }
        let slot = Arc::new(CheckSlot::default());
        slots.push((key, Arc::clone(&slot)));
        SlotClaim::Run(slot)
    }

    /// Discards what is known of the attempt's checks because it no longer holds.
    pub(crate) fn forget(&self, key: AttemptKey) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).retain(|(other, _)| *other != key);
    }

    /// The attempt is recorded: from now on its reply answers.
    pub(crate) fn recorded(&self, key: AttemptKey) {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, slot)) = slots.iter().find(|(other, _)| *other == key) {
            slot.set(SlotState::Recorded);
        }
    }
}

fn fingerprint(tree: &TreeInspection) -> Option<Sha256> {
    match tree {
        // Without the commit, two clean trees cannot be distinguished.
        TreeInspection::Seen(tree) => tree.head.is_some().then(|| tree.fingerprint()),
        TreeInspection::NoRepository | TreeInspection::NotSeen(_) => None,
    }
}

impl<S: Store> Engine<S> {
    /// Runs the checks of an attempt, waits for those that are running, or takes their results; `None` if the attempt
    /// was recorded meanwhile.
    pub(crate) fn checked_step(
        &self,
        demand: &CheckDemand,
        tree: &TreeInspection,
    ) -> Result<Option<Arc<CheckedStep>>, Box<ErrorEnvelope>> {
        loop {
            match self.attempt_checks.claim(demand.key, fingerprint(tree)) {
                SlotClaim::Take(step) => return Ok(Some(step)),
                SlotClaim::Recorded => return Ok(None),
                SlotClaim::Run(slot) => {
                    let runner = Runner { slot: &slot, has_result: false };
                    let step = Arc::new(self.run_checks(demand, tree.clone())?);
                    runner.finish(Arc::clone(&step));
                    return Ok(Some(step));
                }
                // If the other call ended without a result, this one runs them.
                SlotClaim::Join(slot) => {
                    if let Some(step) = self.joined(&slot) {
                        return Ok(Some(step));
                    }
                }
            }
        }
    }

    fn joined(&self, slot: &CheckSlot) -> Option<Arc<CheckedStep>> {
        loop {
            self.say("Waiting for the checks of this step, which another call started.");
            match slot.wait(PROGRESS_EVERY) {
                None => {}
                Some(SlotEnd::Finished(step)) => return Some(step),
                Some(SlotEnd::WithoutResult) => return None,
            }
        }
    }

    fn say(&self, words: &str) {
        if let Some(progress) = &self.progress {
            progress(words);
        }
    }

    fn run_checks(
        &self,
        demand: &CheckDemand,
        before: TreeInspection,
    ) -> Result<CheckedStep, Box<ErrorEnvelope>> {
        let first = fingerprint(&before);
        let mut tree = before;
        let mut checks = Vec::new();
        for request in &demand.checks {
            checks.push(self.run_check(demand, request, &mut tree)?);
        }
        Ok(CheckedStep { checks, before: first, tree })
    }

    fn run_check(
        &self,
        demand: &CheckDemand,
        request: &CheckRequest,
        tree: &mut TreeInspection,
    ) -> Result<CheckStatus, Box<ErrorEnvelope>> {
        let name = &request.command;
        let not_run = |argv: &[String], reason| CheckStatus::not_run(name.clone(), argv, reason);
        let (Some(runner), AgentSite::Local) = (&self.environment.checks, &self.site) else {
            return Ok(not_run(&[], NotRunReason::NotHere));
        };
        let Some(folder) = &demand.folder else { return Ok(not_run(&[], NotRunReason::NoWorkspace)) };
        let prepared = runner.prepare(folder, demand.workflow, name);
        let argv = prepared.argv;
        let ready = match prepared.readiness {
            Readiness::NotRun(reason) => return Ok(not_run(&argv, reason)),
            Readiness::Ready(ready) => ready,
        };
        let before = fingerprint(tree);
        if let Some(run) = demand.passed.iter().find(|run| still_holds(run, name, &argv, before)) {
            return Ok(CheckStatus::PassedBefore(run.clone()));
        }
        self.say(&format!("Running check `{name}`."));
        let mut reported = Duration::ZERO;
        let limit = Duration::from_millis(request.timeout_ms.unwrap_or(CHECK_TIMEOUT_DEFAULT_MS));
        let ran = ready.run(limit, &mut |elapsed| {
            if elapsed >= reported + PROGRESS_EVERY {
                reported = elapsed;
                self.say(&format!("Check `{name}` has been running for {} s.", elapsed.as_secs()));
            }
        });
        match ran {
            Ok(process) => {
                *tree = self.environment.observer.inspect_tree(folder);
                Ok(CheckStatus::ended(request, &argv, &process, (before, fingerprint(tree))))
            }
            Err(CheckRunError::NotStarted(_)) => Ok(not_run(&argv, NotRunReason::NotStarted)),
            Err(CheckRunError::Interrupted) => Err(error::checks_interrupted()),
        }
    }

    /// The workflows of this process's workspace that name checks: those with these ids, or all of them.
    pub fn workflows_with_checks(
        &self,
        ids: &[WorkflowId],
    ) -> Result<Vec<WorkflowChecks>, Box<ErrorEnvelope>> {
        let workspace = self.environment.workspace.as_ref();
        if !ids.is_empty() {
            let compiled = ids.iter().map(|id| self.catalog.compiled(id, workspace));
            return compiled
                .map(|entry| entry.map(|entry| WorkflowChecks::of(&entry.workflow, entry.hash)))
                .collect();
        }
        let (listed, _) = self.catalog.all(workspace, &Filter::default());
        let compiled =
            listed.iter().filter_map(|workflow| self.catalog.compiled(&workflow.workflow_id, workspace).ok());
        let checks = compiled.map(|entry| WorkflowChecks::of(&entry.workflow, entry.hash));
        Ok(checks.filter(|workflow| !workflow.checks.is_empty()).collect())
    }

    /// The checks of the workflow that a run is pinned to.
    pub fn checks_of_run(&self, text: &str) -> Result<WorkflowChecks, Box<ErrorEnvelope>> {
        let pinned = self.pinned_run(text)?;
        Ok(WorkflowChecks::of(&pinned.compiled, pinned.hash))
    }

    /// Ends running checks: the server is shutting down, and nothing would receive the results.
    pub fn end_checks(&self) {
        if let Some(runner) = &self.environment.checks {
            runner.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use workrail_model::evidence::WorkingTree;

    use super::*;

    fn key() -> AttemptKey {
        (SessionId::from_bits([1; 10]), NodeId::from_bits([2; 10]), AttemptId::from_bits(3))
    }

    fn tree(head: &str) -> TreeInspection {
        TreeInspection::Seen(WorkingTree { head: Some(head.to_owned()), ..WorkingTree::default() })
    }

    fn step(before: &TreeInspection, after: TreeInspection) -> Arc<CheckedStep> {
        Arc::new(CheckedStep { checks: Vec::new(), before: fingerprint(before), tree: after })
    }

    #[test]
    fn a_result_applies_while_the_repository_is_as_before_or_after_the_checks() {
        let checked = AttemptChecks::default();
        let SlotClaim::Run(slot) = checked.claim(key(), None) else { panic!("nobody runs them") };
        slot.set(SlotState::Finished(step(&tree("a"), tree("b"))));
        for head in ["a", "b"] {
            assert!(matches!(checked.claim(key(), fingerprint(&tree(head))), SlotClaim::Take(_)), "{head}");
        }
        assert!(matches!(checked.claim(key(), fingerprint(&tree("c"))), SlotClaim::Run(_)));
    }

    #[test]
    fn a_runner_that_ends_without_a_result_lets_others_run() {
        let checked = AttemptChecks::default();
        let SlotClaim::Run(slot) = checked.claim(key(), None) else { panic!("nobody runs them") };
        assert!(matches!(checked.claim(key(), None), SlotClaim::Join(_)));
        drop(Runner { slot: &slot, has_result: false });
        assert!(matches!(checked.claim(key(), None), SlotClaim::Run(_)));
    }

    #[test]
    fn the_checks_of_a_recorded_attempt_do_not_run_again() {
        let checked = AttemptChecks::default();
        let SlotClaim::Run(slot) = checked.claim(key(), None) else { panic!("nobody runs them") };
        slot.set(SlotState::Finished(step(&tree("a"), tree("a"))));
        checked.recorded(key());
        assert!(matches!(checked.claim(key(), fingerprint(&tree("a"))), SlotClaim::Recorded));
    }

    #[test]
    fn remembered_attempts_are_bounded() {
        let checked = AttemptChecks::default();
        for number in 0..200 {
            let own = (key().0, key().1, AttemptId::from_bits(number));
            let SlotClaim::Run(slot) = checked.claim(own, None) else { panic!("nobody runs them") };
            slot.set(SlotState::Finished(step(&tree("a"), tree("a"))));
        }
        assert!(checked.slots.lock().unwrap().len() <= REMEMBERED_MAX);
    }
}
