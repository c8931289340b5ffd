//! What the reply to an attempt shows: the next step, and what else the advance brought about.

use workrail_model::approval::ApprovalDecision;
use workrail_model::event::GapRecorded;
use workrail_model::gap::{Resolution, Severity};
use workrail_model::id::{GapId, NodeId};
use workrail_model::reply::{Branch, ChildResult, StoredReply, Warning, WarningCode};
use workrail_model::snapshot::EngineState;

use super::advance::{Advance, PreparedAttempt};
use super::{DecideError, disclose, retry};
use crate::agent_site::RunRights;
use crate::interpret::OutputCheck;
use crate::reason::gap_closer;
use crate::reply;
use crate::reply::children::finished_inside;
use crate::reply::recovery::{Audience, RecoveryInput};
use crate::reply::{LongText, OpenGap, ReplyInput, ReplyMoment, StepExtras};

impl PreparedAttempt<'_> {
    /// Results of finished nested runs of this step: their parent's next reply contains them (G37).
    pub(super) fn children(&self) -> Vec<ChildResult> {
        finished_inside(self.command.facts, self.node.node_id, self.command.content)
    }

    /// How the approval that opened the completed step's gate was given.
    fn approved_how(&self) -> Option<Warning> {
        let Advance { facts, workflow, approvals, .. } = &self.command;
        let node = self.node.node_id;
        let decided = &facts.approval(node, &self.pending.step_id)?.data;
        let asked = approvals.asked(workflow, self.pending);
        let is_for_this = decided.submitted == retry::delivered_digest(&self.delivered).ok();
        let is_approved = decided.decision == ApprovalDecision::Approved;
        let counts = is_approved && is_for_this && approvals.counts(facts, node, decided, asked);
        counts.then(|| Warning { code: WarningCode::ApprovedHow, message: disclose::approved_how(decided) })
    }

    /// What the reply to an advance says besides the next step.
    pub(super) fn step_extras(
        &self,
        state: &EngineState,
        gaps: &[GapRecorded],
        check: &OutputCheck,
    ) -> StepExtras {
        let (facts, node) = (self.command.facts, self.node.node_id);
        let forks = !facts.is_tip(node);
        let resolved = |id: &GapId| {
            gaps.iter().any(|gap| gap.resolution == Resolution::Resolves { resolves_gap_id: *id })
        };
        let open =
            disclose::open_gaps(facts, self.node.run_id).into_iter().filter(|gap| !resolved(&gap.gap_id));
        let new = gaps.iter().filter(|gap| gap.severity == Severity::Critical);
        let new = new.map(|gap| OpenGap {
            gap_id: gap.gap_id,
            summary: gap.summary.as_str().to_owned(),
            closer: gap_closer(gap.reason),
        });
        let open_gaps = open.chain(new).collect();
        // What this advance itself adds is among the warnings.
        let disclosed = disclose::disclosed(facts, self.node.run_id).map(str::to_owned).collect();
        let mut warnings = disclose::warnings(self.preferences.risk_policy, gaps);
        warnings.extend(self.notices.iter().cloned());
        warnings.extend(disclose::unknown_kinds(&self.sent.output.artifacts));
        warnings.extend(self.approved_how());
        warnings.extend(self.check_warnings());
        StepExtras {
            open_gaps: if state.is_complete() { open_gaps } else { Vec::new() },
            disclosed: if state.is_complete() { disclosed } else { Vec::new() },
            warnings,
            workflow_changed: self.command.workflow_changed,
            children: self.children(),
            step_context: disclose::step_context(check),
            branches: if forks { self.other_branches(node) } else { Vec::new() },
            downstream: forks.then(|| self.recovery_input().downstream(node)).flatten(),
            return_to: disclose::return_to(facts, self.node.run_id, state),
            ..StepExtras::default()
        }
    }

    /// The reply, refused only if a value that is sent now makes the step's text too long: it can be sent again,
    /// smaller. A value recorded earlier never stops a run (G54).
    pub(super) fn reply(
        &self,
        state: &EngineState,
        moment: ReplyMoment<'_>,
        extras: StepExtras,
    ) -> Result<StoredReply, DecideError> {
        let input = ReplyInput {
            facts: self.command.facts,
            run: self.node.run_id,
            workflow: self.command.workflow,
            state,
            context: &self.context,
            preferences: self.preferences,
            moment,
            long_text: LongText::Refuse,
            tools: self.command.tools,
            site: self.command.site,
            rights: RunRights::Work,
            extras,
        };
        let shown = reply::render(&input).or_else(|too_long| match self.sends(&too_long.context_key) {
            true => Err(too_long),
            false => reply::render(&ReplyInput { long_text: LongText::Shorten, ..input }),
        });
        Ok(shown?)
    }

    /// Whether this call itself sends the key.
    fn sends(&self, key: &str) -> bool {
        self.sent.context.get(key).is_some()
    }

    /// The branches that exist besides the one that this advance makes, which is the one worked on last.
    fn other_branches(&self, node: NodeId) -> Vec<Branch> {
        let branches = self.recovery_input().branches(node).into_iter();
        branches.map(|branch| Branch { preferred: false, ..branch }).collect()
    }

    fn recovery_input(&self) -> RecoveryInput<'_> {
        let Advance { facts, workflow, content, .. } = self.command;
        let (context, audience) = (&self.context, Audience::RunAgent);
        RecoveryInput { facts, workflow, context, snapshots: content, audience }
    }
}
