//! What the console asks and does: only use cases that the command line also has.

use std::io::{Cursor, Write};
use std::sync::Arc;

use workrail_engine::catalog::Filter;
use workrail_engine::compare::{Comparison, LocatedPart, RunPart};
use workrail_engine::edit::{CheckedText, FileInSource, WorkflowFile};
use workrail_engine::passkeys::{
    Challenge, ChallengeOrigin, KeyToEnrol, LogDamage, NewKey, Passkeys, Registration, SignedAct,
};
use workrail_engine::report::{ContextValues, Report, SubmittedArtifact};
use workrail_engine::request::InspectWorkflow;
use workrail_engine::sessions::{Attention, ListLength, ListQuery, RecordSearch, SessionView, SessionsList};
use workrail_engine::upkeep::{ApplyMode, CleanupPlan, CleanupReport, Keys, SessionOverview};
use workrail_engine::versions::WorkflowVersions;
use workrail_engine::{
    Engine, ExportFailure, ImportMode, ManagedStore, RunPreferences, SessionOrRun, WaitingStep,
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

pub(crate) type EngineResult<T> = Result<T, Box<ErrorEnvelope>>;

/// A refusal by the console itself: what is wrong, and what to do next.
pub(crate) fn refusal(code: ErrorCode, message: &str, next: &str) -> Box<ErrorEnvelope> {
    Box::new(ErrorEnvelope {
        code,
        message: message.to_owned(),
        retry: Retry::NotRetryable,
        suggestion: next.to_owned(),
        suggestion_for_people: None,
        in_team: None,
        next_call: None,
        details: None,
    })
}

/// The user's decision, and how it is recorded.
#[derive(Clone, Copy, Debug)]
pub struct UserDecision<'a> {
    pub decision: ApprovalDecision,
    /// Why, for the agent.
    pub reason: Option<&'a str>,
    pub origin: ApprovalOrigin,
}

/// The engine as the console sees it, independent of the store.
pub trait UseCases: Send + Sync {
    /// Whether the visitor may do this. The engine checks again when it is done.
    fn may(&self, act: Act) -> bool;
    fn sessions(&self) -> EngineResult<SessionsList>;
    fn attention(&self, session: SessionId, run: RunId) -> EngineResult<Option<Attention>>;
    fn find(&self, text: &str) -> EngineResult<SessionOrRun>;
    /// With the notes and artifacts of one point, or of where each run continues.
    fn show(&self, about: SessionOrRun, point: Option<NodeId>) -> EngineResult<SessionView>;
    fn compare(&self, a: (RunId, &RunPart), b: (RunId, &RunPart)) -> EngineResult<Comparison>;
    fn step_text(&self, session: SessionId, node: NodeId) -> EngineResult<Option<String>>;
    fn search(&self, words: &str, limit: usize) -> EngineResult<RecordSearch>;
    fn report(&self, about: SessionOrRun) -> EngineResult<Report>;
    fn export(&self, session: SessionId, out: &mut dyn Write) -> Result<(), ExportFailure>;
    fn is_kept(&self, session: SessionId) -> bool;
    fn overview(&self, session: SessionId) -> EngineResult<SessionOverview>;
    fn keep(&self, session: SessionId) -> EngineResult<()>;
    fn unkeep(&self, session: SessionId) -> EngineResult<()>;
    fn delete(&self, seen: &SessionOverview) -> EngineResult<()>;
    /// Returns the session's id in this store.
    fn import(&self, bundle: &[u8]) -> EngineResult<SessionId>;
    fn waiting(&self, run: RunId) -> EngineResult<WaitingStep>;
    fn submitted(&self, waiting: &WaitingStep, run: RunId) -> EngineResult<Vec<SubmittedArtifact>>;
    fn decide(&self, run: RunId, seen: &WaitingStep, decision: UserDecision<'_>) -> EngineResult<()>;
    fn decide_signed(
        &self,
        run: RunId,
        seen: &WaitingStep,
        decided: (ApprovalDecision, Option<&str>),
        signed: &SignedChallenge,
        descends_from_server: Descent,
    ) -> EngineResult<()>;
    fn answer(
        &self,
        run: RunId,
        seen: &WaitingStep,
        values: Context,
        signed: Option<&SignedChallenge>,
    ) -> EngineResult<()>;
    fn passkeys(&self) -> EngineResult<Result<Passkeys, LogDamage>>;
    fn challenge_for_run(
        &self,
        run: RunId,
        seen: &WaitingStep,
        act: SignedAct<'_>,
        from: ChallengeOrigin<'_>,
    ) -> EngineResult<Challenge>;
    /// A nonce for one use of a passkey, and whether this or another server of the store drew it.
    fn draw_nonce(&self) -> EngineResult<Nonce>;
    fn drew_nonce(&self, nonce: &Nonce) -> EngineResult<bool>;
    fn challenge_for_new_key(&self, from: ChallengeOrigin<'_>) -> Sha256;
    fn new_key(&self, registration: Registration<'_>, from: ChallengeOrigin<'_>) -> EngineResult<NewKey>;
    fn challenge_to_enrol(
        &self,
        wanted: &KeyToEnrol,
        from: ChallengeOrigin<'_>,
    ) -> EngineResult<Option<Challenge>>;
    fn enrol(&self, wanted: &KeyToEnrol, agreed: Option<&SignedChallenge>) -> EngineResult<()>;
    fn challenge_to_remove(&self, key: &CredentialId, from: ChallengeOrigin<'_>) -> EngineResult<Challenge>;
    fn challenge_for_preferences(
        &self,
        session: SessionId,
        changes: &[PreferenceChange],
        from: ChallengeOrigin<'_>,
    ) -> EngineResult<Challenge>;
    fn prefer_signed(
        &self,
        session: SessionId,
        changes: &[PreferenceChange],
        signed: &SignedChallenge,
    ) -> EngineResult<()>;
    fn challenge_for_setting(
        &self,
        key: Key,
        value: Option<&str>,
        from: ChallengeOrigin<'_>,
    ) -> EngineResult<Challenge>;
    fn agree_to_setting(&self, key: Key, value: Option<&str>, signed: &SignedChallenge) -> EngineResult<()>;
    fn challenge_for_trust(&self, commands: Sha256, from: ChallengeOrigin<'_>) -> EngineResult<Challenge>;
    fn agree_to_trust(&self, commands: Sha256, signed: &SignedChallenge) -> EngineResult<()>;
    fn remove_passkey(&self, key: &CredentialId, agreed: &SignedChallenge) -> EngineResult<()>;
    fn close(&self, run: RunId, reason: &str) -> EngineResult<()>;
    fn workflows(&self, filter: &Filter) -> (Vec<ListedWorkflow>, Vec<UnusableFile>);
    fn workflow(&self, id: &str) -> EngineResult<WorkflowInspection>;
    fn versions(&self, id: &WorkflowId) -> EngineResult<WorkflowVersions>;
    fn pinned(&self, hash: WorkflowHash) -> EngineResult<Arc<CompiledWorkflow>>;
    fn copy(&self, id: &WorkflowId, copy: &WorkflowId) -> EngineResult<Vec<u8>>;
    fn workflow_files(&self) -> Vec<FileInSource>;
    fn file_of_workflow(&self, id: &WorkflowId) -> EngineResult<FileInSource>;
    fn workflow_file(&self, key: Sha256) -> EngineResult<WorkflowFile>;
    fn check_workflow(
        &self,
        about: &FileInSource,
        text: &str,
        cursor: Option<usize>,
    ) -> EngineResult<CheckedText>;
    /// Whether a file has the id.
    fn has_workflow(&self, id: &WorkflowId) -> bool;
    /// What a clean-up would remove now.
    fn planned_clean_up(&self, retention_days: u32) -> EngineResult<CleanupReport>;
    fn clean_up_as_planned(&self, retention_days: u32, agreed: CleanupPlan) -> EngineResult<CleanupReport>;
    fn keys(&self) -> EngineResult<Option<Keys>>;
    fn rotate_keys(&self) -> EngineResult<()>;
    fn preferences(&self, about: SessionOrRun) -> EngineResult<Vec<RunPreferences>>;
    /// Asks for preferences; if they would raise the autonomy of runs, returns those runs and records nothing.
    fn prefer(&self, about: SessionOrRun, changes: &[PreferenceChange]) -> EngineResult<Vec<RunPreferences>>;
    fn servers(&self) -> EngineResult<Vec<ServerRecord>>;
    fn calls(&self, limit: usize) -> EngineResult<Vec<LoggedCall>>;
    fn change_stamp(&self) -> Option<u64>;
    /// Distinguishes the workspace that the console was started in from others.
    fn own_repository(&self) -> Option<Sha256>;
}

impl<S: ManagedStore> UseCases for Engine<S> {
    fn may(&self, act: Act) -> bool {
        Engine::may(self, act)
    }

    fn draw_nonce(&self) -> EngineResult<Nonce> {
        Self::draw_nonce(self)
    }

    fn drew_nonce(&self, nonce: &Nonce) -> EngineResult<bool> {
        Self::drew_nonce(self, nonce)
    }

    fn sessions(&self) -> EngineResult<SessionsList> {
        Self::sessions(self, &ListQuery::all_of(ListLength::Whole), &mut |_, _| {})
    }

    fn attention(&self, session: SessionId, run: RunId) -> EngineResult<Option<Attention>> {
        Self::attention(self, session, run)
    }

    fn find(&self, text: &str) -> EngineResult<SessionOrRun> {
        Self::find(self, text)
    }

    fn show(&self, about: SessionOrRun, point: Option<NodeId>) -> EngineResult<SessionView> {
        self.show_point(about, point)
    }

    fn compare(&self, a: (RunId, &RunPart), b: (RunId, &RunPart)) -> EngineResult<Comparison> {
        let part = |(run, part): (RunId, &RunPart)| -> EngineResult<LocatedPart> {
            let session = self.find(&run.to_string())?.session;
            Ok(LocatedPart { session, run, part: part.clone() })
        };
        Self::compare(self, &part(a)?, &part(b)?, ContextValues::NotShown)
    }

    fn step_text(&self, session: SessionId, node: NodeId) -> EngineResult<Option<String>> {
        Self::step_text(self, session, node)
    }

    fn search(&self, words: &str, limit: usize) -> EngineResult<RecordSearch> {
        self.search_notes(words, limit, &mut |_, _| {})
    }

    fn report(&self, about: SessionOrRun) -> EngineResult<Report> {
        Self::report(self, about, ContextValues::NotShown)
    }

    fn export(&self, session: SessionId, out: &mut dyn Write) -> Result<(), ExportFailure> {
        Self::export(self, session, None, out, &mut |_, _| {}).map(drop)
    }

    fn is_kept(&self, session: SessionId) -> bool {
        Engine::is_kept(self, session)
    }

    fn overview(&self, session: SessionId) -> EngineResult<SessionOverview> {
        Self::overview(self, session)
    }

    fn keep(&self, session: SessionId) -> EngineResult<()> {
        Self::keep(self, session)
    }

    fn unkeep(&self, session: SessionId) -> EngineResult<()> {
        Self::unkeep(self, session)
    }

    fn delete(&self, seen: &SessionOverview) -> EngineResult<()> {
        Self::delete(self, seen).map(drop)
    }

    fn import(&self, bundle: &[u8]) -> EngineResult<SessionId> {
        let imported = Self::import(self, &mut Cursor::new(bundle), ImportMode::KeepIdIfFree)?;
        Ok(imported.session)
    }

    fn waiting(&self, run: RunId) -> EngineResult<WaitingStep> {
        Self::waiting(self, &run.to_string())
    }

    fn submitted(&self, waiting: &WaitingStep, run: RunId) -> EngineResult<Vec<SubmittedArtifact>> {
        self.submitted_artifacts(waiting.session, run, &waiting.artifacts)
    }

    fn decide(&self, run: RunId, seen: &WaitingStep, decision: UserDecision<'_>) -> EngineResult<()> {
        let UserDecision { decision, reason, origin } = decision;
        self.approve(&run.to_string(), seen, (decision, reason), origin)
    }

    fn decide_signed(
        &self,
        run: RunId,
        seen: &WaitingStep,
        decided: (ApprovalDecision, Option<&str>),
        signed: &SignedChallenge,
        descends_from_server: Descent,
    ) -> EngineResult<()> {
        self.approve_with_passkey(run, seen, decided, signed, descends_from_server)
    }

    fn answer(
        &self,
        run: RunId,
        seen: &WaitingStep,
        values: Context,
        signed: Option<&SignedChallenge>,
    ) -> EngineResult<()> {
        self.answer_in_console(run, seen, values, signed)
    }

    fn passkeys(&self) -> EngineResult<Result<Passkeys, LogDamage>> {
        Self::passkeys(self)
    }

    fn challenge_for_run(
        &self,
        run: RunId,
        seen: &WaitingStep,
        act: SignedAct<'_>,
        from: ChallengeOrigin<'_>,
    ) -> EngineResult<Challenge> {
        Self::challenge_for_run(self, run, seen, act, from)
    }

    fn challenge_for_new_key(&self, from: ChallengeOrigin<'_>) -> Sha256 {
        Self::challenge_for_new_key(self, from)
    }

    fn new_key(&self, registration: Registration<'_>, from: ChallengeOrigin<'_>) -> EngineResult<NewKey> {
        Self::new_key(self, registration, from)
    }

    fn challenge_to_enrol(
        &self,
        wanted: &KeyToEnrol,
        from: ChallengeOrigin<'_>,
    ) -> EngineResult<Option<Challenge>> {
        Self::challenge_to_enrol(self, wanted, from)
    }

    fn enrol(&self, wanted: &KeyToEnrol, agreed: Option<&SignedChallenge>) -> EngineResult<()> {
        Self::enrol(self, wanted, agreed)
    }

    fn challenge_for_preferences(
        &self,
        session: SessionId,
        changes: &[PreferenceChange],
        from: ChallengeOrigin<'_>,
    ) -> EngineResult<Challenge> {
        Self::challenge_for_preferences(self, session, changes, from)
    }

    fn prefer_signed(
        &self,
        session: SessionId,
        changes: &[PreferenceChange],
        signed: &SignedChallenge,
    ) -> EngineResult<()> {
        self.set_preferences_with_passkey(session, changes, signed)
    }

    fn challenge_for_setting(
        &self,
        key: Key,
        value: Option<&str>,
        from: ChallengeOrigin<'_>,
    ) -> EngineResult<Challenge> {
        Self::challenge_for_setting(self, key.as_str(), value, from)
    }

    fn agree_to_setting(&self, key: Key, value: Option<&str>, signed: &SignedChallenge) -> EngineResult<()> {
        Self::agree_to_setting(self, key.as_str(), value, signed)
    }

    fn challenge_for_trust(&self, commands: Sha256, from: ChallengeOrigin<'_>) -> EngineResult<Challenge> {
        Self::challenge_for_trust(self, commands, from)
    }

    fn agree_to_trust(&self, commands: Sha256, signed: &SignedChallenge) -> EngineResult<()> {
        Self::agree_to_trust(self, commands, signed)
    }

    fn challenge_to_remove(&self, key: &CredentialId, from: ChallengeOrigin<'_>) -> EngineResult<Challenge> {
        Self::challenge_to_remove(self, key, from)
    }

    fn remove_passkey(&self, key: &CredentialId, agreed: &SignedChallenge) -> EngineResult<()> {
        Self::remove_passkey(self, key, agreed)
    }

    fn close(&self, run: RunId, reason: &str) -> EngineResult<()> {
        let session = self.find(&run.to_string())?.session;
        self.close_run(session, run, reason, CloseChannel::Console).map(|_| ())
    }

    fn workflows(&self, filter: &Filter) -> (Vec<ListedWorkflow>, Vec<UnusableFile>) {
        self.all_workflows(filter)
    }

    fn workflow(&self, id: &str) -> EngineResult<WorkflowInspection> {
        let mode = InspectMode::Preview;
        self.inspect_workflow(InspectWorkflow { workflow_id: id.to_owned(), mode, workspace_path: None })
    }

    fn versions(&self, id: &WorkflowId) -> EngineResult<WorkflowVersions> {
        self.workflow_versions(id)
    }

    fn pinned(&self, hash: WorkflowHash) -> EngineResult<Arc<CompiledWorkflow>> {
        self.pinned_workflow(hash)
    }

    fn copy(&self, id: &WorkflowId, copy: &WorkflowId) -> EngineResult<Vec<u8>> {
        self.workflow_copy(id, copy)
    }

    fn workflow_files(&self) -> Vec<FileInSource> {
        Self::workflow_files(self)
    }

    fn file_of_workflow(&self, id: &WorkflowId) -> EngineResult<FileInSource> {
        Self::file_of_workflow(self, id)
    }

    fn workflow_file(&self, key: Sha256) -> EngineResult<WorkflowFile> {
        Self::workflow_file(self, key)
    }

    fn check_workflow(
        &self,
        about: &FileInSource,
        text: &str,
        cursor: Option<usize>,
    ) -> EngineResult<CheckedText> {
        Self::check_workflow(self, about, text, cursor)
    }

    fn has_workflow(&self, id: &WorkflowId) -> bool {
        Self::file_of_workflow(self, id).is_ok()
    }

    fn planned_clean_up(&self, retention_days: u32) -> EngineResult<CleanupReport> {
        self.clean_up(Ttl::of_days(retention_days), ApplyMode::DryRun, &mut |_, _| {})
    }

    fn clean_up_as_planned(&self, retention_days: u32, agreed: CleanupPlan) -> EngineResult<CleanupReport> {
        Self::clean_up_as_planned(self, Ttl::of_days(retention_days), agreed)
    }

    fn keys(&self) -> EngineResult<Option<Keys>> {
        Self::keys(self)
    }

    fn rotate_keys(&self) -> EngineResult<()> {
        Self::rotate_keys(self).map(drop)
    }

    fn preferences(&self, about: SessionOrRun) -> EngineResult<Vec<RunPreferences>> {
        self.preferences_of(about)
    }

    fn prefer(&self, about: SessionOrRun, changes: &[PreferenceChange]) -> EngineResult<Vec<RunPreferences>> {
        let raised = self.raised_by(about, changes)?;
        if raised.is_empty() {
            self.set_preferences(about, changes)?;
        }
        Ok(raised)
    }

    fn servers(&self) -> EngineResult<Vec<ServerRecord>> {
        Self::servers(self)
    }

    fn calls(&self, limit: usize) -> EngineResult<Vec<LoggedCall>> {
        Self::calls(self, limit)
    }

    fn change_stamp(&self) -> Option<u64> {
        Self::change_stamp(self)
    }

    fn own_repository(&self) -> Option<Sha256> {
        Self::own_repository(self)
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
