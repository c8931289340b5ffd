//! The state of a simulated disk, and its operations with the semantics of a POSIX file system.

use std::collections::BTreeMap;

use workrail_ports::file_system::{
    Created, DirEntry, FileKind, FileStamp, FileStat, FsErrorKind, LockMode, RelPath,
};

use super::content::SimContent;
use super::fault::Meter;
use super::names::{DirectoryTable, Ino, Journal, Name, NameOp};

pub(super) const ROOT: Ino = Ino(0);

#[derive(Clone, Debug)]
pub(super) enum InodeBody {
    File(SimContent),
    Dir,
    /// A link, socket or device: it exists but cannot be used.
    Other,
}

#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) body: InodeBody,
    pub(super) unreadable: bool,
    pub(super) others_may_access: bool,
    /// The tick of the disk's clock at the last change.
    pub(super) changed: i64,
    pub(super) is_foreign: bool,
}

impl Inode {
    pub(super) fn new(body: InodeBody) -> Self {
        Self { body, unreadable: false, others_may_access: false, is_foreign: false, changed: 0 }
    }

    pub(super) fn kind(&self) -> FileKind {
        match self.body {
            InodeBody::File(_) => FileKind::Regular,
            InodeBody::Dir => FileKind::Directory,
            InodeBody::Other => FileKind::Other,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum HeldLock {
    Shared(u32),
    Exclusive,
}

#[derive(Clone, Debug)]
pub(super) struct SimState {
    pub(super) inodes: BTreeMap<Ino, Inode>,
    pub(super) seen: DirectoryTable,
    pub(super) durable: DirectoryTable,
    pub(super) journal: Journal,
    pub(super) meter: Meter,
    locks: BTreeMap<Ino, HeldLock>,
    next: u64,
    /// Ticks at every change, so that changes to different files can be compared, as times can.
    clock: i64,
}

impl SimState {
    pub(super) fn new() -> Self {
        let mut table = DirectoryTable::default();
        table.add_dir(ROOT);
        Self::settled(BTreeMap::from([(ROOT, Inode::new(InodeBody::Dir))]), table)
    }

    /// A disk on which everything is durable and nothing has happened yet.
    pub(super) fn settled(inodes: BTreeMap<Ino, Inode>, table: DirectoryTable) -> Self {
        let next = inodes.keys().next_back().map_or(1, |last| last.0 + 1);
        let clock = inodes.values().map(|inode| inode.changed).max().unwrap_or(0);
        Self {
            inodes,
            seen: table.clone(),
            durable: table,
            journal: Journal::default(),
            meter: Meter::default(),
            locks: BTreeMap::new(),
            next,
            clock,
        }
    }

    pub(super) fn without_locks(&self) -> Self {
        Self { locks: BTreeMap::new(), ..self.clone() }
    }

    pub(super) fn inode(&self, ino: Ino) -> &Inode {
        self.inodes.get(&ino).expect("inode numbers come only from `allocate`, and inodes are never removed")
    }

    pub(super) fn resolve(&self, path: &RelPath) -> Result<Ino, FsErrorKind> {
        let mut at = ROOT;
        for name in path.components() {
            if self.inode(at).kind() != FileKind::Directory {
                return Err(FsErrorKind::WrongKind);
            }
            at = self.seen.get(at, name).ok_or(FsErrorKind::NotFound)?;
        }
        Ok(at)
    }

    pub(super) fn directory(&self, path: &RelPath) -> Result<Ino, FsErrorKind> {
        self.expect_kind(self.resolve(path)?, FileKind::Directory)
    }

    pub(super) fn regular(&self, path: &RelPath) -> Result<Ino, FsErrorKind> {
        self.expect_kind(self.resolve(path)?, FileKind::Regular)
    }

    fn expect_kind(&self, ino: Ino, kind: FileKind) -> Result<Ino, FsErrorKind> {
        if self.inode(ino).kind() == kind { Ok(ino) } else { Err(FsErrorKind::WrongKind) }
    }

    /// The directory that contains a path, and the last component.
    fn parent_and_name(&self, path: &RelPath) -> Result<(Ino, Name), FsErrorKind> {
        let parent = path.parent().ok_or(FsErrorKind::WrongKind)?;
        Ok((self.directory(&parent)?, path.file_name().into()))
    }

    pub(super) fn allocate(&mut self, body: InodeBody) -> Ino {
        let ino = Ino(self.next);
        self.next += 1;
        if matches!(body, InodeBody::Dir) {
            self.seen.add_dir(ino);
            self.durable.add_dir(ino);
        }
        self.inodes.insert(ino, Inode::new(body));
        ino
    }

    fn change_names(&mut self, op: NameOp) {
        self.stamp_folders(&op);
        self.seen.apply(&op);
        self.journal.push(op);
    }

    pub(super) fn create_dir(&mut self, path: &RelPath) -> Result<Created, FsErrorKind> {
        if path.parent().is_none() {
            return Ok(Created::Existed);
        }
        let (dir, name) = self.parent_and_name(path)?;
        if let Some(ino) = self.seen.get(dir, &name) {
            return self.expect_kind(ino, FileKind::Directory).map(|_| Created::Existed);
        }
        let ino = self.allocate(InodeBody::Dir);
        self.change_names(NameOp::Link { dir, name, ino });
        Ok(Created::New)
    }

    pub(super) fn create_file(&mut self, path: &RelPath) -> Result<Ino, FsErrorKind> {
        let (dir, name) = self.parent_and_name(path)?;
        if self.seen.get(dir, &name).is_some() {
            return Err(FsErrorKind::AlreadyExists);
        }
        let ino = self.allocate(InodeBody::File(SimContent::default()));
        self.change_names(NameOp::Link { dir, name, ino });
        Ok(ino)
    }

    pub(super) fn open_or_create(&mut self, path: &RelPath) -> Result<Ino, FsErrorKind> {
        match self.regular(path) {
            Err(FsErrorKind::NotFound) => self.create_file(path),
            other => other,
        }
    }

    pub(super) fn rename(&mut self, from: &RelPath, to: &RelPath) -> Result<(), FsErrorKind> {
        let (from_dir, from_name) = self.parent_and_name(from)?;
        let (to_dir, to_name) = self.parent_and_name(to)?;
        let ino = self.seen.get(from_dir, &from_name).ok_or(FsErrorKind::NotFound)?;
        let moved = self.inode(ino).kind();
        if moved == FileKind::Other {
            return Err(FsErrorKind::WrongKind);
        }
        if let Some(target) = self.seen.get(to_dir, &to_name) {
            if target == ino {
                return Ok(());
            }
            let target_is_dir = self.inode(target).kind() == FileKind::Directory;
            if target_is_dir != (moved == FileKind::Directory) {
                return Err(FsErrorKind::WrongKind);
            }
            if target_is_dir && !self.is_empty(target) {
                return Err(FsErrorKind::AlreadyExists);
            }
        }
        // EINVAL: a directory cannot move into itself.
        if moved == FileKind::Directory && is_beneath(to, from) {
            return Err(FsErrorKind::Io);
        }
        self.change_names(NameOp::Rename { from_dir, from: from_name, to_dir, to: to_name, ino });
        Ok(())
    }

    pub(super) fn remove_file(&mut self, path: &RelPath) -> Result<(), FsErrorKind> {
        let (dir, name) = self.parent_and_name(path)?;
        let ino = self.seen.get(dir, &name).ok_or(FsErrorKind::NotFound)?;
        if self.inode(ino).kind() == FileKind::Directory {
            return Err(FsErrorKind::WrongKind);
        }
        self.change_names(NameOp::Unlink { dir, name, ino });
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, path: &RelPath) -> Result<(), FsErrorKind> {
        let (dir, name) = self.parent_and_name(path)?;
        let ino = self.directory(path)?;
        if !self.is_empty(ino) {
            return Err(FsErrorKind::AlreadyExists);
        }
        self.change_names(NameOp::Unlink { dir, name, ino });
        Ok(())
    }

    /// As on a real disk, changing a name changes the folder that contains it.
    pub(super) fn stamp_folders(&mut self, op: &NameOp) {
        self.clock += 1;
        for dir in op.dirs() {
            if let Some(inode) = self.inodes.get_mut(&dir) {
                inode.changed = self.clock;
            }
        }
    }

    fn is_empty(&self, dir: Ino) -> bool {
        self.seen.entries(dir).is_none_or(|entries| entries.is_empty())
    }

    pub(super) fn sync_names(&mut self, dir: Ino) {
        self.journal.sync(dir, &mut self.durable);
    }

    pub(super) fn lose_names(&mut self, dir: Ino) {
        self.journal.lose(dir);
    }

    pub(super) fn open_file(&mut self, ino: Ino) -> &mut SimContent {
        self.clock += 1;
        let inode = self.inodes.get_mut(&ino).map(|inode| {
            inode.changed = self.clock;
            &mut inode.body
        });
        match inode {
            Some(InodeBody::File(content)) => content,
            // Handles exist only for inodes returned by `regular` or `create_file`.
            Some(InodeBody::Dir | InodeBody::Other) | None => {
                unreachable!("a file handle refers to a regular file")
            }
        }
    }

    pub(super) fn read(&self, path: &RelPath, offset: u64, max: u64) -> Result<Vec<u8>, FsErrorKind> {
        let rest = self.bytes_from(path, offset)?;
        if rest.len() as u64 > max {
            return Err(FsErrorKind::TooLarge { len: rest.len() as u64, max });
        }
        Ok(rest.to_vec())
    }

    pub(super) fn read_part(&self, path: &RelPath, offset: u64, max: usize) -> Result<Vec<u8>, FsErrorKind> {
        let rest = self.bytes_from(path, offset)?;
        Ok(rest[..rest.len().min(max)].to_vec())
    }

    fn bytes_from(&self, path: &RelPath, offset: u64) -> Result<&[u8], FsErrorKind> {
        let inode = self.inode(self.regular(path)?);
        let InodeBody::File(content) = &inode.body else {
            return Err(FsErrorKind::WrongKind);
        };
        if inode.unreadable {
            return Err(FsErrorKind::PermissionDenied);
        }
        let bytes = content.seen().bytes();
        Ok(usize::try_from(offset).ok().and_then(|start| bytes.get(start..)).unwrap_or(&[]))
    }

    pub(super) fn list(&self, path: &RelPath) -> Result<Vec<DirEntry>, FsErrorKind> {
        let dir = self.directory(path)?;
        if self.inode(dir).unreadable {
            return Err(FsErrorKind::PermissionDenied);
        }
        let entries = self.seen.entries(dir).into_iter().flat_map(|entries| entries.iter());
        Ok(entries
            .map(|(name, ino)| DirEntry { name: name.to_string(), kind: self.inode(*ino).kind() })
            .collect())
    }

    pub(super) fn stat(&self, path: &RelPath) -> Result<FileStat, FsErrorKind> {
        let ino = self.resolve(path)?;
        let inode = self.inode(ino);
        let len = match &inode.body {
            InodeBody::File(content) => content.seen().bytes().len() as u64,
            InodeBody::Dir | InodeBody::Other => 0,
        };
        Ok(FileStat {
            kind: inode.kind(),
            len,
            others_may_access: inode.others_may_access,
            is_foreign: inode.is_foreign,
            stamp: FileStamp { file: ino.0, changed_ns: inode.changed },
        })
    }

    /// Grants the lock unless it conflicts with one that is held.
    pub(super) fn grant(&mut self, ino: Ino, mode: LockMode) -> bool {
        let granted = match (self.locks.get(&ino), mode) {
            (None, LockMode::Shared) => HeldLock::Shared(1),
            (None, LockMode::Exclusive) => HeldLock::Exclusive,
            (Some(HeldLock::Shared(count)), LockMode::Shared) => HeldLock::Shared(count + 1),
            (Some(HeldLock::Shared(_)), LockMode::Exclusive) | (Some(HeldLock::Exclusive), _) => {
                return false;
            }
        };
        self.locks.insert(ino, granted);
        true
    }

    pub(super) fn release(&mut self, ino: Ino, mode: LockMode) {
        match (self.locks.remove(&ino), mode) {
            (Some(HeldLock::Shared(count)), LockMode::Shared) if count > 1 => {
                self.locks.insert(ino, HeldLock::Shared(count - 1));
            }
            (Some(HeldLock::Shared(_)), LockMode::Shared)
            | (Some(HeldLock::Exclusive), LockMode::Exclusive) => {}
            (held, mode) => unreachable!("released a {mode:?} lock of {ino:?}, but {held:?} is held"),
        }
    }
}

fn is_beneath(path: &RelPath, dir: &RelPath) -> bool {
    path.as_str().strip_prefix(dir.as_str()).is_some_and(|rest| rest.starts_with('/'))
}
