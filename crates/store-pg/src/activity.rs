//! The activity number: one row per tenant, incremented in its own transaction (G7).

use postgres_types::Type;
use workrail_model::event::Activity;
use workrail_ports::environment::ActivityCounter;
use workrail_ports::file_system::{FsError, FsErrorKind, FsOp, RelPath};
use workrail_ports::session_store::StoreError;

use crate::error::StatementError;
use crate::open::PgStore;
use crate::transaction::Purpose;

const ERROR_PATH: &str = "activity";

const NEXT: &str = "INSERT INTO workrail.activity (tenant, number) VALUES (current_setting('workrail.tenant'), 1) \
                    ON CONFLICT (tenant) DO UPDATE SET number = activity.number + 1 RETURNING number";

const RAISE: &str = "INSERT INTO workrail.activity (tenant, number) VALUES (current_setting('workrail.tenant'), $1) \
                     ON CONFLICT (tenant) DO UPDATE SET number = greatest(activity.number, $1)";

fn failed(failed: &StatementError) -> StoreError {
    match failed {
        StatementError::Busy | StatementError::Locked => StoreError::Busy,
        StatementError::NoAnswer | StatementError::Local(_) | StatementError::Database(_) => {
            StoreError::Io(failed.at(FsOp::Write, ERROR_PATH))
        }
    }
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

impl ActivityCounter for PgStore {
    /// A thread that holds a session gets the number that it reserved before it locked it. Does not wait for the disk:
    /// a number that a crash takes back was in no durable event, because committing an event also makes everything
    /// before it durable.
    fn next(&self) -> Result<Activity, StoreError> {
        self.loans.take_number().map_or_else(|| self.next_number(), Ok)
    }

    fn reserve(&self) -> Result<(), StoreError> {
        self.loans.reserve(self.reserved_number()?);
        Ok(())
    }
}

impl PgStore {
    /// Always on a connection of its own: the counter's row would stay locked as long as a session.
    fn next_number(&self) -> Result<Activity, StoreError> {
        self.drawn().map_err(|error| failed(&error)).and_then(number)
    }

    fn drawn(&self) -> Result<i64, StatementError> {
        let row = self.apart(Purpose::WritingLoosely, |transaction| transaction.query_opt(NEXT, &[]))?;
        Ok(row.map_or(-1, |row| row.get(0)))
    }

    /// A number for the session that this thread is about to lock. `None` if the server cannot write, such as one with a
    /// full disk: the holder may only want to read.
    fn reserved_number(&self) -> Result<Option<Activity>, StoreError> {
        match self.drawn() {
            Ok(drawn) => number(drawn).map(Some),
            Err(error @ StatementError::Database(_)) if !error.is_lost() => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }

    pub(crate) fn counted_so_far(&self) -> Result<Activity, StoreError> {
        let sql = "SELECT number FROM workrail.activity";
        let row = self.within(Purpose::Reading, |transaction| transaction.query_opt(sql, &[]));
        number(row.map_err(|error| failed(&error))?.map_or(0, |row| row.get(0)))
    }

    pub(crate) fn raise_counter(&self, at_least: Activity) -> Result<(), StoreError> {
        // An activity number is at most 2^53.
        let at_least = i64::try_from(at_least.get()).unwrap_or(i64::MAX);
        let raised =
            self.within(Purpose::Writing, |transaction| transaction.query(RAISE, &[(&at_least, Type::INT8)]));
        raised.map(|_| ()).map_err(|error| failed(&error))
    }
}
