//! The documents that a workflow refers to: where they are, for the agent that reads them.

use workrail_model::compiled::{CompiledWorkflow, ReferenceDeclaration, ResolveFrom};
use workrail_model::reply::ReferenceInfo;
use workrail_ports::workflow_source::{Located, SourceFile, WorkflowSource};
use workrail_ports::workspace::WorkspacePath;

use crate::session_access::Reading;

/// The path to show for a declared document; `None` if it does not exist.
pub(crate) fn shown_path(
    workflows: &dyn WorkflowSource,
    declaration: &ReferenceDeclaration,
    source: &SourceFile,
    workspace: Option<&WorkspacePath>,
) -> Option<String> {
    match (workflows.locate(declaration, source, workspace), declaration.resolve_from) {
        (Located::Missing, _) => None,
        (Located::Found { relative, .. }, ResolveFrom::Workspace) => Some(relative),
        // The agent does not know where a package is: only the absolute path helps.
        (Located::Found { absolute, .. }, ResolveFrom::Package) => Some(absolute),
    }
}

impl Reading<'_> {
    /// Every reference of the workflow; without its source, nothing can be resolved.
    pub(crate) fn references(
        &self,
        workflow: &CompiledWorkflow,
        source: Option<&SourceFile>,
        workspace: Option<&WorkspacePath>,
    ) -> Vec<ReferenceInfo> {
        let info = |declaration: &ReferenceDeclaration| {
            let path = source
                .and_then(|source| shown_path(&*self.environment.workflows, declaration, source, workspace));
            ReferenceInfo {
                id: declaration.id.clone(),
                title: declaration.title.clone(),
                resolved: path.is_some(),
                path: path.unwrap_or_else(|| declaration.source.clone()),
                purpose: declaration.purpose.clone(),
                authoritative: declaration.authoritative,
            }
        };
        workflow.references.iter().map(info).collect()
    }
}
