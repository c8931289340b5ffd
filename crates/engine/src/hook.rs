//! `workrail hook`: answers an agent's host, from what hooks remember of the chat and from the log (G108).
//!
//! Writes nothing to a session and takes no lock. Observations are left for the next advance to record (G110).

use workrail_core::edits::AllowedEdits;
use workrail_core::hook::{
    self, ChatStart, HookEvent, HookEventKind, HookReply, PendingFor, PendingWork, PersonWait, RunPosition,
    ToolUse, TurnDecision, TurnEnd,
};
use workrail_core::label::RunLabel;
use workrail_core::render::prompt::title_without_secrets;
use workrail_core::reply::rehydrate_call;
use workrail_model::chat::{ChatMemory, ChatRecord};
use workrail_model::error::ErrorEnvelope;
use workrail_model::evidence::{Evidence, HookObservation, PathList};
use workrail_model::id::{RunId, SessionId};
use workrail_model::preferences::RunStatus;
use workrail_model::text::{BoundedText, truncate_with_marker};
use workrail_model::tool::ToolName;
use workrail_ports::chats::ChatDirectory;
use workrail_ports::workspace::WorkspacePath;

use crate::request::ContinueWorkflow;
use crate::token::{KeyUse, node_facts, resolve};
use crate::{Engine, Store, error};

/// What hosts accept as context without truncating it: the smallest limit is about 2,500 tokens.
const HOOK_TEXT_BYTES_MAX: usize = 9_000;
const GOAL_SHOWN_BYTES_MAX: usize = 200;
/// How many of a folder's chats are checked for unfinished work.
const CHATS_READ_MAX: usize = 8;

/// A run that a chat works on, as a hook sees it.
struct ChatRun {
    position: RunPosition,
    /// Absent if no step is pending.
    work: Option<PendingWork>,
    /// Which files the pending step allows to be edited, if it declares that.
    edits: Option<AllowedEdits>,
    state_token: String,
}

/// The run that the event is about: the agent's own, else its chat's.
fn chat_record_of(event: &HookEvent, chats: &dyn ChatDirectory) -> Option<ChatRecord> {
    chats.chat(event.key()).or_else(|| chats.chat(event.chat_key()))
}

impl<S: Store> Engine<S> {
    /// Answers one event of a host. Unreadable state is an error, to which a hook responds with silence.
    pub fn hook(
        &self,
        event: &HookEvent,
        chats: &dyn ChatDirectory,
    ) -> Result<HookReply, Box<ErrorEnvelope>> {
        match &event.kind {
            HookEventKind::ToolEnds { tool: ToolUse::Own(tool), result } => {
                self.remember_run(event, *tool, &result.text, chats)?;
                Ok(HookReply::Silent)
            }
            HookEventKind::ChatBegins(start) => self.chat_begins(event, *start, chats),
            HookEventKind::TurnBegins => match self.step_after_compaction(event, chats)? {
                HookReply::Silent if hook::hosts::forgets_silently(event.host) => self.reminder(event, chats),
                reply @ (HookReply::Silent
                | HookReply::Hold { .. }
                | HookReply::Context { .. }
                | HookReply::Deny { .. }) => Ok(reply),
            },
            HookEventKind::HistoryShrinks => {
                if let Some(record) = chats.chat(event.key()) {
                    let record = ChatRecord { memory: ChatMemory::Lost, ..record };
                    chats.remember_chat(event.key(), &record).map_err(|cause| error::io(&cause))?;
                }
                Ok(HookReply::Silent)
            }
            HookEventKind::TurnEnds(end) => self.turn_ends(event, *end, chats),
            HookEventKind::ToolStarts(ToolUse::Edit { paths }) => self.edit_starts(event, paths, chats),
            HookEventKind::ToolEnds { .. }
            | HookEventKind::ToolStarts(_)
            | HookEventKind::SubagentStarts { .. } => {
                let record = chat_record_of(event, chats);
                if let (Some(record), Some(evidence)) = (record, hook::observed(&event.kind)) {
                    self.leave_observation(event, &record, evidence);
                }
                let is_result = matches!(event.kind, HookEventKind::ToolEnds { .. });
                match is_result && hook::hosts::takes_context_after_tools(event.host) {
                    true => self.step_after_compaction(event, chats),
                    false => Ok(HookReply::Silent),
                }
            }
        }
    }

    /// Remembers the run whose step a tool has just returned. Only a token signed by this store names one.
    fn remember_run(
        &self,
        event: &HookEvent,
        tool: ToolName,
        text: &str,
        chats: &dyn ChatDirectory,
    ) -> Result<(), Box<ErrorEnvelope>> {
        self.signer.refresh(KeyUse::ReadOnly)?;
        let signed =
            hook::tokens_in(tool, text).into_iter().find_map(|token| self.signer.verify_any(token).ok());
        let Some(token) = signed else { return Ok(()) };
        let session = token.session();
        let run = self.reading().look(session, |facts| {
            let resolved = resolve(facts, &token).map_err(|_| error::internal("the token names no node"))?;
            resolved.at().map(|at| at.run).ok_or_else(|| error::internal("the token names no run"))
        })?;
        let known = chats.chat(event.key()).filter(|known| known.run_id == run);
        let record = ChatRecord {
            v: ChatRecord::VERSION,
            host: event.host,
            session_id: session,
            run_id: run,
            workspace: event.workspace.clone(),
            used_at: self.environment.clock.now(),
            held: known.and_then(|known| known.held),
            memory: ChatMemory::Whole,
        };
        // From here on, no observation means that nothing was run.
        self.leave_observation(event, &record, Evidence::ChatWatched);
        chats.remember_chat(event.key(), &record).map_err(|cause| error::io(&cause))
    }

    fn chat_begins(
        &self,
        event: &HookEvent,
        start: ChatStart,
        chats: &dyn ChatDirectory,
    ) -> Result<HookReply, Box<ErrorEnvelope>> {
        match (start, chats.chat(event.key())) {
            (ChatStart::Again, Some(record)) => self.pending_step_again(event, &record),
            (ChatStart::New, _) | (ChatStart::Again, None) => Ok(self.unfinished_here(event, chats)),
        }
    }

    /// Shows the step again, once, to a chat whose history was compacted since.
    fn step_after_compaction(
        &self,
        event: &HookEvent,
        chats: &dyn ChatDirectory,
    ) -> Result<HookReply, Box<ErrorEnvelope>> {
        let lost = chats.chat(event.key()).filter(|record| record.memory == ChatMemory::Lost);
        let Some(record) = lost else { return Ok(HookReply::Silent) };
        let reply = self.pending_step_again(event, &record)?;
        let record = ChatRecord { memory: ChatMemory::Whole, ..record };
        // If that cannot be recorded, say nothing: otherwise it would be repeated in every turn.
        chats.remember_chat(event.key(), &record).map_err(|cause| error::io(&cause))?;
        Ok(reply)
    }

    /// One sentence saying which run the chat works on; omitted if it was just given as the reason for a hold.
    fn reminder(
        &self,
        event: &HookEvent,
        chats: &dyn ChatDirectory,
    ) -> Result<HookReply, Box<ErrorEnvelope>> {
        let Some(record) = chats.chat(event.key()) else { return Ok(HookReply::Silent) };
        let run = self.chat_run(record.session_id, record.run_id)?;
        let just_held = record.held.is_some_and(|held| held.log_length == run.position.log_length);
        Ok(match run.work.filter(|_| !just_held) {
            Some(work) => HookReply::Context { text: hook::pending_step_text(&work, None) },
            None => HookReply::Silent,
        })
    }

    /// The pending step of the chat's run, or only how to get it if it is too long for a hook.
    fn pending_step_again(
        &self,
        event: &HookEvent,
        record: &ChatRecord,
    ) -> Result<HookReply, Box<ErrorEnvelope>> {
        let ChatRun { work, state_token, .. } = self.chat_run(record.session_id, record.run_id)?;
        let Some(work) = work else { return Ok(HookReply::Silent) };
        let workspace = event.workspace.as_deref().and_then(|path| WorkspacePath::parse(path).ok());
        let step = self.reading().rehydrate(&state_token, &ContinueWorkflow::default(), workspace.as_ref());
        let step = step.ok().map(|reply| reply.parts().join("\n\n"));
        let whole = step.map(|step| hook::pending_step_text(&work, Some(&step)));
        let fitting = whole.filter(|text| text.len() <= HOOK_TEXT_BYTES_MAX);
        Ok(HookReply::Context { text: fitting.unwrap_or_else(|| hook::pending_step_text(&work, None)) })
    }

    /// What another chat left unfinished in this folder. Only mentioned, since this chat may be about something else.
    fn unfinished_here(&self, event: &HookEvent, chats: &dyn ChatDirectory) -> HookReply {
        let Some(workspace) = &event.workspace else { return HookReply::Silent };
        let records = chats.chats().into_iter().filter(|record| record.workspace.as_ref() == Some(workspace));
        let found = records
            .take(CHATS_READ_MAX)
            .find_map(|record| self.chat_run(record.session_id, record.run_id).ok()?.work);
        found.map_or(HookReply::Silent, |work| HookReply::Context { text: hook::unfinished_here(&work) })
    }

    /// Refuses an edit that the pending step does not allow (G110).
    fn edit_starts(
        &self,
        event: &HookEvent,
        files: &[String],
        chats: &dyn ChatDirectory,
    ) -> Result<HookReply, Box<ErrorEnvelope>> {
        let Some(record) = chat_record_of(event, chats) else { return Ok(HookReply::Silent) };
        let run = self.chat_run(record.session_id, record.run_id)?;
        let (Some(work), Some(rule)) = (run.work, run.edits) else { return Ok(HookReply::Silent) };
        let Some(refused) = hook::refused_edit(&rule, files) else { return Ok(HookReply::Silent) };
        let reason = hook::edit_denied(&work, &rule, &refused);
        if !refused.is_empty() {
            self.leave_observation(event, &record, Evidence::EditRefused { files: PathList::new(refused) });
        }
        Ok(HookReply::Deny { reason })
    }

    /// Leaves an observation for the next advance; if that fails, it is lost.
    fn leave_observation(&self, event: &HookEvent, record: &ChatRecord, evidence: Evidence) {
        let host = BoundedText::clip(event.host.as_str());
        if let Ok(seen) = HookObservation::new(self.environment.clock.now(), host, evidence) {
            let _ = self.store.leave_observation(record.session_id, record.run_id, &seen);
        }
    }

    fn turn_ends(
        &self,
        event: &HookEvent,
        end: TurnEnd,
        chats: &dyn ChatDirectory,
    ) -> Result<HookReply, Box<ErrorEnvelope>> {
        let Some(record) = chats.chat(event.key()) else { return Ok(HookReply::Silent) };
        let run = self.chat_run(record.session_id, record.run_id)?;
        match (hook::hold(end, record.held, run.position), run.work) {
            (TurnDecision::Hold(held), Some(work)) => {
                let record = ChatRecord { held: Some(held), ..record };
                chats.remember_chat(event.key(), &record).map_err(|cause| error::io(&cause))?;
                Ok(HookReply::Hold { reason: hook::hold_reason(&work) })
            }
            (TurnDecision::Hold(_) | TurnDecision::Release, _) => Ok(HookReply::Silent),
        }
    }

    fn chat_run(&self, session: SessionId, run: RunId) -> Result<ChatRun, Box<ErrorEnvelope>> {
        self.signer.refresh(KeyUse::ReadOnly)?;
        let reading = self.reading();
        reading.look(session, |facts| {
            let label = RunLabel::of(run);
            let unknown = || error::unknown_reference(&label.to_string());
            let state = facts.run(run).ok_or_else(unknown)?;
            let tip = facts.preferred_tip(run).and_then(|tip| facts.node(tip)).ok_or_else(unknown)?;
            let snapshot = reading.content.snapshot(tip.snapshot_ref)?;
            let state_token = self.signer.state(session, node_facts(facts, tip.node_id)?);
            let position =
                |pending| RunPosition { node: tip.node_id, log_length: facts.next_event_index(), pending };
            let is_open = match facts.run_status(run, snapshot.state().is_complete()) {
                Some(RunStatus::InProgress | RunStatus::Blocked) => true,
                Some(RunStatus::Complete | RunStatus::CompleteWithGaps | RunStatus::Closed) | None => false,
            };
            let Some(pending) = snapshot.state().pending_step().filter(|_| is_open) else {
                return Ok(ChatRun {
                    position: position(PendingFor::Nobody),
                    work: None,
                    edits: None,
                    state_token,
                });
            };
            let workflow = reading.content.workflow(state.workflow_hash)?;
            let context = facts.context_at(tip.node_id).map_err(|cause| error::context(&cause))?;
            let waits = match facts.waits_for_person(tip.node_id) {
                true => PersonWait::Waiting,
                false => PersonWait::NotWaiting,
            };
            let autonomy = facts.preferences(tip.node_id).autonomy;
            let pending_for = hook::pending_for(&workflow, pending, &context, autonomy, waits);
            let goal = context.get("goal").and_then(serde_json::Value::as_str);
            let work = PendingWork {
                label: label.to_string(),
                workflow: state.workflow_id.to_string(),
                goal: goal.map(|goal| truncate_with_marker(goal, GOAL_SHOWN_BYTES_MAX).replace('\n', " ")),
                step: title_without_secrets(&workflow, pending, &context),
                rehydrate_call: rehydrate_call(&state_token, label),
            };
            let rule = workflow.step(&pending.step_id).and_then(|step| step.edits.as_ref());
            let edits = rule.and_then(|rule| AllowedEdits::of(rule, &context));
            Ok(ChatRun { position: position(pending_for), work: Some(work), edits, state_token })
        })
    }
}
