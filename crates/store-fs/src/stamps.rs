//! Detects cheaply whether a session may have changed since it was read, without reading it.

use workrail_model::id::SessionId;
use workrail_ports::file_system::{FileKind, FileStat, FileSystem};
use workrail_ports::session_store::{LogStamp, StampDepth, StampedSession, StoreError};

use crate::layout;

/// Everything named like a session, in order, with its stamp.
pub(crate) fn all<F: FileSystem>(fs: &F, depth: StampDepth) -> Result<Vec<StampedSession>, StoreError> {
    let found = fs.list_with_stat(&layout::sessions(), Some(layout::MANIFEST_NAME))?;
    Ok(found
        .into_iter()
        .filter_map(|found| {
            let session = SessionId::parse(&found.entry.name).ok()?;
            Some(StampedSession { session, stamp: stamp(fs, session, found.stat, depth) })
        })
        .collect())
}

/// One session with all its segments.
pub(crate) fn one<F: FileSystem>(fs: &F, session: SessionId) -> Option<LogStamp> {
    stamp(fs, session, fs.stat(&layout::manifest(session)).ok(), StampDepth::Segments)
}

fn stamp<F: FileSystem>(
    fs: &F,
    session: SessionId,
    manifest: Option<FileStat>,
    depth: StampDepth,
) -> Option<LogStamp> {
    let manifest = manifest.filter(|stat| stat.kind == FileKind::Regular)?;
    let segments = match depth {
        StampDepth::Manifest => 0,
        StampDepth::Segments => segments(fs, session)?,
    };
    Some(LogStamp { bytes: manifest.len, file: manifest.stamp, segments })
}

/// A fingerprint of the files that every append, import and removal touches: the counter, and the folders of sessions
/// and of running servers.
pub(crate) fn of_store<F: FileSystem>(fs: &F) -> u64 {
    let paths = [layout::activity(), layout::sessions(), layout::servers()];
    paths.iter().fold(0, |sum, path| match fs.stat(path) {
        Ok(stat) => mixed(sum, &stat),
        Err(_) => sum.rotate_left(23),
    })
}

fn mixed(sum: u64, stat: &FileStat) -> u64 {
    [stat.len, stat.stamp.file, stat.stamp.changed_ns.cast_unsigned()]
        .iter()
        .fold(sum, |sum, word| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A fingerprint of the segments folder's listing, ignoring temporaries.
fn segments<F: FileSystem>(fs: &F, session: SessionId) -> Option<u64> {
    let mut sum: u64 = 0;
    let folder = layout::events(session);
    for found in fs.list_with_stat(&folder, None).ok()? {
        // Without an exact name it cannot be inspected; it is not a segment either.
        if layout::is_temporary(&found.entry.name) || folder.child(&found.entry.name).is_none() {
            continue;
        }
        let stat = found.stat?;
        sum = mixed(sum, &stat);
    }
    // Zero is reserved for "not computed".
    Some(sum | 1)
}
