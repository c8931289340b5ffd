//! Addresses of the console: parsed once into closed types, so that nothing of a request names a file (G94).

use std::fmt::Write as _;

use form_urlencoded::Serializer;
use workrail_engine::sessions::Stage;
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::name::WorkflowId;

/// A search is a few words.
const WORDS_CHARS_MAX: usize = 200;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Now(Filters),
    Session(SessionId),
    Run { run: RunId, node: Option<NodeId> },
    Search { words: String },
    Workflows { words: String },
    Workflow(WorkflowId),
    Settings,
    Logs,
}

/// Which entry of the navigation a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Now,
    Workflows,
    Settings,
    Logs,
}

impl Tab {
    pub(crate) const ALL: [Self; 4] = [Self::Now, Self::Workflows, Self::Settings, Self::Logs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Now => "Now",
            Self::Workflows => "Workflows",
            Self::Settings => "Settings",
            Self::Logs => "Logs",
        }
    }

    pub(crate) fn address(self) -> &'static str {
        match self {
            Self::Now => "/",
            Self::Workflows => "/workflows",
            Self::Settings => "/settings",
            Self::Logs => "/logs",
        }
    }
}

/// Which runs are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatusFilter {
    NeedsMe,
    Running,
    Finished,
    Damaged,
}

impl StatusFilter {
    pub(crate) const ALL: [Self; 4] = [Self::NeedsMe, Self::Running, Self::Finished, Self::Damaged];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NeedsMe => "needs_me",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Damaged => "damaged",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::NeedsMe => "Needs you",
            Self::Running => "Running",
            Self::Finished => "Finished",
            Self::Damaged => "Damaged sessions",
        }
    }

    pub(crate) fn of(stage: Stage) -> Self {
        match stage {
            Stage::WaitsForPerson | Stage::Blocked | Stage::Unreadable => Self::NeedsMe,
            Stage::InProgress => Self::Running,
            Stage::NotesOnly | Stage::CompleteWithGaps | Stage::Complete | Stage::Closed => Self::Finished,
        }
    }
}

/// What a form did, as the page after it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Approved,
    Rejected,
    Answered,
    Kept,
    Unkept,
    Deleted,
    Imported,
}

impl Done {
    const ALL: [Self; 7] = [
        Self::Approved,
        Self::Rejected,
        Self::Answered,
        Self::Kept,
        Self::Unkept,
        Self::Deleted,
        Self::Imported,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Answered => "answered",
            Self::Kept => "kept",
            Self::Unkept => "unkept",
            Self::Deleted => "deleted",
            Self::Imported => "imported",
        }
    }

    pub(crate) fn said(self) -> &'static str {
        match self {
            Self::Approved => "Approved. The agent can continue with the next call of its last reply.",
            Self::Rejected => "Rejected. The agent reads your reason with its next call.",
            Self::Answered => "Answered. The agent can continue with the next call of its last reply.",
            Self::Kept => "Kept. Clean-up will not delete this session.",
            Self::Unkept => "No longer kept. Clean-up may delete this session once it is old.",
            Self::Deleted => {
                "Deleted. Content that no other session needs goes with the next `workrail store gc`."
            }
            Self::Imported => "Imported. Ask an agent to resume the run.",
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    pub(crate) words: String,
    pub(crate) status: Option<StatusFilter>,
    pub(crate) workflow: String,
    /// Counted from 1.
    pub(crate) page: usize,
}

impl Filters {
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.status.is_none() && self.workflow.is_empty()
    }

    fn parse(query: &Query) -> Self {
        let status = query.get("status").unwrap_or_default();
        Self {
            words: query.words("q"),
            status: StatusFilter::ALL.into_iter().find(|own| own.as_str() == status),
            workflow: query.words("workflow"),
            page: query.get("page").and_then(|page| page.parse().ok()).unwrap_or(1).max(1),
        }
    }

    pub(crate) fn address(&self) -> String {
        let mut pairs = Serializer::new(String::new());
        let status = self.status.map(StatusFilter::as_str).unwrap_or_default();
        for (name, value) in [("q", self.words.as_str()), ("status", status), ("workflow", &self.workflow)] {
            if !value.is_empty() {
                pairs.append_pair(name, value);
            }
        }
        if self.page > 1 {
            pairs.append_pair("page", &self.page.to_string());
        }
        with_query("/", &pairs.finish())
    }
}

fn with_query(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

/// The pairs of a query or a form, the first of each name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes());
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn words(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().trim().chars().take(WORDS_CHARS_MAX).collect()
    }

    pub(crate) fn done(&self) -> Option<Done> {
        let done = self.get("done")?;
        Done::ALL.into_iter().find(|own| own.as_str() == done)
    }
}

impl Target {
    /// The page at a path; `None` where there is none.
    pub(crate) fn parse(path: &str, query: &Query) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        Some(match parts.as_slice() {
            [""] => Self::Now(Filters::parse(query)),
            ["session", id] => Self::Session(SessionId::parse(id).ok()?),
            ["run", id] => {
                let node = query.get("node").and_then(|node| NodeId::parse(node).ok());
                Self::Run { run: RunId::parse(id).ok()?, node }
            }
            ["search"] => Self::Search { words: query.words("q") },
            ["workflows"] => Self::Workflows { words: query.words("q") },
            ["workflows", id] => Self::Workflow(WorkflowId::parse(id).ok()?),
            ["settings"] => Self::Settings,
            ["logs"] => Self::Logs,
            _ => return None,
        })
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::Now(filters) => filters.address(),
            Self::Session(id) => format!("/session/{id}"),
            Self::Run { run, node } => {
                let mut address = format!("/run/{run}");
                if let Some(node) = node {
                    let _ = write!(address, "?node={node}");
                }
                address
            }
            Self::Search { words } => searched("/search", words),
            Self::Workflows { words } => searched("/workflows", words),
            Self::Workflow(id) => format!("/workflows/{id}"),
            Self::Settings => "/settings".to_owned(),
            Self::Logs => "/logs".to_owned(),
        }
    }

    pub(crate) fn tab(&self) -> Tab {
        match self {
            Self::Now(_) | Self::Session(_) | Self::Run { .. } | Self::Search { .. } => Tab::Now,
            Self::Workflows { .. } | Self::Workflow(_) => Tab::Workflows,
            Self::Settings => Tab::Settings,
            Self::Logs => Tab::Logs,
        }
    }
}

fn searched(path: &str, words: &str) -> String {
    let mut pairs = Serializer::new(String::new());
    if !words.is_empty() {
        pairs.append_pair("q", words);
    }
    with_query(path, &pairs.finish())
}

/// The address of a run.
pub(crate) fn run_address(run: RunId) -> String {
    Target::Run { run, node: None }.address()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(address: &str) -> Option<Target> {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        Target::parse(path, &Query::parse(query))
    }

    #[test]
    fn an_address_is_parsed_and_written_back() {
        let run = RunId::from_bits([3; 10]);
        let node = NodeId::from_bits([4; 10]);
        for address in [
            "/".to_owned(),
            "/?q=retry+budget&status=needs_me&workflow=wr.code_review&page=3".to_owned(),
            "/?q=%26%3C%3E".to_owned(),
            format!("/run/{run}"),
            format!("/run/{run}?node={node}"),
            "/workflows?q=review".to_owned(),
            "/workflows/wr.code_review".to_owned(),
            "/settings".to_owned(),
            "/logs".to_owned(),
        ] {
            assert_eq!(parse(&address).map(|target| target.address()), Some(address));
        }
    }

    #[test]
    fn what_is_no_address_of_ours_is_no_page() {
        for other in [
            "/run",
            "/run/",
            "/run/amber-falcon",
            "/run/../settings",
            "/session/..%2f..%2fetc%2fpasswd",
            "/session/../../etc/passwd",
            "/workflows/../x",
            "//evil.example/",
            "/nothing",
            "",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_filter_that_does_not_exist_filters_nothing() {
        let Some(Target::Now(filters)) = parse("/?status=everything&page=0") else { panic!("the home page") };
        assert_eq!(filters, Filters { page: 1, ..Filters::default() });
    }
}
