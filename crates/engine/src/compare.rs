//! Compares two branches, attempts or runs side by side, for the command line and the console: writes nothing (G36).

use workrail_core::compare::{Compared, build};
use workrail_core::link::NodeLink;
use workrail_core::report::{ContextValues, Covers, Detail, ReportInput, Signatures};
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{RunId, SessionId};

use crate::find::NameMatch;
use crate::salvage::Salvaged;
use crate::session_access::Reading;
use crate::token::KeyUse;
use crate::{Engine, Store, error};

pub use workrail_core::compare::{
    ArtifactComparison, Comparison, Continuation, CurrentSide, DiffLine, Difference, Extent, FieldDifference,
    PartEnd, ReferenceError, RunPart, Side, StepComparison, StepSide, words,
};

/// A part of a run in this store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedPart {
    pub session: SessionId,
    pub run: RunId,
    pub part: RunPart,
}

impl<S: Store> Engine<S> {
    /// The part that `text` names: a run with an optional part after it (`amber-falcon@b`), or a reference to a
    /// point. A part without a run (`@b`) belongs to the run of `other_part`.
    pub fn find_part(
        &self,
        text: &str,
        other_part: Option<&LocatedPart>,
    ) -> Result<(LocatedPart, Option<NameMatch>), Box<ErrorEnvelope>> {
        let text = text.trim();
        if NodeLink::is_meant(text) {
            let link = NodeLink::parse(text).map_err(|cause| error::wrong_part(&cause))?;
            return Ok((self.part_at(link)?, None));
        }
        let (name, part) = RunPart::split(text).map_err(|cause| error::wrong_part(&cause))?;
        if let (true, Some(other)) = (name.is_empty(), other_part) {
            return Ok((LocatedPart { part, ..other.clone() }, None));
        }
        let (session, run, named) = self.find_run(name)?;
        Ok((LocatedPart { session, run, part }, Some(named)))
    }

    fn part_at(&self, link: NodeLink) -> Result<LocatedPart, Box<ErrorEnvelope>> {
        let read = self.reading().salvage(link.session)?.or_refuse()?;
        let node = read.state.node(link.node).ok_or_else(|| error::unknown_reference(&link.to_string()))?;
        let part = RunPart { extent: Extent::Point, end: PartEnd::Node(link.node) };
        Ok(LocatedPart { session: link.session, run: node.run_id, part })
    }

    /// Compares two parts. For a damaged session, compares what comes before the damage.
    pub fn compare(
        &self,
        a: &LocatedPart,
        b: &LocatedPart,
        context_values: ContextValues,
    ) -> Result<Comparison, Box<ErrorEnvelope>> {
        self.reading().compare(a, b, context_values)
    }
}

impl Reading<'_> {
    fn compare(
        &self,
        a: &LocatedPart,
        b: &LocatedPart,
        context_values: ContextValues,
    ) -> Result<Comparison, Box<ErrorEnvelope>> {
        // Without keys there is no call to continue; `keys_problem` says why.
        let _ = self.signer.refresh(KeyUse::ReadOnly);
        let read_a = self.salvage(a.session)?.or_refuse()?;
        // If both are in one session, it is read once.
        let other = (a.session != b.session).then(|| self.salvage(b.session)?.or_refuse()).transpose()?;
        let read_b = other.as_ref().unwrap_or(&read_a);
        let signed_a = self.signatures(&read_a.state, &read_a.events);
        let signed_b = self.signatures(&read_b.state, &read_b.events);
        let side_a = self.compared(&read_a, a, context_values, &signed_a);
        let side_b = self.compared(read_b, b, context_values, &signed_b);
        let mut comparison = build(&side_a, &side_b).map_err(|cause| error::wrong_part(&cause))?;
        self.add_call(&read_a, &mut comparison.a);
        self.add_call(read_b, &mut comparison.b);
        Ok(comparison)
    }

    fn compared<'a>(
        &'a self,
        read: &'a Salvaged,
        part: &LocatedPart,
        context_values: ContextValues,
        signatures: &'a Signatures,
    ) -> Compared<'a> {
        let subject = ReportInput {
            facts: &read.state,
            events: &read.events,
            health: &read.health,
            covers: Covers::Run { run_id: part.run },
            content: &self.content,
            context_values,
            signatures,
            detail: Detail::Everything,
        };
        Compared { subject, run: part.run, part: part.part.clone() }
    }

    /// The call that continues a side.
    fn add_call(&self, read: &Salvaged, side: &mut Side) {
        side.next_call = side.continue_at.and_then(|node| self.rehydrate_call_at(read, side.run_id, node));
    }
}
