//! The append protocol: content, then segment, then one manifest group; each durable before the next.
//!
//! Whatever fails or wherever power goes, the log holds the plan whole or not at all (G10), and what
//! was acknowledged stays. A failed fsync is never retried on its handle (G14).

use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::{Cursor, commit_group, group_bytes, segment_rel_path};
use workrail_model::plan::AppendPlan;
use workrail_ports::file_system::{FileSystem, FsError, FsErrorKind, RelPath, WritableFile};
use workrail_ports::session_store::StoreError;

use crate::content::{create_fresh, store_content, write_temp};
use crate::orphan::Orphan;
use crate::{layout, load, suspect};

/// What is known of the manifest on disk before an append.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub cursor: Cursor,
    /// Bytes that an interrupted write left behind the last complete group.
    pub torn_bytes: u64,
}

/// Carries out a plan that was checked against `tail`; returns the cursor behind it. The `leftovers` of earlier writes
/// are moved aside on the way.
pub(crate) fn commit<F: FileSystem>(
    fs: &F,
    tail: Tail,
    plan: &AppendPlan,
    leftovers: &[RelPath],
) -> Result<Cursor, StoreError> {
    let session = plan.session_id();
    let records = commit_group(tail.cursor.next_manifest_index, plan.events(), plan.segment());
    let group =
        group_bytes(&records).map_err(|_| load::too_long(session, tail.cursor.next_manifest_index))?;
    if tail.cursor.manifest_bytes + group.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(load::too_long(session, tail.cursor.next_manifest_index).into());
    }
    store_content(fs, session, plan.attachments(), plan.events())?;
    // First of all: what is removed or replaced next may be the orphan that explains the torn tail.
    if tail.torn_bytes > 0 {
        cut_torn_tail(fs, session, tail)?;
    }
    move_aside(fs, session, leftovers)?;
    write_temp(fs, &layout::segment_temp(session), plan.segment())?;
    let last = plan.first_index().plus(plan.events().len() as u64 - 1);
    // From here on the plan is complete on the disk: what fails now may be rolled forward later (G13).
    place_segment(fs, session, &segment_rel_path(plan.first_index(), last))
        .and_then(|()| append_group(fs, session, tail, &group))
        .map_err(StoreError::Uncertain)?;
    fs.about_to_acknowledge();
    Ok(tail.cursor.after(&records, &group, plan.events().len() as u64))
}

/// Commits a segment that an earlier write left complete, together with its content.
///
/// All of it is written to new files first: after a failed fsync the page cache may show what the disk has dropped
/// (G14). A crash on the way leaves the same orphan, explaining the same tail.
pub(crate) fn roll_forward<F: FileSystem>(
    fs: &F,
    session: SessionId,
    tail: Tail,
    orphan: &Orphan,
) -> Result<(), StoreError> {
    if tail.cursor.manifest_bytes + orphan.group.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(load::too_long(session, tail.cursor.next_manifest_index).into());
    }
    store_content(fs, session, &[], &orphan.events)?;
    write_temp(fs, &layout::segment_temp(session), &orphan.segment)?;
    place_segment(fs, session, &format!("events/{}", orphan.name))?;
    if tail.torn_bytes > 0 {
        cut_torn_tail(fs, session, tail)?;
    }
    append_group(fs, session, tail, &orphan.group)?;
    Ok(())
}

/// Writes the segment of these events, durable under its name.
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
    // A name made of two numbers is always plain.
    let target = layout::in_session(session, name).expect("segment names are plain");
    fs.rename(&layout::segment_temp(session), &target)?;
    fs.sync_dir(&layout::events(session))
}

/// Moves what has the name of a segment and is none of the log's out of the way, to `backups/content`: it may be what
/// is left of a damaged write, or a file that is not ours.
fn move_aside<F: FileSystem>(fs: &F, session: SessionId, leftovers: &[RelPath]) -> Result<(), FsError> {
    if leftovers.is_empty() {
        return Ok(());
    }
    suspect::make_folder(fs, &layout::backups())?;
    suspect::make_folder(fs, &layout::damaged_content_dir())?;
    for leftover in leftovers {
        let free =
            |number: &u64| fs.stat(&layout::segment_aside(session, leftover.file_name(), *number)).is_err();
        let Some(number) = (1..).find(free) else { continue };
        match fs.rename(leftover, &layout::segment_aside(session, leftover.file_name(), number)) {
            Err(error) if error.kind == FsErrorKind::NotFound => {}
            // A link or a pipe has no content of its own to keep.
            Err(error) if error.kind == FsErrorKind::WrongKind => fs.remove_file(leftover)?,
            moved => moved?,
        }
    }
    fs.sync_dir(&layout::damaged_content_dir())
}

pub(crate) fn append_group<F: FileSystem>(
    fs: &F,
    session: SessionId,
    tail: Tail,
    group: &[u8],
) -> Result<(), FsError> {
    let (folder, path) = (layout::session(session), layout::manifest(session));
    let durable_bytes = tail.cursor.manifest_bytes;
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
    // The name of a new manifest is not durable until its folder is.
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

/// Copies what an interrupted write left aside, then cuts the manifest back to its last group.
fn cut_torn_tail<F: FileSystem>(fs: &F, session: SessionId, tail: Tail) -> Result<(), FsError> {
    let (folder, path) = (layout::session(session), layout::manifest(session));
    let torn = fs.read(&path, tail.cursor.manifest_bytes, MANIFEST_BYTES_MAX)?;
    let mut aside = create_fresh(fs, &layout::manifest_torn(session))?;
    aside.append(&torn)?;
    aside.sync()?;
    suspect::sync_names(fs, &folder)?;
    let mut file = fs.open_append(&path)?;
    file.set_len(tail.cursor.manifest_bytes)?;
    suspect::sync_file(fs, &folder, &mut file)
}

/// Writes the first bytes of the manifest to a new file that takes its place: after a failed fsync the
/// page cache may show what the disk has dropped, and no sync of the old file would bring it there.
///
/// Also where nothing is left: a removed name could come back, an empty file in its place stays.
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
