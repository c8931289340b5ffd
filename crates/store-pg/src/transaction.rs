//! One transaction of one tenant. All its settings end with it, so that a pooler may then give its connection to
//! another client. If dropped before its commit, it is rolled back.

use tokio_postgres::Row;
use workrail_model::limits::LOCK_WAIT_MS_MAX;

use crate::address::TenantName;
use crate::connection::{Connection, Parameter, TimeLimits};
use crate::error::StatementError;
use crate::pool::{ConnectionOrigin, Pool};

/// The level is named, because a role or a database can have another default: a statement that waited for a lock must
/// see what was committed meanwhile.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";
const BEGIN_READING: &str = "BEGIN ISOLATION LEVEL READ COMMITTED, READ ONLY";

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Reading,
    /// Acknowledged when its commit is on the server's disk.
    Writing,
    /// May be lost if the server crashes, such as a cache.
    WritingLoosely,
}

pub(crate) struct Transaction<'a> {
    pool: &'a Pool,
    /// `None` once it was returned or lost.
    client: Option<Connection>,
    /// A statement failed, so the server refuses all further ones.
    has_failed: bool,
}

impl<'a> Transaction<'a> {
    /// A transaction that was begun on the connection before.
    pub(crate) fn resumed(pool: &'a Pool, client: Connection) -> Self {
        Self { pool, client: Some(client), has_failed: false }
    }

    /// The connection with its transaction still open; `None`, after a rollback, if a statement failed.
    pub(crate) fn suspended(mut self) -> Option<Connection> {
        if self.has_failed { None } else { self.client.take() }
    }

    pub(crate) fn begin(
        pool: &'a Pool,
        tenant: &TenantName,
        purpose: Purpose,
    ) -> Result<Self, StatementError> {
        Self::begin_with(pool, tenant, purpose, "")
    }

    /// Like `begin`, with a first statement in the same message, which saves a round trip.
    pub(crate) fn begin_with(
        pool: &'a Pool,
        tenant: &TenantName,
        purpose: Purpose,
        first: &str,
    ) -> Result<Self, StatementError> {
        let prelude = format!("{}; {first}", prelude(tenant, purpose, pool.limits()));
        loop {
            let (client, origin) = pool.take()?;
            let lost = match Self::begun(pool, client, &prelude) {
                Err(error) if error.is_lost() && origin == ConnectionOrigin::Idle => error,
                begun => return begun,
            };
            // What ended one connection, such as a failover, ended the others, and each would be waited for in turn
            // (G118).
            pool.drop_idle();
            // A server that does not answer on one connection will not answer on another.
            if matches!(lost, StatementError::NoAnswer) {
                return Err(lost);
            }
            // Nothing was begun, so another connection may be tried.
        }
    }

    /// Begins on this connection, which is closed if it fails.
    fn begun(pool: &'a Pool, mut client: Connection, prelude: &str) -> Result<Self, StatementError> {
        match client.batch(prelude) {
            Ok(()) => Ok(Self::resumed(pool, client)),
            Err(StatementError::Locked) => {
                // Rolled back and returned: the connection is still usable.
                drop(Self::resumed(pool, client));
                Err(StatementError::Locked)
            }
            Err(error) => {
                drop(client);
                pool.discard();
                Err(error)
            }
        }
    }

    pub(crate) fn query(
        &mut self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, StatementError> {
        let answer = self.connection()?.query(sql, parameters);
        self.answered(answer)
    }

    /// The only row, or `None`.
    pub(crate) fn query_opt(
        &mut self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Row>, StatementError> {
        Ok(self.query(sql, parameters)?.into_iter().next())
    }

    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), StatementError> {
        let answer = self.connection()?.batch(sql);
        self.answered(answer)
    }

    fn connection(&mut self) -> Result<&mut Connection, StatementError> {
        self.client.as_mut().ok_or_else(lost_before)
    }

    /// Drops a connection that does not answer: the server rolls back when it notices.
    fn answered<T>(&mut self, answer: Result<T, StatementError>) -> Result<T, StatementError> {
        self.has_failed |= answer.is_err();
        if answer.as_ref().is_err_and(StatementError::is_lost) && self.client.take().is_some() {
            self.pool.discard();
        }
        answer
    }

    pub(crate) fn commit(mut self) -> Result<(), StatementError> {
        let mut client = self.client.take().ok_or_else(lost_before)?;
        let committed = client.batch("COMMIT");
        match &committed {
            Ok(()) => self.pool.put(client),
            Err(_) => {
                drop(client);
                self.pool.discard();
            }
        }
        committed
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        let Some(mut client) = self.client.take() else { return };
        match client.batch("ROLLBACK") {
            Ok(()) => self.pool.put(client),
            // The server rolls back when the connection ends.
            Err(_) => {
                drop(client);
                self.pool.discard();
            }
        }
    }
}

/// COMMIT was not sent, so nothing was recorded.
fn lost_before() -> StatementError {
    StatementError::Local("the connection to the database was lost".to_owned())
}

fn prelude(tenant: &TenantName, purpose: Purpose, limits: TimeLimits) -> String {
    let (statement, idle) = (limits.statement().as_millis(), limits.idle().as_millis());
    let (begin, synchronous) = match purpose {
        Purpose::Reading => (BEGIN_READING, "on"),
        Purpose::Writing => (BEGIN, "on"),
        Purpose::WritingLoosely => (BEGIN, "off"),
    };
    // A tenant's name has no characters that are special in SQL.
    format!(
        "{begin}; SELECT set_config('workrail.tenant', '{}', true), set_config('synchronous_commit', '{synchronous}', true), \
         set_config('lock_timeout', '{LOCK_WAIT_MS_MAX}', true), \
         set_config('statement_timeout', '{statement}', true), \
         set_config('idle_in_transaction_session_timeout', '{idle}', true)",
        tenant.as_str()
    )
}
