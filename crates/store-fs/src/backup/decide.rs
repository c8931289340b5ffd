//! Decides what a copy does with a session, from how its two logs relate. Pure.

use workrail_model::health::SessionHealth;
use workrail_ports::backup::SkipReason;

use super::log::AttestedLog;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BackupDirection {
    /// The source leads: another history in the target is moved aside and replaced, but never by its own prefix.
    Backup,
    /// The target leads: only what it lacks or has damaged is copied.
    Restore,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyStep {
    Add,
    Extend,
    Unchanged,
    Replace,
    Skip(SkipReason),
}

/// How the target's validated history relates to the source's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HistoryRelation {
    Same,
    TargetBehind,
    TargetAhead,
    Differ,
}

fn relate(source: &[u8], target: &[u8]) -> HistoryRelation {
    if source == target {
        HistoryRelation::Same
    } else if source.starts_with(target) {
        HistoryRelation::TargetBehind
    } else if target.starts_with(source) {
        HistoryRelation::TargetAhead
    } else {
        HistoryRelation::Differ
    }
}

pub(super) fn decide(direction: BackupDirection, source: &AttestedLog, target: &AttestedLog) -> CopyStep {
    if source.is_empty() {
        return CopyStep::Skip(SkipReason::SourceUnusable);
    }
    let relation = relate(&source.manifest, &target.manifest);
    match target.loaded.health {
        SessionHealth::Healthy => over_healthy(direction, relation, &source.loaded.health),
        SessionHealth::UnknownVersion { .. } => CopyStep::Skip(SkipReason::TargetHasMore),
        SessionHealth::CorruptHead { .. } | SessionHealth::CorruptTail { .. } => {
            over_damaged(direction, relation, &source.loaded.health)
        }
    }
}

fn over_healthy(direction: BackupDirection, relation: HistoryRelation, source: &SessionHealth) -> CopyStep {
    match (relation, direction) {
        (HistoryRelation::Same, _) => CopyStep::Unchanged,
        (HistoryRelation::TargetBehind, _) => CopyStep::Extend,
        (HistoryRelation::Differ, BackupDirection::Backup) if source.is_healthy() => CopyStep::Replace,
        // Also for a backup: the source may have lost its end, and a prefix adds nothing.
        (HistoryRelation::TargetAhead, _) => CopyStep::Skip(SkipReason::TargetHasMore),
        (HistoryRelation::Differ, _) => CopyStep::Skip(SkipReason::HistoriesDiffer),
    }
}

fn over_damaged(direction: BackupDirection, relation: HistoryRelation, source: &SessionHealth) -> CopyStep {
    match (relation, direction) {
        (HistoryRelation::TargetBehind, _) => CopyStep::Replace,
        (HistoryRelation::Same, _) if source.is_healthy() => CopyStep::Replace,
        (HistoryRelation::Differ, BackupDirection::Backup) if source.is_healthy() => CopyStep::Replace,
        (HistoryRelation::Same | HistoryRelation::TargetAhead, _) => {
            CopyStep::Skip(SkipReason::TargetHasMore)
        }
        (HistoryRelation::Differ, _) => CopyStep::Skip(SkipReason::HistoriesDiffer),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use workrail_model::event::EventIndex;
    use workrail_model::health::CorruptionReason;
    use workrail_model::manifest::Cursor;

    use super::*;
    use crate::load::LoadedLog;

    fn damaged() -> SessionHealth {
        let reason = CorruptionReason::ManifestTail { offset: 1 };
        SessionHealth::CorruptTail { valid_until: EventIndex::ZERO.plus(1), reason }
    }

    fn log(manifest: &str, health: SessionHealth) -> AttestedLog {
        let loaded = LoadedLog {
            events: Vec::new(),
            segments: BTreeSet::new(),
            cursor: Cursor::start(),
            health,
            torn_bytes: 0,
            continues: true,
            has_manifest: true,
        };
        AttestedLog { loaded, manifest: manifest.as_bytes().to_vec() }
    }

    #[test]
    fn a_restore_keeps_a_different_history_and_no_copy_overwrites_a_longer_one() {
        let (healthy, more) = (SessionHealth::Healthy, CopyStep::Skip(SkipReason::TargetHasMore));
        for (source, target, health, backup, restore) in [
            ("ab", "ab", healthy.clone(), CopyStep::Unchanged, CopyStep::Unchanged),
            ("abc", "ab", healthy.clone(), CopyStep::Extend, CopyStep::Extend),
            ("ab", "abc", healthy.clone(), more, more),
            ("ab", "ax", healthy.clone(), CopyStep::Replace, CopyStep::Skip(SkipReason::HistoriesDiffer)),
            ("ab", "a", damaged(), CopyStep::Replace, CopyStep::Replace),
            ("ab", "ab", damaged(), CopyStep::Replace, CopyStep::Replace),
            ("ab", "abc", damaged(), more, more),
            ("ab", "ax", damaged(), CopyStep::Replace, CopyStep::Skip(SkipReason::HistoriesDiffer)),
        ] {
            let (from, to) = (log(source, healthy.clone()), log(target, health));
            assert_eq!(
                decide(BackupDirection::Backup, &from, &to),
                backup,
                "backup of {source} over {target}"
            );
            assert_eq!(
                decide(BackupDirection::Restore, &from, &to),
                restore,
                "restore of {source} over {target}"
            );
        }
    }

    #[test]
    fn a_damaged_source_never_replaces_a_session_of_the_same_length() {
        for direction in [BackupDirection::Backup, BackupDirection::Restore] {
            let source = log("ab", damaged());
            let with = |target: &str, health| decide(direction, &source, &log(target, health));
            assert_eq!(with("a", SessionHealth::Healthy), CopyStep::Extend);
            assert_eq!(with("abc", SessionHealth::Healthy), CopyStep::Skip(SkipReason::TargetHasMore));
            assert_eq!(with("ax", SessionHealth::Healthy), CopyStep::Skip(SkipReason::HistoriesDiffer));
            assert_eq!(with("ab", damaged()), CopyStep::Skip(SkipReason::TargetHasMore));
            let empty = log("", damaged());
            assert_eq!(
                decide(direction, &empty, &log("a", damaged())),
                CopyStep::Skip(SkipReason::SourceUnusable)
            );
        }
    }
}
