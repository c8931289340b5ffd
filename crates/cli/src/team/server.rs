//! `workrail serve`: one listener for a team's agents and members, on whichever store the settings name (G115).

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use camino::Utf8PathBuf;
use clap::Args;
use workrail_console::{Environment, LoggedIn, Logins, NotLoggedIn, TeamSite, team_router};
use workrail_engine::credential_checks::CredentialChecks;
use workrail_engine::{AccessRefusal, AppendCounts, NotReady};
use workrail_host::clock::SystemClock;
use workrail_host::tls_files::TlsFiles;
use workrail_mcp::metrics::{Metrics, PoolNumbers, StoreNumbers};
use workrail_mcp::team::{self, CallerError, ProbeFailure, TeamBackend};
use workrail_mcp::tls::{CertificateFiles, Pem, Tls};
use workrail_model::approval::{ApprovalChannel, ApprovalOrigin, Descent};
use workrail_model::config::Settings;
use workrail_model::error::ErrorCode;
use workrail_model::keyring::HttpSecret;
use workrail_model::loopback::ListenerNames;
use workrail_model::public_url::{PublicUrl, Scheme};
use workrail_model::server::Transport;
use workrail_model::team::Caller;
use workrail_model::time::Timestamp;
use workrail_ports::environment::Clock as _;
use workrail_store_pg::PoolUse;

use crate::console::{failure_text, fresh_secret};
use crate::mcp_server::{self, ServedEngine};
use crate::outcome::{self, Failure, Format};
use crate::store::AnyStore;
use crate::wiring::AnyEngine;
use crate::{output, settings, version};

#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// The address, or a host name of this machine, to listen on. Port 0 picks a free port.
    #[arg(long, value_name = "HOST:PORT")]
    listen: String,
    /// The address that clients and browsers use. Needed unless the listener is on loopback.
    #[arg(long, value_name = "URL")]
    public_url: Option<PublicUrl>,
    /// The certificate chain of this server, in PEM. A renewed file is used without a restart.
    #[arg(long, value_name = "FILE", requires = "tls_key", conflicts_with = "behind_proxy")]
    tls_cert: Option<Utf8PathBuf>,
    /// The private key of the certificate, in PEM. Other users must not be able to read it.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<Utf8PathBuf>,
    /// A proxy in front of this server terminates TLS. Only the proxy may reach the listener.
    #[arg(long)]
    behind_proxy: bool,
}

/// How connections between the server and its clients are encrypted.
#[derive(Clone, Debug)]
enum TlsTermination {
    /// Not at all: nothing leaves the machine.
    Off,
    Proxy,
    Own(TlsFiles),
}

/// How the server is reached.
#[derive(Clone, Debug)]
struct ServerEndpoint {
    /// What the name to listen on resolves to; the first one that can be used is used.
    listen: Vec<SocketAddr>,
    encryption: TlsTermination,
    /// `None` on loopback: then its own addresses are its names.
    url: Option<PublicUrl>,
}

impl ServerEndpoint {
    /// Refuses settings that would send tokens unencrypted to other machines.
    fn of(arguments: &ServeArguments) -> Result<Self, String> {
        let ServeArguments { listen, public_url, behind_proxy, tls_cert, tls_key } = arguments;
        let files = tls_cert.clone().zip(tls_key.clone());
        let encryption = match (files, behind_proxy) {
            (Some((certificate, key)), _) => TlsTermination::Own(TlsFiles { certificate, key }),
            (None, true) => TlsTermination::Proxy,
            (None, false) => TlsTermination::Off,
        };
        let scheme = public_url.as_ref().map(PublicUrl::scheme);
        let listen = resolve(listen)?;
        let is_local = listen.iter().all(|address| address.ip().is_loopback());
        check_encryption(is_local, &encryption, scheme).map_err(str::to_owned)?;
        if public_url.as_ref().is_some_and(|url| url.scheme() == Scheme::Http && !url.is_loopback()) {
            return Err("Other machines use this name, so it must be encrypted: give a certificate with --tls-cert and \
                        --tls-key, or terminate TLS in a proxy and pass --behind-proxy."
                .to_owned());
        }
        Ok(Self { listen, encryption, url: public_url.clone() })
    }

    fn scheme(&self) -> Scheme {
        match self.encryption {
            TlsTermination::Own(_) => Scheme::Https,
            TlsTermination::Off | TlsTermination::Proxy => Scheme::Http,
        }
    }

    fn names(&self, bound: SocketAddr) -> ListenerNames {
        match (&self.url, self.scheme()) {
            (Some(url), _) => url.names(),
            (None, Scheme::Http) => ListenerNames::of(bound),
            (None, Scheme::Https) => ListenerNames::of(bound).over_tls(),
        }
    }

    fn shown(&self, bound: SocketAddr) -> String {
        let bound_url = || format!("{}://{bound}", self.scheme().as_str());
        self.url.as_ref().map_or_else(bound_url, ToString::to_string)
    }

    /// How browsers reach the console.
    fn console(&self, bound: SocketAddr) -> TeamSite {
        let port = bound.port();
        let url = self.console_url(bound);
        TeamSite { names: self.names(bound), origin: url.to_string(), scheme: url.scheme(), port }
    }

    /// The address that browsers use. They allow passkeys only under this name of loopback.
    fn console_url(&self, bound: SocketAddr) -> PublicUrl {
        let local = || PublicUrl::localhost(self.scheme(), bound.port());
        self.url.clone().unwrap_or_else(local)
    }

    fn tls(&self) -> Result<Option<Tls>, String> {
        match &self.encryption {
            TlsTermination::Off | TlsTermination::Proxy => Ok(None),
            TlsTermination::Own(files) => Tls::load(Box::new(OnDisk(files.clone()))).map(Some),
        }
    }
}

/// The addresses of `HOST:PORT`.
fn resolve(listen: &str) -> Result<Vec<SocketAddr>, String> {
    let resolved: io::Result<Vec<SocketAddr>> = listen.to_socket_addrs().map(Iterator::collect);
    let why = match resolved {
        Ok(addresses) if !addresses.is_empty() => return Ok(addresses),
        Ok(_) => "it has no address".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(format!(
        "Cannot listen on `{listen}`: {why}. Give --listen an address or a host name of this machine, and a port: \
         --listen 127.0.0.1:8080, --listen [::1]:8080, --listen localhost:8080."
    ))
}

fn check_encryption(
    is_local: bool,
    encryption: &TlsTermination,
    scheme: Option<Scheme>,
) -> Result<(), &'static str> {
    match (is_local, encryption, scheme) {
        (false, _, None) => {
            Err("Other machines reach this address, so say which name they use: --public-url https://HOST.")
        }
        (false, TlsTermination::Off, Some(_)) => Err(
            "Other machines reach this address, and tokens would be sent to it unencrypted. Give a certificate with \
             --tls-cert and --tls-key, or terminate TLS in a proxy in front of it and pass --behind-proxy.",
        ),
        (_, TlsTermination::Proxy, None | Some(Scheme::Http)) => {
            Err("With --behind-proxy, give the address of the proxy: --public-url https://HOST.")
        }
        (_, TlsTermination::Own(_), Some(Scheme::Http)) => {
            Err("With --tls-cert, the address is encrypted: --public-url https://HOST.")
        }
        (true, TlsTermination::Off, Some(Scheme::Https)) => Err(
            "The server speaks plain HTTP here. Give a certificate with --tls-cert and --tls-key; if a proxy in front of \
             it terminates TLS, add --behind-proxy.",
        ),
        (true, TlsTermination::Off, None | Some(Scheme::Http))
        | (_, TlsTermination::Proxy, Some(Scheme::Https))
        | (true, TlsTermination::Own(_), None | Some(Scheme::Https))
        | (false, TlsTermination::Own(_), Some(Scheme::Https)) => Ok(()),
    }
}

/// The certificate files, as the server reads them.
struct OnDisk(TlsFiles);

impl CertificateFiles for OnDisk {
    fn stamp(&self) -> Option<Vec<u64>> {
        self.0.stamp()
    }

    fn read(&self) -> Result<Pem, String> {
        let certificates = self.0.read_certificate().map_err(|error| error.to_string())?;
        let key = self.0.read_key().map_err(|error| error.to_string())?;
        Ok(Pem { certificates, key })
    }
}

pub(crate) fn run(arguments: &ServeArguments) -> ExitCode {
    let ended = ServerEndpoint::of(arguments).map_err(Failure::Usage).and_then(|endpoint| serve(&endpoint));
    outcome::finish(ended, Format::Text)
}

fn serve(endpoint: &ServerEndpoint) -> Result<(), Failure> {
    let tls = endpoint.tls().map_err(|problem| Failure::Environment(format!("TLS: {problem}.")))?;
    let metrics = Arc::new(Metrics::default());
    let (served_engine, store) = mcp_server::open(Transport::Http)?;
    let local_engine = served_engine.engine().clone();
    let ended = team::serve(
        &endpoint.listen,
        tls,
        Arc::clone(&metrics),
        |bound, ending| {
            let execution: Arc<ServedEngine> =
                Arc::new(served_engine.remote(Arc::clone(&metrics), endpoint.console_url(bound)));
            let engine = execution.engine().clone();
            let members =
                Arc::new(TeamMembers { engine: engine.clone(), store, logged_problem: Mutex::default() });
            let logins: Arc<dyn Logins> = Arc::clone(&members) as _;
            let checks = CredentialChecks::default();
            let console = team_router(
                endpoint.console(bound),
                logins,
                checks.clone(),
                Arc::new(engine),
                Arc::new(TeamEnvironment),
                ending,
            );
            team::routes(execution, endpoint.names(bound), members, checks, Arc::clone(&metrics), console)
        },
        |bound| {
            output::notice(&format!("listening on {}://{bound}/mcp", endpoint.scheme().as_str()));
            output::notice(&format!(
                "Clients use {0}/mcp, people open {0}. Everybody needs a token: `workrail team token create` makes one.",
                endpoint.shown(bound)
            ));
        },
    );
    local_engine.index_appended();
    ended.map_err(|error| {
        let listen: Vec<String> = endpoint.listen.iter().map(ToString::to_string).collect();
        Failure::Environment(format!("The server on {} ended: {error}.", listen.join(", ")))
    })
}

struct TeamMembers {
    engine: AnyEngine,
    store: Arc<AnyStore>,
    /// What the last probe found, so that it is logged once.
    logged_problem: Mutex<Option<NotReady>>,
}

/// What a caller learns of a refusal.
fn caller_error(refusal: &AccessRefusal) -> CallerError {
    // Logged here, because the answer to the caller does not say what is wrong.
    match refusal {
        AccessRefusal::Unknown | AccessRefusal::Expired | AccessRefusal::Revoked => {
            tracing::info!(?refusal, "a token was refused");
            CallerError::InvalidToken
        }
        AccessRefusal::Store(error) => {
            tracing::warn!(code = error.code.as_str(), "the owner of a token could not be determined");
            match error.code == ErrorCode::StoreAccessTokensUnusable {
                true => CallerError::TokensUnusable,
                false => CallerError::Unavailable,
            }
        }
    }
}

fn not_logged_in(refusal: &AccessRefusal) -> NotLoggedIn {
    match caller_error(refusal) {
        CallerError::InvalidToken => NotLoggedIn::InvalidLogin,
        CallerError::Unavailable => NotLoggedIn::Unavailable,
        CallerError::TokensUnusable => NotLoggedIn::TokensUnusable,
    }
}

impl Logins for TeamMembers {
    fn log_in(&self, token: &str) -> Result<String, NotLoggedIn> {
        self.engine.log_in(token).map_err(|refusal| not_logged_in(&refusal))
    }

    fn visitor(&self, login: &str) -> Result<LoggedIn, NotLoggedIn> {
        let (caller, form_token) = self.engine.logged_in(login).map_err(|refusal| not_logged_in(&refusal))?;
        let Caller::Member { principal, .. } = &caller else { return Err(NotLoggedIn::InvalidLogin) };
        let principal = principal.clone();
        let use_cases = Arc::new(self.engine.acting_as(caller.through("console")));
        Ok(LoggedIn { principal, form_token, use_cases })
    }
}

/// What a team's console needs from this process.
struct TeamEnvironment;

impl Environment for TeamEnvironment {
    fn now(&self) -> Timestamp {
        SystemClock.now()
    }

    fn secret(&self) -> Option<HttpSecret> {
        fresh_secret().ok()
    }

    /// The browser is on another machine, so nothing is known about what started it.
    fn decision_origin(&self) -> Result<ApprovalOrigin, String> {
        Ok(ApprovalOrigin { channel: ApprovalChannel::Console, descends_from_server: Descent::Unknown })
    }

    fn settings(&self) -> Result<Settings, String> {
        settings::fresh().map(|current| current.settings).map_err(failure_text)
    }

    /// File locations on this machine are not shown elsewhere.
    fn data_dir(&self) -> String {
        String::new()
    }

    fn version(&self) -> &str {
        version::LONG
    }

    fn notice(&self, text: &str) {
        output::notice(text);
    }
}

impl TeamBackend for TeamMembers {
    fn caller(&self, token: &str) -> Result<Caller, CallerError> {
        self.engine.authenticate(token).map_err(|refusal| caller_error(&refusal))
    }

    fn readiness(&self) -> Result<(), ProbeFailure> {
        let found = self.engine.readiness();
        let mut logged = self.logged_problem.lock().unwrap_or_else(PoisonError::into_inner);
        // Probes come every few seconds: a lasting problem is logged once.
        if *logged != found.clone().err() {
            match &found {
                Ok(()) => tracing::info!("the store answers again"),
                Err(NotReady::Store(cause)) => tracing::error!(cause, "the store does not answer"),
                Err(NotReady::Keys(cause)) => tracing::error!(cause, "the keyring cannot be used"),
                Err(NotReady::AccessTokens(cause)) => {
                    tracing::error!(cause, "the access tokens cannot be used");
                }
            }
            *logged = found.clone().err();
        }
        found.map_err(|problem| match problem {
            NotReady::Store(_) => ProbeFailure::Store,
            NotReady::Keys(_) => ProbeFailure::Keys,
            NotReady::AccessTokens(_) => ProbeFailure::AccessTokens,
        })
    }

    fn store_numbers(&self) -> StoreNumbers {
        let AppendCounts { appends, conflicts } = self.engine.append_counts();
        let pools = match &*self.store {
            AnyStore::Directory(_) => Vec::new(),
            AnyStore::Database { shared, .. } => {
                let shown = |PoolUse { name, size, used, waits }| PoolNumbers { name, size, used, waits };
                shared.pools().map(shown).to_vec()
            }
        };
        StoreNumbers { appends, conflicts, pools }
    }
}
