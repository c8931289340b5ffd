//! A report on a session or a run, for the command line and the console: writes nothing (G36).
//!
//! The report is the core's projection; here it gets its content, and its one rendering that needs a
//! sanitiser: HTML (`html.rs`, with notes in `notes.rs` and the drawn graph in `svg.rs`, made of the parts in
//! `crate::html`).

mod html;
pub(crate) mod notes;
mod path;
mod svg;

use std::sync::Arc;

use workrail_core::report::{ContentReader, Covers, Detail, ReportInput, build};
use workrail_model::compiled::CompiledWorkflow;
use workrail_model::digest::{BlobRef, WorkflowHash};
use workrail_model::error::ErrorEnvelope;

use crate::content::CachedContent;
use crate::find::SessionOrRun;
use crate::session_access::Reading;
use crate::{Engine, Store};

pub use html::{
    node as render_node, notes_of as render_notes, output as render_output, render as render_html,
    shown_as as render_artifact,
};
pub use path::{PathAddresses, draw as draw_path};
pub use workrail_core::report::markdown::render as render_markdown;
pub use workrail_core::report::path::OpenParts as OpenedParts;
pub use workrail_core::report::sections::{BRANCHES, PREFERENCES, ReportSection, SpanTone};
pub use workrail_core::report::{
    ArtifactView, ContextValues, NodeReport, Report, RunReport, StepReport, SubmittedArtifact, Times,
    branch_letter, elapsed_text as duration_text, shown as shown_time,
};

impl ContentReader for CachedContent<'_> {
    fn workflow(&self, hash: WorkflowHash) -> Option<Arc<CompiledWorkflow>> {
        CachedContent::workflow(self, hash).ok()
    }

    fn blob(&self, reference: BlobRef) -> Option<Vec<u8>> {
        self.store.blob(reference).ok()
    }
}

impl<S: Store> Engine<S> {
    /// What was done in a session or a run. A damaged session is reported up to the damage.
    pub fn report(
        &self,
        about: SessionOrRun,
        context_values: ContextValues,
    ) -> Result<Report, Box<ErrorEnvelope>> {
        self.reading().report(about, context_values)
    }
}

impl Reading<'_> {
    pub(crate) fn report(
        &self,
        about: SessionOrRun,
        context_values: ContextValues,
    ) -> Result<Report, Box<ErrorEnvelope>> {
        let salvaged = self.salvage(about.session)?.or_refuse()?;
        let covers = match about.run {
            Some(run_id) => Covers::Run { run_id },
            None => Covers::Session,
        };
        let signatures = self.signatures(&salvaged.state, &salvaged.events);
        let mut report = build(&ReportInput {
            facts: &salvaged.state,
            events: &salvaged.events,
            health: &salvaged.health,
            covers,
            content: &self.content,
            context_values,
            signatures: &signatures,
            detail: Detail::Everything,
        });
        self.remark_drift(&mut report, &salvaged.state);
        Ok(report)
    }
}
