//! The state of each source: what was found there, what is wrong with it and how to fix it.

use serde::Serialize;
use strum::IntoStaticStr;
use workrail_model::discovery::Precedence;
use workrail_ports::workflow_source::{SourceListing, SourceProblem};
use workrail_ports::workspace::WorkspacePath;

use super::walk::FolderWalk;
use super::{SourceLocation, Sources, bundled, plugin};

/// The closed set of states of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum SourceState {
    Ok,
    /// A default folder that was never created; nothing is wrong.
    Absent,
    /// A folder that the user registered and that does not exist.
    Missing,
    Unreadable,
    /// A link where links are not followed.
    Link,
    /// A loop of links.
    #[strum(serialize = "symlink loop")]
    Loop,
    #[strum(serialize = "too many files")]
    TooManyFiles,
    #[strum(serialize = "never fetched")]
    NeverFetched,
    /// The last fetch failed; what was fetched before is served.
    Stale,
    /// Its address is not allowed and never fetched.
    Refused,
}

impl SourceState {
    pub fn is_well(self) -> bool {
        match self {
            Self::Ok | Self::Absent => true,
            Self::Missing
            | Self::Unreadable
            | Self::Link
            | Self::Loop
            | Self::TooManyFiles
            | Self::NeverFetched
            | Self::Stale
            | Self::Refused => false,
        }
    }

    /// As people read it.
    pub fn as_str(self) -> &'static str {
        self.into_str()
    }
}

/// A source and its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceReport {
    pub precedence: Precedence,
    /// Position within its precedence.
    pub folder_position: usize,
    /// As registered: a name or a folder.
    pub name: String,
    /// A folder on this machine or an address.
    pub location: String,
    pub state: SourceState,
    /// Workflow files that were found, usable or not.
    pub files: usize,
    /// Problems with the source as a whole and with what was found in it.
    pub problems: Vec<SourceProblem>,
    pub git: Option<GitReport>,
}

/// Further details of a git source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GitReport {
    pub r#ref: String,
    pub folder: Option<String>,
    pub sync_hours: u32,
    pub commit: Option<String>,
    pub fetched_at_ms: Option<u64>,
    pub tried_at_ms: Option<u64>,
}

impl Sources {
    /// Every source, lowest precedence first.
    pub fn reports(&self, workspace: Option<&WorkspacePath>) -> Vec<SourceReport> {
        let bundled = SourceReport {
            precedence: Precedence::Bundled,
            folder_position: 0,
            name: "bundled".to_owned(),
            location: "inside the program".to_owned(),
            state: SourceState::Ok,
            files: bundled::ALL.len(),
            problems: Vec::new(),
            git: None,
        };
        let mut reports = vec![bundled];
        reports.extend(self.locations(workspace).iter().map(SourceLocation::report));
        reports
    }
}

impl SourceLocation {
    fn report(&self) -> SourceReport {
        match self {
            Self::Folder(root) => {
                let mut listing = SourceListing::default();
                let state = FolderWalk::new(&mut listing).root(root);
                found(root.precedence, root.position, root.path.as_str(), state, listing)
            }
            Self::Plugin { position, folder } => {
                let (state, listing) = plugin::list(*position, folder);
                found(Precedence::Plugin, *position, folder.as_str(), state, listing)
            }
            Self::Git(mirror) => {
                let mut listing = SourceListing::default();
                mirror.list_into(&mut listing);
                let known = mirror.state();
                if let (SourceState::Stale | SourceState::Unreadable, Some(problem), Some(fix)) =
                    (known.state, known.problem, known.fix)
                {
                    listing.problems.insert(0, super::problem(Precedence::Git, &mirror.name, problem, &fix));
                }
                let git = GitReport {
                    r#ref: mirror.source.r#ref.clone().unwrap_or_else(|| "HEAD".to_owned()),
                    folder: mirror.source.folder.clone(),
                    sync_hours: mirror.source.sync_hours,
                    commit: known.commit,
                    fetched_at_ms: known.fetched_at_ms,
                    tried_at_ms: known.tried_at_ms,
                };
                let report =
                    found(Precedence::Git, mirror.position, &mirror.source.url, known.state, listing);
                SourceReport { name: mirror.name.clone(), git: Some(git), ..report }
            }
        }
    }
}

fn found(
    precedence: Precedence,
    position: usize,
    location: &str,
    state: SourceState,
    listing: SourceListing,
) -> SourceReport {
    SourceReport {
        precedence,
        folder_position: position,
        name: location.to_owned(),
        location: location.to_owned(),
        state,
        files: listing.files.len(),
        problems: listing.problems,
        git: None,
    }
}
