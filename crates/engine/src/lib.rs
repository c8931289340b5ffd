//! The use cases: one file each, combining pure decisions with ports.
//!
//! The engine loads, asks the core, appends, answers. It knows no file, no clock and no protocol.

mod access;
mod advance;
mod approve;
mod ask;
pub mod catalog;
mod checkpoint;
pub mod checks;
mod close;
pub mod compare;
mod content;
mod counts;
pub mod credential_checks;
mod drift;
pub mod edit;
mod error;
mod export;
mod find;
mod folded;
mod health;
mod hook;
pub mod html;
mod import;
mod indexing;
mod inspect;
mod keyed_starts;
mod list;
mod mint;
pub mod next_call;
pub mod passkeys;
mod preferences;
mod read_run;
mod references;
mod rehydrate;
mod reply;
pub mod report;
pub mod request;
mod resume;
mod resume_step;
mod salvage;
mod selection;
mod servers;
mod session;
mod session_access;
pub mod sessions;
pub mod slots;
mod start;
mod summaries;
mod token;
pub mod upkeep;
pub mod versions;
mod workspace;

use std::sync::Arc;

use workrail_model::bundle::Producer;
use workrail_model::error::ErrorEnvelope;
use workrail_model::public_url::PublicUrl;
use workrail_model::resume::ResumeBody;
use workrail_model::team::{Act, Caller};
use workrail_model::token::{TokenEncoding, TokenKind};
use workrail_model::tool::ToolSet;
use workrail_ports::access::AccessTokens;
use workrail_ports::archive::{SessionArchive, SessionImport};
use workrail_ports::cache::{ProjectionCache, SessionIndex};
use workrail_ports::checks::CheckRunner;
use workrail_ports::content::ContentStore;
use workrail_ports::environment::{ActivityCounter, ApprovalSettings, Clock, DefaultPreferences, Entropy};
use workrail_ports::keyring::KeyringStore;
use workrail_ports::observations::ObservationSpool;
use workrail_ports::passkeys::PasskeyLog;
use workrail_ports::pending_preferences::PendingPreferencesStore;
use workrail_ports::servers::ServerDirectory;
use workrail_ports::session_store::{SessionReader, SessionStore};
use workrail_ports::upkeep::Upkeep;
use workrail_ports::workflow_source::WorkflowSource;
use workrail_ports::workspace::{WorkspaceObserver, WorkspacePath};

pub use access::{AccessRefusal, LOGIN_SECONDS, MadeToken, NotReady};
pub use approve::{EarlierDecision, Question, WaitingStep, typed_answer};
pub use ask::AttemptAwaitingUser;
use catalog::Catalog;
use checks::{AttemptChecks, CallProgress};
pub use close::CloseOutcome;
use content::{CachedContent, ContentCache};
use counts::AppendCounters;
pub use counts::AppendCounts;
pub use error::{io as disk_error, too_many_new_sessions};
pub use export::{ExportFailure, Exported, RunSummary};
pub use find::{NameMatch, Naming, SessionOrRun};
use folded::FoldedSessions;
pub use health::{StoreHealth, UnhealthySession, UnreadableWorkflow};
pub use import::{ImportMode, Imported};
use indexing::{IndexTiming, UnindexedSessions};
use keyed_starts::KeyedStarts;
pub use preferences::RunPreferences;
pub use reply::Reply;
use request::{CheckpointWorkflow, ContinueWorkflow, Request, ResumeSession};
use resume::Clarity;
use session_access::Reading;
use summaries::SummaryCache;
use token::{KeyUse, Signer};
use workrail_core::agent_site::{AgentSite, RunRights};
pub use workrail_core::reply::answered::UserReply;
use workspace::Workspaces;

/// All storage that the engine needs.
pub trait Store:
    SessionStore
    + ContentStore
    + KeyringStore
    + PasskeyLog
    + AccessTokens
    + ActivityCounter
    + ProjectionCache
    + SessionIndex
    + PendingPreferencesStore
    + ObservationSpool
    + ServerDirectory
    + SessionArchive
    + SessionImport
    + 'static
{
}

impl<S> Store for S where
    S: SessionStore
        + ContentStore
        + KeyringStore
        + PasskeyLog
        + AccessTokens
        + ActivityCounter
        + ProjectionCache
        + SessionIndex
        + PendingPreferencesStore
        + ObservationSpool
        + ServerDirectory
        + SessionArchive
        + SessionImport
        + 'static
{
}

/// A store whose sessions can also be kept, removed and repaired.
pub trait ManagedStore: Store + Upkeep {}

impl<S: Store + Upkeep> ManagedStore for S {}

/// The engine's environment.
pub struct EngineEnvironment {
    pub clock: Box<dyn Clock>,
    pub entropy: Box<dyn Entropy>,
    pub workflows: Arc<dyn WorkflowSource>,
    pub observer: Box<dyn WorkspaceObserver>,
    /// Runs the checks of steps; `None` if nothing may be run.
    pub checks: Option<Arc<dyn CheckRunner>>,
    /// The workspace of calls that name none.
    pub workspace: Option<WorkspacePath>,
    /// Preferences of runs whose caller chooses no mode.
    pub default_preferences: Arc<dyn DefaultPreferences>,
    /// The proof that decisions need in order to count.
    pub approvals: Arc<dyn ApprovalSettings>,
    /// Which token encoding agents see; both are always accepted.
    pub token_encoding: TokenEncoding,
    /// Which tools agents can call; replies name only these.
    pub tools: ToolSet,
    /// How this program identifies itself in exports.
    pub producer: Producer,
}

impl std::fmt::Debug for EngineEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineEnvironment")
            .field("token_encoding", &self.token_encoding)
            .finish_non_exhaustive()
    }
}

/// An edge's result; boxed because errors carry everything a caller needs to fix the call.
pub type ReplyResult = Result<Reply, Box<ErrorEnvelope>>;

/// Progress of a long use case: done, and total.
type ProgressSink<'a> = &'a mut dyn FnMut(u64, u64);

/// The use cases over one store, on behalf of one caller.
pub struct Engine<S: Store> {
    shared: Arc<SharedEngine<S>>,
    /// Whose rights apply, and who is named in records.
    caller: Caller,
    site: AgentSite,
    /// Receives progress messages of long work.
    progress: Option<CallProgress>,
    index_timing: IndexTiming,
}

/// What the engines of all callers share.
pub struct SharedEngine<S: Store> {
    store: Arc<S>,
    environment: EngineEnvironment,
    signer: Signer,
    folded: FoldedSessions,
    content_cache: ContentCache,
    summary_cache: SummaryCache,
    workspaces: Workspaces,
    attempt_checks: AttemptChecks,
    catalog: Catalog,
    keyed_starts: KeyedStarts,
    counts: AppendCounters,
    unindexed: UnindexedSessions,
}

impl<S: Store> std::fmt::Debug for SharedEngine<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedEngine").finish_non_exhaustive()
    }
}

impl<S: Store> std::ops::Deref for Engine<S> {
    type Target = SharedEngine<S>;

    fn deref(&self) -> &SharedEngine<S> {
        &self.shared
    }
}

impl<S: Store> Clone for Engine<S> {
    /// Another handle on the same store and caches.
    fn clone(&self) -> Self {
        self.acting_as(self.caller.clone())
    }
}

impl<S: Store> std::fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl<S: Store> Engine<S> {
    /// Acts for the user who runs this program. Opens nothing: the signing keys are read by the first call that needs
    /// them.
    pub fn new(store: Arc<S>, environment: EngineEnvironment) -> Self {
        let keys = Arc::clone(&store) as Arc<dyn KeyringStore>;
        let sessions = Arc::clone(&store) as Arc<dyn SessionReader>;
        let signer = Signer::new(keys, sessions, environment.token_encoding);
        let catalog = Catalog::new(Arc::clone(&environment.workflows));
        let shared = Arc::new(SharedEngine {
            store,
            environment,
            signer,
            folded: FoldedSessions::default(),
            content_cache: ContentCache::default(),
            summary_cache: SummaryCache::default(),
            workspaces: Workspaces::default(),
            attempt_checks: AttemptChecks::default(),
            catalog,
            keyed_starts: KeyedStarts::default(),
            counts: AppendCounters::default(),
            unindexed: UnindexedSessions::default(),
        });
        Self {
            shared,
            caller: Caller::Owner(None),
            site: AgentSite::Local,
            progress: None,
            index_timing: IndexTiming::WithAppend,
        }
    }

    /// The same store and the same caches, on behalf of another actor.
    pub fn acting_as(&self, caller: Caller) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            caller,
            site: self.site.clone(),
            progress: self.progress.clone(),
            index_timing: self.index_timing,
        }
    }

    /// The same for agents on other machines: their workspaces are not here, so their checks are recorded as not run,
    /// and people decide in the team's console at this address.
    pub fn for_remote_agents(self, console: PublicUrl) -> Self {
        Self { site: AgentSite::Remote { console }, ..self }
    }

    /// The same, with progress messages.
    pub fn reporting_to(&self, progress: CallProgress) -> Self {
        Self { progress: Some(progress), ..self.clone() }
    }

    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// What this process recorded since it started.
    pub fn append_counts(&self) -> AppendCounts {
        self.counts.now()
    }

    /// Answers one call of a tool.
    pub fn answer(&self, request: Request) -> ReplyResult {
        self.act_on(request).map_err(|refused| error::at_site(refused, &self.site))
    }

    fn act_on(&self, request: Request) -> ReplyResult {
        self.permit(request.act())?;
        match request {
            Request::ListWorkflows(request) => Reply::plain(&self.list_workflows(request)?),
            Request::InspectWorkflow(request) => Reply::plain(&self.inspect_workflow(request)?),
            Request::StartWorkflow(request) => self.start_workflow(request),
            Request::ContinueWorkflow(request) => self.continue_workflow(request),
            Request::CheckpointWorkflow(request) => self.checkpoint_workflow(request),
            Request::ResumeSession(request) => self.resume_session(request),
            Request::ReadRun(request) => self.read_run(&request),
            Request::StartSession(request) => self.start_session(request),
        }
    }

    /// Completes the pending step with an ack, or returns it again without one.
    pub fn continue_workflow(&self, mut request: ContinueWorkflow) -> ReplyResult {
        let is_read_only = request.ack_token.is_none() && request.continue_token.is_none();
        self.signer.refresh(if is_read_only { KeyUse::ReadOnly } else { KeyUse::Existing })?;
        let too_many = request.ack_token.is_some() || request.state_token.is_some();
        if request.continue_token.is_some() && too_many {
            return Err(self.reading().leading_back(error::too_many_tokens(), request.echo(), None));
        }
        if let Some(text) = request.continue_token.take() {
            // An alias for whichever token the caller has; its prefix says which.
            match text.starts_with(TokenKind::State.prefix()) {
                true => request.state_token = Some(text),
                false => request.ack_token = Some(text),
            }
        }
        match (&request.ack_token, &request.state_token) {
            (Some(ack), _) => {
                self.permit(Act::Work)?;
                self.advance(ack, &request)
            }
            (None, Some(state)) => {
                let workspace = self.workspace(request.workspace_path.as_deref())?;
                self.reading().rehydrate(state, &request, workspace.as_ref())
            }
            (None, None) => Err(self.reading().leading_back(error::no_token(), request.echo(), None)),
        }
    }

    /// Saves work on the pending step without completing it.
    pub fn checkpoint_workflow(&self, request: CheckpointWorkflow) -> ReplyResult {
        self.permit(Act::Work)?;
        self.signer.refresh(KeyUse::Existing)?;
        self.checkpoint(request)
    }

    /// Finds runs again without any token.
    pub fn resume_session(&self, request: ResumeSession) -> ReplyResult {
        self.signer.refresh(KeyUse::ReadOnly)?;
        self.index_appended();
        let workspace = self.workspace(request.workspace_path.as_deref())?;
        let reading = self.reading();
        let (found, clarity) = reading.resume(&request, workspace.as_ref())?;
        Reply::plain(&match clarity {
            Clarity::Clear => reading.with_step(found, workspace.as_ref()),
            Clarity::Doubtful => found,
        })
    }

    /// The same for people, who get an answer even without keys: then no candidate has a next call,
    /// and `keys_problem` says why.
    pub fn find_runs(&self, request: ResumeSession) -> Result<ResumeBody, Box<ErrorEnvelope>> {
        // `keys_problem` reports what is wrong with the keys.
        let _ = self.signer.refresh(KeyUse::ReadOnly);
        let workspace = self.workspace(request.workspace_path.as_deref())?;
        self.reading().resume(&request, workspace.as_ref()).map(|(found, _)| found)
    }

    /// Why no token can be signed or checked now; `None` if the keys are usable or the store is new.
    pub fn keys_problem(&self) -> Option<Box<ErrorEnvelope>> {
        self.signer.refresh(KeyUse::ReadOnly).err()
    }

    /// Everything a read-only use case gets; this includes no way to append (G36).
    fn reading(&self) -> Reading<'_> {
        Reading {
            sessions: &*self.store,
            content: self.content(),
            pending_preferences: &*self.store,
            passkeys: &*self.store,
            entropy: &*self.environment.entropy,
            environment: &self.environment,
            signer: &self.signer,
            folded: &self.folded,
            projections: &*self.store,
            index: &*self.store,
            summary_cache: &self.summary_cache,
            catalog: &self.catalog,
            site: &self.site,
            rights: self.rights(),
        }
    }

    fn rights(&self) -> RunRights {
        RunRights::of(self.caller.role())
    }

    fn content(&self) -> CachedContent<'_> {
        CachedContent { store: &*self.store, cache: &self.content_cache }
    }
}
