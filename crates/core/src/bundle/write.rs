//! Writes a bundle as a stream: every part in canonical JSON, each on its own line, with digests computed on the way.
//!
//! The integrity entries come last, so that nothing has to be read twice to be attested.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use workrail_model::bundle::{
    Attested, BundleSection, INTEGRITY_KIND, IntegrityEntry, Producer, SCHEMA_VERSION,
};
use workrail_model::canonical::to_canonical;
use workrail_model::id::{BundleId, SessionId};
use workrail_model::time::Timestamp;

use super::checked::{ListDigest, attest};

/// A bundle being written: the session's lists and tables first, then `finish`.
#[derive(Debug)]
pub struct BundleWriter<W> {
    out: W,
    entries: BTreeMap<BundleSection, Attested>,
}

fn canonical<T: Serialize + ?Sized>(value: &T) -> io::Result<Vec<u8>> {
    to_canonical(value).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

impl<W: Write> BundleWriter<W> {
    pub fn begin(
        out: W,
        bundle: BundleId,
        exported_at: &Timestamp,
        producer: &Producer,
        session: SessionId,
    ) -> io::Result<Self> {
        let mut writer = Self { out, entries: BTreeMap::new() };
        writer.out.write_all(b"{\n")?;
        writer.member("bundleSchemaVersion", BundleSection::SchemaVersion, &SCHEMA_VERSION)?;
        writer.member("bundleId", BundleSection::BundleId, &bundle)?;
        writer.member("exportedAt", BundleSection::ExportedAt, exported_at)?;
        writer.member("producer", BundleSection::Producer, producer)?;
        writer.out.write_all(b"\"session\":{\n")?;
        writer.member("sessionId", BundleSection::SessionId, &session)?;
        Ok(writer)
    }

    /// A single value, followed by a comma.
    fn member<T: Serialize + ?Sized>(
        &mut self,
        name: &str,
        section: BundleSection,
        value: &T,
    ) -> io::Result<()> {
        let bytes = canonical(value)?;
        self.entries.insert(section, attest(&bytes));
        write!(self.out, "\"{name}\":")?;
        self.out.write_all(&bytes)?;
        self.out.write_all(b",\n")
    }

    /// `events` or `manifest`: items in canonical JSON, in order.
    pub fn list<E: From<io::Error>>(
        &mut self,
        section: BundleSection,
        fill: impl FnOnce(&mut ListWriter<'_, W>) -> Result<(), E>,
    ) -> Result<(), E> {
        let name = if section == BundleSection::Events { "events" } else { "manifest" };
        write!(self.out, "\"{name}\":[")?;
        let mut list = ListWriter { out: &mut self.out, digest: ListDigest::default() };
        fill(&mut list)?;
        let attested = list.digest.finish();
        self.out.write_all(b"\n],\n")?;
        self.entries.insert(section, attested);
        Ok(())
    }

    /// `snapshots`, `pinnedWorkflows` or `blobs`: items in canonical JSON, each under its digest.
    pub fn table<E: From<io::Error>>(
        &mut self,
        name: &str,
        last: bool,
        fill: impl FnOnce(&mut TableWriter<'_, W>) -> Result<(), E>,
    ) -> Result<(), E> {
        write!(self.out, "\"{name}\":{{")?;
        let mut table = TableWriter { out: &mut self.out, entries: &mut self.entries, empty: true };
        fill(&mut table)?;
        self.out.write_all(if last { b"\n}\n" } else { b"\n},\n" })?;
        Ok(())
    }

    /// Ends the session and writes the other members, the integrity entries last.
    pub fn finish(
        mut self,
        salvage: Option<&workrail_model::bundle::Salvage>,
        redaction: Option<&workrail_model::bundle::Redaction>,
    ) -> io::Result<()> {
        self.out.write_all(b"},\n")?;
        if let Some(salvage) = salvage {
            self.member("salvage", BundleSection::Salvage, salvage)?;
        }
        if let Some(redaction) = redaction {
            self.member("redaction", BundleSection::Redaction, redaction)?;
        }
        write!(self.out, "\"integrity\":{{\"entries\":[")?;
        for (position, (section, attested)) in self.entries.iter().enumerate() {
            let entry =
                IntegrityEntry { path: section.to_string(), sha256: attested.sha256, bytes: attested.bytes };
            self.out.write_all(if position == 0 { b"\n" } else { b",\n" })?;
            self.out.write_all(&canonical(&entry)?)?;
        }
        write!(self.out, "\n],\"kind\":\"{INTEGRITY_KIND}\"}}\n}}\n")?;
        self.out.flush()
    }
}

/// The items of a list.
#[expect(missing_debug_implementations, reason = "lives for the length of a closure")]
pub struct ListWriter<'w, W> {
    out: &'w mut W,
    digest: ListDigest,
}

impl<W: Write> ListWriter<'_, W> {
    pub fn item(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(if self.digest.bytes() == 0 { b"\n" } else { b",\n" })?;
        self.digest.push(bytes);
        self.out.write_all(bytes)
    }
}

/// The items of a table.
#[expect(missing_debug_implementations, reason = "lives for the length of a closure")]
pub struct TableWriter<'w, W> {
    out: &'w mut W,
    entries: &'w mut BTreeMap<BundleSection, Attested>,
    empty: bool,
}

impl<W: Write> TableWriter<'_, W> {
    /// `bytes` are the canonical JSON of the item, `key` the digest of what it represents.
    pub fn item(&mut self, section: BundleSection, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(if self.empty { b"\n" } else { b",\n" })?;
        self.empty = false;
        write!(self.out, "\"{key}\":")?;
        self.out.write_all(bytes)?;
        self.entries.insert(section, attest(bytes));
        Ok(())
    }
}
