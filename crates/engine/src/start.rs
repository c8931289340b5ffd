//! `start_workflow`: compile, pin, record the root, answer with the first step.

use serde_json::Value;
use workrail_core::decide::start::{Start, Started, start};
use workrail_core::reply::{ReplyInput, ReplyMoment, render};
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{Context, EventIndex};
use workrail_model::name::WorkflowId;
use workrail_model::preferences::Preferences;

use crate::catalog::CatalogEntry;
use crate::request::StartWorkflow;
use crate::{Answer, Engine, Store, error, reply, token};

impl<S: Store> Engine<S> {
    pub(crate) fn start(&self, request: StartWorkflow) -> Answer {
        let id = WorkflowId::parse(&request.workflow_id).map_err(|cause| error::workflow_id(&cause))?;
        let context = initial_context(&request)?;
        let workspace = self.workspace(None)?;
        let CatalogEntry { workflow, source, .. } = self.catalog.compiled(&id, workspace.as_ref())?;
        let session = self.fresh_session()?;
        let run = self.fresh_run()?;
        let preferences = Preferences::default();
        let started = start(Start {
            session,
            run,
            next_event_index: EventIndex::ZERO,
            workflow: &workflow,
            source_kind: source.kind,
            source_ref: &source.reference,
            context: context.clone(),
            preferences,
            parent: None,
            minting: self.minting()?,
        })
        .map_err(|cause| error::decide(&cause))?;
        let Started { plan, root, attempt, state, .. } = started;
        self.create(session, plan)?;
        self.reading().look(session, |facts| {
            let moment = ReplyMoment::Started;
            let context = &context;
            let state = &state;
            let body =
                render(&ReplyInput { facts, run, workflow: &workflow, state, context, preferences, moment });
            let at = token::node_facts(facts, root)?;
            let attempt = state.pending_step().map(|_| attempt);
            reply::sign(&body, &self.signer.tokens(session, at, attempt))
                .map_err(|cause| error::internal(&cause.to_string()))
        })
    }
}

/// The caller's context, with the goal under its own key.
fn initial_context(request: &StartWorkflow) -> Result<Context, Box<ErrorEnvelope>> {
    let mut map = request.context.clone();
    if let Some(goal) = &request.goal {
        map.insert("goal".to_owned(), Value::from(goal.clone()));
    }
    Context::new(map).map_err(|cause| error::context(&cause))
}
