//! `backup` and `restore`: what was copied between two stores, in words and counts (G26).

use serde::Serialize;
use workrail_core::label::RunLabel;
use workrail_model::error::ErrorEnvelope;
use workrail_model::event::EventData;
use workrail_model::health::SessionHealth;
use workrail_model::id::SessionId;
use workrail_ports::backup::{
    BackupOptions, CopyReport, CopySide, KeysCopy, Replicate, RestoreOptions, SessionChange, SessionCopy,
    SkipReason, SourceLog, UnusablePasskeys, UnusableSession,
};
use workrail_ports::file_system::FsErrorKind;
use workrail_ports::session_store::SessionReader;
use workrail_ports::upkeep::Upkeep;

use crate::ProgressSink;
use crate::error;
use crate::find::spelled_label;

/// Sessions and files named in full; the counts include all of them.
const NAMED_MAX: usize = 1000;

/// What a backup or restore did, or would do.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopySummary {
    pub sessions: SessionCounts,
    pub segments_copied: u64,
    pub segment_bytes: u64,
    pub content_copied: u64,
    pub content_bytes: u64,
    pub keys: KeysResult,
    /// Where the target's earlier keys are kept, if other keys replaced them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_kept_aside: Option<String>,
    /// Whether the target has the keys of an earlier copy that this one did not replace.
    pub keeps_earlier_keys: bool,
    /// Sessions that were added, replaced, skipped or damaged; unchanged and extended ones are only counted.
    pub changes: Vec<ChangedSession>,
    /// Damaged files in the target that were replaced by an intact copy.
    pub repaired_content: Vec<String>,
    /// What is still wrong, each with what to do.
    pub problems: Vec<CopyProblem>,
    pub problem_count: u64,
}

/// What happened to the signing keys of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeysResult {
    Copied,
    /// The target had other keys, which are kept aside.
    Replaced,
    Unchanged,
    /// The caller did not ask for keys.
    LeftOut,
    SourceHasNone,
    /// The target has its own keys and keeps them.
    TargetHasOthers,
    /// The source's keys cannot be used; the target's are unchanged.
    SourceUnusable,
}

impl From<KeysCopy> for KeysResult {
    fn from(keys: KeysCopy) -> Self {
        match keys {
            KeysCopy::Copied => Self::Copied,
            KeysCopy::Unchanged => Self::Unchanged,
            KeysCopy::Replaced => Self::Replaced,
            KeysCopy::LeftOut => Self::LeftOut,
            KeysCopy::SourceHasNone => Self::SourceHasNone,
            KeysCopy::TargetHasOthers => Self::TargetHasOthers,
            KeysCopy::SourceUnusable => Self::SourceUnusable,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionCounts {
    pub total: u64,
    pub added: u64,
    pub extended: u64,
    pub unchanged: u64,
    pub replaced: u64,
    pub skipped: u64,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangedSession {
    pub session_id: SessionId,
    pub change: &'static str,
    pub events: u64,
    /// Where the replaced history is kept, beneath the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_aside: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyProblem {
    /// The session, or the file beneath its store.
    #[serde(rename = "subject")]
    pub what: String,
    pub problem: String,
    pub fix: String,
}

/// The direction of the copy; the same facts mean different things in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CopyDirection {
    Backup,
    Restore,
}

/// Brings a backup up to date with a store that may be in use.
pub fn back_up<S: Replicate + Upkeep>(
    store: &S,
    backup: &S,
    options: BackupOptions,
    watch: ProgressSink<'_>,
) -> Result<CopySummary, Box<ErrorEnvelope>> {
    let has_lost_sessions = store.has_lost_sessions();
    let report = store.back_up_to(backup, options, watch).map_err(error::copy)?;
    let mut summary = summary(report, CopyDirection::Backup);
    if has_lost_sessions {
        summary.problem_count += 1;
        summary.problems.push(CopyProblem {
            what: "sessions".to_owned(),
            problem: "this folder is missing, so no session was copied; the backup keeps what it had"
                .to_owned(),
            fix: "Move the folder back into the data directory, or run `workrail store restore BACKUP`."
                .to_owned(),
        });
    }
    Ok(summary)
}

/// Copies from a backup what a store lacks.
pub fn restore<S: Replicate>(
    store: &S,
    backup: &S,
    options: RestoreOptions,
    watch: ProgressSink<'_>,
) -> Result<CopySummary, Box<ErrorEnvelope>> {
    let report = store.restore_from(backup, options, watch).map_err(error::copy)?;
    Ok(summary(report, CopyDirection::Restore))
}

/// The session in a backup that a person names: by its id, the beginning of it, or the label of one of its runs.
pub fn find_in_backup<S: SessionReader>(backup: &S, text: &str) -> Result<SessionId, Box<ErrorEnvelope>> {
    let wanted = spelled_label(text);
    let label = RunLabel::parse(&wanted).ok();
    let mut found = Vec::new();
    for session in backup.sessions().map_err(|cause| error::upkeep(cause.into()))? {
        let is_meant = match label {
            None => wanted.starts_with(SessionId::PREFIX) && session.to_string().starts_with(&wanted),
            Some(label) => backup.read(session, None).is_ok_and(|slice| {
                slice.events.iter().any(|event| match (&event.data, event.scope.run()) {
                    (EventData::RunStarted(_), Some(run)) => RunLabel::of(run) == label,
                    _ => false,
                })
            }),
        };
        if is_meant {
            found.push(session);
        }
    }
    match found.as_slice() {
        [] => Err(error::unknown_reference(text)),
        [one] => Ok(*one),
        several => Err(error::ambiguous_in_backup(text, several)),
    }
}

fn summary(report: CopyReport, direction: CopyDirection) -> CopySummary {
    let mut sessions = SessionCounts { total: report.sessions.len() as u64, ..SessionCounts::default() };
    let (mut changes, mut problems) = (Vec::new(), Vec::new());
    for copy in &report.sessions {
        *match copy.change {
            SessionChange::Added => &mut sessions.added,
            SessionChange::Extended => &mut sessions.extended,
            SessionChange::Unchanged => &mut sessions.unchanged,
            SessionChange::Replaced { .. } => &mut sessions.replaced,
            SessionChange::Left(_) => &mut sessions.skipped,
        } += 1;
        changes.extend(changed(copy, direction));
        problems.extend(damaged_source(copy, direction).or_else(|| shorter_source(copy, direction)));
    }
    problems.extend(report.unusable.iter().map(|session| unusable_session(session, direction)));
    if direction == CopyDirection::Backup {
        problems.extend(unusable_keys(&report));
    }
    problems.extend(report.unusable_passkeys.iter().map(|log| unusable_passkeys(log, direction)));
    problems.extend(report.lost_content.iter().map(|lost| lost_content(&lost.path, lost.session, direction)));
    let problem_count = problems.len() as u64;
    problems.truncate(NAMED_MAX);
    changes.truncate(NAMED_MAX);
    let mut repaired_content = report.repaired;
    repaired_content.truncate(NAMED_MAX);
    CopySummary {
        sessions,
        segments_copied: report.segments.files,
        segment_bytes: report.segments.bytes,
        content_copied: report.content.files,
        content_bytes: report.content.bytes,
        keys: report.keys.into(),
        keys_kept_aside: report.keys_aside,
        keeps_earlier_keys: report.keeps_earlier_keys,
        changes,
        repaired_content,
        problems,
        problem_count,
    }
}

fn changed(copy: &SessionCopy, direction: CopyDirection) -> Option<ChangedSession> {
    let (change, kept_aside, why) = match &copy.change {
        SessionChange::Unchanged | SessionChange::Extended => return None,
        SessionChange::Added => ("added", None, None),
        SessionChange::Replaced { aside } => {
            ("replaced", Some(aside.clone()), Some(replaced_why(direction).to_owned()))
        }
        SessionChange::Left(SkipReason::SourceUnusable) if copy.source.is_access_denied() => {
            let folder = folder_of(CopySide::Source, direction);
            ("skipped", None, Some(format!("This user may not read it in {folder}.")))
        }
        SessionChange::Left(reason) => ("skipped", None, Some(left_why(copy.session, *reason, direction))),
    };
    Some(ChangedSession { session_id: copy.session, change, events: copy.events, kept_aside, why })
}

fn replaced_why(direction: CopyDirection) -> &'static str {
    match direction {
        CopyDirection::Backup => "the backup has another history of it, or a damaged one.",
        CopyDirection::Restore => "damaged here.",
    }
}

fn left_why(session: SessionId, reason: SkipReason, direction: CopyDirection) -> String {
    let why = match (reason, direction) {
        (SkipReason::TargetHasMore, CopyDirection::Backup) => "The backup has more of it than the store.",
        (SkipReason::RepairKeepsMore, _) => {
            return format!(
                "It is damaged here, but `workrail store repair {session}` keeps more of it than the backup has."
            );
        }
        (SkipReason::TargetHasMore, CopyDirection::Restore) => {
            "The store has as much of it as the backup, or more."
        }
        (SkipReason::HistoriesDiffer, _) => "The store and the backup have different histories of it.",
        (SkipReason::SourceUnusable, CopyDirection::Backup) => "Nothing of it can be trusted in the store.",
        (SkipReason::SourceUnusable, CopyDirection::Restore) => "Nothing of it can be trusted in the backup.",
    };
    why.to_owned()
}

fn folder_of(side: CopySide, direction: CopyDirection) -> &'static str {
    match (side, direction) {
        (CopySide::Source, CopyDirection::Backup) | (CopySide::Target, CopyDirection::Restore) => {
            "the data directory"
        }
        (CopySide::Target, CopyDirection::Backup) | (CopySide::Source, CopyDirection::Restore) => {
            "the backup"
        }
    }
}

fn unusable_session(session: &UnusableSession, direction: CopyDirection) -> CopyProblem {
    let folder = folder_of(session.side, direction);
    let path = format!("sessions/{}", session.name);
    let fix = match session.kind {
        FsErrorKind::PermissionDenied => format!(
            "Run `chmod -R u+rwX` on `{path}` in {folder}, or `chown` if another user owns it. Then run the command again."
        ),
        FsErrorKind::WrongKind => format!(
            "If `{path}` in {folder} is a link, replace it with the folder that it leads to. Otherwise move it out. Then \
             run the command again."
        ),
        FsErrorKind::NotFound
        | FsErrorKind::AlreadyExists
        | FsErrorKind::NoSpace
        | FsErrorKind::Quota
        | FsErrorKind::ReadOnly
        | FsErrorKind::TooManyOpenFiles
        | FsErrorKind::TooLarge { .. }
        | FsErrorKind::Database
        | FsErrorKind::Io => {
            format!("Check `{path}` in {folder} and its disk, then run the command again.")
        }
    };
    CopyProblem {
        what: session.name.clone(),
        problem: format!("not copied, because it cannot be used in {folder}: {}", session.why),
        fix,
    }
}

/// A keyring is made before the first session, so a store with sessions and without usable keys lost them.
fn unusable_keys(report: &CopyReport) -> Option<CopyProblem> {
    let is_lost = !report.sessions.is_empty() || report.keeps_earlier_keys;
    let problem = match report.keys {
        KeysCopy::SourceUnusable => "cannot be used, so it was not copied",
        KeysCopy::SourceHasNone if is_lost => "is missing in the data directory",
        KeysCopy::SourceHasNone
        | KeysCopy::Copied
        | KeysCopy::Replaced
        | KeysCopy::Unchanged
        | KeysCopy::LeftOut
        | KeysCopy::TargetHasOthers => return None,
    };
    let (kept, fix) = match (report.keeps_earlier_keys, report.keys) {
        (true, KeysCopy::SourceHasNone) => (
            "; the backup keeps the earlier one",
            "Run `workrail store restore BACKUP` to bring the earlier keys back.",
        ),
        (true, _) => (
            "; the backup keeps the earlier one",
            "Run `workrail doctor` to see what is wrong with it. To use the earlier keys instead, move it out of the data \
             directory and run `workrail store restore BACKUP`.",
        ),
        (false, _) => {
            ("", "Run `workrail doctor` to see what is wrong. `workrail store keys new` creates new keys.")
        }
    };
    Some(CopyProblem {
        what: "keys/keyring.json".to_owned(),
        problem: format!("{problem}{kept}"),
        fix: fix.to_owned(),
    })
}

/// It is never replaced: it may hold passkeys that the other store lacks.
fn unusable_passkeys(log: &UnusablePasskeys, direction: CopyDirection) -> CopyProblem {
    let folder = folder_of(log.side, direction);
    let path = "keys/passkeys.jsonl";
    let fix = match (log.kind, log.side, direction) {
        (FsErrorKind::PermissionDenied, _, _) => format!(
            "Run `chmod u+rw` on `{path}` in {folder}, or `chown` if another user owns it. Then run the command again."
        ),
        (_, CopySide::Target, _) => format!("Move `{path}` out of {folder}, then run the command again."),
        (_, CopySide::Source, CopyDirection::Backup) => format!(
            "Move `{path}` out of {folder}, then run `workrail store restore BACKUP` to bring back the passkeys of the \
             backup."
        ),
        (_, CopySide::Source, CopyDirection::Restore) => "Use an older backup if there is one.".to_owned(),
    };
    CopyProblem {
        what: path.to_owned(),
        problem: format!(
            "the passkeys were not copied, because this file cannot be used in {folder}: {}",
            log.why
        ),
        fix,
    }
}

fn damaged_source(copy: &SessionCopy, direction: CopyDirection) -> Option<CopyProblem> {
    if let Some(path) = copy.source.denied_path() {
        let folder = folder_of(CopySide::Source, direction);
        return Some(CopyProblem {
            what: copy.session.to_string(),
            problem: format!("in {folder}: {}", copy.source),
            fix: format!(
                "Run `chmod u+rwX` on `{path}` in {folder}, or `chown` if another user owns it. Then run the command again."
            ),
        });
    }
    let fix = match (&copy.source, direction) {
        (SessionHealth::Healthy, _) => return None,
        (SessionHealth::UnknownVersion { .. }, _) => {
            "Update WorkRail, then run the command again.".to_owned()
        }
        (_, CopyDirection::Backup) => {
            format!("Run `workrail store repair {} --dry-run` on the store.", copy.session)
        }
        (_, CopyDirection::Restore) if copy.source_log == SourceLog::Rebuilt => format!(
            "Repair the backup too: `WORKRAIL_DATA_DIR=BACKUP workrail store repair {}`.",
            copy.session
        ),
        (_, CopyDirection::Restore) => "Use an older backup if there is one.".to_owned(),
    };
    let location = match direction {
        CopyDirection::Backup => "in the store",
        CopyDirection::Restore => "in the backup",
    };
    let copied = match copy.source_log {
        SourceLog::Attested => "only the intact part is copied",
        SourceLog::Rebuilt => "its manifest was recomputed from its segments",
    };
    let problem = format!("{location}: {}; {copied}", copy.source);
    Some(CopyProblem { what: copy.session.to_string(), problem, fix })
}

/// A store that has only the beginning of what its backup has: it lost the rest, or was truncated by a repair.
fn shorter_source(copy: &SessionCopy, direction: CopyDirection) -> Option<CopyProblem> {
    let is_shorter =
        direction == CopyDirection::Backup && copy.change == SessionChange::Left(SkipReason::TargetHasMore);
    is_shorter.then(|| CopyProblem {
        what: copy.session.to_string(),
        problem: format!(
            "The backup has {} events of it, more than the store. The longer copy stays in the backup.",
            copy.events
        ),
        fix: format!(
            "Run `workrail store restore BACKUP {}` to bring the missing events back.",
            copy.session
        ),
    })
}

fn lost_content(path: &str, session: SessionId, direction: CopyDirection) -> CopyProblem {
    let fix = match direction {
        CopyDirection::Backup => {
            format!("Run `workrail store repair {session}` on the store, then back up again.")
        }
        CopyDirection::Restore => {
            format!("Run `workrail store repair {session}` afterwards: it restores what can be recomputed.")
        }
    };
    CopyProblem {
        what: path.to_owned(),
        problem: format!("is missing or damaged in both places (needed by {session})"),
        fix,
    }
}

#[cfg(test)]
mod tests {
    use workrail_model::manifest::Cursor;
    use workrail_ports::session_store::{SessionSlice, StoreError};

    use super::*;

    /// A backup whose sessions are only listed: the beginning of an id needs no look at them.
    struct Listed(Vec<SessionId>);

    impl SessionReader for Listed {
        fn sessions(&self) -> Result<Vec<SessionId>, StoreError> {
            Ok(self.0.clone())
        }

        fn read(&self, session: SessionId, _: Option<&Cursor>) -> Result<SessionSlice, StoreError> {
            Err(StoreError::NotFound { session })
        }
    }

    /// Broke: "2 runs are named `sess_`" named none of them, and the advice was a command that lists another store.
    #[test]
    fn the_beginning_of_several_ids_is_answered_with_the_ids() {
        let sessions = [[1; 10], [2; 10]].map(SessionId::from_bits);
        let error = find_in_backup(&Listed(sessions.to_vec()), " sess_").unwrap_err();
        assert_eq!(error.message, format!("`sess_` could be {}, {}.", sessions[0], sessions[1]));
        assert_eq!(error.suggestion, "Use the whole session id.");
        assert_eq!(error.in_team, None);
        let backup = Listed(sessions.to_vec());
        assert_eq!(find_in_backup(&backup, &sessions[1].to_string()).unwrap(), sessions[1]);
    }
}
