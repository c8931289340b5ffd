//! Addresses of the console: parsed once into closed types, so that nothing of a request names a file (G94).

use std::collections::BTreeSet;
use std::fmt;

use form_urlencoded::Serializer;
use workrail_engine::compare::{ComparedPart, Extent, Place};
use workrail_engine::report::OpenedParts;
use workrail_engine::sessions::Stage;
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::id::{NodeId, RunId, SessionId};
use workrail_model::name::WorkflowId;

/// A search is a few words.
const WORDS_CHARS_MAX: usize = 200;
/// Parts of a path that are open at once; more are opened with `all`.
const OPEN_PARTS_MAX: usize = 100;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Now(Filters),
    Session(SessionId),
    Run(RunPage),
    Compare(ComparePage),
    Search {
        words: String,
    },
    Workflows(CatalogPage),
    Workflow(WorkflowPage),
    /// The editor of a file, by its key.
    Edit(Sha256),
    Settings(SettingsPage),
    Logs,
}

/// What is compared; without `b`, what `a` can be compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparePage {
    pub(crate) a: ComparedRef,
    pub(crate) b: Option<ComparedRef>,
}

/// A part of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparedRef {
    pub(crate) run: RunId,
    pub(crate) part: ComparedPart,
}

impl ComparedRef {
    pub(crate) fn whole(run: RunId) -> Self {
        Self { run, part: ComparedPart::WHOLE }
    }

    pub(crate) fn up_to(run: RunId, node: NodeId) -> Self {
        Self { run, part: ComparedPart { extent: Extent::Path, place: Place::Node(node) } }
    }

    /// Counted from 1.
    pub(crate) fn attempt(run: RunId, node: NodeId, number: u32) -> Self {
        Self { run, part: ComparedPart { extent: Extent::Attempt { number }, place: Place::Node(node) } }
    }

    fn parse(text: &str) -> Option<Self> {
        let (run, part) = ComparedPart::split(text).ok()?;
        Some(Self { run: RunId::parse(run).ok()?, part })
    }
}

impl fmt::Display for ComparedRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.part == ComparedPart::WHOLE {
            true => write!(f, "{}", self.run),
            false => write!(f, "{}@{}", self.run, self.part),
        }
    }
}

/// Which workflows are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CatalogPage {
    pub(crate) words: String,
    pub(crate) tag: String,
}

/// A workflow, and the version of it that is compared with the one of now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkflowPage {
    pub(crate) id: WorkflowId,
    pub(crate) pinned: Option<WorkflowHash>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SettingsPage {
    Values,
    Sources,
    CleanUp,
    Keys,
    Passkeys,
    Clients,
    Health,
}

impl SettingsPage {
    pub(crate) const ALL: [Self; 7] =
        [Self::Values, Self::Passkeys, Self::Sources, Self::CleanUp, Self::Keys, Self::Clients, Self::Health];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Values => "Values",
            Self::Sources => "Sources",
            Self::CleanUp => "Clean-up",
            Self::Keys => "Keys",
            Self::Passkeys => "Passkeys",
            Self::Clients => "Clients",
            Self::Health => "Health",
        }
    }

    pub(crate) fn address(self) -> &'static str {
        match self {
            Self::Values => "/settings",
            Self::Sources => "/settings/sources",
            Self::CleanUp => "/settings/cleanup",
            Self::Keys => "/settings/keys",
            Self::Passkeys => "/settings/passkeys",
            Self::Clients => "/settings/clients",
            Self::Health => "/settings/health",
        }
    }

    fn parse(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|own| own.address() == path)
    }
}

/// A run, the point of it that is looked at, and what is open in its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunPage {
    pub(crate) run: RunId,
    pub(crate) node: Option<NodeId>,
    pub(crate) open: BTreeSet<NodeId>,
    pub(crate) is_all_open: bool,
}

impl RunPage {
    pub(crate) fn of(run: RunId) -> Self {
        Self { run, node: None, open: BTreeSet::new(), is_all_open: false }
    }

    fn parse(run: RunId, query: &Query) -> Self {
        let open = query.get("open").unwrap_or_default();
        Self {
            run,
            node: query.get("node").and_then(|node| NodeId::parse(node).ok()),
            open: open.split(',').filter_map(|node| NodeId::parse(node).ok()).take(OPEN_PARTS_MAX).collect(),
            is_all_open: open == "all",
        }
    }

    pub(crate) fn at(&self, node: NodeId) -> Self {
        Self { node: Some(node), ..self.clone() }
    }

    pub(crate) fn with_open(&self, part: NodeId) -> Self {
        let mut next = self.clone();
        next.open.insert(part);
        next
    }

    pub(crate) fn with_folded(&self, part: NodeId) -> Self {
        let mut next = Self { is_all_open: false, ..self.clone() };
        next.open.remove(&part);
        next
    }

    pub(crate) fn with_all(&self, is_all_open: bool) -> Self {
        Self { is_all_open, open: BTreeSet::new(), ..self.clone() }
    }

    pub(crate) fn opened(&self, shown: Option<NodeId>) -> OpenedParts {
        OpenedParts { all: self.is_all_open, parts: self.open.clone(), shown }
    }

    pub(crate) fn address(&self) -> String {
        let mut pairs = Vec::new();
        pairs.extend(self.node.map(|node| format!("node={node}")));
        let open: Vec<String> = self.open.iter().map(ToString::to_string).collect();
        match (self.is_all_open, open.is_empty()) {
            (true, _) => pairs.push("open=all".to_owned()),
            (false, false) => pairs.push(format!("open={}", open.join(","))),
            (false, true) => {}
        }
        with_query(&format!("/run/{}", self.run), &pairs.join("&"))
    }
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
    Blocked,
    Running,
    Finished,
    Damaged,
}

impl StatusFilter {
    pub(crate) const ALL: [Self; 5] =
        [Self::NeedsMe, Self::Blocked, Self::Running, Self::Finished, Self::Damaged];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::NeedsMe => "needs_me",
            Self::Blocked => "blocked",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Damaged => "damaged",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::NeedsMe => "Needs you",
            Self::Blocked => "Blocked",
            Self::Running => "Running",
            Self::Finished => "Finished",
            Self::Damaged => "Damaged sessions",
        }
    }

    pub(crate) fn of(stage: Stage) -> Self {
        match stage {
            Stage::WaitsForPerson | Stage::Unreadable => Self::NeedsMe,
            // The agent corrects it, mostly within seconds.
            Stage::Blocked => Self::Blocked,
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
    Closed,
    Kept,
    Unkept,
    /// A deletion that can still be undone.
    Held,
    Undone,
    Deleted,
    Imported,
    Changed,
    SourceAdded,
    SourceRemoved,
    Fetched,
    CleanedUp,
    Rotated,
    Copied,
    Preferred,
    Enrolled,
    KeyRemoved,
    Saved,
}

impl Done {
    const ALL: [Self; 21] = [
        Self::Approved,
        Self::Rejected,
        Self::Answered,
        Self::Closed,
        Self::Kept,
        Self::Unkept,
        Self::Held,
        Self::Undone,
        Self::Deleted,
        Self::Imported,
        Self::Changed,
        Self::SourceAdded,
        Self::SourceRemoved,
        Self::Fetched,
        Self::CleanedUp,
        Self::Rotated,
        Self::Copied,
        Self::Preferred,
        Self::Enrolled,
        Self::KeyRemoved,
        Self::Saved,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Answered => "answered",
            Self::Closed => "closed",
            Self::Kept => "kept",
            Self::Unkept => "unkept",
            Self::Held => "held",
            Self::Undone => "undone",
            Self::Deleted => "deleted",
            Self::Imported => "imported",
            Self::Changed => "changed",
            Self::SourceAdded => "source-added",
            Self::SourceRemoved => "source-removed",
            Self::Fetched => "fetched",
            Self::CleanedUp => "cleaned-up",
            Self::Rotated => "rotated",
            Self::Copied => "copied",
            Self::Preferred => "preferred",
            Self::Enrolled => "enrolled",
            Self::KeyRemoved => "key-removed",
            Self::Saved => "saved",
        }
    }

    pub(crate) fn said(self) -> &'static str {
        match self {
            Self::Approved => "Approved. The agent can continue with the next call of its last reply.",
            Self::Rejected => "Rejected. The agent reads your reason with its next call.",
            Self::Answered => "Answered. The agent can continue with the next call of its last reply.",
            Self::Closed => "Closed. The next step that an agent completes opens the run again.",
            Self::Kept => "Kept. Clean-up will not delete this session.",
            Self::Unkept => "No longer kept. Clean-up may delete this session once it is old.",
            Self::Held => "The session will be deleted in a few seconds. Until then you can undo it below.",
            Self::Undone => "Undone. The session was not deleted.",
            Self::Deleted => {
                "Deleted. The next clean-up frees the space of content that no other session needs."
            }
            Self::Imported => "Imported. Ask an agent to resume the run.",
            Self::Changed => "Saved in the settings file.",
            Self::SourceAdded => {
                "Added. This console uses it now. Restart your clients so that their agents can use it."
            }
            Self::SourceRemoved => {
                "Removed. This console no longer uses it. Agents use it until their clients are restarted."
            }
            Self::Fetched => "Fetched.",
            Self::CleanedUp => "Cleaned up. Below is what would be removed now.",
            Self::Rotated => "Rotated. Running servers take over the new key by themselves.",
            Self::Copied => "Copied to your own folder for workflows.",
            Self::Preferred => "Saved. The next completed step applies it.",
            Self::Enrolled => "Enrolled. Decisions can be signed with this passkey from now on.",
            Self::KeyRemoved => "Removed. What it signed before stays proven.",
            Self::Saved => {
                "Saved. Runs that are started from now on use it; started runs keep what they are pinned to."
            }
        }
    }
}

/// Which workspace runs belong to. Paths are not recorded, so a workspace is known by a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkspaceFilter {
    /// The one that the console was started in.
    Here,
    /// One without a repository, or from before it was recorded.
    Unknown,
    Other(Sha256),
}

impl WorkspaceFilter {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "here" => Some(Self::Here),
            "unknown" => Some(Self::Unknown),
            digest => Sha256::parse(digest).ok().map(Self::Other),
        }
    }
}

impl fmt::Display for WorkspaceFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Here => f.write_str("here"),
            Self::Unknown => f.write_str("unknown"),
            Self::Other(digest) => write!(f, "{digest}"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters {
    pub(crate) words: String,
    pub(crate) status: Option<StatusFilter>,
    pub(crate) workflow: String,
    pub(crate) tag: String,
    pub(crate) workspace: Option<WorkspaceFilter>,
    /// Counted from 1.
    pub(crate) page: usize,
}

impl Filters {
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
            && self.status.is_none()
            && self.workflow.is_empty()
            && self.tag.is_empty()
            && self.workspace.is_none()
    }

    fn parse(query: &Query) -> Self {
        let status = query.get("status").unwrap_or_default();
        Self {
            words: query.words("q"),
            status: StatusFilter::ALL.into_iter().find(|own| own.as_str() == status),
            workflow: query.words("workflow"),
            tag: query.words("tag"),
            workspace: query.get("workspace").and_then(WorkspaceFilter::parse),
            page: query.get("page").and_then(|page| page.parse().ok()).unwrap_or(1).max(1),
        }
    }

    pub(crate) fn address(&self) -> String {
        let mut pairs = Serializer::new(String::new());
        let status = self.status.map(StatusFilter::as_str).unwrap_or_default();
        let workspace = self.workspace.map(|own| own.to_string()).unwrap_or_default();
        for (name, value) in [
            ("q", self.words.as_str()),
            ("status", status),
            ("workflow", &self.workflow),
            ("tag", &self.tag),
            ("workspace", &workspace),
        ] {
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
            ["run", id] => Self::Run(RunPage::parse(RunId::parse(id).ok()?, query)),
            ["compare"] => Self::Compare(ComparePage {
                a: ComparedRef::parse(query.get("a")?)?,
                b: query.get("b").map(|b| ComparedRef::parse(b).ok_or(())).transpose().ok()?,
            }),
            ["search"] => Self::Search { words: query.words("q") },
            ["workflows"] => {
                Self::Workflows(CatalogPage { words: query.words("q"), tag: query.words("tag") })
            }
            ["workflows", id] => {
                let pinned = query.get("pinned").and_then(|digest| Sha256::parse(digest).ok());
                Self::Workflow(WorkflowPage {
                    id: WorkflowId::parse(id).ok()?,
                    pinned: pinned.map(WorkflowHash::new),
                })
            }
            ["edit", key] => Self::Edit(file_key(key)?),
            ["settings", ..] => Self::Settings(SettingsPage::parse(path)?),
            ["logs"] => Self::Logs,
            _ => return None,
        })
    }

    pub(crate) fn address(&self) -> String {
        match self {
            Self::Now(filters) => filters.address(),
            Self::Session(id) => format!("/session/{id}"),
            Self::Run(page) => page.address(),
            Self::Compare(page) => {
                let b = page.b.as_ref().map(ToString::to_string).unwrap_or_default();
                searched("/compare", &[("a", &page.a.to_string()), ("b", &b)])
            }
            Self::Search { words } => searched("/search", &[("q", words)]),
            Self::Workflows(page) => searched("/workflows", &[("q", &page.words), ("tag", &page.tag)]),
            Self::Workflow(page) => {
                let pinned = page.pinned.map(|hash| hash.digest().to_string()).unwrap_or_default();
                searched(&format!("/workflows/{}", page.id), &[("pinned", &pinned)])
            }
            Self::Edit(key) => format!("/edit/{}", key.hex()),
            Self::Settings(page) => page.address().to_owned(),
            Self::Logs => "/logs".to_owned(),
        }
    }

    /// The page after a form, which says what was done.
    pub(crate) fn address_after(&self, done: Done) -> String {
        let address = self.address();
        let sign = if address.contains('?') { '&' } else { '?' };
        format!("{address}{sign}done={}", done.as_str())
    }

    pub(crate) fn tab(&self) -> Tab {
        match self {
            Self::Now(_) | Self::Session(_) | Self::Run(_) | Self::Compare(_) | Self::Search { .. } => {
                Tab::Now
            }
            Self::Workflows(_) | Self::Workflow(_) | Self::Edit(_) => Tab::Workflows,
            Self::Settings(_) => Tab::Settings,
            Self::Logs => Tab::Logs,
        }
    }

    /// After how many looks the page is rendered again although the store's mark is the same: settings, workflow files,
    /// logs and marks of sessions are not part of that mark.
    pub(crate) fn looks_between(&self) -> Option<u64> {
        match self {
            Self::Logs | Self::Settings(_) | Self::Workflows(_) | Self::Workflow(_) => Some(5),
            Self::Session(_) => Some(15),
            Self::Now(_) | Self::Run(_) | Self::Compare(_) | Self::Search { .. } | Self::Edit(_) => None,
        }
    }

    /// Whether the page follows the store. What looks at every file is made when it is asked for, and only then.
    pub(crate) fn is_live(&self) -> bool {
        match self {
            Self::Now(_) | Self::Session(_) | Self::Run(_) | Self::Compare(_) | Self::Logs => true,
            // It reads every session.
            Self::Search { .. } => false,
            // Nothing is changed under somebody who types.
            Self::Edit(_) => false,
            Self::Settings(SettingsPage::Values | SettingsPage::Keys | SettingsPage::Passkeys) => true,
            Self::Workflows(_) | Self::Workflow(_) => true,
            Self::Settings(
                SettingsPage::Sources | SettingsPage::CleanUp | SettingsPage::Clients | SettingsPage::Health,
            ) => false,
        }
    }
}

fn searched(path: &str, filters: &[(&str, &str)]) -> String {
    let mut pairs = Serializer::new(String::new());
    for (name, value) in filters.iter().filter(|(_, value)| !value.is_empty()) {
        pairs.append_pair(name, value);
    }
    with_query(path, &pairs.finish())
}

/// The key of a workflow file, as addresses have it.
pub(crate) fn file_key(text: &str) -> Option<Sha256> {
    Sha256::parse(&format!("sha256:{text}")).ok()
}

/// The address of a run.
pub(crate) fn run_address(run: RunId) -> String {
    RunPage::of(run).address()
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
            format!("/run/{run}?node={node}&open=all"),
            format!("/run/{run}?open={node}"),
            format!("/compare?a={run}"),
            format!("/compare?a={run}&b={run}%40b"),
            format!("/compare?a={run}%40{node}%3A1&b={run}%40..{node}"),
            format!("/?tag=release&workspace=sha256%3A{}", "5".repeat(64)),
            "/?workspace=here".to_owned(),
            "/workflows?q=review".to_owned(),
            "/workflows/wr.code_review".to_owned(),
            "/workflows?q=review&tag=coding".to_owned(),
            format!("/workflows/wr.code_review?pinned=sha256%3A{}", "5".repeat(64)),
            "/settings".to_owned(),
            "/settings/cleanup".to_owned(),
            format!("/edit/{}", "5".repeat(64)),
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
            "/edit/team.review",
            "/edit/../../etc/passwd",
            "/compare",
            "/compare?a=amber-falcon",
            "/compare?a=..%2F..%2Fetc",
            "/settings/",
            "/settings/../keys",
            "/settings/keys/rotate",
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
