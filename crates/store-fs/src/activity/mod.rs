//! The store-wide activity number: a locked counter file that is never synced (G7).
//!
//! It survives a killed process because the kernel keeps the file, and a power cut because of a reservation: before a
//! range of numbers is used, `activity.reserved` durably records its upper bound. After a reboot, or with a damaged
//! counter, numbers continue after the reservation, without reading any session.
//!
//! Each new number appends one dot to the file. Replacing the file each time cost a tenth of an advance: some file
//! systems write a replaced file's data out immediately.

mod rebuild;

use serde::{Deserialize, Serialize};
use workrail_model::digest::Sha256;
use workrail_model::event::Activity;
use workrail_ports::environment::ActivityCounter;
use workrail_ports::file_system::{
    FileKind, FileSystem, FsError, FsErrorKind, FsOp, LockMode, RelPath, WritableFile,
};
use workrail_ports::session_store::StoreError;

use crate::content::{create_fresh, write_temp};
use crate::layout;
use crate::store::{LOCK_WAIT, LocalStore};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counter {
    v: u64,
    boot: String,
    last: u64,
    /// Numbers up to this one are durably reserved.
    #[serde(default)]
    reserved: u64,
}

/// The file that records how far numbers may have been handed out.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reservation {
    v: u64,
    reserved: u64,
    /// The digest of `activity.reserved:N`, which detects a flipped digit.
    check: Sha256,
}

const COUNTER_BYTES_MAX: u64 = 4096;
/// How many numbers are reserved at once, and how many dots a counter holds before it starts over.
const RESERVED_AT_ONCE: u64 = 2048;

fn exhausted() -> StoreError {
    let (path, detail) = (layout::activity(), "the activity counter is exhausted".to_owned());
    StoreError::Io(FsError { op: FsOp::Write, path, kind: FsErrorKind::Io, detail })
}

impl<F: FileSystem> ActivityCounter for LocalStore<F> {
    fn next(&self) -> Result<Activity, StoreError> {
        let (_lock, counted) = self.hold_counter()?;
        let next = counted.last.checked_add(1).and_then(Activity::new).ok_or_else(exhausted)?;
        match counted.state {
            CounterFile::Usable { dots } if dots < RESERVED_AT_ONCE && next.get() <= counted.reserved => {
                match self.fs().open_append(&counted.path) {
                    // A file that is readable but not writable is replaced as a whole.
                    Err(error) if is_in_the_way(&error) => self.write_counter(&counted.path, next)?,
                    opened => opened?.append(b".")?,
                }
            }
            CounterFile::Usable { .. } | CounterFile::Unusable => self.write_counter(&counted.path, next)?,
        }
        Ok(next)
    }
}

impl<F: FileSystem> LocalStore<F> {
    /// The last number handed out. Needs no lock: the file is replaced as a whole, or grows by a byte.
    pub(crate) fn counted_so_far(&self) -> Result<Activity, StoreError> {
        let last = match self.read_counter()? {
            Some(counted) => counted.last,
            None => self.newest_activity_of_sessions()?,
        };
        Activity::new(last).ok_or_else(exhausted)
    }

    /// Raises the counter to `at_least`, unless it is already that high.
    pub(crate) fn raise_counter(&self, at_least: Activity) -> Result<(), StoreError> {
        let (_lock, counted) = self.hold_counter()?;
        if counted.last >= at_least.get() { Ok(()) } else { self.write_counter(&counted.path, at_least) }
    }

    /// The counter, locked. Sessions are read only if nothing on disk records how far it got, and then without the
    /// lock, so that other processes wait only for their own scan.
    fn hold_counter(&self) -> Result<(F::Lock, CounterState), StoreError> {
        let lock = self.lock_counter()?;
        if let Some(counted) = self.read_counter()? {
            return Ok((lock, counted));
        }
        drop(lock);
        let rebuilt = self.newest_activity_of_sessions()?;
        let lock = self.lock_counter()?;
        // Another process may have been faster.
        if let Some(counted) = self.read_counter()? {
            return Ok((lock, counted));
        }
        let path = self.usable(layout::activity())?;
        Ok((lock, CounterState { last: rebuilt, reserved: 0, state: CounterFile::Unusable, path }))
    }

    fn lock_counter(&self) -> Result<F::Lock, StoreError> {
        let mut path = layout::activity_lock();
        let mut first_obstacle = None;
        for _ in 0..=SPARE_NAMES_MAX {
            match self.fs().lock(&path, LockMode::Exclusive, LOCK_WAIT) {
                Ok(lock) => return lock.ok_or(StoreError::Busy),
                // The error names the ordinary file, which the user can fix; the spare names are internal.
                Err(error) if is_in_the_way(&error) => {
                    first_obstacle.get_or_insert(error);
                    path = layout::spare(&path);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(first_obstacle.map_or(StoreError::Busy, StoreError::from))
    }

    /// The counter of this boot, or else the end of the reservation, or else `None`.
    fn read_counter(&self) -> Result<Option<CounterState>, FsError> {
        let path = self.usable(layout::activity())?;
        if let Some(bytes) = self.read_small(&path)?
            && let Some((counter, dots)) = parsed(&bytes, &self.boot_id)
            && let Some(last) = counter.last.checked_add(dots)
        {
            return Ok(Some(CounterState {
                last,
                reserved: counter.reserved,
                state: CounterFile::Usable { dots },
                path,
            }));
        }
        let bytes = self.read_small(&self.usable(layout::activity_reserved())?)?;
        let reserved = bytes.and_then(|bytes| parse_reservation(&bytes));
        Ok(reserved.map(|reserved| CounterState {
            last: reserved,
            reserved,
            state: CounterFile::Unusable,
            path,
        }))
    }

    /// One of our files, or `None` if there is no readable file of that name.
    fn read_small(&self, path: &RelPath) -> Result<Option<Vec<u8>>, FsError> {
        match self.fs().read(path, 0, COUNTER_BYTES_MAX) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind.is_verdict_on_file() => Ok(None),
            // The file may exist: treating it as missing would skip numbers for nothing.
            Err(error) => Err(error),
        }
    }

    /// The name under which the file can be written: a spare one if a folder, a link or a pipe has its own.
    fn usable(&self, path: RelPath) -> Result<RelPath, FsError> {
        let mut path = path;
        for _ in 0..SPARE_NAMES_MAX {
            match self.fs().stat(&path) {
                Ok(stat) if stat.kind != FileKind::Regular => {
                    path = layout::spare(&path);
                }
                Ok(_) => return Ok(path),
                Err(error) if error.kind == FsErrorKind::NotFound => return Ok(path),
                Err(error) => return Err(error),
            }
        }
        Ok(path)
    }

    /// Starts a new counter file at `last`; the numbers after it are reserved before any of them is used.
    fn write_counter(&self, path: &RelPath, last: Activity) -> Result<(), StoreError> {
        let reserved = last.get().saturating_add(RESERVED_AT_ONCE);
        self.reserve(reserved)?;
        let counter = Counter { v: 1, boot: self.boot_id.clone(), last: last.get(), reserved };
        let mut bytes = serde_json::to_vec(&counter).expect("numbers and a text always serialise");
        bytes.push(b'\n');
        let mut file = create_fresh(self.fs(), &layout::activity_temp())?;
        file.append(&bytes)?;
        self.fs().rename(&layout::activity_temp(), path)?;
        Ok(())
    }

    /// Makes the reservation durable in a new file, because an earlier sync may have failed (G14).
    fn reserve(&self, reserved: u64) -> Result<(), FsError> {
        let reservation = Reservation { v: 1, reserved, check: check(reserved) };
        let bytes = serde_json::to_vec(&reservation).expect("numbers and a digest always serialise");
        write_temp(self.fs(), &layout::activity_reserved_temp(), &bytes)?;
        let path = self.usable(layout::activity_reserved())?;
        self.fs().rename(&layout::activity_reserved_temp(), &path)?;
        self.fs().sync_dir(&RelPath::root())
    }
}

/// How many spare names are tried before giving up.
const SPARE_NAMES_MAX: usize = 4;

/// Whether something that is not our file blocks the name.
fn is_in_the_way(error: &FsError) -> bool {
    matches!(error.kind, FsErrorKind::WrongKind | FsErrorKind::PermissionDenied)
}

fn check(reserved: u64) -> Sha256 {
    Sha256::of(format!("activity.reserved:{reserved}").as_bytes())
}

/// How far the counter has got.
struct CounterState {
    last: u64,
    reserved: u64,
    state: CounterFile,
    /// The counter file.
    path: RelPath,
}

enum CounterFile {
    /// The counter file is from this boot and can take another dot.
    Usable {
        dots: u64,
    },
    Unusable,
}

/// Reads a counter from this boot: one line, then only dots.
fn parsed(bytes: &[u8], boot_id: &str) -> Option<(Counter, u64)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, dots) = (&bytes[..end], &bytes[end + 1..]);
    let counter = serde_json::from_slice::<Counter>(line).ok()?;
    if counter.v != 1 || counter.boot != boot_id || dots.iter().any(|byte| *byte != b'.') {
        return None;
    }
    Some((counter, dots.len() as u64))
}

fn parse_reservation(bytes: &[u8]) -> Option<u64> {
    let reservation = serde_json::from_slice::<Reservation>(bytes).ok()?;
    let fits = reservation.v == 1 && reservation.check == check(reservation.reserved);
    fits.then_some(reservation.reserved)
}
