//! The record of a run as resources: what `read_run` returns, at addresses that a host can list and attach (G56).
//!
//! `workrail://run/LABEL` is the overview; `/step/STEP`, `/context` and `/notes` below it are its parts. A long text
//! has pages: `?page=2`. Reading uses the same requests as the tools and changes nothing.

use rmcp::ErrorData;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use workrail_engine::request::{ReadRun, Request, ResumeSession};
use workrail_model::error::ErrorEnvelope;
use workrail_model::name::WorkflowId;
use workrail_model::read_run::ALL_STEPS;
use workrail_model::resume::{Candidate, ResumeBody};
use workrail_model::text::clean;
use workrail_model::tool::ToolName;

use crate::call::{Execution, answered_like};

const PREFIX: &str = "workrail://run/";
const MIME_TYPE: &str = "text/markdown";
/// The number of newest steps listed for a run; the template covers the others.
const STEPS_LISTED_MAX: u64 = 20;

/// The part of a run that an address names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ResourcePart {
    Overview,
    Step(String),
    Context,
    Notes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ResourceAddress {
    run: String,
    part: ResourcePart,
    page: Option<u64>,
}

impl ResourceAddress {
    /// `None` if the address does not name a run.
    fn parse(uri: &str) -> Option<Self> {
        let (path, query) = uri.split_once('?').map_or((uri, None), |(path, query)| (path, Some(query)));
        let page = match query {
            None => None,
            Some(query) => Some(query.strip_prefix("page=")?.parse().ok()?),
        };
        let mut names = path.strip_prefix(PREFIX)?.trim_end_matches('/').split('/');
        let run = names.next().filter(|run| !run.is_empty())?.to_owned();
        let part = match (names.next(), names.next()) {
            (None, _) => ResourcePart::Overview,
            (Some("context"), None) => ResourcePart::Context,
            (Some("notes"), None) => ResourcePart::Notes,
            (Some("step"), Some(step)) if !step.is_empty() => ResourcePart::Step(step.to_owned()),
            (Some(_), _) => return None,
        };
        names.next().is_none().then_some(Self { run, part, page })
    }

    fn request(self) -> ReadRun {
        let Self { run, part, page } = self;
        let blank = ReadRun { run, page, ..ReadRun::default() };
        match part {
            ResourcePart::Overview => blank,
            ResourcePart::Step(step) => ReadRun { step: Some(step), ..blank },
            ResourcePart::Context => ReadRun { context: true, ..blank },
            ResourcePart::Notes => ReadRun { step: Some(ALL_STEPS.to_owned()), ..blank },
        }
    }
}

/// The latest runs, unfinished ones first, each with its parts.
pub(crate) fn list(execution: &dyn Execution) -> Result<ListResourcesResult, ErrorData> {
    let answered = execution.answer(Request::ResumeSession(ResumeSession::default()));
    let reply = answered.map_err(|error| failed(&error, json!({ "error": &*error })))?;
    let found = ResumeBody::deserialize(reply.into_structured())
        .map_err(|problem| ErrorData::internal_error(problem.to_string(), None))?;
    Ok(ListResourcesResult::with_all_items(found.candidates.iter().flat_map(of_run).collect()))
}

/// The resources of a candidate of `resume_session`; empty for a session without a run.
fn of_run(candidate: &Candidate) -> Vec<Resource> {
    let Some(label) = &candidate.label else { return Vec::new() };
    let goal = candidate.goal.as_deref().or(candidate.workflow_id.as_ref().map(WorkflowId::as_str));
    let goal = goal.unwrap_or_default();
    let resource = |path: String, what: &str| {
        Resource::new(format!("{PREFIX}{label}{path}"), format!("{label}{path}"))
            .with_title(format!("{label}: {what}"))
            .with_description(clean(goal))
            .with_mime_type(MIME_TYPE)
    };
    let mut resources = vec![
        resource(String::new(), "overview"),
        resource("/notes".to_owned(), "all notes and artifacts"),
        resource("/context".to_owned(), "context"),
    ];
    let newest = candidate.step_number.unwrap_or_default();
    let first = newest.saturating_sub(STEPS_LISTED_MAX).max(1);
    resources.extend((first..newest).map(|step| resource(format!("/step/{step}"), &format!("step {step}"))));
    resources
}

pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = |path: &str, name: &str, what: &str| {
        ResourceTemplate::new(format!("{PREFIX}{{run}}{path}"), name)
            .with_description(what)
            .with_mime_type(MIME_TYPE)
    };
    ListResourceTemplatesResult::with_all_items(vec![
        template("", "run", "A run at a glance; `run` is its two-word label."),
        template("/step/{step}", "step", "A step's notes and artifacts in full, by its number or id."),
        template("/notes", "notes", "The notes and artifacts of all steps."),
        template("/context", "context", "The context where the run is."),
    ])
}

pub(crate) fn read(execution: &dyn Execution, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || {
        let message = format!(
            "unknown resource; the resources are {PREFIX}LABEL, with /step/STEP, /notes or /context behind it"
        );
        ErrorData::resource_not_found(message, Some(json!({ "uri": uri })))
    };
    let address = ResourceAddress::parse(uri).ok_or_else(unknown)?;
    let asked = address.request();
    let sent = arguments(&asked);
    let answered = answered_like(execution, ToolName::ReadRun, sent, Request::ReadRun(asked));
    let reply = answered.map_err(|error| failed(&error, json!({ "uri": uri, "error": &*error })))?;
    // Goals, notes and artifacts are untrusted, as in a tool's result (G76).
    let text = clean(&reply.parts().join("\n\n"));
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(MIME_TYPE)]))
}

/// The arguments of the tool that reads the same.
fn arguments(asked: &ReadRun) -> Map<String, Value> {
    let ReadRun { run, step, query: _, context, page } = asked;
    let members = [
        ("run", Some(Value::from(run.as_str()))),
        ("step", step.as_deref().map(Value::from)),
        ("context", context.then_some(Value::Bool(true))),
        ("page", page.map(Value::from)),
    ];
    members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// A resource has no tool result to carry an error, so the error's data holds the envelope.
fn failed(error: &ErrorEnvelope, data: Value) -> ErrorData {
    let message = clean(&format!("{}: {} {}", error.code.as_str(), error.message, error.suggestion));
    ErrorData::resource_not_found(message, Some(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(part: ResourcePart, page: Option<u64>) -> Option<ResourceAddress> {
        Some(ResourceAddress { run: "amber-falcon".to_owned(), part, page })
    }

    #[test]
    fn addresses_name_a_run_and_a_part_of_it() {
        for (uri, expected) in [
            ("workrail://run/amber-falcon", address(ResourcePart::Overview, None)),
            ("workrail://run/amber-falcon/", address(ResourcePart::Overview, None)),
            ("workrail://run/amber-falcon?page=2", address(ResourcePart::Overview, Some(2))),
            ("workrail://run/amber-falcon/step/3", address(ResourcePart::Step("3".to_owned()), None)),
            (
                "workrail://run/amber-falcon/step/wr.review?page=1",
                address(ResourcePart::Step("wr.review".to_owned()), Some(1)),
            ),
            ("workrail://run/amber-falcon/context", address(ResourcePart::Context, None)),
            ("workrail://run/amber-falcon/notes", address(ResourcePart::Notes, None)),
            ("workrail://run/amber-falcon/step", None),
            ("workrail://run/amber-falcon/step/3/more", None),
            ("workrail://run/amber-falcon/secrets", None),
            ("workrail://run/amber-falcon?page=x", None),
            ("workrail://run/", None),
            ("workrail://session/x", None),
            ("file:///etc/passwd", None),
        ] {
            assert_eq!(ResourceAddress::parse(uri), expected, "{uri}");
        }
    }
}
