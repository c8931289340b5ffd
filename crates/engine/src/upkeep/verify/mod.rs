//! `verify`: checks every digest and every rule again, session by session (G11, G12, G17, G20).
//!
//! Nothing comes from a cache. One session is held at a time, and what was found intact is remembered up to a
//! limit, so that memory use does not grow with the store.

mod check;
mod remedy;
mod signed;

use serde::Serialize;
use workrail_core::project::SessionState;
use workrail_core::report::{SeenChallenges, shown};
use workrail_model::error::{ErrorCode, ErrorEnvelope};
use workrail_model::health::{CorruptionReason, SessionHealth};
use workrail_model::id::SessionId;
use workrail_model::plan::AttachmentKind;
use workrail_ports::keyring::KeyringError;
use workrail_ports::session_store::StoreError;
use workrail_ports::upkeep::{Inspection, PendingWrite, StrayKind};

use crate::ProgressSink;
use crate::{Engine, Store, error};
use check::Check;
use remedy::Remedy;

pub(super) use check::{described, is_denied};
pub use signed::SignedRecord;

const NOTES_MAX: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyScope {
    All,
    One(SessionId),
}

/// What was checked and what is wrong.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verified {
    pub counts: CheckedCounts,
    /// The first of them; `counts.problems` has all.
    pub problems: Vec<StoreProblem>,
    /// Things that were found and do no harm.
    pub notes: Vec<Note>,
    /// The first records with a valid passkey signature; the counts include all.
    pub signed: Vec<SignedRecord>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedCounts {
    pub sessions: u64,
    pub events: u64,
    pub segments: u64,
    pub snapshots: u64,
    pub blobs: u64,
    pub workflows: u64,
    pub stored_replies: u64,
    /// Decisions with a valid passkey signature, by a key that was enrolled in this store.
    pub signed_decisions: u64,
    /// The same, by a key that came with an imported session.
    pub foreign_decisions: u64,
    pub problems: u64,
    pub notes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreProblem {
    /// The session, or the file beneath the data directory.
    #[serde(rename = "subject")]
    pub what: String,
    pub problem: String,
    pub fix: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    pub path: String,
    pub note: String,
}

const UNREADABLE: &str = "Check the disk, and the owner and permissions of the session's folder.";

pub(super) const DENIED: &str = "Give the user that runs WorkRail read permission (`chmod u+r` on a file, `chmod u+rwx` on a folder; \
                      `chown` if another user owns it). Nothing is lost, so no repair is needed.";

const PASSKEY_LOG: &str = "keys/passkeys.jsonl";

const RESTORE_LOG: &str = "Restore the passkey log from a backup: move the damaged file (keys/passkeys.jsonl or \
                           keys/passkeys.head) out of the data directory, then run `workrail store restore \
                           BACKUP`; restore a database with `pg_restore`. Without a backup, run `workrail store \
                           passkeys reset`: it revokes all passkeys and sets the damaged log aside. Until then no \
                           passkey is accepted.";

const EMPTY_SESSION: &str = "has no events: its first call is still running or was interrupted, or its log was \
                             removed. If it was removed, restore it from a backup before `workrail store gc` \
                             deletes the rest.";

const FOREIGN: &str = "Move it out of sessions/, or update WorkRail if a newer one put it there.";

impl<S: Store + Inspection> Engine<S> {
    /// Checks everything that can be checked, and changes nothing.
    pub fn verify(
        &self,
        scope: VerifyScope,
        watch: ProgressSink<'_>,
    ) -> Result<Verified, Box<ErrorEnvelope>> {
        let mut check = Check::new(&*self.store, self.store.obstacles());
        check.report_obstacles(scope);
        self.verify_passkeys(scope, &mut check);
        self.verify_keyring(scope, &mut check);
        self.verify_access_tokens(scope, &mut check);
        let sessions = match (scope, self.store.sessions()) {
            (VerifyScope::One(session), _) => vec![session],
            (VerifyScope::All, Ok(sessions)) => sessions,
            (VerifyScope::All, Err(_)) if check.is_obstructed("sessions") => Vec::new(),
            (VerifyScope::All, Err(cause)) => return Err(error::upkeep(cause.into())),
        };
        let total = sessions.len() as u64;
        for (done, session) in sessions.into_iter().enumerate() {
            watch(done as u64, total);
            let before = check.savepoint();
            self.verify_session(session, scope, &mut check)?;
            // A session that `gc` removed meanwhile takes its content with it: that is not a loss.
            if check.has_found_since(before) && self.is_gone(session) {
                check.roll_back(before);
            }
        }
        self.note_pending(scope, &mut check)?;
        if scope == VerifyScope::All {
            self.verify_content(&mut check, watch)?;
            for folder in self.store.foreign_folders().map_err(|cause| error::upkeep_io(&cause))? {
                check.problem(
                    folder,
                    "is not a session, so `workrail store gc` deletes no content".to_owned(),
                    Remedy::Words(FOREIGN),
                );
            }
            self.note_strays(&mut check)?;
        }
        check.report_damaged_content();
        Ok(check.report)
    }

    /// The log of the keys, line by line (G98).
    fn verify_passkeys(&self, scope: VerifyScope, check: &mut Check<'_>) {
        let mut note = |note: String| {
            check.report.counts.notes += 1;
            check.report.notes.push(Note { path: PASSKEY_LOG.to_owned(), note });
        };
        match self.passkeys() {
            Ok(Ok(keys)) => {
                for at in keys.resets() {
                    note(format!("all passkeys were reset at a terminal on {}", shown(at)));
                }
                check.passkeys = Some(keys);
            }
            Ok(Err(damage)) => match scope {
                VerifyScope::All => {
                    check.problem(PASSKEY_LOG.to_owned(), damage.to_string(), Remedy::Words(RESTORE_LOG))
                }
                // A session in which no passkey signed anything is fine without the log.
                VerifyScope::One(_) => note(damage.to_string()),
            },
            // A store without passkeys loses nothing by this; if a passkey signed a decision, that is reported there.
            Err(error) => note(error.message),
        }
    }

    /// The signing keys are recorded data, too: without them no token that agents have is accepted.
    fn verify_keyring(&self, scope: VerifyScope, check: &mut Check<'_>) {
        if scope != VerifyScope::All || check.is_obstructed(self.store.location()) {
            return;
        }
        let (is_damaged, newer) = match self.store.peek() {
            Err(KeyringError::UnknownVersion { .. }) => (true, Some("Update WorkRail.")),
            Err(KeyringError::Invalid { .. }) => (true, None),
            // Absent; whether they are lost is decided below.
            Ok(None) => (true, None),
            // Keys that this user may not use are not damaged: `doctor` reports the permissions.
            Ok(Some(_))
            | Err(
                KeyringError::Exposed { .. }
                | KeyringError::ForeignOwner { .. }
                | KeyringError::Locked
                | KeyringError::Usable { .. }
                | KeyringError::KeyNotGiven
                | KeyringError::OtherKey
                | KeyringError::Io(_),
            ) => (false, None),
        };
        if is_damaged
            && let Err(error) = self.keys()
            && error.code == ErrorCode::StoreKeyringUnusable
        {
            let fix = newer.unwrap_or_else(|| error.suggestion_for_a_person()).to_owned();
            check.problem(self.store.location().to_owned(), error.message, Remedy::Words(&fix));
        }
    }

    /// Without them a team's server lets no member in. A file that this user may not use is not damaged: `doctor` reports
    /// the permissions.
    fn verify_access_tokens(&self, scope: VerifyScope, check: &mut Check<'_>) {
        if scope == VerifyScope::All
            && let Err(cause) = self.store.access_tokens()
            && let KeyringError::Invalid { path, .. } | KeyringError::UnknownVersion { path, .. } = &cause
        {
            let (path, error) = (path.clone(), error::access_tokens(cause));
            let fix = error.suggestion_for_a_person().to_owned();
            check.problem(path, error.message, Remedy::Words(&fix));
        }
    }

    fn is_gone(&self, session: SessionId) -> bool {
        matches!(self.store.read(session, None), Err(StoreError::NotFound { .. }))
    }

    /// Completed writes are not damage: the next call that writes to their session records them.
    fn note_pending(&self, scope: VerifyScope, check: &mut Check<'_>) -> Result<(), Box<ErrorEnvelope>> {
        let pending = match scope {
            VerifyScope::All if check.is_obstructed("sessions") => Vec::new(),
            VerifyScope::All => self.store.pending_writes().map_err(|cause| error::upkeep_io(&cause))?,
            // One that cannot be read is already reported as a problem.
            VerifyScope::One(session) => {
                self.store.pending_write(session).ok().flatten().into_iter().collect()
            }
        };
        for write in pending {
            let (path, note) =
                (format!("sessions/{}/{}", write.session, write.segment), pending_note(&write));
            check.report.counts.notes += 1;
            check.report.notes.push(Note { path, note });
        }
        Ok(())
    }

    fn verify_session(
        &self,
        session: SessionId,
        scope: VerifyScope,
        check: &mut Check<'_>,
    ) -> Result<(), Box<ErrorEnvelope>> {
        let what = session.to_string();
        let slice = match self.store.read(session, None) {
            // Removed since it was listed; if asked for by name, its absence is the answer.
            Err(StoreError::NotFound { .. }) if scope == VerifyScope::All => return Ok(()),
            Err(cause @ StoreError::NotFound { .. }) => return Err(error::upkeep(cause.into())),
            Err(_) if check.is_obstructed_session(session) => return Ok(()),
            Err(cause) => {
                check.problem(what, cause.to_string(), Remedy::Words(UNREADABLE));
                return Ok(());
            }
            Ok(slice) => slice,
        };
        check.report.counts.sessions += 1;
        check.report.counts.events += slice.cursor.next_event_index.get();
        check.report.counts.segments += self.store.segment_count(session).unwrap_or(0);
        if let Some(fix) = remedy(&slice.health).filter(|_| !check.is_obstructed_session(session)) {
            check.problem(what.clone(), slice.health.to_string(), fix);
        }
        let mut facts = SessionState::new(session);
        check.challenges = SeenChallenges::default();
        for event in &slice.events {
            if let Err(cause) = facts.apply(event) {
                check.problem(
                    what,
                    format!("event {} contradicts the log before it: {cause}", event.event_index.get()),
                    Remedy::ShowRepair,
                );
                return Ok(());
            }
            check.event(&what, &facts, event);
        }
        Ok(())
    }

    /// Also checks the digests of content that no event refers to.
    fn verify_content(
        &self,
        check: &mut Check<'_>,
        watch: ProgressSink<'_>,
    ) -> Result<(), Box<ErrorEnvelope>> {
        for kind in AttachmentKind::ALL {
            let contents = match self.store.contents(kind) {
                // Its folder was already reported, and the others can be checked.
                Err(cause) if check.is_obstructed(cause.path.as_str()) => continue,
                contents => contents.map_err(|cause| error::upkeep_io(&cause))?,
            };
            let total = contents.len() as u64;
            for (done, digest) in contents.into_iter().enumerate() {
                watch(done as u64, total);
                check.unreferenced(kind, digest);
            }
        }
        Ok(())
    }

    fn note_strays(&self, check: &mut Check<'_>) -> Result<(), Box<ErrorEnvelope>> {
        let (strays, count) = self.store.strays(NOTES_MAX).map_err(|cause| error::upkeep_io(&cause))?;
        check.report.counts.notes += count;
        check.report.notes.extend(strays.into_iter().map(|stray| Note {
            path: stray.path,
            note: match stray.kind {
                StrayKind::Leftover => {
                    "left by an interrupted write; `workrail store gc` removes it".to_owned()
                }
                StrayKind::Unknown => "not a WorkRail file; ignored".to_owned(),
                StrayKind::EmptySession => EMPTY_SESSION.to_owned(),
            },
        }));
        Ok(())
    }
}

/// What to do about a log that is not healthy; `None` if it is.
fn remedy(health: &SessionHealth) -> Option<Remedy<'static>> {
    match health {
        SessionHealth::Healthy => None,
        SessionHealth::CorruptHead { reason: CorruptionReason::ManifestUnreadable { .. } } => {
            Some(Remedy::Words(UNREADABLE))
        }
        SessionHealth::CorruptHead { reason: CorruptionReason::AccessDenied { .. } }
        | SessionHealth::CorruptTail { reason: CorruptionReason::AccessDenied { .. }, .. } => {
            Some(Remedy::Words(DENIED))
        }
        SessionHealth::CorruptTail { .. } | SessionHealth::CorruptHead { .. } => {
            Some(Remedy::RepairOrRestore)
        }
        SessionHealth::UnknownVersion { .. } => Some(Remedy::Words("Update WorkRail.")),
    }
}

/// A completed write, for people.
fn pending_note(write: &PendingWrite) -> String {
    format!(
        "one completed write ({} events) waits to be rolled forward by the next call that writes to this session, \
         or by `workrail store repair {}`",
        write.events, write.session
    )
}
