//! What to do about a problem that `verify` found.

/// Rendered with the session that the problem is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Remedy<'a> {
    /// Fixed words, whatever the problem is about.
    Words(&'a str),
    RestoreSession,
    UpdateOrRestore,
    /// Events contradict each other, so a repair ends before them.
    ShowRepair,
    /// Part of the log is damaged.
    RepairOrRestore,
    /// A signature does not match what the event says.
    RestoreUnproven,
}

impl Remedy<'_> {
    pub(super) fn text(self, session: &str) -> String {
        match self {
            Self::Words(words) => words.to_owned(),
            Self::RestoreSession => {
                format!(
                    "A backup may have the original: `workrail store restore BACKUP {session}` for a data directory, `pg_restore` for a database."
                )
            }
            Self::UpdateOrRestore => {
                format!(
                    "Update WorkRail, or take it from a backup: `workrail store restore BACKUP {session}` for a data directory, `pg_restore` for a database."
                )
            }
            Self::ShowRepair => {
                format!("`workrail store repair {session} --dry-run` shows what a repair would keep.")
            }
            Self::RepairOrRestore => format!(
                "`workrail store repair {session} --dry-run` shows what a repair would keep and lose; a backup may have \
                 all of it (`workrail store restore BACKUP {session}` for a data directory, `pg_restore` for a database)."
            ),
            Self::RestoreUnproven => format!(
                "Nobody proved this decision: the log or its copy was changed by hand. Where a passkey is required, it \
                 does not count. A backup may have the original: `workrail store restore BACKUP {session}` for a data directory, `pg_restore` \
                 for a database."
            ),
        }
    }
}
