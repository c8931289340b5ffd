//! `list_workflows`: what can be started in a workspace. Reads only the catalog (G36).

use workrail_core::discover::Filter;
use workrail_model::discovery::{ListedWorkflow, UnusableFile, WorkflowList};
use workrail_model::error::ErrorEnvelope;
use workrail_model::limits::QUERY_BYTES_MAX;

use crate::request::ListWorkflows;
use crate::{Engine, Store, error};

const TAGS_MAX: usize = 20;

impl<S: Store> Engine<S> {
    /// The workflows and routines of the workspace that match the request, and every file that cannot be used.
    pub fn list_workflows(&self, request: ListWorkflows) -> Result<WorkflowList, Box<ErrorEnvelope>> {
        let workspace = self.existing_workspace(request.workspace_path.as_deref())?;
        let ListWorkflows { tags, query, .. } = request;
        if let Some(query) = query.as_ref().filter(|query| query.len() > QUERY_BYTES_MAX) {
            return Err(error::query_too_long("query", query.len(), QUERY_BYTES_MAX));
        }
        if tags.len() > TAGS_MAX {
            return Err(error::too_many_tags(tags.len(), TAGS_MAX));
        }
        let tag_bytes: usize = tags.iter().map(String::len).sum();
        if tag_bytes > QUERY_BYTES_MAX {
            return Err(error::query_too_long("tags", tag_bytes, QUERY_BYTES_MAX));
        }
        self.catalog.list(
            workspace.as_ref(),
            &Filter { tags, query },
            (self.environment.tools, self.rights()),
        )
    }

    /// Like `list_workflows`, without the limits of an agent's reply.
    pub fn all_workflows(&self, filter: &Filter) -> (Vec<ListedWorkflow>, Vec<UnusableFile>) {
        self.catalog.all(self.environment.workspace.as_ref(), filter)
    }
}
