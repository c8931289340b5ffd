//! The append protocol: content, then segment, then one manifest group; each durable before the next.
//!
//! Whatever fails, and whenever power is lost, the log holds the whole plan or none of it (G10), and what was
//! acknowledged stays. A failed fsync is never retried on its handle (G14).

use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::{Cursor, commit_group, group_bytes, segment_rel_path};
use workrail_model::plan::AppendPlan;
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, RelPath, WritableFile};
use workrail_ports::session_store::StoreError;

use crate::content::{create_fresh, make_damaged_content_dir, move_to_free_name, store_content, write_temp};
use crate::orphan::Orphan;
use crate::{layout, load, suspect};

/// What is known about the manifest on disk before an append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ManifestEnd {
    pub cursor: Cursor,
    /// Bytes after the last complete group, left by an interrupted write.
    pub torn_bytes: u64,
}

/// Carries out a plan that was checked against `end`; returns the cursor after it. The `leftovers` of earlier writes
/// are moved aside.
pub(crate) fn commit<F: FileSystem>(
    fs: &F,
    end: ManifestEnd,
    plan: &AppendPlan,
    leftovers: &[RelPath],
) -> Result<Cursor, StoreError> {
    let session = plan.session_id();
    let records = commit_group(end.cursor.next_manifest_index, plan.events(), plan.segment());
    let group = group_bytes(&records).map_err(|_| load::too_long(session, end.cursor.next_manifest_index))?;
    if end.cursor.manifest_bytes + group.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(load::too_long(session, end.cursor.next_manifest_index).into());
    }
    store_content(fs, session, plan.attachments(), plan.events())?;
    // Must come first: the next steps may remove or replace the orphan that explains the torn tail.
    if end.torn_bytes > 0 {
        cut_torn_tail(fs, session, end)?;
    }
    move_leftovers_aside(fs, session, leftovers)?;
    write_temp(fs, &layout::segment_temp(session), plan.segment())?;
    let last = plan.first_index().plus(plan.events().len() as u64 - 1);
    // From here on the plan is complete on disk: if a later step fails, it may still be rolled forward (G13).
    place_segment(fs, session, &segment_rel_path(plan.first_index(), last))
        .and_then(|()| append_group(fs, session, end, &group))
        .map_err(StoreError::Uncertain)?;
    fs.about_to_acknowledge();
    Ok(end.cursor.after(&records, &group, plan.events().len() as u64))
}

/// Commits a segment, with its content, that an earlier write left complete.
///
/// Everything is rewritten to new files first: after a failed fsync the page cache may show data that the disk
/// dropped (G14). A crash during this leaves the same orphan, which explains the same tail.
pub(crate) fn roll_forward<F: FileSystem>(
    fs: &F,
    session: SessionId,
    end: ManifestEnd,
    orphan: &Orphan,
) -> Result<(), StoreError> {
    if end.cursor.manifest_bytes + orphan.group.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(load::too_long(session, end.cursor.next_manifest_index).into());
    }
    store_content(fs, session, &[], &orphan.events)?;
    write_temp(fs, &layout::segment_temp(session), &orphan.segment)?;
    place_segment(fs, session, &format!("events/{}", orphan.name))?;
    if end.torn_bytes > 0 {
        cut_torn_tail(fs, session, end)?;
    }
    append_group(fs, session, end, &orphan.group)?;
    Ok(())
}

/// Writes these events as a segment, durably under its name.
pub(crate) fn write_segment<F: FileSystem>(
    fs: &F,
    session: SessionId,
    events: &[Event],
    bytes: &[u8],
) -> Result<(), FsError> {
    let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(()) };
    write_temp(fs, &layout::segment_temp(session), bytes)?;
    place_segment(fs, session, &segment_rel_path(first.event_index, last.event_index))
}

/// Gives a written and synced segment its name, durably.
fn place_segment<F: FileSystem>(fs: &F, session: SessionId, name: &str) -> Result<(), FsError> {
    let target = layout::in_session(session, name).expect("a name made of two numbers is a plain component");
    fs.rename(&layout::segment_temp(session), &target)?;
    fs.sync_dir(&layout::events(session))
}

/// Moves anything that has a segment's name but does not belong to the log to `backups/content`: it may be the
/// remains of a damaged write, or not our file at all.
pub(crate) fn move_leftovers_aside<F: FileSystem>(
    fs: &F,
    session: SessionId,
    leftovers: &[RelPath],
) -> Result<(), FsError> {
    if leftovers.is_empty() {
        return Ok(());
    }
    make_damaged_content_dir(fs)?;
    for leftover in leftovers {
        let name = |number| layout::segment_aside(session, leftover.file_name(), number);
        match move_to_free_name(fs, leftover, name) {
            Err(error) if error.kind != FsErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    fs.sync_dir(&layout::damaged_content_dir())
}

pub(crate) fn append_group<F: FileSystem>(
    fs: &F,
    session: SessionId,
    end: ManifestEnd,
    group: &[u8],
) -> Result<(), FsError> {
    let (folder, path) = (layout::session(session), layout::manifest(session));
    let durable_bytes = end.cursor.manifest_bytes;
    let (mut file, is_new) = match fs.open_append(&path) {
        Ok(file) => (file, false),
        Err(error) if error.kind == FsErrorKind::NotFound && durable_bytes == 0 => {
            (fs.create_file(&path)?, true)
        }
        Err(error) => return Err(error),
    };
    if let Err(error) = file.append(group) {
        // Best effort: if this fails too, the next append cuts the tail (G13).
        let _ = file.set_len(durable_bytes).and_then(|()| suspect::sync_file(fs, &folder, &mut file));
        return Err(error);
    }
    let mut synced = suspect::sync_file(fs, &folder, &mut file);
    // A new manifest's name is not durable until its folder is synced.
    if is_new {
        synced = synced.and_then(|()| suspect::sync_names(fs, &folder));
    }
    drop(file);
    if synced.is_err() {
        // Best effort: if this fails too, the next caller finds the mark and rewrites what it sees.
        let _ = rewrite_manifest(fs, session, durable_bytes);
    }
    synced
}

/// Copies the remains of an interrupted write aside, then cuts the manifest back to its last group.
fn cut_torn_tail<F: FileSystem>(fs: &F, session: SessionId, end: ManifestEnd) -> Result<(), FsError> {
    let (folder, path) = (layout::session(session), layout::manifest(session));
    let torn = fs.read(&path, end.cursor.manifest_bytes, MANIFEST_BYTES_MAX)?;
    let mut aside = create_fresh(fs, &layout::manifest_torn(session))?;
    aside.append(&torn)?;
    aside.sync()?;
    suspect::sync_names(fs, &folder)?;
    let mut file = fs.open_append(&path)?;
    file.set_len(end.cursor.manifest_bytes)?;
    suspect::sync_file(fs, &folder, &mut file)
}

/// Replaces the manifest by a new file with its first bytes: after a failed fsync the page cache may show data that
/// the disk dropped, and syncing the old file again would not write it.
///
/// An empty file is written even if no bytes remain: a removed name could come back after a crash.
pub(crate) fn rewrite_manifest<F: FileSystem>(
    fs: &F,
    session: SessionId,
    keep_bytes: u64,
) -> Result<(), FsError> {
    let mut bytes = match fs.read(&layout::manifest(session), 0, MANIFEST_BYTES_MAX) {
        Err(error) if error.kind == FsErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    bytes.truncate(usize::try_from(keep_bytes).unwrap_or(usize::MAX));
    replace_manifest(fs, session, &bytes)
}

/// Puts a new file in the place of the manifest, durably.
pub(crate) fn replace_manifest<F: FileSystem>(
    fs: &F,
    session: SessionId,
    bytes: &[u8],
) -> Result<(), FsError> {
    let folder = layout::session(session);
    let temp = layout::manifest_temp(session);
    write_temp(fs, &temp, bytes)?;
    fs.rename(&temp, &layout::manifest(session))?;
    suspect::sync_names(fs, &folder)?;
    suspect::clear(fs, &folder);
    Ok(())
}
