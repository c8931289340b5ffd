//! Appending: entirely or not at all, in order, once.

use workrail_model::event::EventIndex;
use workrail_model::limits::PLAN_EVENTS_MAX;
use workrail_model::manifest::{Cursor, commit_group, group_bytes};
use workrail_model::plan::{AppendPlan, PlanError};
use workrail_ports::session_store::{Appended, LockedSession, SessionReader, SessionStore, StoreError};

use super::{StoreUnderTest, all_events, append, committed, create, ok, refusal, session_of};
use crate::history::{AdvancePayload, History, PlanParts, Step, plans};

/// Reading returns what was appended, and the cursor follows from the manifest's bytes (G11).
pub fn an_appended_plan_reads_back(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let script = [Step::Advance, Step::Blocked, Step::AdvanceWithArtifact, Step::Checkpoint, Step::Fork];
    let mut expected = Vec::new();
    let mut cursor = Cursor::start();
    for parts in plans(1, &script) {
        let plan = parts.plan();
        let group = commit_group(cursor.next_manifest_index, plan.events(), plan.segment());
        let bytes = group_bytes(&group).unwrap_or_else(|error| panic!("{error}"));
        cursor = cursor.after(&group, &bytes, plan.events().len() as u64);
        expected.extend(parts.events.clone());

        let session = session_of(&parts);
        let mut locked = if parts.events[0].event_index == EventIndex::ZERO {
            ok(store.create(session))
        } else {
            ok(store.lock(session))
        };
        assert_eq!(locked.session_id(), session);
        let appended = ok(locked.append(plan));
        assert_eq!(appended, Appended::Committed { events: parts.events.clone(), cursor });
        drop(locked);

        let slice = ok(store.read(session, None));
        assert_eq!(slice.events, expected);
        assert_eq!(slice.cursor, cursor);
        assert!(slice.health.is_healthy());
    }
}

pub fn the_locked_session_sees_its_own_appends(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let made = plans(1, &[Step::Advance, Step::Advance]);
    let mut locked = ok(store.create(session_of(&made[0])));
    assert_eq!(locked.cursor(), Cursor::start());
    assert_eq!(ok(locked.events_since(None)).events, []);

    let mut expected = Vec::new();
    for parts in &made {
        let before = locked.cursor();
        let cursor = committed(ok(locked.append(parts.plan())));
        expected.extend(parts.events.clone());
        assert_eq!(locked.cursor(), cursor);
        assert_eq!(ok(locked.events_since(None)).events, expected);

        let news = ok(locked.events_since(Some(&before)));
        assert!(news.continues);
        assert_eq!(news.events, parts.events);
        assert_eq!(ok(locked.events_since(Some(&cursor))).events, []);
    }
}

/// A plan made from an outdated view of the log changes nothing.
pub fn a_stale_plan_is_refused_and_writes_nothing(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let made = plans(1, &[Step::Advance, Step::Advance]);
    let cursor = create(&store, &made[0]);
    let before = all_events(&store, session_of(&made[0]));

    let too_early = made[1].moved_to(EventIndex::ZERO);
    for parts in [&made[2], &too_early] {
        let mut locked = ok(store.lock(session_of(parts)));
        let (expected, found) = (cursor.next_event_index, parts.events[0].event_index);
        assert_eq!(refusal(locked.append(parts.plan())), StoreError::Stale { expected, found });
        assert_eq!(locked.cursor(), cursor);
        drop(locked);
        assert_eq!(all_events(&store, session_of(parts)), before);
    }
    append(&store, &made[1]);
}

pub fn a_plan_of_another_session_is_refused(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let (mine, other) = (plans(1, &[]), plans(2, &[]));
    let (expected, found) = (session_of(&mine[0]), session_of(&other[0]));
    let mut locked = ok(store.create(expected));
    assert_eq!(refusal(locked.append(other[0].plan())), StoreError::WrongSession { expected, found });
    committed(ok(locked.append(mine[0].plan())));
    drop(locked);
    assert_eq!(store.sessions(), Ok(vec![expected]));
}

/// A retry finds its work done, whatever indexes it gives the events and whichever store instance it uses (G8).
pub fn a_repeated_plan_writes_nothing(subject: &impl StoreUnderTest) {
    let made = plans(1, &[Step::AdvanceWithArtifact]);
    let session = session_of(&made[0]);
    let first = subject.open();
    create(&first, &made[0]);
    let cursor = append(&first, &made[1]);
    let before = all_events(&first, session);
    drop(first);

    let store = subject.open();
    for parts in [made[1].clone(), made[1].moved_to(cursor.next_event_index), made[0].clone()] {
        let mut locked = ok(store.lock(session));
        assert_eq!(locked.append(parts.plan()), Ok(Appended::AlreadyRecorded));
        assert_eq!(locked.cursor(), cursor);
    }
    assert_eq!(all_events(&store, session), before);
}

/// A plan is entirely new or entirely recorded; a mixture means that two callers disagree, and is refused.
pub fn a_partly_recorded_plan_is_refused(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let made = plans(1, &[Step::Advance]);
    let session = session_of(&made[0]);
    let cursor = create(&store, &made[0]);
    let before = all_events(&store, session);

    let recorded = made[0].events[2].clone();
    let mut mixed = made[1].clone();
    mixed.events.push(recorded.clone());
    let mixed = mixed.moved_to(cursor.next_event_index);
    let mut locked = ok(store.lock(session));
    let key = recorded.dedupe_key.to_string();
    assert_eq!(refusal(locked.append(mixed.plan())), StoreError::DedupeConflict { key });
    assert_eq!(locked.cursor(), cursor);
    drop(locked);
    assert_eq!(all_events(&store, session), before);
    append(&store, &made[1]);
}

/// One plan is one segment: its limit is checked before any store sees it.
pub fn a_plan_at_the_limit_is_stored_and_one_above_is_none(subject: &impl StoreUnderTest) {
    let store = subject.open();
    let mut history = History::new(1);
    create(&store, &history.start());

    let plain = history.clone().advance(history.root(), AdvancePayload::NOTES).0.events.len();
    let filled = |history: &History, events: usize| -> PlanParts {
        let more_traces = u32::try_from(events - plain).unwrap_or(u32::MAX);
        history.clone().advance(history.root(), AdvancePayload { more_traces, ..AdvancePayload::NOTES }).0
    };
    let above = filled(&history, PLAN_EVENTS_MAX + 1);
    let found = above.events.len();
    let error = AppendPlan::new(above.events, above.attachments);
    assert_eq!(error, Err(PlanError::TooManyEvents { found }));

    let full = filled(&history, PLAN_EVENTS_MAX);
    assert_eq!(full.events.len(), PLAN_EVENTS_MAX);
    append(&store, &full);
    assert_eq!(all_events(&store, history.session()).len(), PLAN_EVENTS_MAX + history_start_len(&history));
}

fn history_start_len(history: &History) -> usize {
    usize::try_from(history.next_index().get()).unwrap_or(usize::MAX)
}
