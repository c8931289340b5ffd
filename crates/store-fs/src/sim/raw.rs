//! Direct access to a simulated disk for tests: immediately durable, not counted, never faulty.

use std::sync::Arc;

use workrail_ports::file_system::RelPath;

use super::SimFs;
use super::content::SimContent;
use super::image;
use super::names::{Ino, Name, NameOp};
use super::shared_bytes::SharedBytes;
use super::state::{Inode, InodeBody, ROOT, SimState};

impl SimFs {
    /// Writes a durable file, with its directories, replacing whatever was there.
    pub fn write_raw(&self, path: &RelPath, bytes: &[u8]) {
        let content = SimContent::settled(Arc::new(SharedBytes::new(bytes.to_vec())));
        let mut state = self.state();
        // The inode stays, so that an open handle keeps referring to this file.
        let held = state.regular(path).ok();
        let ino = held.unwrap_or_else(|| state.allocate(InodeBody::File(SimContent::default())));
        *state.open_file(ino) = content;
        state.link_raw(path, ino);
    }

    /// The content of a file as seen; `None` if there is no regular file.
    pub fn read_raw(&self, path: &RelPath) -> Option<Vec<u8>> {
        let state = self.state();
        match &state.inode(state.regular(path).ok()?).body {
            InodeBody::File(content) => Some(content.seen().bytes().to_vec()),
            InodeBody::Dir | InodeBody::Other => None,
        }
    }

    /// Every regular file that is seen, sorted by path.
    pub fn all_files(&self) -> Vec<RelPath> {
        let state = self.state();
        let mut files = Vec::new();
        image::for_each_name(&state.seen, &mut |path, ino| {
            if matches!(state.inode(ino).body, InodeBody::File(_)) {
                files.extend(RelPath::parse(path));
            }
        });
        files.sort_unstable();
        files
    }

    /// Removes whatever has this name, durably, with everything beneath it.
    pub fn remove_raw(&self, path: &RelPath) {
        let mut state = self.state();
        if let (Some((dir, name)), Ok(ino)) = (state.place_raw(path), state.resolve(path)) {
            state.change_raw(NameOp::Unlink { dir, name, ino });
        }
    }

    /// Makes a durable directory, with its parents.
    pub fn make_dir_raw(&self, path: &RelPath) {
        self.state().dir_raw(path);
    }

    /// Creates a symbolic link (or socket, or device), durably.
    pub fn make_symlink_raw(&self, path: &RelPath) {
        let mut state = self.state();
        let ino = state.allocate(InodeBody::Other);
        state.link_raw(path, ino);
    }

    /// Makes every read of this file, or listing of this directory, fail with `PermissionDenied`.
    pub fn set_unreadable(&self, path: &RelPath) {
        self.change_inode(path, |inode| inode.unreadable = true);
    }

    /// Makes `stat` say that group or others may access this path.
    pub fn set_others_may_access(&self, path: &RelPath) {
        self.change_inode(path, |inode| inode.others_may_access = true);
    }

    /// Makes `stat` say that this path belongs to another user.
    pub fn set_foreign(&self, path: &RelPath) {
        self.change_inode(path, |inode| inode.is_foreign = true);
    }

    fn change_inode(&self, path: &RelPath, change: impl FnOnce(&mut Inode)) {
        let mut state = self.state();
        let ino = state.resolve(path).expect("a test names a path that exists");
        change(state.inodes.get_mut(&ino).expect("every name belongs to an inode"));
    }
}

impl SimState {
    fn place_raw(&self, path: &RelPath) -> Option<(Ino, Name)> {
        Some((self.directory(&path.parent()?).ok()?, path.file_name().into()))
    }

    fn link_raw(&mut self, path: &RelPath, ino: Ino) {
        let parent = path.parent().expect("a test does not replace the data directory");
        let dir = self.dir_raw(&parent);
        self.change_raw(NameOp::Link { dir, name: path.file_name().into(), ino });
    }

    /// The directory at `path`, created durably if needed, replacing anything else of that name.
    fn dir_raw(&mut self, path: &RelPath) -> Ino {
        let mut at = ROOT;
        for name in path.components() {
            let held = self.seen.get(at, name).filter(|ino| matches!(self.inode(*ino).body, InodeBody::Dir));
            let ino = held.unwrap_or_else(|| self.allocate(InodeBody::Dir));
            self.change_raw(NameOp::Link { dir: at, name: name.into(), ino });
            at = ino;
        }
        at
    }

    /// Changes names immediately and durably; pending operations on the same names are settled.
    fn change_raw(&mut self, op: NameOp) {
        match &op {
            NameOp::Link { dir, name, .. } | NameOp::Unlink { dir, name, .. } => {
                self.journal.settle(*dir, name, &mut self.durable);
            }
            NameOp::Rename { .. } => unreachable!("raw changes link and unlink only"),
        }
        self.stamp_folders(&op);
        self.seen.apply(&op);
        self.durable.apply(&op);
    }
}
