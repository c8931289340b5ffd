//! Opens a store and checks the role, the server and the tables. Anything that appends could not rely on is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use workrail_model::id::SessionId;
use workrail_ports::environment::Entropy;

use crate::address::{DatabaseAddress, Password, TenantName};
use crate::connection::{Connection, Endpoint};
use crate::error::StatementError;
use crate::index::CachedCounts;
use crate::loan::Loans;
use crate::log::Position;
use crate::pool::{Pool, PoolUse};
use crate::schema;
use crate::transaction::{Purpose, Transaction};
use crate::wrapping::WrappingKey;

/// `server_version_num` of PostgreSQL 15.
const SERVER_VERSION_MIN: i32 = 150_000;
/// Connections that hold a locked session.
const WRITERS_MAX: usize = 8;
/// Connections for short transactions that lock no session.
const OTHERS_MAX: usize = 8;

/// How long a migration of the tables may take, whether in this process or in one that it waits for.
const MIGRATION_MAX: Duration = Duration::from_secs(600);

/// Why a store cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the database refused the connection or did not answer: {detail}")]
    Unreachable { detail: String },
    #[error("the database asks for a password, and none was given")]
    NoPassword,
    #[error("the certificate of the server cannot be checked: {detail}")]
    Certificates { detail: String },
    #[error("no encrypted connection: {detail}")]
    NotEncrypted { detail: String },
    #[error("the server is PostgreSQL {version}; version 15 or newer is needed")]
    OldServer { version: String },
    #[error(
        "the role `{role}` is a superuser or has BYPASSRLS, so it would see the sessions of every tenant"
    )]
    Unrestricted { role: String },
    #[error("the server runs with `{setting} = off` and can lose or damage acknowledged work in a crash")]
    NotDurable { setting: &'static str },
    #[error("the server is a standby that only reads")]
    Standby,
    #[error("the database has schema {found} of a newer WorkRail, this build knows up to {known}")]
    NewerSchema { found: i32, known: i32 },
    #[error("the tables of WorkRail cannot be made or brought up to date: {detail}")]
    Migration { detail: String },
    #[error("the schema `workrail` belongs to the role `{owner}`, and the connection is made as `{role}`")]
    ForeignSchema { owner: String, role: String },
}

impl OpenError {
    /// What to do, in a sentence.
    pub fn fix(&self) -> String {
        match self {
            Self::Unreachable { .. } => {
                "Check that the database is running, and that its address and the password are right.".to_owned()
            }
            Self::NoPassword => "Put the password into a file of mode 0600, and name the file as `password_file=/PATH` in \
                                 the address or as `WORKRAIL_STORE_PASSWORD_FILE`."
                .to_owned(),
            Self::Certificates { .. } => {
                "Name a file with the certificate of the server's authority as `sslrootcert=/PATH` in the address."
                    .to_owned()
            }
            Self::NotEncrypted { .. } => "Give the server a certificate that is for the host of the address and signed by \
                                          an authority that this machine trusts, or name a file with its authority's \
                                          certificate as `sslrootcert=/PATH` in the address."
                .to_owned(),
            Self::OldServer { .. } => "Use a server with PostgreSQL 15 or newer.".to_owned(),
            Self::Unrestricted { .. } => {
                "Connect as an ordinary role: `CREATE ROLE workrail LOGIN`.".to_owned()
            }
            Self::NotDurable { setting } => format!("Set `{setting} = on` and reload the server."),
            Self::Standby => "Name the primary in the address.".to_owned(),
            Self::NewerSchema { .. } => "Update WorkRail on this machine.".to_owned(),
            Self::Migration { .. } => "Give the role the right to create a schema, once: `GRANT CREATE ON DATABASE name \
                                       TO role`."
                .to_owned(),
            Self::ForeignSchema { owner, role } => format!(
                "Connect as `{owner}`; or restore the backup with `pg_restore --no-owner --role={role}`; or run `ALTER \
                 SCHEMA workrail OWNER TO {role}` and the same `ALTER ... OWNER TO` for every table, sequence and \
                 function in it."
            ),
        }
    }
}

/// What was learned about the server when the store was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFacts {
    pub version: String,
    pub role: String,
    pub schema: i32,
}

/// Sessions, content, keys and caches of one tenant in one database.
pub struct PgStore {
    pub(crate) tenant: TenantName,
    pub(crate) writers: Pool,
    others: Pool,
    pub(crate) entropy: Box<dyn Entropy>,
    facts: ServerFacts,
    /// Encrypts the signing keys, if given.
    pub(crate) wrapping: Option<WrappingKey>,
    /// Sessions that this process has locked: its other threads wait here, without using a connection.
    pub(crate) held: Mutex<BTreeSet<SessionId>>,
    pub(crate) released: Condvar,
    /// Connections of locked sessions, lent to the threads that hold them.
    pub(crate) loans: Loans,
    /// How far this process has validated each log.
    pub(crate) validated: Mutex<BTreeMap<SessionId, Position>>,
    /// The last counts of sessions and runs.
    pub(crate) counted: Mutex<Option<CachedCounts>>,
}

impl fmt::Debug for PgStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgStore").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl PgStore {
    /// Connects, checks the server and migrates the tables.
    pub fn open(
        address: &DatabaseAddress,
        password: Option<&Password>,
        entropy: Box<dyn Entropy>,
    ) -> Result<Self, OpenError> {
        let encryption = address.encryption().connector();
        let encryption = encryption.map_err(|detail| OpenError::Certificates { detail })?;
        let endpoint = Endpoint { config: address.config(password), encryption };
        let limits = address.limits();
        let mut client =
            Connection::open(&endpoint, limits.answer()).map_err(|failed| unreachable(&failed))?;
        let (version, role) = check_server(&mut client)?;
        client.wait_at_most(MIGRATION_MAX);
        let schema =
            migrate_if_needed(&mut client).map_err(|refused| foreign_schema(&mut client, refused))?;
        client.wait_at_most(limits.answer());
        let facts = ServerFacts { version, role, schema };
        let others = Pool::new(endpoint.clone(), limits, OTHERS_MAX);
        others.adopt(client);
        Ok(Self {
            tenant: address.tenant().clone(),
            writers: Pool::new(endpoint, limits, WRITERS_MAX),
            others,
            entropy,
            facts,
            wrapping: None,
            held: Mutex::default(),
            released: Condvar::new(),
            loans: Loans::default(),
            validated: Mutex::default(),
            counted: Mutex::default(),
        })
    }

    /// Sets the key that encrypts the signing keys the next time they are stored.
    #[must_use]
    pub fn with_wrapping_key(self, wrapping: Option<WrappingKey>) -> Self {
        Self { wrapping, ..self }
    }

    pub fn server(&self) -> &ServerFacts {
        &self.facts
    }

    /// How the connections are used now.
    pub fn pools(&self) -> [PoolUse; 2] {
        [self.writers.in_use("writers"), self.others.in_use("others")]
    }

    /// Begins a transaction. A thread that holds a session continues the session's own, and so ends its lock.
    pub(crate) fn begin(&self, purpose: Purpose) -> Result<Transaction<'_>, StatementError> {
        match self.loans.take() {
            Some((_, connection)) => Ok(Transaction::resumed(&self.writers, connection)),
            None => Transaction::begin(&self.others, &self.tenant, purpose),
        }
    }

    /// Runs one short transaction, or the statements of one within that of the session that this thread holds. `work`
    /// must not call this, so that threads cannot deadlock.
    pub(crate) fn in_transaction<T>(
        &self,
        purpose: Purpose,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, StatementError>,
    ) -> Result<T, StatementError> {
        match purpose {
            Purpose::Reading => self.in_session_transaction(purpose, work),
            Purpose::Writing | Purpose::WritingLoosely => committed(self.begin(purpose)?, work),
        }
    }

    /// Like `in_transaction`, but the transaction of a session that this thread holds stays open. What `work` writes is
    /// then committed by the session's next write, and rolled back without one.
    pub(crate) fn in_session_transaction<T>(
        &self,
        purpose: Purpose,
        work: impl FnOnce(&mut Transaction<'_>) -> Result<T, StatementError>,
    ) -> Result<T, StatementError> {
        let Some((loan, connection)) = self.loans.take() else {
            return committed(Transaction::begin(&self.others, &self.tenant, purpose)?, work);
        };
        let mut transaction = Transaction::resumed(&self.writers, connection);
        let done = work(&mut transaction);
        loan.put(transaction.suspended());
        done
    }
}

fn committed<T>(
    mut transaction: Transaction<'_>,
    work: impl FnOnce(&mut Transaction<'_>) -> Result<T, StatementError>,
) -> Result<T, StatementError> {
    let done = work(&mut transaction)?;
    transaction.commit()?;
    Ok(done)
}

fn unreachable(failed: &StatementError) -> OpenError {
    let detail = failed.detail();
    if detail.ends_with("password missing") {
        return OpenError::NoPassword;
    }
    match detail.split_once("error performing TLS handshake: ") {
        Some((_, cause)) => OpenError::NotEncrypted { detail: cause.to_owned() },
        None => OpenError::Unreachable { detail },
    }
}

fn check_server(client: &mut Connection) -> Result<(String, String), OpenError> {
    let rows = client
        .query(
            "SELECT current_setting('server_version_num')::int4, current_setting('server_version'), current_user::text, \
             (SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = current_user), \
             current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on', pg_is_in_recovery()",
            &[],
        )
        .map_err(|failed| unreachable(&failed))?;
    let row = rows.first().ok_or_else(|| unreachable(&StatementError::NoAnswer))?;
    let (version, role): (String, String) = (row.get(1), row.get(2));
    if row.get::<_, i32>(0) < SERVER_VERSION_MIN {
        return Err(OpenError::OldServer { version });
    }
    // A role that cannot be looked up is assumed to be unrestricted.
    if row.get::<_, Option<bool>>(3).unwrap_or(true) {
        return Err(OpenError::Unrestricted { role });
    }
    for (column, setting) in [(4, "fsync"), (5, "full_page_writes")] {
        if !row.get::<_, bool>(column) {
            return Err(OpenError::NotDurable { setting });
        }
    }
    if row.get::<_, bool>(6) {
        return Err(OpenError::Standby);
    }
    Ok((version, role))
}

/// The schema's owner says more than a missing privilege. `refused` stays if the schema is this role's, or is not there.
fn foreign_schema(client: &mut Connection, refused: OpenError) -> OpenError {
    if !matches!(refused, OpenError::Migration { .. }) {
        return refused;
    }
    let sql = "SELECT pg_catalog.pg_get_userbyid(nspowner)::text, current_user::text FROM pg_catalog.pg_namespace \
               WHERE nspname = 'workrail' AND NOT pg_catalog.pg_has_role(nspowner, 'USAGE')";
    let rows = client.query(sql, &[]).unwrap_or_default();
    rows.first().map_or(refused, |row| OpenError::ForeignSchema { owner: row.get(0), role: row.get(1) })
}

fn migrate_if_needed(client: &mut Connection) -> Result<i32, OpenError> {
    let failed = |failed: StatementError| OpenError::Migration { detail: failed.detail() };
    let mut found = schema::version(client).map_err(failed)?;
    if found < schema::VERSION {
        found = schema::migrate(client).map_err(failed)?;
    }
    match found > schema::VERSION {
        true => Err(OpenError::NewerSchema { found, known: schema::VERSION }),
        false => Ok(found),
    }
}
