//! Counts the changes that the system reports in folders.
//!
//! Linux puts a report into our queue before the call that made the change returns, so a look into the queue finds every
//! change made before it, and nothing has to be waited for.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use crate::machine;

#[derive(Debug)]
pub(super) struct ChangeFeed {
    queue: ReportQueue,
    folders: BTreeSet<Utf8PathBuf>,
    changes: u64,
}

impl ChangeFeed {
    pub(super) fn new() -> Option<Self> {
        Some(Self { queue: ReportQueue::new()?, folders: BTreeSet::new(), changes: 0 })
    }

    pub(super) fn folder_count(&self) -> usize {
        self.folders.len()
    }

    pub(super) fn is_watched(&self, folder: &Utf8Path) -> bool {
        self.folders.contains(folder)
    }

    /// Whether changes in the folder are reported from now on. Changes made on other machines never are.
    pub(super) fn listen(&mut self, folder: &Utf8Path) -> bool {
        let is_local = machine::volume(folder).is_some_and(|volume| volume.network.is_none());
        let is_watched = is_local && self.queue.listen(folder);
        if is_watched {
            self.folders.insert(folder.to_owned());
        }
        is_watched
    }

    /// The number of reports so far; it grows if anything has changed. `None` if reports cannot be read.
    pub(super) fn reported(&mut self) -> Option<u64> {
        self.changes += self.queue.take()?;
        Some(self.changes)
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;

    use camino::Utf8Path;
    use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
    use rustix::io::Errno;

    /// Several reports; one takes at most 272 bytes.
    const BUFFER_BYTES: usize = 4_096;
    /// Reports read by one call, if somebody writes all the time. The next call finds the others, and a change as well.
    const REPORTS_READ_MAX: u64 = 16_384;

    #[derive(Debug)]
    pub(super) struct ReportQueue(OwnedFd);

    impl ReportQueue {
        pub(super) fn new() -> Option<Self> {
            inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok().map(Self)
        }

        pub(super) fn listen(&self, folder: &Utf8Path) -> bool {
            // Everything but reading, which is not a change, and we read ourselves.
            let changes = WatchFlags::ATTRIB
                | WatchFlags::CLOSE_WRITE
                | WatchFlags::CREATE
                | WatchFlags::DELETE
                | WatchFlags::DELETE_SELF
                | WatchFlags::MODIFY
                | WatchFlags::MOVE
                | WatchFlags::MOVE_SELF;
            inotify::add_watch(&self.0, folder.as_std_path(), changes | WatchFlags::ONLYDIR).is_ok()
        }

        /// Removes the reports from the queue and counts them. A report that others were lost counts like any other.
        pub(super) fn take(&self) -> Option<u64> {
            let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
            let mut reader = Reader::new(&self.0, &mut buffer);
            let mut reports = 0;
            while reports < REPORTS_READ_MAX {
                match reader.next() {
                    Ok(_) => reports += 1,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(_) => return None,
                }
            }
            Some(reports)
        }
    }
}

#[cfg(target_os = "linux")]
use linux::ReportQueue;

/// Elsewhere reports come late, so folders are walked.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
enum ReportQueue {}

#[cfg(not(target_os = "linux"))]
impl ReportQueue {
    fn new() -> Option<Self> {
        None
    }

    fn listen(&self, _: &Utf8Path) -> bool {
        match *self {}
    }

    fn take(&self) -> Option<u64> {
        match *self {}
    }
}
