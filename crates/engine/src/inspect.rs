//! `inspect_workflow`: one workflow before it is started. Reads only the catalog (G36).

use workrail_core::discover::{Inspected, inspect};
use workrail_model::compiled::ReferenceDeclaration;
use workrail_model::discovery::{InspectedReference, WorkflowInspection};
use workrail_model::error::ErrorEnvelope;
use workrail_model::name::WorkflowId;
use workrail_ports::workspace::WorkspacePath;

use crate::catalog::{CatalogEntry, ClaimingFile};
use crate::request::InspectWorkflow;
use crate::{Engine, Store, error, references};

impl<S: Store> Engine<S> {
    /// What a workflow does and needs; its whole plan in mode `preview`.
    pub fn inspect_workflow(
        &self,
        request: InspectWorkflow,
    ) -> Result<WorkflowInspection, Box<ErrorEnvelope>> {
        let id = WorkflowId::parse(&request.workflow_id).map_err(|cause| error::workflow_id(&cause))?;
        let workspace = self.existing_workspace(request.workspace_path.as_deref())?;
        let entry = self.catalog.compiled(&id, workspace.as_ref())?;
        let declared = entry.workflow.references.iter();
        let references =
            declared.map(|reference| self.reference(reference, &entry, workspace.as_ref())).collect();
        let input = Inspected {
            workflow: &entry.workflow,
            hash: entry.hash,
            source_kind: entry.source.kind,
            reference: &entry.source.reference,
            asked: entry.asked.as_ref(),
            suggested: entry.suggested.clone(),
            diagnostics: &entry.diagnostics,
            references,
            tools: self.environment.tools,
            rights: self.rights(),
        };
        Ok(inspect(input, request.mode))
    }

    /// Every file that claims a workflow's id, the owner first.
    pub fn claimants(
        &self,
        id: &WorkflowId,
        workspace: Option<&str>,
    ) -> Result<Vec<ClaimingFile>, Box<ErrorEnvelope>> {
        let workspace = self.workspace(workspace)?;
        Ok(self.catalog.claimants(id, workspace.as_ref()))
    }

    fn reference(
        &self,
        declaration: &ReferenceDeclaration,
        entry: &CatalogEntry,
        workspace: Option<&WorkspacePath>,
    ) -> InspectedReference {
        let path =
            references::shown_path(&*self.environment.workflows, declaration, &entry.source, workspace);
        InspectedReference {
            id: declaration.id.clone(),
            title: declaration.title.clone(),
            source: declaration.source.clone(),
            resolve_from: declaration.resolve_from,
            purpose: declaration.purpose.clone(),
            authoritative: declaration.authoritative,
            is_resolved: path.is_some(),
            path,
        }
    }
}
