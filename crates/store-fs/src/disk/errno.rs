//! Turns the kernel's error numbers into the closed set that callers can act on.

use std::io;

use rustix::io::Errno;
use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, RelPath};

pub(super) fn error(op: FsOp, path: &RelPath, errno: Errno) -> FsError {
    FsError { op, path: path.clone(), kind: kind(errno), detail: errno.to_string() }
}

pub(super) fn io_error(op: FsOp, path: &RelPath, source: &io::Error) -> FsError {
    // An error without a number comes from std itself (a write that wrote nothing): plain Io.
    let kind = Errno::from_io_error(source).map_or(FsErrorKind::Io, kind);
    FsError { op, path: path.clone(), kind, detail: source.to_string() }
}

pub(super) fn wrong_kind(op: FsOp, path: &RelPath) -> FsError {
    let detail = "neither a regular file nor a directory of the store".to_owned();
    FsError { op, path: path.clone(), kind: FsErrorKind::WrongKind, detail }
}

fn kind(errno: Errno) -> FsErrorKind {
    match errno {
        Errno::NOENT => FsErrorKind::NotFound,
        // For a directory that is not empty: something exists that should not.
        Errno::EXIST | Errno::NOTEMPTY => FsErrorKind::AlreadyExists,
        Errno::NOSPC => FsErrorKind::NoSpace,
        Errno::DQUOT => FsErrorKind::Quota,
        Errno::ROFS => FsErrorKind::ReadOnly,
        Errno::ACCESS | Errno::PERM => FsErrorKind::PermissionDenied,
        Errno::MFILE | Errno::NFILE => FsErrorKind::TooManyOpenFiles,
        // NXIO: a FIFO without a reader, or a socket, opened for writing without blocking.
        Errno::LOOP | Errno::NOTDIR | Errno::ISDIR | Errno::NXIO => FsErrorKind::WrongKind,
        _ => FsErrorKind::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_errno_with_its_own_meaning_keeps_it() {
        let table = [
            (Errno::NOENT, FsErrorKind::NotFound),
            (Errno::EXIST, FsErrorKind::AlreadyExists),
            (Errno::NOTEMPTY, FsErrorKind::AlreadyExists),
            (Errno::NOSPC, FsErrorKind::NoSpace),
            (Errno::DQUOT, FsErrorKind::Quota),
            (Errno::ROFS, FsErrorKind::ReadOnly),
            (Errno::ACCESS, FsErrorKind::PermissionDenied),
            (Errno::PERM, FsErrorKind::PermissionDenied),
            (Errno::MFILE, FsErrorKind::TooManyOpenFiles),
            (Errno::NFILE, FsErrorKind::TooManyOpenFiles),
            (Errno::LOOP, FsErrorKind::WrongKind),
            (Errno::NOTDIR, FsErrorKind::WrongKind),
            (Errno::ISDIR, FsErrorKind::WrongKind),
            (Errno::NXIO, FsErrorKind::WrongKind),
            (Errno::IO, FsErrorKind::Io),
            (Errno::STALE, FsErrorKind::Io),
        ];
        for (errno, expected) in table {
            assert_eq!(kind(errno), expected, "{errno:?}");
        }
    }

    #[test]
    fn an_io_error_keeps_its_errno() {
        let path = RelPath::root();
        let full = io::Error::from_raw_os_error(Errno::NOSPC.raw_os_error());
        assert_eq!(io_error(FsOp::Write, &path, &full).kind, FsErrorKind::NoSpace);
        let bare = io::Error::other("no number");
        assert_eq!(io_error(FsOp::Write, &path, &bare).kind, FsErrorKind::Io);
    }
}
