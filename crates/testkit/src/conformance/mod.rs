//! What every store must do, written once against the ports and run against each adapter.
//!
//! `conformance_tests!(subject)` makes one test per behaviour; the expression is evaluated for each, so
//! that no two share data. A behaviour opens the store as often as it needs: two instances represent two
//! processes, and dropping one to open another represents a restart.

mod append;
mod content;
mod observed;
mod preferences;
mod sharing;
mod side_data;

use workrail_model::event::Event;
use workrail_model::id::SessionId;
use workrail_model::manifest::Cursor;
use workrail_ports::cache::ProjectionCache;
use workrail_ports::content::ContentStore;
use workrail_ports::environment::ActivityCounter;
use workrail_ports::keyring::KeyringStore;
use workrail_ports::pending_preferences::PendingPreferencesStore;
use workrail_ports::session_store::{Appended, LockedSession, SessionStore, StoreError};

use crate::history::PlanParts;
use crate::memory::MemoryStore;

pub use append::{
    a_partly_recorded_plan_is_refused, a_plan_at_the_limit_is_stored_and_one_above_is_none,
    a_plan_of_another_session_is_refused, a_repeated_plan_writes_nothing,
    a_stale_plan_is_refused_and_writes_nothing, an_appended_plan_reads_back,
    the_locked_session_sees_its_own_appends,
};
pub use content::{
    absent_content_is_missing, content_is_shared_between_sessions, content_reads_back_by_its_digest,
    unattached_content_is_refused,
};
pub use observed::{observation, observations_wait_until_they_are_recorded};
pub use preferences::{
    changes_of_two_people_at_once_are_both_kept, preferences_of_many_runs_set_at_once_are_all_kept,
    preferences_set_again_after_they_were_read_survive_the_clear,
};
pub use sharing::{
    a_created_session_without_events_does_not_exist, a_cursor_reads_only_what_came_since,
    a_foreign_cursor_reads_everything_anew, a_held_lock_excludes_other_writers,
    a_reopened_store_reads_the_same, an_existing_session_is_not_created_again,
    an_unknown_session_is_not_found, many_plans_with_reads_between_stay_in_order,
    readers_do_not_wait_for_writers, sessions_are_sorted_and_have_events, two_instances_take_turns,
    writers_of_many_threads_lose_nothing,
};
pub use side_data::{
    activity_increases_across_instances_and_restarts, keys_are_made_once_and_rotate_by_one,
    the_cache_gives_back_what_was_put_or_nothing,
};

/// A location that holds a store's data, empty at first.
pub trait StoreUnderTest {
    type Store: SessionStore
        + ContentStore
        + KeyringStore
        + ActivityCounter
        + ProjectionCache
        + PendingPreferencesStore;

    /// A new instance over the same data, as another process would have it: with its own memory and randomness.
    fn open(&self) -> Self::Store;
}

impl StoreUnderTest for MemoryStore {
    type Store = Self;

    fn open(&self) -> Self {
        self.clone()
    }
}

/// One `#[test]` per behaviour, each with its own subject.
#[macro_export]
macro_rules! conformance_tests {
    ($subject:expr) => {
        $crate::conformance_tests! { @each $subject;
            a_created_session_without_events_does_not_exist
            a_cursor_reads_only_what_came_since
            a_foreign_cursor_reads_everything_anew
            a_held_lock_excludes_other_writers
            a_partly_recorded_plan_is_refused
            a_plan_at_the_limit_is_stored_and_one_above_is_none
            a_plan_of_another_session_is_refused
            a_reopened_store_reads_the_same
            a_repeated_plan_writes_nothing
            a_stale_plan_is_refused_and_writes_nothing
            absent_content_is_missing
            activity_increases_across_instances_and_restarts
            an_appended_plan_reads_back
            an_existing_session_is_not_created_again
            an_unknown_session_is_not_found
            content_is_shared_between_sessions
            content_reads_back_by_its_digest
            keys_are_made_once_and_rotate_by_one
            many_plans_with_reads_between_stay_in_order
            preferences_of_many_runs_set_at_once_are_all_kept
            changes_of_two_people_at_once_are_both_kept
            preferences_set_again_after_they_were_read_survive_the_clear
            readers_do_not_wait_for_writers
            sessions_are_sorted_and_have_events
            the_cache_gives_back_what_was_put_or_nothing
            the_locked_session_sees_its_own_appends
            two_instances_take_turns
            unattached_content_is_refused
            writers_of_many_threads_lose_nothing
        }
    };
    (@each $subject:expr; $($behaviour:ident)+) => {
        $(
            #[test]
            fn $behaviour() {
                $crate::conformance::$behaviour(&$subject);
            }
        )+
    };
}

/// Creates the session and appends its first plan.
fn create(store: &impl SessionStore, first: &PlanParts) -> Cursor {
    let mut locked = ok(store.create(session_of(first)));
    committed(ok(locked.append(first.plan())))
}

/// Locks the session, appends one plan, releases.
fn append(store: &impl SessionStore, parts: &PlanParts) -> Cursor {
    let mut locked = ok(store.lock(session_of(parts)));
    committed(ok(locked.append(parts.plan())))
}

fn session_of(parts: &PlanParts) -> SessionId {
    parts.events[0].session_id
}

fn committed(appended: Appended) -> Cursor {
    match appended {
        Appended::Committed { cursor, .. } => cursor,
        Appended::AlreadyRecorded => panic!("the plan is new, but was taken for a repetition"),
    }
}

fn ok<T>(result: Result<T, StoreError>) -> T {
    result.unwrap_or_else(|error| panic!("the store refused: {error} ({error:?})"))
}

/// The refusal; panics if there was none.
fn refusal<T>(result: Result<T, StoreError>) -> StoreError {
    match result {
        Ok(_) => panic!("the store did what it must refuse"),
        Err(error) => error,
    }
}

/// The whole log, which must be healthy.
fn all_events(store: &impl SessionStore, session: SessionId) -> Vec<Event> {
    let slice = ok(store.read(session, None));
    assert!(slice.health.is_healthy(), "{:?}", slice.health);
    slice.events
}
