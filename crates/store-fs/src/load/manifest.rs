//! Reads a manifest, whole or from a cursor on, and decides what a missing one means.

use workrail_model::digest::Sha256;
use workrail_model::health::CorruptionReason;
use workrail_model::id::SessionId;
use workrail_model::limits::MANIFEST_BYTES_MAX;
use workrail_model::manifest::Cursor;
use workrail_ports::file_system::{FileKind, FileSystem, FsError, FsErrorKind};

use super::{CursorOrigin, list_events};
use crate::obstacles::IN_PLACE_OF_FOLDER;
use crate::{layout, orphan};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ManifestRead {
    Absent,
    Unusable(CorruptionReason),
    Failed(FsError),
    Bytes { start: Cursor, bytes: Vec<u8>, continues: bool, newest: Option<Newest> },
}

/// The segment with the highest first index.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Newest {
    first: u64,
    name: String,
}

impl Newest {
    /// A segment is written only when all earlier ones are committed, so one that starts beyond the end of the log
    /// shows that the manifest lost groups, which no crash can cause.
    pub(super) fn beyond(self, end: &Cursor) -> Option<CorruptionReason> {
        (self.first > end.next_event_index.get())
            .then(|| CorruptionReason::SegmentUnattested { segment: format!("events/{}", self.name) })
    }

    /// Whether it starts where the log ends: an orphan, unless it is invalid.
    pub(super) fn continues(&self, end: &Cursor) -> bool {
        self.first == end.next_event_index.get()
    }
}

pub(super) fn newest_segment<F: FileSystem>(fs: &F, session: SessionId) -> Result<Option<Newest>, FsError> {
    let segments = list_events(fs, session)?.into_iter().filter(|entry| entry.kind == FileKind::Regular);
    Ok(segments
        .filter_map(|entry| {
            let (first, _) = layout::segment_indexes(&entry.name)?;
            Some(Newest { first, name: entry.name })
        })
        .max_by_key(|newest| newest.first))
}

/// The manifest's bytes from the cursor on, or all of them if they no longer match the cursor's anchor.
pub(super) fn manifest_from<F: FileSystem>(
    fs: &F,
    session: SessionId,
    since: Option<&Cursor>,
    origin: CursorOrigin,
) -> ManifestRead {
    let path = layout::manifest(session);
    // Listed before the manifest is read, so that a writer in between cannot look like a loss.
    let newest = match (since, origin) {
        (Some(_), CursorOrigin::ThisProcess) => Ok(None),
        (Some(_), CursorOrigin::Saved) | (None, _) => newest_segment(fs, session),
    };
    // A cursor may come from a file: without an anchor it proves nothing.
    if let Some(cursor) = since.filter(|cursor| cursor.anchor_bytes > 0)
        && let Some(anchor_at) = cursor.manifest_bytes.checked_sub(cursor.anchor_bytes)
        && let Ok(bytes) = fs.read(&path, anchor_at, MANIFEST_BYTES_MAX)
        && let Some((anchor, rest)) = usize::try_from(cursor.anchor_bytes)
            .ok()
            .and_then(|anchor_len| bytes.split_at_checked(anchor_len))
        && Sha256::of(anchor) == cursor.anchor
    {
        let bytes = rest.to_vec();
        return match newest {
            Ok(newest) => ManifestRead::Bytes { start: *cursor, bytes, continues: true, newest },
            Err(error) => unusable(about_folder(fs, session, error)),
        };
    }
    // The cursor does not match, so the listing that it would have saved is needed after all.
    let newest = match (since, origin) {
        (Some(_), CursorOrigin::ThisProcess) => newest_segment(fs, session),
        (Some(_), CursorOrigin::Saved) | (None, _) => newest,
    };
    let newest = match newest {
        Ok(newest) => newest,
        Err(error) => return unusable(about_folder(fs, session, error)),
    };
    match fs.read(&path, 0, MANIFEST_BYTES_MAX) {
        Ok(bytes) => {
            let continues = since.is_none_or(|cursor| cursor.manifest_bytes == 0);
            ManifestRead::Bytes { start: Cursor::start(), bytes, continues, newest }
        }
        Err(error) if error.kind == FsErrorKind::NotFound => {
            match newest.and_then(|newest| newest.beyond(&Cursor::start())) {
                Some(reason) => ManifestRead::Unusable(reason),
                None => ManifestRead::Absent,
            }
        }
        Err(error) => unusable(about_folder(fs, session, error)),
    }
}

/// If the session's folder is a link or a file, or cannot be read, the error is about that and not about what is in it.
fn about_folder<F: FileSystem>(fs: &F, session: SessionId, error: FsError) -> FsError {
    let folder = layout::session(session);
    let is_other = || fs.stat(&folder).is_ok_and(|stat| stat.kind != FileKind::Directory);
    if error.kind == FsErrorKind::WrongKind && is_other() {
        return FsError { path: folder, detail: IN_PLACE_OF_FOLDER.to_owned(), ..error };
    }
    let denied = fs.list(&folder).err().filter(|denied| denied.kind == FsErrorKind::PermissionDenied);
    match error.kind == FsErrorKind::PermissionDenied {
        true => denied.unwrap_or(error),
        false => error,
    }
}

/// A file that this user cannot read affects only the health of its session. A possibly temporary failure is an error
/// instead, so that an intact session is not reported as damaged.
fn unusable(error: FsError) -> ManifestRead {
    match error.kind {
        FsErrorKind::PermissionDenied => ManifestRead::Unusable(orphan::access_denied(&error)),
        FsErrorKind::WrongKind | FsErrorKind::TooLarge { .. } => {
            let detail = format!("{}: {}", error.path, error.detail);
            ManifestRead::Unusable(CorruptionReason::ManifestUnreadable { detail })
        }
        FsErrorKind::NotFound
        | FsErrorKind::AlreadyExists
        | FsErrorKind::NoSpace
        | FsErrorKind::Quota
        | FsErrorKind::ReadOnly
        | FsErrorKind::TooManyOpenFiles
        | FsErrorKind::Database
        | FsErrorKind::Io => ManifestRead::Failed(error),
    }
}
