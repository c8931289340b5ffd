//! `start_workflow`: compile, pin, record the root, answer with the first step.

use std::sync::Arc;

use serde_json::{Value, json};
use workrail_core::decide::observe::ObservedFact;
use workrail_core::decide::start::{RepeatableStart, Start, Started, StartedRun, start};
use workrail_core::derive;
use workrail_core::label::RunLabel;
use workrail_core::project::SessionState;
use workrail_core::token::{TokenError, VerifiedToken};
use workrail_model::canonical::canonical_digest;
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::Sha256;
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::event::{Context, ParentLink};
use workrail_model::evidence::TreeInspection;
use workrail_model::id::{RunId, SessionId};
use workrail_model::limits::{GOAL_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX};
use workrail_model::name::WorkflowId;
use workrail_model::preferences::{Mode, PreferenceSource, Preferences};
use workrail_model::reply::{NextCall, ReferenceInfo, Warning, WarningCode};
use workrail_model::team::Act;
use workrail_model::token::TokenKind;
use workrail_model::tool::ToolName;
use workrail_ports::workflow_source::SourceFile;
use workrail_ports::workspace::WorkspacePath;

use crate::catalog::CatalogEntry;
use crate::find::spelled_label;
use crate::request::{Echo, StartWorkflow};
use crate::session_access::Creation;
use crate::summaries::LabelMatch;
use crate::token::{ArgumentTokenError, Attempts, KeyUse};
use crate::{Engine, Reply, ReplyResult, Store, error, reply, token};

/// Everything settled before the session is touched.
struct Prepared {
    run: RunId,
    workflow: Arc<CompiledWorkflow>,
    source: SourceFile,
    source_digest: Sha256,
    context: Context,
    mode: Option<Mode>,
    references: Vec<ReferenceInfo>,
    /// Notices about the id that the caller used.
    notices: Vec<Warning>,
    /// About the sources as they are now; not recorded.
    unseen: Option<Warning>,
    observed: Vec<ObservedFact>,
    tree: TreeInspection,
}

/// The session that the run is started in.
enum TargetSession {
    New,
    Session(SessionId),
    Inside(VerifiedToken),
}

/// A start that may be repeated: what identifies it as the same start.
struct Keyed {
    key: String,
    request_digest: Sha256,
}

impl<S: Store> Engine<S> {
    /// Starts a run and returns its first step.
    pub fn start_workflow(&self, request: StartWorkflow) -> ReplyResult {
        self.permit(Act::Work)?;
        let id = WorkflowId::parse(&request.workflow_id).map_err(|cause| error::workflow_id(&cause))?;
        self.signer.refresh(KeyUse::CreateIfNew)?;
        let keyed = keyed(&request)?;
        let target = self.target_session(&request)?;
        // Checked first: a repeated start compiles, decides and writes nothing.
        if let Some(keyed) = &keyed
            && let Some(reply) = self.recorded_start(&target, keyed)?
        {
            return Ok(reply);
        }
        // One start at a time with the same key, so that no key starts two runs in different sessions.
        let _one_at_a_time =
            keyed.as_ref().map(|keyed| self.keyed_starts.hold(derive::start_key_digest(&keyed.key)));
        if let Some(keyed) = &keyed {
            self.refuse_key_of_another_session(&target, keyed)?;
        }
        let workspace = self.existing_workspace(request.workspace_path.as_deref())?;
        let prepared = self.prepared(&id, &request, workspace.as_ref(), &target, keyed.as_ref())?;
        let label = RunLabel::of(prepared.run).to_string();
        let recorded = self.record_start(&target, &prepared, keyed.as_ref());
        let recorded = recorded.map_err(|failed| match keyed {
            Some(_) => failed,
            None => unkeyed_start_failed(failed, &label),
        })?;
        let Some((session, begun)) = recorded else {
            // Another process was faster with the same key.
            return self.start_again(&target, keyed.as_ref());
        };
        if request.workspace_path.is_some() {
            self.remember_workspace(session, workspace);
        }
        self.content_cache.keep_workflow(begun.workflow_hash, Arc::clone(&prepared.workflow));
        let shown = self.reading().look(session, |facts| {
            let mut reply = self.signed(facts, &begun)?;
            if let Some(warning) = &prepared.unseen {
                reply.warn(warning);
            }
            Ok(reply)
        });
        shown.map_err(|failed| match keyed {
            Some(_) => failed,
            None => error::started_but_not_shown(failed, &label),
        })
    }

    /// Records the start; `None` if the key's run already exists.
    fn record_start(
        &self,
        target: &TargetSession,
        prepared: &Prepared,
        keyed: Option<&Keyed>,
    ) -> Result<Option<(SessionId, StartedRun)>, Box<ErrorEnvelope>> {
        match target {
            TargetSession::New => self.start_new(prepared, keyed),
            TargetSession::Session(session) => {
                let begun = self.start_in(*session, prepared, keyed, |_| Ok(None))?;
                Ok(begun.map(|begun| (*session, begun)))
            }
            TargetSession::Inside(parent) => {
                let link = |facts: &SessionState| self.parent_link(facts, parent);
                let begun = self.start_in(parent.session(), prepared, keyed, link)?;
                Ok(begun.map(|begun| (parent.session(), begun)))
            }
        }
    }

    /// Refuses a key that has started a run in another session (G30). Two servers asked at the same moment, with
    /// different parents, do not see each other's start.
    ///
    /// A key names the session of a start without a parent, but not that of a start inside an existing session: those are
    /// found by the index. Sessions that changed since they were indexed are read.
    fn refuse_key_of_another_session(
        &self,
        target: &TargetSession,
        keyed: &Keyed,
    ) -> Result<(), Box<ErrorEnvelope>> {
        let own = target.keyed_session(&keyed.key);
        let known = self.reading().summaries_of_start_key(derive::start_key_digest(&keyed.key))?;
        let used = known.runs().filter(|card| card.session != own).find_map(|card| {
            let run = card.run()?;
            (run == derive::keyed_run_id(card.session, &keyed.key)).then_some(run)
        });
        match used {
            None => Ok(()),
            Some(run) => Err(error::key_used(run)),
        }
    }

    fn prepared(
        &self,
        id: &WorkflowId,
        request: &StartWorkflow,
        workspace: Option<&WorkspacePath>,
        target: &TargetSession,
        keyed: Option<&Keyed>,
    ) -> Result<Prepared, Box<ErrorEnvelope>> {
        let CatalogEntry { workflow, source, source_digest, suggested, asked, unseen, .. } =
            self.catalog.compiled(id, workspace)?;
        let old_name = asked.as_ref().map(|asked| alias_used(&workflow, asked));
        let old_form = suggested.as_deref().map(|better| legacy_id(&workflow, better));
        Ok(Prepared {
            run: match keyed {
                Some(keyed) => derive::keyed_run_id(target.keyed_session(&keyed.key), &keyed.key),
                None => self.fresh_run()?,
            },
            references: self.reading().references(&workflow, Some(&source), workspace),
            notices: old_name.into_iter().chain(old_form).collect(),
            unseen: unseen_sources(&workflow, &source, &unseen),
            workflow,
            source,
            source_digest,
            context: initial_context(request)?,
            mode: request.mode,
            observed: workspace.map_or_else(Vec::new, |path| self.seen_in(path)),
            tree: workspace
                .map_or(TreeInspection::NoRepository, |path| self.environment.observer.inspect_tree(path)),
        })
    }

    /// Starts a new session; `None` if the key's session already exists.
    fn start_new(
        &self,
        prepared: &Prepared,
        keyed: Option<&Keyed>,
    ) -> Result<Option<(SessionId, StartedRun)>, Box<ErrorEnvelope>> {
        let session = match keyed {
            Some(keyed) => derive::keyed_session_id(&keyed.key),
            None => self.fresh_session()?,
        };
        let facts = SessionState::new(session);
        let started = self.decide_start(&facts, prepared, None, keyed)?;
        match self.create_once(session, started.plan)? {
            Creation::Made => Ok(Some((session, started.run))),
            Creation::Exists => match keyed {
                Some(_) => Ok(None),
                None => Err(error::internal("a fresh session id is in use")),
            },
        }
    }

    fn parent_link(
        &self,
        facts: &SessionState,
        parent: &VerifiedToken,
    ) -> Result<Option<ParentLink>, Box<ErrorEnvelope>> {
        let refused = |cause: TokenError| self.reading().refused(cause.into(), Echo::default());
        let resolved = token::resolve(facts, parent).map_err(refused)?;
        let at = resolved.at().ok_or_else(|| error::broken_invariant("a parent token names a node"))?;
        Ok(Some(ParentLink { run_id: at.run, node_id: at.node }))
    }

    /// The reply of a start that another process recorded first, with the same key.
    fn start_again(&self, target: &TargetSession, keyed: Option<&Keyed>) -> ReplyResult {
        let recorded = keyed.map(|keyed| self.recorded_start(target, keyed)).transpose()?.flatten();
        recorded.ok_or_else(|| error::internal("a start that was recorded before cannot be found"))
    }

    /// The reply given when this key was used before; refused if that was for a different start (G30).
    fn recorded_start(
        &self,
        target: &TargetSession,
        keyed: &Keyed,
    ) -> Result<Option<Reply>, Box<ErrorEnvelope>> {
        let session = target.keyed_session(&keyed.key);
        if self.store.stamp(session).is_none() {
            return Ok(None);
        }
        let recorded = self.reading().look(session, |facts| {
            let id = derive::keyed_run_id(session, &keyed.key);
            let Some(run) = facts.run(id) else { return Ok(None) };
            let used = || error::key_used(id);
            let recorded = run.keyed.ok_or_else(used)?;
            if recorded.request_digest.is_some_and(|digest| digest != keyed.request_digest) {
                return Err(used());
            }
            let root = run.root.ok_or_else(|| error::broken_invariant("a started run has a root"))?;
            let at = token::node_facts(facts, root)?;
            let tokens = self.signer.tokens(session, at, Attempts::both(derive::root_attempt(root), true));
            self.recorded_reply(facts, id, recorded.reply_ref, &tokens).map(Some)
        });
        match recorded {
            // Only the first write was begun: the process that creates the session rolls it forward (G13).
            Err(refused) if refused.code == ErrorCode::TokenUnknownNode => Ok(None),
            recorded => recorded,
        }
    }

    fn target_session(&self, request: &StartWorkflow) -> Result<TargetSession, Box<ErrorEnvelope>> {
        let refused = |cause: ArgumentTokenError| self.reading().refused(cause, Echo::default());
        match (&request.parent, &request.session_token) {
            (None, None) => Ok(TargetSession::New),
            (Some(_), Some(_)) => Err(error::two_target_sessions()),
            (None, Some(text)) => {
                // A caller may have a label but no session token: it means the session of that run.
                if let Ok(label) = RunLabel::parse(&spelled_label(text)) {
                    return self.session_of(label);
                }
                let token = self.signer.verify(text, TokenKind::Session).map_err(refused)?;
                Ok(TargetSession::Session(token.session()))
            }
            (Some(text), None) => {
                let token = self.signer.verify_any(text).map_err(|cause| refused(cause.into()))?;
                match token.kind() {
                    TokenKind::State | TokenKind::Ack => Ok(TargetSession::Inside(token)),
                    TokenKind::Checkpoint | TokenKind::Session => Err(refused(ArgumentTokenError::Kind {
                        found: Box::new(token),
                        wanted: TokenKind::State,
                    })),
                }
            }
        }
    }

    fn session_of(&self, label: RunLabel) -> Result<TargetSession, Box<ErrorEnvelope>> {
        match self.reading().runs_with_label(label)? {
            LabelMatch::One(found) => Ok(TargetSession::Session(found.0)),
            LabelMatch::NoRun => Err(error::unknown_label(&label.to_string())),
            LabelMatch::Several(count) => Err(error::ambiguous_label(&label.to_string(), count)),
        }
    }

    /// Starts a run in an existing session; `None` if the key's run already exists.
    fn start_in(
        &self,
        session: SessionId,
        prepared: &Prepared,
        keyed: Option<&Keyed>,
        link: impl FnOnce(&SessionState) -> Result<Option<ParentLink>, Box<ErrorEnvelope>>,
    ) -> Result<Option<StartedRun>, Box<ErrorEnvelope>> {
        let mut begun = None;
        let appended = self.hold(session, |held| {
            if keyed.is_some() && held.state().run(prepared.run).is_some() {
                return Ok(());
            }
            let parent = link(held.state())?;
            let started = self.decide_start(held.state(), prepared, parent, keyed)?;
            begun = Some(started.run);
            held.append(started.plan)
        });
        match appended {
            // A write that is complete except for its commit is rolled forward by the next lock (G13).
            Err(failed) if error::is_outcome_unknown(&failed) && self.has_run(session, prepared.run) => {
                Ok(begun)
            }
            appended => appended.map(|()| begun),
        }
    }

    fn has_run(&self, session: SessionId, run: RunId) -> bool {
        self.hold(session, |held| Ok(held.state().run(run).is_some())).unwrap_or(false)
    }

    /// The preferences of a run whose caller chooses no mode: those of the run it serves, else of the session's newest
    /// run, else the default (G60).
    fn inherited(&self, facts: &SessionState, parent: Option<ParentLink>) -> Preferences {
        let newest = || facts.preferred_tip(facts.runs().last()?.run_id);
        match parent.map(|link| link.node_id).or_else(newest) {
            Some(node) => facts.preferences(node),
            None => self.environment.default_preferences.default_preferences(),
        }
    }

    fn decide_start(
        &self,
        facts: &SessionState,
        prepared: &Prepared,
        parent: Option<ParentLink>,
        keyed: Option<&Keyed>,
    ) -> Result<Started, Box<ErrorEnvelope>> {
        let (preferences, preference_source) = match prepared.mode {
            Some(mode) => (mode.preferences(), PreferenceSource::User),
            // A nested run has the autonomy of the run it serves.
            None => (self.inherited(facts, parent), PreferenceSource::System),
        };
        start(Start {
            facts,
            run: prepared.run,
            workflow: &prepared.workflow,
            source_kind: prepared.source.kind.source_kind(),
            source_ref: &prepared.source.reference,
            source_digest: Some(prepared.source_digest),
            context: prepared.context.clone(),
            preferences,
            preference_source,
            parent,
            references: &prepared.references,
            observed: &prepared.observed,
            tree: prepared.tree.clone(),
            other_runs: self.reading().other_runs(facts, prepared.run),
            notices: prepared.notices.clone(),
            repeatable: keyed.map(|keyed| RepeatableStart {
                request_digest: keyed.request_digest,
                key_digest: derive::start_key_digest(&keyed.key),
            }),
            tools: self.environment.tools,
            site: &self.site,
            minting: self.minting(Act::Work)?,
        })
        .map_err(|cause| error::decide(&cause))
    }

    fn signed(&self, facts: &SessionState, begun: &StartedRun) -> ReplyResult {
        let at = token::node_facts(facts, begun.root)?;
        let attempts = Attempts::both(begun.attempt, begun.reply.body.pending.is_some());
        let tokens = self.signer.tokens(facts.session_id(), at, attempts);
        reply::sign(&begun.reply, &tokens, self.signer.state_signer(facts))
    }
}

/// A start without a key cannot be repeated safely once it may have been recorded.
fn unkeyed_start_failed(failed: Box<ErrorEnvelope>, label: &str) -> Box<ErrorEnvelope> {
    let check_call = NextCall::new(ToolName::ResumeSession, [("run", Value::from(label))]);
    let repeat = "start the workflow again, with an `idempotencyKey`: such a start can be repeated safely.";
    error::check_before_repeating(failed, &format!("run {label}"), repeat, check_call)
}

impl TargetSession {
    /// The session of a start with this key.
    fn keyed_session(&self, key: &str) -> SessionId {
        match self {
            Self::New => derive::keyed_session_id(key),
            Self::Session(session) => *session,
            Self::Inside(parent) => parent.session(),
        }
    }
}

/// The caller's idempotency key, with the digest of everything else in the request.
fn keyed(request: &StartWorkflow) -> Result<Option<Keyed>, Box<ErrorEnvelope>> {
    // An empty optional argument counts as absent.
    let Some(key) = request.idempotency_key.clone().filter(|key| !key.is_empty()) else { return Ok(None) };
    if key.len() > IDEMPOTENCY_KEY_BYTES_MAX {
        return Err(error::bad_idempotency_key(key.len(), IDEMPOTENCY_KEY_BYTES_MAX));
    }
    let asked = json!({
        "workflowId": request.workflow_id, "goal": request.goal, "context": request.context, "mode": request.mode,
        "parent": request.parent, "sessionToken": request.session_token, "workspacePath": request.workspace_path,
    });
    let request_digest = canonical_digest(&asked).map_err(|cause| error::decide(&cause.into()))?;
    Ok(Some(Keyed { key, request_digest }))
}

/// The caller's context, with the goal under its own key.
fn initial_context(request: &StartWorkflow) -> Result<Context, Box<ErrorEnvelope>> {
    let mut map = request.context.clone();
    if let Some(goal) = &request.goal {
        if goal.len() > GOAL_BYTES_MAX {
            return Err(error::goal_too_long(goal.len()));
        }
        map.insert("goal".to_owned(), Value::from(goal.clone()));
    }
    Context::new(map).map_err(|cause| error::context(&cause))
}

/// How many unreadable sources a warning names.
const UNSEEN_NAMED_MAX: usize = 3;

/// Another version of the workflow may be in what could not be read.
fn unseen_sources(workflow: &CompiledWorkflow, source: &SourceFile, unseen: &[String]) -> Option<Warning> {
    let named: Vec<String> =
        unseen.iter().take(UNSEEN_NAMED_MAX).map(|reference| format!("`{reference}`")).collect();
    if named.is_empty() {
        return None;
    }
    let more = match unseen.len().saturating_sub(UNSEEN_NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = format!(
        "{}{more} cannot be read, and would take precedence over `{}`, which this run uses. If another version of \
         `{}` was meant, make it readable and start again.",
        named.join(", "),
        source.reference,
        workflow.workflow_id
    );
    Some(Warning { code: WarningCode::SourceUnreadable, message })
}

fn legacy_id(workflow: &CompiledWorkflow, better: &str) -> Warning {
    let message = format!(
        "`{}` is an old id without a namespace. It still runs; its author should rename it to `{better}`.",
        workflow.workflow_id
    );
    Warning { code: WarningCode::LegacyWorkflowId, message }
}

fn alias_used(workflow: &CompiledWorkflow, asked: &WorkflowId) -> Warning {
    let id = &workflow.workflow_id;
    let message = format!("`{asked}` is an old name of `{id}`, which was started; use `{id}` from now on.");
    Warning { code: WarningCode::AliasUsed, message }
}
