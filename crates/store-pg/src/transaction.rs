//! One transaction under one tenant. Everything that it sets ends with it, so that a pooler may hand its connection to
//! another client afterwards. Dropped before its commit, it is rolled back.

use postgres::types::{ToSql, Type};
use postgres::{Client, Row};
use workrail_model::limits::LOCK_WAIT_MS_MAX;

use crate::address::TenantName;
use crate::error::{Failed, is_lost};
use crate::pool::{Origin, Pool};

/// A statement that takes longer is given up.
const STATEMENT_MS_MAX: u64 = 60_000;
/// A writer that stands still this long with a session locked loses the lock, and its connection.
const IDLE_MS_MAX: u64 = 60_000;

pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Reading,
    /// Acknowledged when its commit is on the server's disk.
    Writing,
    /// What may be lost with the server's last moments, such as a cache.
    WritingLoosely,
}

pub(crate) struct Transaction<'a> {
    pool: &'a Pool,
    /// Absent once it is given back or lost.
    client: Option<Client>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn begin(pool: &'a Pool, tenant: &TenantName, purpose: Purpose) -> Result<Self, Failed> {
        let prelude = prelude(tenant, purpose);
        loop {
            let (mut client, origin) = pool.take()?;
            match client.batch_execute(&prelude) {
                Ok(()) => return Ok(Self { pool, client: Some(client) }),
                Err(error) => {
                    drop(client);
                    pool.discard();
                    // Nothing was begun, so another connection may be tried: there are only so many idle ones.
                    if origin == Origin::Fresh || !is_lost(&error) {
                        return Err(error.into());
                    }
                }
            }
        }
    }

    pub(crate) fn query(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Failed> {
        let Some(client) = &mut self.client else { return Err(Failed::Busy) };
        // Unnamed statements: nothing is left on a connection that a pooler may hand to others.
        Ok(client.query_typed(sql, parameters)?)
    }

    /// The only row, or none.
    pub(crate) fn query_opt(
        &mut self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Option<Row>, Failed> {
        Ok(self.query(sql, parameters)?.into_iter().next())
    }

    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), Failed> {
        let Some(client) = &mut self.client else { return Err(Failed::Busy) };
        Ok(client.batch_execute(sql)?)
    }

    pub(crate) fn commit(mut self) -> Result<(), postgres::Error> {
        let Some(mut client) = self.client.take() else { return Ok(()) };
        let committed = client.batch_execute("COMMIT");
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
        match client.batch_execute("ROLLBACK") {
            Ok(()) => self.pool.put(client),
            // The server rolls back when the connection ends.
            Err(_) => {
                drop(client);
                self.pool.discard();
            }
        }
    }
}

fn prelude(tenant: &TenantName, purpose: Purpose) -> String {
    let (begin, synchronous) = match purpose {
        Purpose::Reading => ("BEGIN READ ONLY", "on"),
        Purpose::Writing => ("BEGIN", "on"),
        Purpose::WritingLoosely => ("BEGIN", "off"),
    };
    // A tenant's name has no character that means anything to SQL.
    format!(
        "{begin}; SELECT set_config('workrail.tenant', '{}', true), set_config('synchronous_commit', '{synchronous}', true), \
         set_config('lock_timeout', '{LOCK_WAIT_MS_MAX}', true), \
         set_config('statement_timeout', '{STATEMENT_MS_MAX}', true), \
         set_config('idle_in_transaction_session_timeout', '{IDLE_MS_MAX}', true)",
        tenant.as_str()
    )
}
