//! The file-system port: every durable byte of the local store passes through this one small trait.
//!
//! It exists so that the append protocol can be run against the real disk, against a simulated disk
//! that loses power at any operation, and against a monitor that asserts the write order (G10-G14).
//! Paths are always relative to the data directory; an adapter must never follow a symbolic link.

use std::fmt;
use std::time::Duration;

/// A path that stays beneath the data directory: components joined by `/`, none of them `.` or `..`. The empty path is
/// the data directory itself.
///
/// Our own names hold only `[A-Za-z0-9._-]`. Other components come from listings alone: people put files there too.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(String);

impl RelPath {
    pub fn root() -> Self {
        Self(String::new())
    }

    /// Parses a relative path of our own names; `None` for any other, such as one that leaves the data directory.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::root());
        }
        text.split('/').all(is_plain_component).then(|| Self(text.to_owned()))
    }

    /// The path of a listed child; `None` if the name is not a single component, or was not valid UTF-8.
    pub fn child(&self, name: &str) -> Option<Self> {
        is_component(name).then(|| self.joined(name))
    }

    /// The path of a listed child for display, also if it cannot be opened by that name.
    pub fn describe_child(&self, name: &str) -> String {
        self.joined(name).to_string()
    }

    fn joined(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}/{name}", self.0)) }
    }

    /// The parent directory; `None` for the data directory itself.
    pub fn parent(&self) -> Option<Self> {
        if self.0.is_empty() {
            return None;
        }
        Some(Self(self.0.rsplit_once('/').map_or(String::new(), |(dir, _)| dir.to_owned())))
    }

    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(".");
        }
        // A name from a listing may hold control characters, which must not reach a terminal.
        for character in self.0.chars() {
            match character.is_control() {
                true => write!(f, "{}", character.escape_default())?,
                false => write!(f, "{character}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelPath({self})")
    }
}

/// Whether a name is one of the kind that we give: it cannot lead out of its directory, and is the same on every disk.
fn is_plain_component(name: &str) -> bool {
    is_component(name) && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Whether a listed name can be opened: it cannot lead out of its directory, and nothing of it was lost. A name that is
/// not UTF-8 is listed with U+FFFD in the place of what is not.
fn is_component(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 255
        && name != "."
        && name != ".."
        && !name.contains(['/', '\0', char::REPLACEMENT_CHARACTER])
}

/// The operation that failed; also what the crash proofs count and interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FsOp {
    CreateDir,
    CreateFile,
    OpenAppend,
    /// Opening a directory in order to sync it.
    OpenDir,
    Write,
    SetLen,
    SyncFile,
    SyncDir,
    Rename,
    Remove,
    Read,
    List,
    Stat,
    Lock,
}

impl fmt::Display for FsOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CreateDir | Self::CreateFile => "create",
            Self::OpenAppend | Self::OpenDir => "open",
            Self::Write => "write",
            Self::SetLen => "cut",
            Self::SyncFile | Self::SyncDir => "sync",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::Read => "read",
            Self::List => "list",
            Self::Stat => "inspect",
            Self::Lock => "lock",
        })
    }
}

/// Why an operation failed, as far as a caller can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FsErrorKind {
    NotFound,
    AlreadyExists,
    /// ENOSPC: the disk is full.
    NoSpace,
    /// EDQUOT: the user's quota is used up.
    Quota,
    /// EROFS.
    ReadOnly,
    /// EACCES or EPERM.
    PermissionDenied,
    /// EMFILE or ENFILE.
    TooManyOpenFiles,
    /// A symbolic link, a directory or a device where a regular file must be, or the reverse.
    WrongKind,
    /// The file is longer than the caller's cap; nothing was read.
    TooLarge {
        len: u64,
        max: u64,
    },
    /// The store is a database, and it did not answer or refused the request.
    Database,
    /// EIO and everything else: nothing can be assumed about what reached the disk.
    Io,
}

impl FsErrorKind {
    /// True when a failed read tells what is at the path: nothing, something other than a file, a file that is too
    /// long, or one that this user may not read. Otherwise the read itself failed, possibly only for now, and the
    /// file may be fine.
    ///
    /// A file that this user may not read may be intact: a caller that would treat it as lost checks for
    /// `PermissionDenied` first.
    pub fn is_verdict_on_file(self) -> bool {
        match self {
            Self::NotFound | Self::WrongKind | Self::TooLarge { .. } | Self::PermissionDenied => true,
            Self::AlreadyExists
            | Self::NoSpace
            | Self::Quota
            | Self::ReadOnly
            | Self::TooManyOpenFiles
            | Self::Database
            | Self::Io => false,
        }
    }
}

/// A failed file-system operation, with the path it was about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {op} `{path}`: {detail}")]
pub struct FsError {
    pub op: FsOp,
    pub path: RelPath,
    pub kind: FsErrorKind,
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    New,
    Existed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    Regular,
    Directory,
    /// Symbolic links, sockets, devices: never read, never followed.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    pub kind: FileKind,
    pub len: u64,
    /// True when group or others have any permission.
    pub others_may_access: bool,
    pub stamp: FileStamp,
    /// True when it belongs to a user other than the one running this process.
    pub is_foreign: bool,
}

/// Shows whether a name still refers to the same bytes: a replaced file has another `file`, one written in place
/// another `changed_ns`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStamp {
    /// The inode.
    pub file: u64,
    /// Time of the last change as kept by the file system; compared, never shown.
    pub changed_ns: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Any name that the directory holds; `RelPath::child` says whether it can be opened.
    pub name: String,
    pub kind: FileKind,
}

/// A directory entry and its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatEntry {
    pub entry: DirEntry,
    pub stat: Option<FileStat>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    Shared,
    Exclusive,
}

/// An open file that can only be appended to, truncated and synced.
pub trait WritableFile: Send {
    /// Writes all bytes at the end of the file.
    fn append(&mut self, bytes: &[u8]) -> Result<(), FsError>;
    /// Truncates the file to `len` bytes.
    fn set_len(&mut self, len: u64) -> Result<(), FsError>;
    /// Makes data and length durable. After an error the handle is poisoned: the caller must not
    /// call `sync` on it again, because the kernel may have dropped the dirty pages (G14).
    fn sync(&mut self) -> Result<(), FsError>;
}

/// What the local store requires of a disk.
///
/// Durability contract: data is durable after `WritableFile::sync`, a name (create, rename, remove,
/// directory) after `sync_dir` of the directory that holds it, and neither earlier.
pub trait FileSystem: Send + Sync + 'static {
    type File: WritableFile;
    /// Released when dropped, and by the kernel when the process dies.
    type Lock: Send;

    /// Creates one directory (0700); its parent must exist.
    fn create_dir(&self, path: &RelPath) -> Result<Created, FsError>;
    /// Creates a regular file (0600) that must not exist.
    fn create_file(&self, path: &RelPath) -> Result<Self::File, FsError>;
    /// Opens an existing regular file for appending.
    fn open_append(&self, path: &RelPath) -> Result<Self::File, FsError>;
    /// Atomically replaces `to` by `from`.
    fn rename(&self, from: &RelPath, to: &RelPath) -> Result<(), FsError>;
    fn remove_file(&self, path: &RelPath) -> Result<(), FsError>;
    /// Makes the entries of a directory durable. An error with `FsOp::OpenDir` means that no sync was tried.
    fn sync_dir(&self, path: &RelPath) -> Result<(), FsError>;
    /// Reads a regular file from `offset` to its end; `TooLarge` when that is more than `max` bytes.
    fn read(&self, path: &RelPath, offset: u64, max: u64) -> Result<Vec<u8>, FsError>;
    /// Reads at most `max` bytes of a regular file from `offset`; fewer only at its end.
    fn read_part(&self, path: &RelPath, offset: u64, max: usize) -> Result<Vec<u8>, FsError>;
    /// Lists a directory with every name in it, sorted by name bytes. What is not UTF-8 in a name becomes U+FFFD.
    fn list(&self, path: &RelPath) -> Result<Vec<DirEntry>, FsError>;
    fn stat(&self, path: &RelPath) -> Result<FileStat, FsError>;
    /// Like `stat`, in one system call, for display only: it may follow a link in place of a directory.
    fn glance(&self, path: &RelPath) -> Result<FileStat, FsError> {
        self.stat(path)
    }
    /// Lists a directory with metadata of each entry, or of the file `below` in each entry that is a directory: the
    /// result of `list` and `stat` in fewer system calls. `None` where there is nothing to stat.
    fn list_with_stat(&self, path: &RelPath, below: Option<&str>) -> Result<Vec<StatEntry>, FsError> {
        let with_stat = |entry: DirEntry| {
            let child = path.child(&entry.name);
            let path = match below {
                None => child,
                Some(below) => {
                    child.filter(|_| entry.kind == FileKind::Directory).and_then(|dir| dir.child(below))
                }
            };
            StatEntry { stat: path.and_then(|path| self.stat(&path).ok()), entry }
        };
        Ok(self.list(path)?.into_iter().map(with_stat).collect())
    }
    /// Takes an advisory lock on a file, creating it if needed and waiting at most `wait_max`; `None` if another
    /// handle (of this or another process) still holds it after that.
    fn lock(&self, path: &RelPath, mode: LockMode, wait_max: Duration)
    -> Result<Option<Self::Lock>, FsError>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &RelPath) -> Result<(), FsError>;
    /// Called right before a write is acknowledged; a monitor checks here that nothing is pending.
    fn about_to_acknowledge(&self) {}
    /// Called between two rounds of long work, with the lock released, so that other waiters can take it.
    fn give_way(&self) {}
}
