//! The activity number: the tenant's base plus the next value of a sequence, drawn without a lock (G7).

use postgres_types::Type;
use tokio_postgres::Row;
use workrail_model::event::Activity;
use workrail_ports::environment::ActivityCounter;
use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, RelPath};
use workrail_ports::session_store::StoreError;

use crate::error::StatementError;
use crate::open::PgStore;
use crate::transaction::Purpose;

const ERROR_PATH: &str = "activity";

const NEXT: &str =
    "SELECT coalesce((SELECT base FROM workrail.activity), 0) + nextval('workrail.activity_sequence')";

/// The last value of the sequence may have been drawn by another tenant, which only makes this larger.
const LAST: &str =
    "SELECT coalesce((SELECT base FROM workrail.activity), 0) + last_value FROM workrail.activity_sequence";

/// The sequence only grows, so every later number is above `$1`.
const RAISE: &str = "INSERT INTO workrail.activity (tenant, base) \
                     SELECT current_setting('workrail.tenant'), greatest(0, $1 - last_value) FROM workrail.activity_sequence \
                     ON CONFLICT (tenant) DO UPDATE SET base = greatest(activity.base, excluded.base)";

fn failed(error: &StatementError) -> StoreError {
    error.of_store(FsOp::Write, ERROR_PATH)
}

fn number(value: i64) -> Result<Activity, StoreError> {
    u64::try_from(value).ok().and_then(Activity::new).ok_or_else(|| {
        StoreError::Io(FsError {
            op: FsOp::Read,
            path: RelPath::parse(ERROR_PATH).unwrap_or_else(RelPath::root),
            kind: FsErrorKind::Database,
            detail: "the counter holds a number that no event can have".to_owned(),
        })
    })
}

/// The number in the only row of an answer.
fn drawn(answer: Result<Option<Row>, StatementError>) -> Result<Activity, StoreError> {
    let row = answer.map_err(|error| failed(&error))?;
    number(row.map_or(-1, |row| row.get(0)))
}

impl ActivityCounter for PgStore {
    /// Does not wait for the disk: a number that a crash takes back was in no durable event, because committing an event
    /// also makes everything before it durable.
    fn next(&self) -> Result<Activity, StoreError> {
        drawn(
            self.in_session_transaction(Purpose::WritingLoosely, |transaction| {
                transaction.query_opt(NEXT, &[])
            }),
        )
    }
}

impl PgStore {
    pub(crate) fn counted_so_far(&self) -> Result<Activity, StoreError> {
        drawn(self.in_transaction(Purpose::Reading, |transaction| transaction.query_opt(LAST, &[])))
    }

    pub(crate) fn raise_counter(&self, at_least: Activity) -> Result<(), StoreError> {
        // An activity number is at most 2^53.
        let at_least = i64::try_from(at_least.get()).unwrap_or(i64::MAX);
        let raised = self.in_transaction(Purpose::Writing, |transaction| {
            transaction.query(RAISE, &[(&at_least, Type::INT8)])
        });
        raised.map(|_| ()).map_err(|error| failed(&error))
    }
}
