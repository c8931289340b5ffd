//! The running servers and the calls they received, for users and `doctor`; never truth (G83).
//!
//! A server holds a lock for as long as it runs, so that a killed one differs from a running one. Nothing here is
//! synced, and a failure here never fails a call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use workrail_model::id::{ServerId, SessionId};
use workrail_model::server::{LoggedCall, ServerRecord};
use workrail_ports::file_system::{
    FileKind, FileSystem, FsError, FsErrorKind, FsOp, LockMode, RelPath, WritableFile,
};
use workrail_ports::servers::ServerDirectory;

use crate::content::create_fresh;
use crate::layout;
use crate::store::LocalStore;

/// A record holds settings, which are short.
const RECORD_BYTES_MAX: u64 = 256 * 1024;
/// The limit of one log file; a server keeps the current one and its predecessor.
const LOG_BYTES_MAX: u64 = 512 * 1024;
/// The limit on log files of all servers together: 16 MiB.
const LOGS_MAX: usize = 32;

/// How much of each log is read to show the newest calls: a few hundred of them.
const LOG_END_BYTES: u64 = 64 * 1024;

/// A server's entry in the list, removed when this is dropped.
pub struct ServerRegistration<F: FileSystem> {
    store: Arc<LocalStore<F>>,
    id: ServerId,
    log: Mutex<ServerLog<F>>,
    #[expect(dead_code, reason = "held for its drop, which says that the server is gone")]
    lock: F::Lock,
}

struct ServerLog<F: FileSystem> {
    file: Option<F::File>,
    path: RelPath,
    before: RelPath,
    bytes: u64,
}

impl<F: FileSystem> std::fmt::Debug for ServerRegistration<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerRegistration").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<F: FileSystem> LocalStore<F> {
    /// Adds a server to the list, and removes those that ended without unregistering.
    pub fn register(self: Arc<Self>, record: &ServerRecord) -> Result<ServerRegistration<F>, FsError> {
        self.fs().create_dir(&layout::servers())?;
        self.fs().create_dir(&layout::logs())?;
        self.unregister_dead()?;
        self.bound_logs()?;
        let id = record.server_id;
        let lock = self.fs().lock(&layout::server_lock(id), LockMode::Exclusive, Duration::ZERO)?;
        // No other process knows this id: it was just drawn.
        let lock = lock.ok_or_else(|| busy(&layout::server_lock(id)))?;
        let temp = layout::server_temp(id);
        let mut file = create_fresh(self.fs(), &temp)?;
        file.append(&serde_json::to_vec(record).expect("ids, texts and settings always serialise"))?;
        self.fs().rename(&temp, &layout::server(id))?;
        let (path, before) = layout::server_logs(&record.started_at, id);
        let log = Mutex::new(ServerLog { file: None, path, before, bytes: 0 });
        Ok(ServerRegistration { store: self, id, log, lock })
    }

    /// The activity counter's file names that something else occupies. Empty if that cannot be determined.
    pub fn blocked_names(&self) -> Vec<String> {
        crate::strays::blocked_names(self.fs()).unwrap_or_default()
    }

    /// The locks that another process, or another handle of this one, holds right now.
    pub fn held_locks(&self) -> Result<Vec<RelPath>, FsError> {
        let mut locks = vec![layout::store_lock(), layout::activity_lock(), layout::keyring_lock()];
        locks.extend(self.sessions_on_disk()?.into_iter().map(layout::session_lock));
        let mut held = Vec::new();
        for path in locks {
            // Checked first, so that looking leaves no lock file behind.
            let exists = self.fs().stat(&path).is_ok();
            // A lock that cannot be taken at all is not held; the failure is reported where it matters.
            if exists && matches!(self.fs().lock(&path, LockMode::Exclusive, Duration::ZERO), Ok(None)) {
                held.push(path);
            }
        }
        Ok(held)
    }

    fn sessions_on_disk(&self) -> Result<Vec<SessionId>, FsError> {
        let entries = self.fs().list(&layout::sessions())?;
        Ok(entries.iter().filter_map(|entry| SessionId::parse(&entry.name).ok()).collect())
    }

    fn unregister_dead(&self) -> Result<(), FsError> {
        for (id, _) in self.records()? {
            if self.is_dead(id)? {
                self.unregister(id);
            }
        }
        Ok(())
    }

    fn unregister(&self, id: ServerId) {
        for path in [layout::server(id), layout::server_lock(id)] {
            // If removal fails, it is found dead again next time.
            let _ = self.fs().remove_file(&path);
        }
    }

    fn is_dead(&self, id: ServerId) -> Result<bool, FsError> {
        match self.fs().lock(&layout::server_lock(id), LockMode::Exclusive, Duration::ZERO) {
            // A running server has its lock file; a reader creates none.
            Err(error) if error.kind == FsErrorKind::NotFound => Ok(true),
            taken => Ok(taken?.is_some()),
        }
    }

    fn records(&self) -> Result<Vec<(ServerId, Option<ServerRecord>)>, FsError> {
        let entries = match self.fs().list(&layout::servers()) {
            Ok(entries) => entries,
            Err(error) if error.kind == FsErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let ids = entries.iter().filter(|entry| entry.kind == FileKind::Regular);
        let ids = ids.filter_map(|entry| ServerId::parse(entry.name.strip_suffix(".json")?).ok());
        Ok(ids
            .map(|id| {
                let bytes = self.fs().read(&layout::server(id), 0, RECORD_BYTES_MAX).unwrap_or_default();
                let record: Option<ServerRecord> = serde_json::from_slice(&bytes).ok();
                (id, record.filter(|record| record.v == ServerRecord::VERSION))
            })
            .collect())
    }

    /// Removes the oldest logs; their names begin with their server's start time.
    fn bound_logs(&self) -> Result<(), FsError> {
        let entries = self.fs().list(&layout::logs())?;
        let names: Vec<&str> = entries
            .iter()
            .filter(|entry| entry.kind == FileKind::Regular && entry.name.ends_with(".jsonl"))
            .filter(|entry| layout::may_be_ours(&entry.name))
            .map(|entry| entry.name.as_str())
            .collect();
        for name in names.iter().take((names.len() + 2).saturating_sub(LOGS_MAX)) {
            let Some(path) = layout::logs().child(name) else { continue };
            match self.fs().remove_file(&path) {
                // Another server starting now may remove the same files.
                Err(error) if error.kind != FsErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }
}

fn busy(path: &RelPath) -> FsError {
    let detail = "another process holds it".to_owned();
    FsError { op: FsOp::Lock, path: path.clone(), kind: FsErrorKind::Io, detail }
}

impl<F: FileSystem> ServerDirectory for LocalStore<F> {
    fn servers(&self) -> Result<Vec<ServerRecord>, FsError> {
        let mut running = Vec::new();
        for (id, record) in self.records()? {
            if let Some(record) = record
                && !self.is_dead(id)?
            {
                running.push(record);
            }
        }
        Ok(running)
    }

    fn calls(&self, limit: usize) -> Result<Vec<LoggedCall>, FsError> {
        let entries = match self.fs().list_with_stat(&layout::logs(), None) {
            Ok(entries) => entries,
            Err(error) if error.kind == FsErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut calls: Vec<LoggedCall> = Vec::new();
        for found in entries.into_iter().filter(|found| found.entry.name.ends_with(".jsonl")) {
            let (Some(path), Some(stat)) = (layout::logs().child(&found.entry.name), found.stat) else {
                continue;
            };
            // A log may grow while it is read.
            let end = self.fs().read(&path, stat.len.saturating_sub(LOG_END_BYTES), 2 * LOG_END_BYTES);
            let lines = end.unwrap_or_default();
            // The first line may be cut off, and then does not parse.
            calls.extend(
                lines.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()),
            );
        }
        calls.sort_by(|a, b| b.at.cmp(&a.at));
        calls.truncate(limit);
        Ok(calls)
    }
}

impl<F: FileSystem> ServerRegistration<F> {
    /// Adds a call to the log; failures are ignored.
    pub fn log(&self, call: &LoggedCall) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if self.write(&mut log, call).is_err() {
            // The next call opens a new handle.
            log.file = None;
        }
    }

    fn write(&self, log: &mut ServerLog<F>, call: &LoggedCall) -> Result<(), FsError> {
        let fs = self.store.fs();
        if log.bytes >= LOG_BYTES_MAX {
            log.file = None;
            fs.rename(&log.path, &log.before)?;
            log.bytes = 0;
        }
        let file = match &mut log.file {
            Some(file) => file,
            empty => {
                let opened = match fs.create_file(&log.path) {
                    Err(error) if error.kind == FsErrorKind::AlreadyExists => fs.open_append(&log.path)?,
                    other => other?,
                };
                empty.insert(opened)
            }
        };
        let mut line = serde_json::to_vec(call).expect("texts and a number always serialise");
        line.push(b'\n');
        file.append(&line)?;
        log.bytes += line.len() as u64;
        Ok(())
    }
}

impl<F: FileSystem> Drop for ServerRegistration<F> {
    fn drop(&mut self) {
        self.store.unregister(self.id);
    }
}
