//! What hosts' hooks observed and no advance has recorded yet: one small file per run, never truth (G105).
//!
//! A hook appends one line and exits. An advance first renames the file, so that concurrent hooks start another one,
//! and removes the renamed file once its lines are in the log.

use std::cmp::Reverse;

use workrail_model::evidence::HookObservation;
use workrail_model::id::{RunId, SessionId};
use workrail_model::limits::{OBSERVATIONS_BYTES_MAX, OBSERVED_RUNS_MAX};
use workrail_ports::file_system::{Created, FileSystem, FsError, FsErrorKind, RelPath, WritableFile};
use workrail_ports::observations::ObservationSpool;

use crate::content::create_fresh;
use crate::layout;
use crate::store::LocalStore;

impl<F: FileSystem> LocalStore<F> {
    /// Removes the pending observations of a removed session.
    pub(crate) fn drop_observations(&self, session: SessionId) {
        let prefix = format!("{session}-");
        for entry in self.fs().list(&layout::observed()).unwrap_or_default() {
            if entry.name.starts_with(&prefix)
                && let Some(path) = layout::observed().child(&entry.name)
            {
                // Never truth: a file that cannot be removed still counts towards the limit.
                let _ = self.fs().remove_file(&path);
            }
        }
    }

    fn open_observed(&self, path: &RelPath) -> Result<F::File, FsError> {
        match self.fs().open_append(path) {
            Err(error) if error.kind == FsErrorKind::NotFound => {}
            opened => return opened,
        }
        if self.fs().create_dir(&layout::observed())? == Created::Existed {
            self.bound_observed();
        }
        match self.fs().create_file(path) {
            // Another hook was faster.
            Err(error) if error.kind == FsErrorKind::AlreadyExists => self.fs().open_append(path),
            created => created,
        }
    }

    /// Makes room for one more run.
    fn bound_observed(&self) {
        let Ok(mut entries) = self.fs().list_with_stat(&layout::observed(), None) else { return };
        entries.retain(|entry| layout::may_be_ours(&entry.entry.name));
        entries.sort_by_key(|entry| Reverse(entry.stat.as_ref().map(|stat| stat.stamp.changed_ns)));
        for entry in entries.iter().skip(OBSERVED_RUNS_MAX - 1) {
            if let Some(path) = layout::observed().child(&entry.entry.name) {
                let _ = self.fs().remove_file(&path);
            }
        }
    }

    fn taken_lines(&self, session: SessionId, run: RunId) -> Vec<(Vec<u8>, HookObservation)> {
        let bytes = self.fs().read(&layout::observed_taken(session, run), 0, 2 * OBSERVATIONS_BYTES_MAX);
        let bytes = bytes.unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        lines.filter_map(|line| Some((line.to_vec(), serde_json::from_slice(line).ok()?))).collect()
    }
}

impl<F: FileSystem> ObservationSpool for LocalStore<F> {
    fn leave_observation(
        &self,
        session: SessionId,
        run: RunId,
        seen: &HookObservation,
    ) -> Result<(), FsError> {
        let path = layout::observed_run(session, run);
        let mut line = serde_json::to_vec(seen).expect("texts, numbers and closed sets always serialise");
        line.push(b'\n');
        let waiting = self.fs().stat(&path).map_or(0, |stat| stat.len);
        if waiting + line.len() as u64 > OBSERVATIONS_BYTES_MAX {
            return Ok(());
        }
        self.open_observed(&path)?.append(&line)
    }

    fn take_observations(&self, session: SessionId, run: RunId) -> Vec<HookObservation> {
        let taken = layout::observed_taken(session, run);
        // What an interrupted advance took is recorded first.
        if self.fs().stat(&taken).is_err() {
            let _ = self.fs().rename(&layout::observed_run(session, run), &taken);
        }
        self.taken_lines(session, run).into_iter().map(|(_, seen)| seen).collect()
    }

    fn forget_observations(&self, session: SessionId, run: RunId, recorded: usize) -> Result<(), FsError> {
        let taken = layout::observed_taken(session, run);
        let rest: Vec<Vec<u8>> =
            self.taken_lines(session, run).into_iter().skip(recorded).map(|(line, _)| line).collect();
        if rest.is_empty() {
            return match self.fs().remove_file(&taken) {
                Err(error) if error.kind != FsErrorKind::NotFound => Err(error),
                Ok(()) | Err(_) => Ok(()),
            };
        }
        let temp = layout::observed_temp(session, run);
        let mut bytes = rest.join(&b'\n');
        bytes.push(b'\n');
        create_fresh(self.fs(), &temp)?.append(&bytes)?;
        self.fs().rename(&temp, &taken)
    }
}
