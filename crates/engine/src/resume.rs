//! `resume_session`: from a few words, an id or nothing to the tips that may be meant (G39).

use std::fmt::Write as _;

use serde_json::Value;
use workrail_core::access;
use workrail_core::agent_site::RunRights;
use workrail_core::label::RunLabel;
use workrail_core::progress::{Progress, rest_in_words};
use workrail_core::project::SessionState;
use workrail_core::render::prompt::title_without_secrets;
use workrail_core::reply::recovery::{Audience, RecoveryInput};
use workrail_core::reply::{TITLE_SHOWN_BYTES_MAX, rehydrate_call, tips};
use workrail_core::resume::{
    CardPosition, MatchQuality, Ranked, RecentRuns, ResumeQuery, RunCard, rank, snippet,
};
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::event::{ObservationKey, ObservationValue};
use workrail_model::health::SessionHealth;
use workrail_model::id::{RunId, SessionId};
use workrail_model::preferences::RunStatus;
use workrail_model::reply::{NextCall, OpenTip, replace_state_markers, without_markers};
use workrail_model::resume::{Candidate, MatchReason, ResumeBody};
use workrail_model::text::truncate_with_marker;
use workrail_model::tool::{ToolName, ToolSet};
use workrail_ports::workspace::WorkspacePath;

use crate::drift::SOURCE_CHANGED;
use crate::error;
use crate::find::spelled_label;
use crate::request::{ResumeSession, act_of};
use crate::selection::about_query;
use crate::session_access::Reading;
use crate::summaries::tip_of;

const CANDIDATES_MAX: usize = 5;
const GOAL_SHOWN_BYTES_MAX: usize = 200;
/// Five excerpts and their surroundings stay under 9 KB of text (G73).
const SNIPPET_SHOWN_BYTES_MAX: usize = 700;

/// Whether the first candidate is certainly the one that is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clarity {
    Clear,
    Doubtful,
}

/// Clear means that it matches better than all others, not just that it is more recent.
fn clarity(ranked: &[RankedRun]) -> Clarity {
    let is_clear = match ranked {
        [] => false,
        [only] => only.fit.matches(),
        [first, second, ..] => first.fit.matches() && first.fit != second.fit,
    };
    if is_clear { Clarity::Clear } else { Clarity::Doubtful }
}

/// A run chosen by ranking.
struct RankedRun {
    card: RunCard,
    why: Vec<MatchReason>,
    reason: String,
    words: Vec<String>,
    fit: MatchQuality,
}

impl From<Ranked<'_>> for RankedRun {
    fn from(ranked: Ranked<'_>) -> Self {
        let Ranked { card, why, reason, words, fit } = ranked;
        Self { card: card.clone(), why, reason, words, fit }
    }
}

impl Reading<'_> {
    pub(crate) fn resume(
        &self,
        request: &ResumeSession,
        workspace: Option<&WorkspacePath>,
    ) -> Result<(ResumeBody, Clarity), Box<ErrorEnvelope>> {
        let query = self.query(request, workspace)?;
        let (ranked, searched_runs, mut unhealthy_sessions) = {
            let mut known = self.summaries_about(&about_query(&query), &mut |_, _| {})?;
            let ranked = loop {
                let ranked: Vec<RankedRun> =
                    rank(known.runs(), &query, CANDIDATES_MAX).into_iter().map(RankedRun::from).collect();
                // Only offered sessions are worth checking their segments.
                let offered: Vec<SessionId> = ranked.iter().map(|offered| offered.card.session).collect();
                if !self.drop_damaged(&mut known, &offered) {
                    break ranked;
                }
            };
            (ranked, known.all_runs(), known.unhealthy.len() as u64)
        };
        let clarity = clarity(&ranked);
        let mut candidates = Vec::new();
        for offered in ranked {
            let is_named = offered.why.contains(&MatchReason::MatchedId);
            match self.candidate(offered, &query) {
                Ok(candidate) => candidates.push(candidate),
                // The caller named this one, so report what is wrong with it.
                Err(failed) if query.is_exact() && is_named => return Err(failed),
                // A session damaged since it was ranked is left out, as if it had been found so.
                Err(_) => unhealthy_sessions += 1,
            }
        }
        if query.is_exact()
            && candidates.iter().all(|found| !found.why_matched.contains(&MatchReason::MatchedId))
        {
            return Err(self.why_no_match(&query, request)?);
        }
        let next_call = candidates.first().and_then(|first| first.next_call.clone());
        let mut text =
            text(&candidates, self.continues(), query.has_words(), searched_runs, unhealthy_sessions);
        if let Some(why) = self.rights.why_read_only().filter(|_| !candidates.is_empty()) {
            text = format!("NOTE: {why}\n\n{text}");
        }
        Ok((
            ResumeBody { text, candidates, searched_runs, unhealthy_sessions, next_call, step: None },
            clarity,
        ))
    }

    /// Why an id or a label matched nothing: the session is damaged, or there is none.
    fn why_no_match(
        &self,
        query: &ResumeQuery,
        request: &ResumeSession,
    ) -> Result<Box<ErrorEnvelope>, Box<ErrorEnvelope>> {
        let unhealthy = self.summaries_about(&about_query(query), &mut |_, _| {})?.unhealthy.clone();
        for (session, health) in &unhealthy {
            // Only runs before the damage can be named.
            let has_run = || match health {
                SessionHealth::CorruptTail { .. } => self
                    .salvage(*session)
                    .is_ok_and(|read| read.state.runs().any(|run| query.names(run.run_id))),
                SessionHealth::Healthy
                | SessionHealth::CorruptHead { .. }
                | SessionHealth::UnknownVersion { .. } => false,
            };
            if query.session == Some(*session) || has_run() {
                return Ok(error::health(*session, health));
            }
        }
        Ok(error::session_not_found(request, unhealthy.len()))
    }

    fn query(
        &self,
        request: &ResumeSession,
        workspace: Option<&WorkspacePath>,
    ) -> Result<ResumeQuery, Box<ErrorEnvelope>> {
        let mut query = ResumeQuery::new(request.query.as_deref().unwrap_or_default());
        if let Some(text) = &request.session_id {
            query.session =
                Some(SessionId::parse(text.trim()).map_err(|_| error::session_not_found(request, 0))?);
        }
        if let Some(text) = &request.run_id {
            query.run = Some(RunId::parse(text.trim()).map_err(|_| error::session_not_found(request, 0))?);
        }
        if let Some(text) = &request.run {
            let label = RunLabel::parse(&spelled_label(text));
            query.label = Some(label.map_err(|_| error::session_not_found(request, 0))?);
        }
        query.git_branch = request.git_branch.clone();
        query.git_head_sha = request.git_head_sha.clone();
        let nothing_said = !query.has_words()
            && !query.is_exact()
            && query.git_branch.is_none()
            && query.git_head_sha.is_none();
        if nothing_said {
            query.recent = RecentRuns::Always;
        }
        // The caller's folder counts only if the caller says nothing: words are deliberate, a folder is not.
        if let Some(workspace) = workspace.filter(|_| nothing_said) {
            for (key, value) in self.environment.observer.observe(workspace).values {
                match (key, value) {
                    (ObservationKey::GitBranch, ObservationValue::ShortString(text)) => {
                        query.git_branch = Some(text.as_str().to_owned());
                    }
                    (ObservationKey::GitHeadSha, ObservationValue::GitSha1(text)) => {
                        query.git_head_sha = Some(text.as_str().to_owned());
                    }
                    _ => {}
                }
            }
        }
        Ok(query)
    }

    fn candidate(&self, offered: RankedRun, query: &ResumeQuery) -> Result<Candidate, Box<ErrorEnvelope>> {
        let RankedRun { card, why: why_matched, reason, words: matched_words, fit: _ } = offered;
        self.look(card.session, |facts| {
            let tip = card.at.as_ref().map(|position| position.tip);
            let blank = Candidate {
                session_id: card.session,
                run_id: card.run(),
                label: card.label().map(|label| label.to_string()),
                workflow_id: None,
                goal: None,
                status: None,
                step_id: None,
                step_title: None,
                step_number: None,
                about_left: None,
                loops: Vec::new(),
                last_worked_on: facts.last_at().map(ToString::to_string),
                last_actor: card
                    .run()
                    .and_then(|run| facts.run(run)?.last_actor.as_deref().map(without_markers)),
                why_matched,
                reason,
                matched_words,
                snippet: snippet(facts, tip, query, &self.content),
                open_tips: Vec::new(),
                workflow_changed: false,
                problem: None,
                // Only reads the notes; the result shows how to add to them.
                next_call: Some(NextCall::new(
                    ToolName::ReadRun,
                    [("run", Value::from(card.session.to_string()))],
                )),
            };
            match &card.at {
                None => Ok(blank),
                Some(position) => match self.run_candidate(facts, position, blank.clone()) {
                    // Offered with the reason: a run with damaged or unreadable content is not gone.
                    Err(error) if is_about_content(error.code) => Ok(Candidate {
                        workflow_id: Some(position.workflow_id.clone()),
                        problem: Some({
                            let error = error::at_site(error, self.site);
                            format!("{} {}", error.message, error.suggestion)
                        }),
                        next_call: self.tip_call(facts, position),
                        ..blank
                    }),
                    candidate => candidate,
                },
            }
        })
    }

    fn run_candidate(
        &self,
        facts: &SessionState,
        position: &CardPosition,
        blank: Candidate,
    ) -> Result<Candidate, Box<ErrorEnvelope>> {
        let node =
            facts.node(position.tip).ok_or_else(|| error::broken_invariant("a ranked tip is folded"))?;
        let snapshot = self.content.snapshot(node.snapshot_ref)?;
        let workflow = self.content.workflow(position.workflow_hash)?;
        let context = facts.context_at(position.tip).map_err(|cause| error::context(&cause))?;
        let goal = context.get("goal").and_then(Value::as_str);
        let pending = snapshot.state().pending_step();
        let progress = Progress::of(&workflow, snapshot.state(), &context);
        let recovery = RecoveryInput {
            facts,
            workflow: &workflow,
            context: &context,
            snapshots: &self.content,
            audience: Audience::AnyReader,
        };
        let open_tips =
            recovery.open_tips(position.tip).into_iter().map(|tip| self.signed(facts, tip)).collect();
        Ok(Candidate {
            workflow_id: Some(position.workflow_id.clone()),
            goal: goal.map(|goal| without_markers(&truncate_with_marker(goal, GOAL_SHOWN_BYTES_MAX))),
            status: facts.run_status(position.run, snapshot.state().is_complete()),
            step_id: pending.map(|step| step.step_id.clone()),
            step_title: pending.map(|step| {
                let title = title_without_secrets(&workflow, step, &context);
                without_markers(&truncate_with_marker(&title, TITLE_SHOWN_BYTES_MAX))
            }),
            step_number: progress.as_ref().map(|progress| progress.number),
            about_left: progress.as_ref().map(|progress| progress.about_left),
            loops: progress.map(|progress| progress.loops).unwrap_or_default(),
            open_tips,
            workflow_changed: facts
                .run(position.run)
                .is_some_and(|run| self.has_drifted(run, self.environment.workspace.as_ref())),
            next_call: self.tip_call(facts, position),
            ..blank
        })
    }

    /// An open tip of another branch with its token filled in; without a call if no token can be signed.
    fn signed(&self, facts: &SessionState, tip: OpenTip) -> OpenTip {
        let has_keys = self.signer.has_keys();
        let sign = |call: NextCall| {
            let mut call = call;
            for value in call.arguments.values_mut() {
                if let Value::String(text) = value {
                    *text = replace_state_markers(text, self.signer.state_signer(facts));
                }
            }
            call
        };
        OpenTip { next_call: tip.next_call.filter(|_| has_keys && self.continues()).map(sign), ..tip }
    }

    /// The call that shows the tip of a run; `None` if no token can be signed.
    fn tip_call(&self, facts: &SessionState, position: &CardPosition) -> Option<NextCall> {
        let token = || self.signer.state(facts.session_id(), tip_of(position));
        if !self.continues() {
            return Some(NextCall::new(
                ToolName::ReadRun,
                [("run", Value::from(RunLabel::of(position.run).to_string()))],
            ));
        }
        self.signer.has_keys().then(|| rehydrate_call(&token(), RunLabel::of(position.run)))
    }

    /// Whether the caller can continue a run here; otherwise they can only read it.
    pub(crate) fn continues(&self) -> bool {
        self.tools().offers(ToolName::ContinueWorkflow)
    }

    /// The tools that the caller can use.
    pub(crate) fn tools(&self) -> ToolSet {
        match self.rights {
            RunRights::Work => self.environment.tools,
            RunRights::ReadOnly { role } => {
                ToolSet::of(|tool| self.environment.tools.offers(tool) && access::allows(role, act_of(tool)))
            }
        }
    }
}

/// Whether an error is about the snapshot or the pinned workflow of a run, not about its log.
fn is_about_content(code: ErrorCode) -> bool {
    [ErrorCode::StoreContentDamaged, ErrorCode::StoreIo, ErrorCode::StoreBusy].contains(&code)
}

fn text(candidates: &[Candidate], continues: bool, has_words: bool, searched: u64, unhealthy: u64) -> String {
    let nothing_fits = candidates.iter().all(|found| found.why_matched == [MatchReason::RecencyFallback]);
    let is_open = |found: &Candidate| {
        let is_unfinished = matches!(found.status, Some(RunStatus::InProgress | RunStatus::Blocked) | None);
        is_unfinished && found.problem.is_none()
    };
    let verb = match continues {
        true if candidates.iter().any(is_open) => "Continue",
        true => "Look at",
        false => "Read",
    };
    let how = format!("{verb} the one you mean with the call below it. That call changes nothing.");
    let one = "it with the call below. That call changes nothing.";
    let mut text = match candidates {
        [] => "No run can be resumed in this store. To start one, call list_workflows.".to_owned(),
        [only] if only.run_id.is_none() && has_words && nothing_fits => {
            format!("No run matches these words. This is the latest session. Read {one}")
        }
        [only] if only.run_id.is_none() => format!("One session found. Read {one}"),
        [_] if has_words && nothing_fits => {
            format!("No run matches these words. This is the latest run. {verb} {one}")
        }
        _ if has_words && nothing_fits => {
            format!("No run matches these words. These are the latest of {searched} runs. {how}")
        }
        [only] if only.problem.is_some() => {
            "One run found. It cannot be continued until the problem below is solved. Then make the call below it; \
             that call changes nothing."
                .to_owned()
        }
        [_] => format!("One run found. {verb} {one}"),
        several => format!("{} of {searched} runs, the most likely first. {how}", several.len()),
    };
    for (position, candidate) in candidates.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n\n{}", described(position + 1, candidate));
    }
    if unhealthy > 0 {
        let _ = write!(text, "\n\n{}", not_offered(unhealthy));
    }
    text
}

pub(crate) fn not_offered(unhealthy: u64) -> String {
    match unhealthy {
        1 => "1 damaged or unreadable session is not offered.".to_owned(),
        many => format!("{many} damaged or unreadable sessions are not offered."),
    }
}

fn described(number: usize, candidate: &Candidate) -> String {
    let name = match (&candidate.label, &candidate.workflow_id) {
        (Some(label), Some(workflow)) => format!("Run {label} · {workflow}"),
        _ => format!("Session {} (notes only)", candidate.session_id),
    };
    let mut text = format!("{number}. {name}");
    if let Some(status) = candidate.status {
        let _ = write!(text, " · {}", status.in_words());
    }
    if let (Some(number), Some(title)) = (candidate.step_number, &candidate.step_title) {
        let rest = without_markers(&rest_in_words(candidate.about_left, &candidate.loops));
        let _ = write!(text, " · step {number}{rest}: {title}");
    }
    if let Some(goal) = &candidate.goal {
        let _ = write!(text, "\n   Goal: {goal}");
    }
    let _ = write!(text, "\n   Why: {}", candidate.reason);
    if let Some(at) = &candidate.last_worked_on {
        let by = candidate.last_actor.as_ref().map_or_else(String::new, |actor| format!(" by {actor}"));
        let _ = write!(text, "; last worked on {at}{by}");
    }
    if candidate.workflow_changed {
        let _ = write!(text, "\n   Note: {SOURCE_CHANGED}");
    }
    if let Some(problem) = &candidate.problem {
        let _ = write!(text, "\n   Cannot continue: {problem}");
    }
    if let Some(snippet) = &candidate.snippet {
        text.push_str("\n   Recorded notes:");
        let before = text.len();
        for line in truncate_with_marker(snippet, SNIPPET_SHOWN_BYTES_MAX).lines() {
            // The quote marks count, too: many short lines add up.
            if text.len() - before + line.len() > SNIPPET_SHOWN_BYTES_MAX {
                text.push_str("\n   > […]");
                break;
            }
            let _ = write!(text, "\n   > {line}");
        }
    }
    match (number, candidate.open_tips.len()) {
        (_, 0) => {}
        (1, _) => {
            let tips = tips::text(&candidate.open_tips).unwrap_or_default();
            let _ = write!(text, "\n   {}", tips.replace('\n', "\n   "));
        }
        // Five candidates with all their branches would not fit in a reply.
        (_, count) => {
            let _ = write!(text, "\n   Unfinished on other branches, too: {count}; read_run lists them.");
        }
    }
    if let Some(call) = &candidate.next_call {
        let _ = write!(text, "\n   Next: {} with {}", call.tool, call.arguments_text());
    }
    text
}
