//! `read_run`: the agent's memory. Reads one run's record and can change nothing (G36, G56).

use serde_json::Value;
use workrail_core::label::RunLabel;
use workrail_core::project::SessionState;
use workrail_core::read_run::{self, RunRecord};
use workrail_core::reply::rehydrate_call;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::limits::QUERY_BYTES_MAX;
use workrail_model::read_run::ReadRunBody;
use workrail_model::reply::{NextCall, replace_state_markers};
use workrail_model::tool::ToolName;
use workrail_ports::cache::IndexQuery;

use crate::find::spelled_label;
use crate::reply::Reply;
use crate::request::{Echo, ReadRun};
use crate::selection::{about_label, about_run};
use crate::session::body as session_body;
use crate::session_access::Reading;
use crate::summaries::LabelMatch;
use crate::token::KeyUse;
use crate::{Engine, ReplyResult, Store, error, token};

/// What was named.
enum ReadSubject {
    Run(NamedRun),
    /// A session that has no run, or several.
    Session(SessionId),
}

/// A run, and a point in it if a token named one.
struct NamedRun {
    session: SessionId,
    run: RunId,
    at: Option<NodeId>,
}

impl<S: Store> Engine<S> {
    /// Reads the record of a run: an overview, one step, the context, or what contains some words.
    pub fn read_run(&self, request: &ReadRun) -> ReplyResult {
        self.signer.refresh(KeyUse::ReadOnly)?;
        Reply::plain(&self.reading().read_run(request)?)
    }
}

impl Reading<'_> {
    fn read_run(&self, request: &ReadRun) -> Result<ReadRunBody, Box<ErrorEnvelope>> {
        if let Some(query) = request.query.as_ref().filter(|query| query.len() > QUERY_BYTES_MAX) {
            return Err(error::query_too_long("query", query.len(), QUERY_BYTES_MAX));
        }
        let NamedRun { session, run, at } = match self.subject(&request.run)? {
            ReadSubject::Run(named) => named,
            ReadSubject::Session(session) => return self.read_session(session, request),
        };
        self.look(session, |facts| {
            let state =
                facts.run(run).ok_or_else(|| error::broken_invariant("a run that was found is folded"))?;
            let workflow = self.content.workflow(state.workflow_hash).ok();
            let record = RunRecord::of(facts, run, at, workflow.as_deref(), &self.content)
                .ok_or_else(|| error::broken_invariant("a run has a tip"))?;
            let text = self.requested_text(request, run, &record)?;
            let text = replace_state_markers(&text, self.signer.state_signer(facts));
            self.paged(facts, run, request, &text)
        })
    }

    /// The part of the record that the call asks for.
    fn requested_text(
        &self,
        request: &ReadRun,
        run: RunId,
        record: &RunRecord<'_>,
    ) -> Result<String, Box<ErrorEnvelope>> {
        let name = name_for_calls(request, run);
        if let Some(step) = &request.step {
            return record.step(step).map_err(|missing| {
                let overview = read_call(&name, []);
                error::no_such_step(&missing, RunLabel::of(run), overview)
            });
        }
        if let Some(query) = &request.query {
            return record.find(query).ok_or_else(|| error::no_words(query));
        }
        if request.context {
            return Ok(record.whole_context());
        }
        let example = read_call(&name, [("step", Value::from("1"))]);
        Ok(format!(
            "{}\n\nTo read all notes and artifacts of a step, call read_run with its number or id, such as {}. To \
             search the run, send `query`; for the whole context, `context: true`.",
            record.overview(self.tools()),
            example.arguments_text()
        ))
    }

    /// The notes of a session, and its runs.
    fn read_session(&self, session: SessionId, request: &ReadRun) -> Result<ReadRunBody, Box<ErrorEnvelope>> {
        let text = self.look(session, |facts| Ok(read_run::session(facts, &self.content)))?;
        let name = session.to_string();
        let (mut body, is_last) = one_page(&name, &name, request, &text);
        if is_last && self.signer.has_keys() {
            let add = session_body(session, self.signer.session(session), self.tools(), "").next_call;
            if let Some(add) = add {
                body.text.push_str(&format!(
                    "\n\nTo add notes to the session, call {} with:\n{}",
                    add.tool,
                    add.arguments_text()
                ));
            }
        }
        Ok(body)
    }

    fn paged(
        &self,
        facts: &SessionState,
        run: RunId,
        request: &ReadRun,
        text: &str,
    ) -> Result<ReadRunBody, Box<ErrorEnvelope>> {
        let label = RunLabel::of(run);
        let (mut body, is_last) = one_page(&label.to_string(), &name_for_calls(request, run), request, text);
        if !is_last {
            return Ok(body);
        }
        if let Some(why) = self.rights.why_read_only() {
            body.text.push_str(&format!("\n\nNOTE: {why}"));
        }
        if let Some(tip) = facts.preferred_tip(run).filter(|_| self.continues()) {
            let at = token::node_facts(facts, tip)?;
            let back = rehydrate_call(&self.signer.state(facts.session_id(), at), label);
            body.text.push_str(&format!(
                "\n\nTo see where the run is now, call {} with:\n{}",
                back.tool,
                back.arguments_text()
            ));
            body.next_call = Some(back);
        }
        Ok(body)
    }

    /// How many sessions could not be searched for this.
    fn unhealthy_about(&self, query: &IndexQuery) -> Result<usize, Box<ErrorEnvelope>> {
        let known = self.summaries_about(query, &mut |_, _| {})?;
        Ok(known.unhealthy.len())
    }

    /// What a label, an id or any token names.
    fn subject(&self, text: &str) -> Result<ReadSubject, Box<ErrorEnvelope>> {
        let text = text.trim();
        let lower = spelled_label(text);
        if let Ok(label) = RunLabel::parse(&lower) {
            let refused = || {
                let echo = Echo { run: Some(&lower), ..Echo::default() };
                self.leading_back(error::unknown_label(&lower), echo, None)
            };
            return match self.runs_with_label(label)? {
                LabelMatch::One(found) => {
                    Ok(ReadSubject::Run(NamedRun { session: found.0, run: found.1.run, at: None }))
                }
                LabelMatch::NoRun => {
                    let unhealthy = self.unhealthy_about(&about_label(label))?;
                    Err(error::among_unhealthy(refused(), unhealthy))
                }
                LabelMatch::Several(_) => Err(refused()),
            };
        }
        if let Ok(id) = RunId::parse(&lower) {
            return match self.run_position(id)? {
                Some((session, _)) => Ok(ReadSubject::Run(NamedRun { session, run: id, at: None })),
                None => {
                    let unhealthy = self.unhealthy_about(&about_run(id))?;
                    Err(error::among_unhealthy(error::unknown_run(text), unhealthy))
                }
            };
        }
        if let Ok(session) = SessionId::parse(&lower) {
            return self.look(session, |facts| Ok(of_session(facts)));
        }
        let echo = Echo { tokens: [Some(text), None, None], ..Echo::default() };
        let token = self.signer.verify_any(text).map_err(|cause| self.refused(cause.into(), echo))?;
        let session = token.session();
        self.look(session, |facts| match token::resolve(facts, &token) {
            Ok(resolved) => Ok(match resolved.at() {
                Some(at) => ReadSubject::Run(NamedRun { session, run: at.run, at: Some(at.node) }),
                None => of_session(facts),
            }),
            Err(cause) => Err(self.refused(cause.into(), echo)),
        })
    }
}

/// The run of a session that has exactly one; otherwise the session itself.
fn of_session(facts: &SessionState) -> ReadSubject {
    let session = facts.session_id();
    let mut runs = facts.runs();
    match runs.next().filter(|_| runs.len() == 0) {
        Some(run) => ReadSubject::Run(NamedRun { session, run: run.run_id, at: None }),
        None => ReadSubject::Session(session),
    }
}

/// How the calls of a reply name the run: its label, unless the caller sent an id or a token. Several runs may share the
/// label, and a token also says which branch is read.
fn name_for_calls(request: &ReadRun, run: RunId) -> String {
    let name = request.run.trim();
    match RunLabel::parse(&spelled_label(name)) {
        Ok(_) => RunLabel::of(run).to_string(),
        Err(_) => name.to_owned(),
    }
}

/// The requested page, with the call for the next one; and whether it is the last.
fn one_page(subject: &str, name: &str, request: &ReadRun, text: &str) -> (ReadRunBody, bool) {
    let asked = usize::try_from(request.page.unwrap_or(1)).unwrap_or(usize::MAX);
    let page = read_run::page(text, asked);
    let mut body = ReadRunBody {
        text: page.text.to_owned(),
        run: subject.to_owned(),
        page: page.number as u64,
        pages: page.of as u64,
        next_call: None,
    };
    if page.number == page.of {
        return (body, true);
    }
    let mut arguments = vec![("page", Value::from(page.number + 1))];
    arguments.extend(request.step.clone().map(|step| ("step", Value::from(step))));
    arguments.extend(request.query.clone().map(|query| ("query", Value::from(query))));
    arguments.extend(request.context.then_some(("context", Value::from(true))));
    let next = read_call(name, arguments);
    body.text.push_str(&format!(
        "\n\nPage {} of {}. For the next one, call {} with:\n{}",
        page.number,
        page.of,
        next.tool,
        next.arguments_text()
    ));
    body.next_call = Some(next);
    (body, false)
}

fn read_call(name: &str, more: impl IntoIterator<Item = (&'static str, Value)>) -> NextCall {
    let run = [("run", Value::from(name))];
    NextCall::new(ToolName::ReadRun, run.into_iter().chain(more))
}
