//! `start_workflow`: compile, pin, record the root, answer with the first step.

use std::sync::Arc;

use serde_json::Value;
use workrail_core::decide::observe::Observed;
use workrail_core::decide::start::{Begun, Start, Started, start};
use workrail_core::project::SessionState;
use workrail_core::reply::{Beside, LongText, ReplyInput, ReplyMoment, render};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{Context, ParentLink};
use workrail_model::id::{RunId, SessionId};
use workrail_model::limits::GOAL_BYTES_MAX;
use workrail_model::name::WorkflowId;
use workrail_model::preferences::{Mode, PreferenceSource};
use workrail_model::reply::{ReferenceInfo, Warning, WarningCode};
use workrail_model::token::TokenKind;
use workrail_ports::workflow_source::SourceFile;

use crate::catalog::CatalogEntry;
use crate::request::{Echo, StartWorkflow};
use crate::token::{Attempts, FirstKeys, Refused};
use crate::{Answer, Engine, Store, error, reply, token};

/// Everything that is settled before the session is touched.
struct Prepared {
    run: RunId,
    workflow: Arc<CompiledWorkflow>,
    source: SourceFile,
    context: Context,
    mode: Option<Mode>,
    references: Vec<ReferenceInfo>,
    /// What a legacy id should become.
    suggested: Option<String>,
    /// What the caller asked for, when it is an older name of the workflow.
    asked: Option<WorkflowId>,
    observed: Vec<Observed>,
}

/// Where the run is to live.
enum Home {
    New,
    Session(SessionId),
    Inside(workrail_core::token::VerifiedToken),
}

impl<S: Store> Engine<S> {
    pub(crate) fn start(&self, request: StartWorkflow) -> Answer {
        let id = WorkflowId::parse(&request.workflow_id).map_err(|cause| error::workflow_id(&cause))?;
        self.signer.refresh(FirstKeys::Make)?;
        let home = self.home(&request)?;
        let workspace = self.workspace(request.workspace.as_deref())?;
        let CatalogEntry { workflow, source, suggested, asked, .. } =
            self.catalog.compiled(&id, workspace.as_ref())?;
        let observed = workspace.as_ref().map_or_else(Vec::new, |path| self.seen_in(path));
        let prepared = Prepared {
            run: self.fresh_run()?,
            references: self.reading().references(&workflow, Some(&source), workspace.as_ref()),
            suggested,
            asked,
            workflow,
            source,
            context: initial_context(&request)?,
            mode: request.mode,
            observed,
        };
        let (session, started) = match home {
            Home::New => {
                let session = self.fresh_session()?;
                let started = self.decide_start(&SessionState::new(session), &prepared, None)?;
                self.create(session, started.plan)?;
                (session, started.begun)
            }
            Home::Session(session) => (session, self.start_in(session, &prepared, |_| Ok(None))?),
            Home::Inside(parent) => {
                let link = |facts: &SessionState| {
                    let refused = |cause: workrail_core::token::TokenError| {
                        self.reading().refused(cause.into(), &Echo::default())
                    };
                    let resolved = token::resolve(facts, &parent).map_err(refused)?;
                    let at = resolved.at().ok_or_else(|| error::internal("a parent token names a node"))?;
                    Ok(Some(ParentLink { run_id: at.run, node_id: at.node }))
                };
                (parent.session(), self.start_in(parent.session(), &prepared, link)?)
            }
        };
        if request.workspace.is_some() {
            self.remember_workspace(session, workspace);
        }
        self.contents.keep_workflow(started.workflow_hash, Arc::clone(&prepared.workflow));
        self.started(session, &prepared, started)
    }

    fn home(&self, request: &StartWorkflow) -> Result<Home, Box<ErrorEnvelope>> {
        let refused = |cause: Refused| self.reading().refused(cause, &Echo::default());
        match (&request.parent, &request.session_token) {
            (None, None) => Ok(Home::New),
            (Some(_), Some(_)) => Err(error::two_homes()),
            (None, Some(text)) => {
                let token = self.signer.verify(text, TokenKind::Session).map_err(refused)?;
                Ok(Home::Session(token.session()))
            }
            (Some(text), None) => {
                let token = self.signer.verify_any(text).map_err(|cause| refused(cause.into()))?;
                match token.kind() {
                    TokenKind::State | TokenKind::Ack => Ok(Home::Inside(token)),
                    TokenKind::Checkpoint | TokenKind::Session => {
                        Err(refused(Refused::Kind { found: Box::new(token), wanted: TokenKind::State }))
                    }
                }
            }
        }
    }

    fn start_in(
        &self,
        session: SessionId,
        prepared: &Prepared,
        link: impl FnOnce(&SessionState) -> Result<Option<ParentLink>, Box<ErrorEnvelope>>,
    ) -> Result<Begun, Box<ErrorEnvelope>> {
        self.hold(session, |held| {
            let parent = link(held.state())?;
            let started = self.decide_start(held.state(), prepared, parent)?;
            held.append(started.plan)?;
            Ok(started.begun)
        })
    }

    fn decide_start(
        &self,
        facts: &SessionState,
        prepared: &Prepared,
        parent: Option<ParentLink>,
    ) -> Result<Started, Box<ErrorEnvelope>> {
        let (preferences, preference_source) = match prepared.mode {
            Some(mode) => (mode.preferences(), PreferenceSource::User),
            // A run inside another is as free as the one it serves.
            None => match parent {
                Some(link) => (facts.preferences(link.node_id), PreferenceSource::System),
                None => (self.around.default_preferences.default_preferences(), PreferenceSource::System),
            },
        };
        start(Start {
            session: facts.session_id(),
            run: prepared.run,
            next_event_index: facts.next_event_index(),
            workflow: &prepared.workflow,
            source_kind: prepared.source.kind,
            source_ref: &prepared.source.reference,
            context: prepared.context.clone(),
            preferences,
            preference_source,
            parent,
            references: &prepared.references,
            observed: &prepared.observed,
            facts,
            minting: self.minting()?,
        })
        .map_err(|cause| error::decide(&cause))
    }

    fn started(&self, session: SessionId, prepared: &Prepared, started: Begun) -> Answer {
        let reading = self.reading();
        reading.look(session, |facts| {
            let state = &started.state;
            let mut warnings = started.warnings;
            warnings.extend(prepared.asked.as_ref().map(|asked| alias_used(&prepared.workflow, asked)));
            warnings
                .extend(prepared.suggested.as_deref().map(|better| legacy_id(&prepared.workflow, better)));
            let body = render(&ReplyInput {
                facts,
                run: prepared.run,
                workflow: &prepared.workflow,
                state,
                context: &prepared.context,
                preferences: facts.preferences(started.root),
                moment: ReplyMoment::Started,
                // Judged before the start was recorded.
                long_text: LongText::Shorten,
                beside: Beside {
                    references: prepared.references.clone(),
                    warnings,
                    other_runs: reading.other_runs(facts, prepared.run),
                    ..Beside::default()
                },
            })
            .map_err(|cause| error::step_text(&cause))?;
            let at = token::node_facts(facts, started.root)?;
            let attempts = Attempts::both(started.attempt, state.pending_step().is_some());
            reply::sign(&body, &self.signer.tokens(session, at, attempts), self.signer.bookmarks(facts))
        })
    }
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

fn legacy_id(workflow: &CompiledWorkflow, better: &str) -> Warning {
    let message = format!(
        "`{}` is an id of the old form without a namespace; it runs, and its author should rename it to `{better}`.",
        workflow.workflow_id
    );
    Warning { code: WarningCode::LegacyWorkflowId, message }
}

fn alias_used(workflow: &CompiledWorkflow, asked: &WorkflowId) -> Warning {
    let id = &workflow.workflow_id;
    let message = format!("`{asked}` is an old name of `{id}`, which was started; use `{id}` from now on.");
    Warning { code: WarningCode::AliasUsed, message }
}
