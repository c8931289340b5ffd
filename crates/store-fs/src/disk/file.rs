//! Open files on the real disk: appending, cutting, syncing, and reading under a cap.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;

use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, RelPath, WritableFile};

use super::{errno, walk};

/// A regular file that was opened for appending.
#[derive(Debug)]
pub struct DiskFile {
    file: File,
    path: RelPath,
}

impl DiskFile {
    pub(super) fn new(file: File, path: RelPath) -> Self {
        Self { file, path }
    }
}

impl WritableFile for DiskFile {
    fn append(&mut self, bytes: &[u8]) -> Result<(), FsError> {
        // `write_all` loops on short writes and interrupts; O_APPEND puts each part at the end.
        self.file.write_all(bytes).map_err(|source| errno::io_error(FsOp::Write, &self.path, &source))
    }

    #[expect(clippy::disallowed_methods, reason = "this is the adapter that the ban exists for")]
    fn set_len(&mut self, len: u64) -> Result<(), FsError> {
        self.file.set_len(len).map_err(|source| errno::io_error(FsOp::SetLen, &self.path, &source))
    }

    fn sync(&mut self) -> Result<(), FsError> {
        sync(&self.file, FsOp::SyncFile, &self.path)
    }
}

/// Makes an open file or directory durable. Never retried after an error, except an interrupt.
#[expect(clippy::disallowed_methods, reason = "this is the adapter that the ban exists for")]
pub(super) fn sync(file: &File, op: FsOp, path: &RelPath) -> Result<(), FsError> {
    file.sync_all().map_err(|source| errno::io_error(op, path, &source))
}

/// Reads from `offset` to the end; refuses before reading when that is more than `max` bytes.
pub(super) fn read_capped(file: &File, path: &RelPath, offset: u64, max: u64) -> Result<Vec<u8>, FsError> {
    let too_large = |len: u64| FsError {
        op: FsOp::Read,
        path: path.clone(),
        kind: FsErrorKind::TooLarge { len, max },
        detail: format!("{len} bytes, but at most {max} are read"),
    };
    let len = walk::stat_of(file, FsOp::Read, path)?.len;
    if offset > len {
        // The kernel rejects offsets that no file can have; beyond the end there is nothing to read.
        return Ok(Vec::new());
    }
    let rest = len - offset;
    if rest > max {
        return Err(too_large(rest));
    }
    // One byte more than there was, so that the end is seen without growing the buffer. A length
    // that does not fit the address space cannot be within a sane cap.
    let mut bytes = vec![0; usize::try_from(rest.saturating_add(1)).map_err(|_| too_large(rest))?];
    let mut filled = 0;
    loop {
        // A writer may append during the read; the cap still holds.
        if filled == bytes.len() {
            let room = (max - filled as u64).clamp(1, 4096);
            bytes.resize(filled.saturating_add(usize::try_from(room).unwrap_or(1)), 0);
        }
        match file.read_at(&mut bytes[filled..], offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(source) if source.kind() == ErrorKind::Interrupted => continue,
            Err(source) => return Err(errno::io_error(FsOp::Read, path, &source)),
        }
        if filled as u64 > max {
            return Err(too_large(filled as u64));
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Reads at most `max` bytes from `offset`; fewer only at the end.
pub(super) fn read_part(file: &File, path: &RelPath, offset: u64, max: usize) -> Result<Vec<u8>, FsError> {
    let left = walk::stat_of(file, FsOp::Read, path)?.len.saturating_sub(offset);
    // The kernel rejects offsets that no file can have: beyond the end, nothing is asked for.
    let mut bytes = vec![0; usize::try_from(left).map_or(max, |left| left.min(max))];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(source) if source.kind() == ErrorKind::Interrupted => continue,
            Err(source) => return Err(errno::io_error(FsOp::Read, path, &source)),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
