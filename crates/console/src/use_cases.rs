//! What the console asks and does: only use cases that the command line also has.

use std::io::{Cursor, Write};
use std::sync::Arc;

use workrail_engine::catalog::Filter;
use workrail_engine::compare::{ComparedPart, ComparedRuns, PartOfRun};
use workrail_engine::edit::{CheckedText, FileInSource, WorkflowFile};
use workrail_engine::passkeys::{
    Asking, Challenge, KeyToEnrol, LogDamage, NewKey, Passkeys, Registration, SignedAct,
};
use workrail_engine::report::{ContextValues, Report, SubmittedArtifact};
use workrail_engine::request::InspectWorkflow;
use workrail_engine::sessions::{Attention, ListLength, NoteSearch, SessionView, SessionsList, Wanted};
use workrail_engine::upkeep::{CleanupPlan, CleanupReport, Keys, Mode, Overview};
use workrail_engine::versions::WorkflowVersions;
use workrail_engine::{
    Engine, ExportFailure, ImportMode, ManagedStore, RunPreferences, SessionOrRun, Waiting,
};
use workrail_model::approval::{ApprovalDecision, ApprovalOrigin, Descent};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::config::{Key, Settings};
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::discovery::{InspectMode, ListedWorkflow, UnusableFile, WorkflowInspection};
use workrail_model::error::{ErrorCode, ErrorEnvelope, Retry};
use workrail_model::event::{CloseChannel, Context};
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::keyring::HttpSecret;
use workrail_model::name::WorkflowId;
use workrail_model::passkey::{CredentialId, Nonce, SignedChallenge};
use workrail_model::preferences::PreferenceChange;
use workrail_model::retention::Ttl;
use workrail_model::server::{LoggedCall, ServerRecord};
use workrail_model::team::Act;
use workrail_model::time::Timestamp;

pub(crate) type Answer<T> = Result<T, Box<ErrorEnvelope>>;

/// A refusal by the console itself: what is wrong, and what to do next.
pub(crate) fn refusal(code: ErrorCode, message: &str, next: &str) -> Box<ErrorEnvelope> {
    Box::new(ErrorEnvelope {
        code,
        message: message.to_owned(),
        retry: Retry::NotRetryable,
        suggestion: next.to_owned(),
        suggestion_for_people: None,
        next_call: None,
        details: None,
    })
}

/// The user's decision, and how it is recorded.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    pub decision: ApprovalDecision,
    /// Why, for the agent.
    pub reason: Option<&'a str>,
    pub origin: ApprovalOrigin,
}

/// The engine as the console sees it, independent of the store.
pub trait UseCases: Send + Sync {
    /// Whether the visitor may do this. The engine checks again when it is done.
    fn may(&self, act: Act) -> bool;
    fn sessions(&self) -> Answer<SessionsList>;
    fn attention(&self, session: SessionId, run: RunId) -> Answer<Option<Attention>>;
    fn find(&self, text: &str) -> Answer<SessionOrRun>;
    /// With the notes and artifacts of one point, or of where each run continues.
    fn show(&self, about: SessionOrRun, point: Option<NodeId>) -> Answer<SessionView>;
    fn compare(&self, a: (RunId, &ComparedPart), b: (RunId, &ComparedPart)) -> Answer<ComparedRuns>;
    fn step_text(&self, session: SessionId, node: NodeId) -> Answer<Option<String>>;
    fn search(&self, words: &str, limit: usize) -> Answer<NoteSearch>;
    fn report(&self, about: SessionOrRun) -> Answer<Report>;
    fn export(&self, session: SessionId, out: &mut dyn Write) -> Result<(), ExportFailure>;
    fn is_kept(&self, session: SessionId) -> bool;
    fn overview(&self, session: SessionId) -> Answer<Overview>;
    fn keep(&self, session: SessionId) -> Answer<()>;
    fn unkeep(&self, session: SessionId) -> Answer<()>;
    fn delete(&self, seen: &Overview) -> Answer<()>;
    /// Returns the session's id in this store.
    fn import(&self, bundle: &[u8]) -> Answer<SessionId>;
    fn waiting(&self, run: RunId) -> Answer<Waiting>;
    fn submitted(&self, waiting: &Waiting, run: RunId) -> Answer<Vec<SubmittedArtifact>>;
    fn decide(&self, run: RunId, seen: &Waiting, decision: Decision<'_>) -> Answer<()>;
    fn decide_signed(
        &self,
        run: RunId,
        seen: &Waiting,
        decided: (ApprovalDecision, Option<&str>),
        signed: &SignedChallenge,
        descends_from_server: Descent,
    ) -> Answer<()>;
    fn answer(
        &self,
        run: RunId,
        seen: &Waiting,
        values: Context,
        signed: Option<&SignedChallenge>,
    ) -> Answer<()>;
    fn passkeys(&self) -> Answer<Result<Passkeys, LogDamage>>;
    fn challenge_for_run(
        &self,
        run: RunId,
        seen: &Waiting,
        act: SignedAct<'_>,
        asking: Asking<'_>,
    ) -> Answer<Challenge>;
    /// A nonce for one use of a passkey, and whether this or another server of the store drew it.
    fn draw_nonce(&self) -> Answer<Nonce>;
    fn drew_nonce(&self, nonce: &Nonce) -> Answer<bool>;
    fn challenge_for_new_key(&self, asking: Asking<'_>) -> Sha256;
    fn new_key(&self, registration: Registration<'_>, asking: Asking<'_>) -> Answer<NewKey>;
    fn challenge_to_enrol(&self, wanted: &KeyToEnrol, asking: Asking<'_>) -> Answer<Option<Challenge>>;
    fn enrol(&self, wanted: &KeyToEnrol, agreed: Option<&SignedChallenge>) -> Answer<()>;
    fn challenge_to_remove(&self, key: &CredentialId, asking: Asking<'_>) -> Answer<Challenge>;
    fn challenge_for_preferences(
        &self,
        session: SessionId,
        changes: &[PreferenceChange],
        asking: Asking<'_>,
    ) -> Answer<Challenge>;
    fn prefer_signed(
        &self,
        session: SessionId,
        changes: &[PreferenceChange],
        signed: &SignedChallenge,
    ) -> Answer<()>;
    fn challenge_for_setting(&self, key: Key, value: Option<&str>, asking: Asking<'_>) -> Answer<Challenge>;
    fn agree_to_setting(&self, key: Key, value: Option<&str>, signed: &SignedChallenge) -> Answer<()>;
    fn challenge_for_trust(&self, commands: Sha256, asking: Asking<'_>) -> Answer<Challenge>;
    fn agree_to_trust(&self, commands: Sha256, signed: &SignedChallenge) -> Answer<()>;
    fn remove_passkey(&self, key: &CredentialId, agreed: &SignedChallenge) -> Answer<()>;
    fn close(&self, run: RunId, reason: &str) -> Answer<()>;
    fn workflows(&self, filter: &Filter) -> (Vec<ListedWorkflow>, Vec<UnusableFile>);
    fn workflow(&self, id: &str) -> Answer<WorkflowInspection>;
    fn versions(&self, id: &WorkflowId) -> Answer<WorkflowVersions>;
    fn pinned(&self, hash: WorkflowHash) -> Answer<Arc<CompiledWorkflow>>;
    fn copy(&self, id: &WorkflowId, copy: &WorkflowId) -> Answer<Vec<u8>>;
    fn workflow_files(&self) -> Vec<FileInSource>;
    fn file_of_workflow(&self, id: &WorkflowId) -> Answer<FileInSource>;
    fn workflow_file(&self, key: Sha256) -> Answer<WorkflowFile>;
    fn check_workflow(&self, about: &FileInSource, text: &str, cursor: Option<usize>) -> Answer<CheckedText>;
    /// Whether a file has the id.
    fn has_workflow(&self, id: &WorkflowId) -> bool;
    /// What a clean-up would remove now.
    fn planned_clean_up(&self, retention_days: u32) -> Answer<CleanupReport>;
    fn clean_up_as_planned(&self, retention_days: u32, agreed: CleanupPlan) -> Answer<CleanupReport>;
    fn keys(&self) -> Answer<Option<Keys>>;
    fn rotate_keys(&self) -> Answer<()>;
    fn preferences(&self, about: SessionOrRun) -> Answer<Vec<RunPreferences>>;
    /// Asks for preferences; if they would raise the autonomy of runs, returns those runs and records nothing.
    fn prefer(&self, about: SessionOrRun, changes: &[PreferenceChange]) -> Answer<Vec<RunPreferences>>;
    fn servers(&self) -> Answer<Vec<ServerRecord>>;
    fn calls(&self, limit: usize) -> Answer<Vec<LoggedCall>>;
    fn change_stamp(&self) -> Option<u64>;
    /// Distinguishes the workspace that the console was started in from others.
    fn own_workspace(&self) -> Option<Sha256>;
}

impl<S: ManagedStore> UseCases for Engine<S> {
    fn may(&self, act: Act) -> bool {
        Engine::may(self, act)
    }

    fn draw_nonce(&self) -> Answer<Nonce> {
        Self::draw_nonce(self)
    }

    fn drew_nonce(&self, nonce: &Nonce) -> Answer<bool> {
        Self::drew_nonce(self, nonce)
    }

    fn sessions(&self) -> Answer<SessionsList> {
        Self::sessions(self, &Wanted::all_of(ListLength::Whole), &mut |_, _| {})
    }

    fn attention(&self, session: SessionId, run: RunId) -> Answer<Option<Attention>> {
        Self::attention(self, session, run)
    }

    fn find(&self, text: &str) -> Answer<SessionOrRun> {
        Self::find(self, text)
    }

    fn show(&self, about: SessionOrRun, point: Option<NodeId>) -> Answer<SessionView> {
        self.show_point(about, point)
    }

    fn compare(&self, a: (RunId, &ComparedPart), b: (RunId, &ComparedPart)) -> Answer<ComparedRuns> {
        let part = |(run, part): (RunId, &ComparedPart)| -> Answer<PartOfRun> {
            let session = self.find(&run.to_string())?.session;
            Ok(PartOfRun { session, run, part: part.clone() })
        };
        Self::compare(self, &part(a)?, &part(b)?, ContextValues::NotShown)
    }

    fn step_text(&self, session: SessionId, node: NodeId) -> Answer<Option<String>> {
        Self::step_text(self, session, node)
    }

    fn search(&self, words: &str, limit: usize) -> Answer<NoteSearch> {
        self.search_notes(words, limit, &mut |_, _| {})
    }

    fn report(&self, about: SessionOrRun) -> Answer<Report> {
        Self::report(self, about, ContextValues::NotShown)
    }

    fn export(&self, session: SessionId, out: &mut dyn Write) -> Result<(), ExportFailure> {
        Self::export(self, session, None, out, &mut |_, _| {}).map(drop)
    }

    fn is_kept(&self, session: SessionId) -> bool {
        Engine::is_kept(self, session)
    }

    fn overview(&self, session: SessionId) -> Answer<Overview> {
        Self::overview(self, session)
    }

    fn keep(&self, session: SessionId) -> Answer<()> {
        Self::keep(self, session)
    }

    fn unkeep(&self, session: SessionId) -> Answer<()> {
        Self::unkeep(self, session)
    }

    fn delete(&self, seen: &Overview) -> Answer<()> {
        Self::delete(self, seen).map(drop)
    }

    fn import(&self, bundle: &[u8]) -> Answer<SessionId> {
        let imported = Self::import(self, &mut Cursor::new(bundle), ImportMode::KeepIdIfFree)?;
        Ok(imported.session)
    }

    fn waiting(&self, run: RunId) -> Answer<Waiting> {
        Self::waiting(self, &run.to_string())
    }

    fn submitted(&self, waiting: &Waiting, run: RunId) -> Answer<Vec<SubmittedArtifact>> {
        self.submitted_artifacts(waiting.session, run, &waiting.artifacts)
    }

    fn decide(&self, run: RunId, seen: &Waiting, decision: Decision<'_>) -> Answer<()> {
        let Decision { decision, reason, origin } = decision;
        self.approve(&run.to_string(), seen, (decision, reason), origin)
    }

    fn decide_signed(
        &self,
        run: RunId,
        seen: &Waiting,
        decided: (ApprovalDecision, Option<&str>),
        signed: &SignedChallenge,
        descends_from_server: Descent,
    ) -> Answer<()> {
        self.approve_with_passkey(run, seen, decided, signed, descends_from_server)
    }

    fn answer(
        &self,
        run: RunId,
        seen: &Waiting,
        values: Context,
        signed: Option<&SignedChallenge>,
    ) -> Answer<()> {
        self.answer_in_console(run, seen, values, signed)
    }

    fn passkeys(&self) -> Answer<Result<Passkeys, LogDamage>> {
        Self::passkeys(self)
    }

    fn challenge_for_run(
        &self,
        run: RunId,
        seen: &Waiting,
        act: SignedAct<'_>,
        asking: Asking<'_>,
    ) -> Answer<Challenge> {
        Self::challenge_for_run(self, run, seen, act, asking)
    }

    fn challenge_for_new_key(&self, asking: Asking<'_>) -> Sha256 {
        Self::challenge_for_new_key(self, asking)
    }

    fn new_key(&self, registration: Registration<'_>, asking: Asking<'_>) -> Answer<NewKey> {
        Self::new_key(self, registration, asking)
    }

    fn challenge_to_enrol(&self, wanted: &KeyToEnrol, asking: Asking<'_>) -> Answer<Option<Challenge>> {
        Self::challenge_to_enrol(self, wanted, asking)
    }

    fn enrol(&self, wanted: &KeyToEnrol, agreed: Option<&SignedChallenge>) -> Answer<()> {
        Self::enrol(self, wanted, agreed)
    }

    fn challenge_for_preferences(
        &self,
        session: SessionId,
        changes: &[PreferenceChange],
        asking: Asking<'_>,
    ) -> Answer<Challenge> {
        Self::challenge_for_preferences(self, session, changes, asking)
    }

    fn prefer_signed(
        &self,
        session: SessionId,
        changes: &[PreferenceChange],
        signed: &SignedChallenge,
    ) -> Answer<()> {
        self.prefer_with_passkey(session, changes, signed)
    }

    fn challenge_for_setting(&self, key: Key, value: Option<&str>, asking: Asking<'_>) -> Answer<Challenge> {
        Self::challenge_for_setting(self, key.as_str(), value, asking)
    }

    fn agree_to_setting(&self, key: Key, value: Option<&str>, signed: &SignedChallenge) -> Answer<()> {
        Self::agree_to_setting(self, key.as_str(), value, signed)
    }

    fn challenge_for_trust(&self, commands: Sha256, asking: Asking<'_>) -> Answer<Challenge> {
        Self::challenge_for_trust(self, commands, asking)
    }

    fn agree_to_trust(&self, commands: Sha256, signed: &SignedChallenge) -> Answer<()> {
        Self::agree_to_trust(self, commands, signed)
    }

    fn challenge_to_remove(&self, key: &CredentialId, asking: Asking<'_>) -> Answer<Challenge> {
        Self::challenge_to_remove(self, key, asking)
    }

    fn remove_passkey(&self, key: &CredentialId, agreed: &SignedChallenge) -> Answer<()> {
        Self::remove_passkey(self, key, agreed)
    }

    fn close(&self, run: RunId, reason: &str) -> Answer<()> {
        let session = self.find(&run.to_string())?.session;
        self.close_run(session, run, reason, CloseChannel::Console).map(|_| ())
    }

    fn workflows(&self, filter: &Filter) -> (Vec<ListedWorkflow>, Vec<UnusableFile>) {
        self.all_workflows(filter)
    }

    fn workflow(&self, id: &str) -> Answer<WorkflowInspection> {
        let mode = InspectMode::Preview;
        self.inspect_workflow(InspectWorkflow { workflow_id: id.to_owned(), mode, workspace_path: None })
    }

    fn versions(&self, id: &WorkflowId) -> Answer<WorkflowVersions> {
        self.workflow_versions(id)
    }

    fn pinned(&self, hash: WorkflowHash) -> Answer<Arc<CompiledWorkflow>> {
        self.pinned_workflow(hash)
    }

    fn copy(&self, id: &WorkflowId, copy: &WorkflowId) -> Answer<Vec<u8>> {
        self.workflow_copy(id, copy)
    }

    fn workflow_files(&self) -> Vec<FileInSource> {
        Self::workflow_files(self)
    }

    fn file_of_workflow(&self, id: &WorkflowId) -> Answer<FileInSource> {
        Self::file_of_workflow(self, id)
    }

    fn workflow_file(&self, key: Sha256) -> Answer<WorkflowFile> {
        Self::workflow_file(self, key)
    }

    fn check_workflow(&self, about: &FileInSource, text: &str, cursor: Option<usize>) -> Answer<CheckedText> {
        Self::check_workflow(self, about, text, cursor)
    }

    fn has_workflow(&self, id: &WorkflowId) -> bool {
        Self::file_of_workflow(self, id).is_ok()
    }

    fn planned_clean_up(&self, retention_days: u32) -> Answer<CleanupReport> {
        self.clean_up(Ttl::of_days(retention_days), Mode::DryRun, &mut |_, _| {})
    }

    fn clean_up_as_planned(&self, retention_days: u32, agreed: CleanupPlan) -> Answer<CleanupReport> {
        Self::clean_up_as_planned(self, Ttl::of_days(retention_days), agreed)
    }

    fn keys(&self) -> Answer<Option<Keys>> {
        Self::keys(self)
    }

    fn rotate_keys(&self) -> Answer<()> {
        Self::rotate_keys(self).map(drop)
    }

    fn preferences(&self, about: SessionOrRun) -> Answer<Vec<RunPreferences>> {
        self.preferences_of(about)
    }

    fn prefer(&self, about: SessionOrRun, changes: &[PreferenceChange]) -> Answer<Vec<RunPreferences>> {
        let raised = self.raised_by(about, changes)?;
        if raised.is_empty() {
            self.ask_preferences(about, changes)?;
        }
        Ok(raised)
    }

    fn servers(&self) -> Answer<Vec<ServerRecord>> {
        Self::servers(self)
    }

    fn calls(&self, limit: usize) -> Answer<Vec<LoggedCall>> {
        Self::calls(self, limit)
    }

    fn change_stamp(&self) -> Option<u64> {
        Self::change_stamp(self)
    }

    fn own_workspace(&self) -> Option<Sha256> {
        Self::own_workspace(self)
    }
}

/// What the process that runs the console provides to it.
pub trait Environment: Send + Sync {
    /// For display only (G6).
    fn now(&self) -> Timestamp;
    /// 32 random bytes; `None` if the system provides none.
    fn secret(&self) -> Option<HttpSecret>;
    /// How a decision sent now is recorded; the error says why the settings refuse it.
    fn decision_origin(&self) -> Result<ApprovalOrigin, String>;
    /// The settings as the file has them now.
    fn settings(&self) -> Result<Settings, String>;
    /// Where the data is, for display.
    fn data_dir(&self) -> String;
    fn version(&self) -> &str;
    /// Prints to the terminal that the console runs in.
    fn notice(&self, text: &str);
}
