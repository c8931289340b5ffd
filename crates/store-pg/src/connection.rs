//! A connection with a time limit on every answer: a server that is frozen, or behind a network that drops
//! everything, is given up like a dead one (G118).

use std::fmt;
use std::time::Duration;

use postgres_types::{ToSql, Type};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, NoTls, Row, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::StatementError;

pub(crate) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// All time limits, derived from one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeLimits {
    timeout: Duration,
}

impl TimeLimits {
    pub(crate) fn of_seconds(seconds: u64) -> Self {
        Self { timeout: Duration::from_secs(seconds) }
    }

    /// The server cancels a statement that takes longer, so that its outcome is certain.
    pub(crate) fn statement(self) -> Duration {
        self.timeout
    }

    /// The client gives up after this time, if the server should have cancelled the statement but did not answer.
    pub(crate) fn answer(self) -> Duration {
        self.timeout + self.timeout / 4 + Duration::from_secs(1)
    }

    /// A writer that is idle this long while it holds a session's lock loses the lock, and its connection.
    pub(crate) fn idle(self) -> Duration {
        self.timeout * 3
    }
}

/// Where to connect, as which role, and with what encryption.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) config: Config,
    pub(crate) encryption: Option<MakeRustlsConnect>,
}

impl Endpoint {
    async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        match &self.encryption {
            None => connect(&self.config, NoTls).await,
            Some(encryption) => connect(&self.config, encryption.clone()).await,
        }
    }
}

/// A client whose connection is driven while it waits for an answer. A lost connection shows in the next answer.
async fn connect<T>(config: &Config, encryption: T) -> Result<Client, tokio_postgres::Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = config.connect(encryption).await?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

/// One connection, with the runtime that drives it.
pub(crate) struct Connection {
    runtime: Runtime,
    client: Client,
    answer_max: Duration,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    pub(crate) fn open(endpoint: &Endpoint, answer_max: Duration) -> Result<Self, StatementError> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| StatementError::Local(error.to_string()))?;
        let connected = runtime.block_on(async { timeout(answer_max, endpoint.connect()).await });
        let client = connected.map_err(|_| StatementError::NoAnswer)??;
        Ok(Self { runtime, client, answer_max })
    }

    /// Sets the time limit for each answer from now on.
    pub(crate) fn wait_at_most(&mut self, answer_max: Duration) {
        self.answer_max = answer_max;
    }

    /// Unnamed statements leave nothing on a connection that a pooler may hand to another client.
    pub(crate) fn query(
        &mut self,
        sql: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, StatementError> {
        self.answer(self.client.query_typed(sql, parameters))
    }

    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), StatementError> {
        self.answer(self.client.batch_execute(sql))
    }

    fn answer<T>(
        &self,
        asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, StatementError> {
        let answered = self.runtime.block_on(async { timeout(self.answer_max, asked).await });
        Ok(answered.map_err(|_| StatementError::NoAnswer)??)
    }
}
