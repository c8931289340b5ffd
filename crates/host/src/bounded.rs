//! Reads small files written by other programs: bounded in size, following no links, never blocking.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;

use camino::Utf8Path;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Whether the system lacked file handles or memory: the same operation succeeds once others end.
pub(crate) fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    shortages.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Exactly `bytes` bytes of a regular file, starting at an offset; fewer are an error.
pub(crate) fn read_part(path: &Utf8Path, offset: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let (mut file, _) = open(path)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut part = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    file.read_exact(&mut part)?;
    Ok(part)
}

fn open(path: &Utf8Path) -> io::Result<(File, u64)> {
    open_with(path, OpenOptions::new().read(true))
}

/// A file to lock, created for its owner if it is missing.
pub(crate) fn open_lock(path: &Utf8Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    match open_with(path, &mut options) {
        // Nothing is written to it, so it is enough that it can be read.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(open(path)?.0),
        opened => Ok(opened?.0),
    }
}

fn open_with(path: &Utf8Path, options: &mut OpenOptions) -> io::Result<(File, u64)> {
    // Non-blocking: opening a pipe put in the file's place would otherwise wait for a writer forever.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = options.custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((file, metadata.len()))
}

/// The bytes of a regular file of at most `max` bytes.
pub(crate) fn read(path: &Utf8Path, max: u64) -> io::Result<Vec<u8>> {
    let (file, length) = open(path)?;
    let too_large = || io::Error::other(format!("it has more than {max} bytes"));
    if length > max {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    // The file may grow while it is read.
    file.take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max { Err(too_large()) } else { Ok(bytes) }
}
