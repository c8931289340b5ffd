//! Which runs the first page lists.

use std::fmt;

use form_urlencoded::Serializer;
use strum::{EnumString, IntoStaticStr, VariantArray};
use workrail_engine::sessions::Stage;
use workrail_model::digest::Sha256;

use super::query::{QueryPairs, with_query};

/// Which runs are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, EnumString, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum StatusFilter {
    NeedsMe,
    Blocked,
    Running,
    Finished,
    Damaged,
}

impl StatusFilter {
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
            // The agent corrects it, usually within seconds.
            Stage::Blocked => Self::Blocked,
            Stage::InProgress => Self::Running,
            Stage::NotesOnly | Stage::CompleteWithGaps | Stage::Complete | Stage::Closed => Self::Finished,
        }
    }
}

/// Which workspace runs belong to. Paths are not recorded, so a digest identifies a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkspaceFilter {
    /// The workspace that the console was started in.
    Here,
    /// A workspace without a repository, or from before it was recorded.
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

    pub(super) fn parse(query: &QueryPairs) -> Self {
        Self {
            words: query.words("q"),
            status: query.get("status").and_then(|status| status.parse().ok()),
            workflow: query.words("workflow"),
            tag: query.words("tag"),
            workspace: query.get("workspace").and_then(WorkspaceFilter::parse),
            page: query.get("page").and_then(|page| page.parse().ok()).unwrap_or(1).max(1),
        }
    }

    pub(crate) fn address(&self) -> String {
        let mut pairs = Serializer::new(String::new());
        let status = self.status.map(|status| status.into_str()).unwrap_or_default();
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
