//! Addresses of the console: parsed once into closed types, so that no part of a request names a file (G94).

mod form_outcome;
mod list;
mod query;
mod run;
mod settings;

use strum::{IntoStaticStr, VariantArray};
use workrail_model::digest::{Sha256, WorkflowHash};
use workrail_model::id::{RunId, SessionId};
use workrail_model::name::WorkflowId;

use query::searched;

pub(crate) use form_outcome::FormOutcome;
pub(crate) use list::{Filters, StatusFilter, WorkspaceFilter};
pub(crate) use query::QueryPairs;
pub(crate) use run::{ComparePage, ComparedRef, RunPage};
pub(crate) use settings::SettingsPage;

/// A page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PageAddress {
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

/// Which workflows are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CatalogPage {
    pub(crate) words: String,
    pub(crate) tag: String,
}

/// A workflow, and the version to compare with the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkflowPage {
    pub(crate) id: WorkflowId,
    pub(crate) pinned: Option<WorkflowHash>,
}

/// Which entry of the navigation a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(const_into_str)]
pub(crate) enum Tab {
    Now,
    Workflows,
    Settings,
    Logs,
}

impl Tab {
    pub(crate) fn address(self) -> &'static str {
        match self {
            Self::Now => "/",
            Self::Workflows => "/workflows",
            Self::Settings => "/settings",
            Self::Logs => "/logs",
        }
    }
}

impl PageAddress {
    /// The page at a path; `None` if there is none.
    pub(crate) fn parse(path: &str, query: &QueryPairs) -> Option<Self> {
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

    /// The page after a form, with a message about what was done.
    pub(crate) fn address_after(&self, done: FormOutcome) -> String {
        let address = self.address();
        let sign = if address.contains('?') { '&' } else { '?' };
        format!("{address}{sign}done={}", done.into_str())
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

    /// After how many polls the page is rendered again although the store's stamp is unchanged: the stamp does not
    /// cover settings, workflow files, logs and keep marks.
    pub(crate) fn polls_between(&self) -> Option<u64> {
        match self {
            Self::Logs | Self::Settings(_) | Self::Workflows(_) | Self::Workflow(_) => Some(5),
            Self::Session(_) => Some(15),
            Self::Now(_) | Self::Run(_) | Self::Compare(_) | Self::Search { .. } | Self::Edit(_) => None,
        }
    }

    /// Whether the page updates live. Pages that read every file are rendered only on request.
    pub(crate) fn is_live(&self) -> bool {
        match self {
            Self::Now(_) | Self::Session(_) | Self::Run(_) | Self::Compare(_) | Self::Logs => true,
            // It reads every session.
            Self::Search { .. } => false,
            // Must not change while the user types.
            Self::Edit(_) => false,
            Self::Settings(SettingsPage::Values | SettingsPage::Keys | SettingsPage::Passkeys) => true,
            Self::Workflows(_) | Self::Workflow(_) => true,
            Self::Settings(
                SettingsPage::Sources
                | SettingsPage::CleanUp
                | SettingsPage::Clients
                | SettingsPage::Health
                | SettingsPage::Checks,
            ) => false,
        }
    }
}

/// The key of a workflow file, as used in addresses.
pub(crate) fn file_key(text: &str) -> Option<Sha256> {
    Sha256::parse(&format!("sha256:{text}")).ok()
}

/// The address of a run.
pub(crate) fn run_address(run: RunId) -> String {
    RunPage::of(run).address()
}

#[cfg(test)]
mod tests {
    use workrail_model::id::NodeId;

    use super::*;

    fn parse(address: &str) -> Option<PageAddress> {
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        PageAddress::parse(path, &QueryPairs::parse(query))
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
    fn an_unknown_address_is_not_a_page() {
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
    fn an_unknown_filter_filters_nothing() {
        let Some(PageAddress::Now(filters)) = parse("/?status=everything&page=0") else {
            panic!("the home page")
        };
        assert_eq!(filters, Filters { page: 1, ..Filters::default() });
    }
}
