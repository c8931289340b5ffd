//! Writes the bundle of a session whose content is known: the log again, then everything it refers to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde_json::Value;
use workrail_core::bundle::{BundleWriter, Purge, Redactor, portable_event};
use workrail_model::bundle::{BlobText, BundleSection, Redaction};
use workrail_model::canonical::to_canonical;
use workrail_model::digest::BlobRef;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::{Event, EventData, OutputPayload};
use workrail_model::health::SessionHealth;
use workrail_model::id::BundleId;
use workrail_model::manifest::{ManifestIndex, commit_group};
use workrail_model::plan::{AttachmentKind, RawSegment};

use super::{ExportContent, ExportFailure, Exported, Renamed, RunSummary, canonical, parsed};
use crate::{Engine, Store, error};

/// Where events refer to blobs: every field that `EventData::blob_refs` returns.
const REFERENCES: [&str; 8] = [
    "/data/replyRef",
    "/data/checkpoint/replyRef",
    "/data/keyed/replyRef",
    "/data/payload/fullTextRef",
    "/data/payload/sha256",
    "/data/evidence/outputRef",
    "/data/evidence/outcome/outputRef",
    "/data/evidence/dirty/blobRef",
];

pub(super) struct Export<'e, S: Store> {
    pub(super) engine: &'e Engine<S>,
    pub(super) found: ExportContent,
    pub(super) redactor: Option<Redactor>,
    pub(super) purge: Option<Purge>,
    /// Content that is changed for the bundle.
    pub(super) renamed: BTreeMap<BlobRef, Renamed>,
    pub(super) notes_with_values: u64,
    pub(super) artifacts_with_values: u64,
}

impl<S: Store> Export<'_, S> {
    pub(super) fn write(
        &mut self,
        bundle: BundleId,
        out: &mut dyn Write,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Exported, ExportFailure> {
        let session = self.found.state.session_id();
        let environment = &self.engine.environment;
        let events = self.found.state.next_event_index().get();
        let blobs: BTreeSet<BlobRef> = self
            .found
            .replies
            .iter()
            .chain(&self.found.start_replies)
            .chain(&self.found.notes)
            .chain(&self.found.artifacts)
            .copied()
            .collect();
        let contents = (self.found.snapshots.len() + self.found.workflows.len() + blobs.len()) as u64;
        let mut done = WriteProgress { count: 0, of: events + contents, progress };
        let mut writer =
            BundleWriter::begin(out, bundle, &environment.clock.now(), &environment.producer, session)?;
        self.events(&mut writer, &mut done)?;
        self.manifest(&mut writer)?;
        self.json_contents(&mut writer, &mut done)?;
        self.blobs(&blobs, &mut writer, &mut done)?;
        let redaction = self.redaction();
        writer.finish(self.found.salvage.as_ref(), redaction.as_ref())?;
        let runs = self.found.state.runs().map(|run| RunSummary::new(run.run_id, run.workflow_id.clone()));
        Ok(Exported {
            bundle,
            session,
            runs: runs.collect(),
            events,
            contents,
            salvage: self.found.salvage.clone(),
            redaction,
        })
    }

    /// Reads the log again and fails if it is not the one that was scanned.
    fn again(
        &self,
        visit: &mut dyn FnMut(&RawSegment) -> Result<(), ExportFailure>,
    ) -> Result<(), ExportFailure> {
        let session = self.found.state.session_id();
        let mut failed = None;
        let (end, health) = self
            .engine
            .each_segment(session, Some(&self.found.end), &mut |segment| {
                visit(segment).map_err(|failure| {
                    failed = Some(failure);
                    error::internal("the export ended early")
                })
            })
            .or_else(|refused| failed.take().map_or(Err(ExportFailure::Refused(refused)), Err))?;
        if end == self.found.end {
            return Ok(());
        }
        let refused = match health {
            SessionHealth::Healthy => error::changed_while_exported(session),
            SessionHealth::CorruptTail { .. }
            | SessionHealth::CorruptHead { .. }
            | SessionHealth::UnknownVersion { .. } => error::health(session, &health),
        };
        Err(refused.into())
    }

    fn events<W: Write>(
        &mut self,
        writer: &mut BundleWriter<W>,
        done: &mut WriteProgress<'_>,
    ) -> Result<(), ExportFailure> {
        let mut redactor = self.redactor.take();
        let mut notes = 0;
        let written = writer.list(BundleSection::Events, |list| {
            self.again(&mut |segment| {
                for (line, event) in segment.lines().zip(segment.events()) {
                    list.item(&self.portable(line, redactor.as_mut())?)?;
                    notes += u64::from(self.notes_hold_values(event, redactor.as_ref())?);
                    done.one_more();
                }
                Ok(())
            })
        });
        self.redactor = redactor;
        self.notes_with_values = notes;
        written
    }

    /// An event as it appears in the bundle.
    fn portable(&self, line: &[u8], redactor: Option<&mut Redactor>) -> Result<Vec<u8>, Box<ErrorEnvelope>> {
        let mut event = parsed(line)?;
        portable_event(&mut event);
        if let Some(redactor) = redactor {
            redactor.event(&mut event);
        }
        if let Some(purge) = &self.purge {
            purge.event(&mut event);
        }
        for pointer in REFERENCES {
            if let Some(reference) = event.pointer_mut(pointer)
                && let Ok(known) = serde_json::from_value::<BlobRef>(reference.clone())
                && let Some(renamed) = self.renamed.get(&known)
            {
                *reference = Value::from(renamed.to.to_string());
                if let Some(length) = event.pointer_mut("/data/payload/byteLength") {
                    *length = Value::from(renamed.bytes);
                }
            }
        }
        canonical(&event)
    }

    fn notes_hold_values(
        &self,
        event: &Event,
        redactor: Option<&Redactor>,
    ) -> Result<bool, Box<ErrorEnvelope>> {
        let Some(redactor) = redactor.filter(|redactor| redactor.finds_anything()) else { return Ok(false) };
        let EventData::NodeOutputAppended(output) = &event.data else { return Ok(false) };
        let OutputPayload::Notes { notes_markdown, full_text_ref } = &output.payload else {
            return Ok(false);
        };
        if redactor.is_in(notes_markdown.as_str()) {
            return Ok(true);
        }
        let Some(whole) = full_text_ref else { return Ok(false) };
        let bytes = self.engine.raw(AttachmentKind::Blob, *whole)?;
        Ok(std::str::from_utf8(&bytes).is_ok_and(|text| redactor.is_in(text)))
    }

    /// Recomputed from the events in the bundle: redacted ones have other digests.
    fn manifest<W: Write>(&self, writer: &mut BundleWriter<W>) -> Result<(), ExportFailure> {
        // Dropped values have already been counted.
        let mut redactor = self.redactor.clone();
        let mut next = ManifestIndex::ZERO;
        writer.list(BundleSection::Manifest, |list| {
            self.again(&mut |segment| {
                let mut bytes = Vec::with_capacity(segment.bytes().len());
                for line in segment.lines() {
                    bytes.extend_from_slice(&self.portable(line, redactor.as_mut())?);
                    bytes.push(b'\n');
                }
                let segment =
                    RawSegment::parse(bytes).map_err(|cause| error::internal(&cause.to_string()))?;
                for record in commit_group(next, segment.events(), segment.bytes()) {
                    let bytes = record.to_canonical().map_err(|cause| error::internal(&cause.to_string()))?;
                    list.item(&bytes)?;
                    next = next.plus(1);
                }
                Ok(())
            })
        })
    }

    fn json_contents<W: Write>(
        &self,
        writer: &mut BundleWriter<W>,
        done: &mut WriteProgress<'_>,
    ) -> Result<(), ExportFailure> {
        let json = |kind, digest| {
            let store = &*self.engine.store;
            let bytes = workrail_ports::archive::SessionArchive::content(store, kind, digest);
            let bytes = bytes.map_err(error::unexportable_content)?;
            // Only canonical JSON has the same digest as a JSON value and as a file.
            match canonical(&parsed(&bytes)?)? == bytes {
                true => Ok(bytes),
                false => Err(error::internal("stored content is not canonical JSON")),
            }
        };
        writer.table::<ExportFailure>("snapshots", false, |table| {
            for reference in &self.found.snapshots {
                let bytes = json(AttachmentKind::Snapshot, reference.digest())?;
                table.item(BundleSection::Snapshot(*reference), &reference.to_string(), &bytes)?;
                done.one_more();
            }
            Ok(())
        })?;
        writer.table::<ExportFailure>("pinnedWorkflows", false, |table| {
            for hash in &self.found.workflows {
                let bytes = json(AttachmentKind::Workflow, hash.digest())?;
                table.item(BundleSection::Workflow(*hash), &hash.to_string(), &bytes)?;
                done.one_more();
            }
            Ok(())
        })
    }

    fn blobs<W: Write>(
        &mut self,
        blobs: &BTreeSet<BlobRef>,
        writer: &mut BundleWriter<W>,
        done: &mut WriteProgress<'_>,
    ) -> Result<(), ExportFailure> {
        let mut written = BTreeSet::new();
        let mut artifacts = 0;
        writer.table::<ExportFailure>("blobs", true, |table| {
            for reference in blobs {
                let bytes = self.engine.raw(AttachmentKind::Blob, *reference)?;
                let mut put = |bytes: &[u8]| {
                    let reference = BlobRef::of(bytes);
                    if !written.insert(reference) {
                        return Ok(());
                    }
                    let text = to_canonical(&BlobText::of(bytes));
                    let text = text.map_err(|cause| error::internal(&cause.to_string()))?;
                    table.item(BundleSection::Blob(reference), &reference.to_string(), &text)?;
                    Ok::<(), ExportFailure>(())
                };
                if let Some(purge) = &self.purge {
                    put(&purge.content(&bytes).unwrap_or(bytes))?;
                    done.one_more();
                    continue;
                }
                let is_artifact = self.found.artifacts.contains(reference);
                if is_artifact
                    || self.found.notes.contains(reference)
                    || !self.renamed.contains_key(reference)
                {
                    put(&bytes)?;
                }
                if let Some(redactor) = &self.redactor {
                    if self.renamed.contains_key(reference)
                        && let Some(changed) = redactor.reply(&bytes)
                    {
                        put(&changed)?;
                    }
                    let holds = std::str::from_utf8(&bytes).is_ok_and(|text| redactor.is_in(text));
                    artifacts += u64::from(is_artifact && holds);
                }
                done.one_more();
            }
            Ok(())
        })?;
        self.artifacts_with_values = artifacts;
        Ok(())
    }

    fn redaction(&self) -> Option<Redaction> {
        self.redactor.as_ref().map(|redactor| Redaction {
            patterns: redactor.patterns().to_vec(),
            removed: redactor.removed().clone(),
            replies_changed: self.renamed.len() as u64,
            messages_changed: redactor.messages_changed(),
            notes_with_values: self.notes_with_values,
            artifacts_with_values: self.artifacts_with_values,
            actors_removed: redactor.actors_removed(),
        })
    }
}

/// How much has been written.
struct WriteProgress<'p> {
    count: u64,
    of: u64,
    progress: &'p mut dyn FnMut(u64, u64),
}

impl WriteProgress<'_> {
    fn one_more(&mut self) {
        self.count += 1;
        (self.progress)(self.count, self.of);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use workrail_model::evidence::Evidence;

    use super::*;

    /// Broke: a text in the output of a check could not be purged, because the event kept the digest of the old output.
    #[test]
    fn every_blob_of_evidence_is_renamed_where_its_event_refers_to_it() {
        let blob = BlobRef::of(b"output");
        let ended = json!({
            "result": "failed", "durationMs": 1, "confinement": "none", "tail": "t", "outputBytes": 6, "outputRef": blob,
        });
        for evidence in [
            json!({ "kind": "command_run", "command": "make", "outputRef": blob }),
            json!({ "kind": "check_run", "name": "test", "outcome": ended }),
            json!({
                "kind": "workspace_state", "tree": blob, "dirty": { "stored": "content", "blobRef": blob, "count": 1 },
            }),
        ] {
            let parsed: Evidence = serde_json::from_value(evidence.clone()).unwrap();
            assert_eq!(parsed.blob_refs(), [blob]);
            let event = json!({ "data": { "evidence": evidence } });
            let found: Vec<&Value> = REFERENCES.iter().filter_map(|pointer| event.pointer(pointer)).collect();
            assert_eq!(found, [&json!(blob)]);
        }
    }
}
