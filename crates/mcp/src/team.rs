//! The HTTP server of a team: members with tokens, on any address (G115).
//!
//! Order of checks: whether the request names this server and comes from no foreign page, whose token it carries,
//! whether that member exceeded a limit; then as on loopback. The engine decides what a member may do. Strangers take
//! few threads: only some unknown tokens are looked up at once, and all probes share one look at the store.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state, map_response_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use workrail_engine::credential_checks::{CredentialCheck, CredentialChecks, UNKNOWN_POLL, UNKNOWN_WAIT};
use workrail_model::loopback::ListenerNames;
use workrail_model::team::Caller;

use crate::call::Execution;
use crate::connections::{self, TlsListener};
use crate::http::{BLOCKING_WORK_WAIT, ShutdownSignal, mcp_route, shutdown_signal, unauthorized};
use crate::loopback::{AdmissionError, bearer, check_names};
use crate::metrics::{Metrics, RefusalReason, StoreNumbers};
use crate::quota::{Quotas, too_many_requests};
use crate::readiness::Readiness;
use crate::runtime;
use crate::server::Server;
use crate::tls::Tls;

/// Why a token gives no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallerError {
    /// No valid token. The answer does not say what is wrong with it.
    InvalidToken,
    /// The store is unavailable.
    Unavailable,
}

/// Why no call can be answered. A probe needs no token, so it learns no more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotReady {
    Store,
    Keys,
}

/// Looks up the members. Called for every request, on a thread that may block.
pub trait MemberDirectory: Send + Sync + 'static {
    fn caller(&self, token: &str) -> Result<Caller, CallerError>;
    /// Whether calls can be answered. Implementations log the cause.
    fn readiness(&self) -> Result<(), NotReady>;
    /// The store's counters. Reads only memory.
    fn numbers(&self) -> StoreNumbers;
}

#[derive(Clone)]
struct TeamGuard {
    names: Arc<ListenerNames>,
    members: Arc<dyn MemberDirectory>,
    metrics: Arc<Metrics>,
    quotas: Quotas,
    checks: CredentialChecks,
    unknown_wait: Duration,
}

/// The routes for agents and monitoring: `/mcp`, `/metrics`, `/whoami`, `/healthz` and `/readyz`; `console` answers the
/// rest. Approvals in the chat are off, because anyone with an agent's token could give them.
pub fn routes(
    execution: Arc<dyn Execution>,
    names: ListenerNames,
    members: Arc<dyn MemberDirectory>,
    checks: CredentialChecks,
    metrics: Arc<Metrics>,
    console: Router,
) -> Router {
    let server = Server::new(execution).without_chat_approvals();
    // The SDK repeats our check without default ports; `admit` has compared whole origins and passes none on.
    let has_port =
        |origin: &&String| origin.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let origins = names.origins.iter().filter(has_port).cloned().collect();
    let agents = mcp_route(server, &ListenerNames { hosts: names.hosts.clone(), origins });
    let (counted, store) = (Arc::clone(&metrics), Arc::clone(&members));
    let numbers = get(move || async move {
        let text = counted.text(&store.numbers());
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
    });
    let console = console.layer(map_response_with_state(Arc::clone(&metrics), count_refusal));
    let guard = TeamGuard {
        names: Arc::new(names),
        members: Arc::clone(&members),
        metrics,
        quotas: Quotas::default(),
        checks,
        unknown_wait: UNKNOWN_WAIT,
    };
    let members_own = agents.route("/metrics", numbers).route("/whoami", get(whoami));
    let for_members = members_own.layer(from_fn_with_state(guard, admit));
    // A load balancer probes by address, and learns only whether the server answers.
    let readiness = Readiness::new(members);
    let probes = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(move || ready(readiness)));
    for_members.merge(probes).fallback_service(console)
}

/// Tells a member whose token they use, for `workrail doctor`.
async fn whoami(Extension(caller): Extension<Caller>) -> Response {
    match &caller {
        Caller::Member { principal, .. } => {
            let body = json!({ "name": principal.name, "role": principal.role });
            ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
        }
        Caller::Owner(_) => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Counts what the console refuses for a member's quota, as `admit` does for agents.
async fn count_refusal(State(metrics): State<Arc<Metrics>>, response: Response) -> Response {
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        metrics.refused(RefusalReason::Quota);
    }
    response
}

async fn ready(readiness: Readiness) -> Response {
    let reason = match readiness.current().await {
        Ok(()) => return "ready\n".into_response(),
        Err(NotReady::Keys) => "the keyring cannot be used\n",
        Err(NotReady::Store) => "the store does not answer\n",
    };
    (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
}

async fn admit(State(guard): State<TeamGuard>, mut request: Request, next: Next) -> Response {
    let known = match guard.token(&request) {
        Ok(token) => guard.caller(token).await,
        Err(refused) => Err(refused),
    };
    let caller = match known {
        Ok(caller) => caller,
        Err(why) => {
            guard.metrics.refused(why);
            tracing::warn!(?why, "a request was refused");
            return answer_to(why);
        }
    };
    let Caller::Member { principal, .. } = &caller else {
        return unauthorized("Unauthorized\n");
    };
    let Some(counted) = guard.quotas.take(principal.token_id, Instant::now()) else {
        guard.metrics.refused(RefusalReason::Quota);
        return answer_to(RefusalReason::Quota);
    };
    // Nothing after this needs the token, so nothing after this can log it.
    request.headers_mut().remove(header::AUTHORIZATION);
    request.headers_mut().remove(header::ORIGIN);
    request.extensions_mut().insert(caller);
    request.extensions_mut().insert(counted.batch_quota());
    let answered = next.run(request).await;
    drop(counted);
    // A batch, whose messages are counted once it is read.
    if answered.status() == StatusCode::TOO_MANY_REQUESTS {
        guard.metrics.refused(RefusalReason::Quota);
    }
    answered
}

impl TeamGuard {
    /// The token of a request that names this server.
    fn token(&self, request: &Request) -> Result<String, RefusalReason> {
        check_names(&self.names, request.uri(), request.headers()).map_err(|refused| match refused {
            AdmissionError::Host | AdmissionError::Secret => RefusalReason::Host,
            AdmissionError::Origin => RefusalReason::Origin,
        })?;
        bearer(request.headers()).map(str::to_owned).ok_or(RefusalReason::Token)
    }

    /// The lookup of a token, once there is room for it.
    async fn begin_check(&self, token: &str) -> Option<CredentialCheck> {
        let began = Instant::now();
        loop {
            let check = self.checks.begin([token]);
            if check.is_some() || began.elapsed() >= self.unknown_wait {
                return check;
            }
            sleep(UNKNOWN_POLL).await;
        }
    }

    async fn caller(&self, token: String) -> Result<Caller, RefusalReason> {
        let members = Arc::clone(&self.members);
        let check = self.begin_check(&token).await.ok_or(RefusalReason::UnknownTokens)?;
        // The check ends with the lookup, also if the client has left.
        let lookup = move || {
            let found = members.caller(&token);
            match &found {
                Ok(_) => check.accepted(&token),
                Err(CallerError::InvalidToken) => check.refused(&token),
                Err(CallerError::Unavailable) => {}
            }
            found
        };
        match spawn_blocking(lookup).await {
            Ok(Ok(caller)) => Ok(caller),
            Ok(Err(CallerError::InvalidToken)) => Err(RefusalReason::Token),
            Ok(Err(CallerError::Unavailable)) | Err(_) => Err(RefusalReason::Store),
        }
    }
}

/// The answer to a refused request.
fn answer_to(refused: RefusalReason) -> Response {
    match refused {
        RefusalReason::Host => {
            (StatusCode::FORBIDDEN, "Forbidden: the Host header does not name this server\n").into_response()
        }
        RefusalReason::Origin => {
            (StatusCode::FORBIDDEN, "Forbidden: the Origin header is not this server's own\n").into_response()
        }
        RefusalReason::Token => unauthorized(
            "Unauthorized: send the header `Authorization: Bearer TOKEN`. An administrator makes tokens with \
             `workrail team token create`.\n",
        ),
        RefusalReason::Quota => too_many_requests(Duration::ZERO),
        RefusalReason::Store => {
            let reason = "Service Unavailable: the store does not answer. Nothing was recorded. Send the same call again \
                          in a moment.\n";
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], reason).into_response()
        }
        RefusalReason::UnknownTokens => {
            let reason = "Service Unavailable: too many tokens that this server does not know yet are being checked. \
                          Nothing was recorded. Send the same call again in a moment.\n";
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "1")], reason).into_response()
        }
    }
}

/// Serves on the first of these addresses that can be used, over TLS if given, until the process receives a termination
/// signal and running requests are answered. `listening` gets the address once requests are accepted.
pub fn serve(
    addresses: &[SocketAddr],
    tls: Option<Tls>,
    metrics: Arc<Metrics>,
    routes: impl FnOnce(SocketAddr, ShutdownSignal) -> Router,
    listening: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let runtime = runtime::with_sockets()?;
    let served = runtime.block_on(async {
        let signal = shutdown_signal()?;
        let listener = TcpListener::bind(addresses).await?;
        let bound = listener.local_addr()?;
        let (end, ending) = watch::channel(());
        let routes = routes(bound, ending.clone());
        listening(bound);
        let mut ended = ending;
        let until = async move {
            let _ = ended.changed().await;
        };
        let tls_listener = tls.map(|tls| TlsListener::new(tls, metrics));
        tokio::join!(connections::serve(listener, tls_listener, routes, until), async {
            signal.await;
            drop(end);
        });
        Ok(())
    });
    runtime.shutdown_timeout(BLOCKING_WORK_WAIT);
    served
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, channel};

    use tokio::runtime::Builder;
    use tokio::task::{JoinSet, yield_now};
    use workrail_model::id::AccessTokenId;
    use workrail_model::name::PrincipalName;
    use workrail_model::team::{Principal, Role};

    use super::*;

    /// Knows one member at once; a look for anybody else takes until the sender is dropped.
    struct OneMember(Mutex<Receiver<()>>);

    impl MemberDirectory for OneMember {
        fn caller(&self, token: &str) -> Result<Caller, CallerError> {
            if token != "good" {
                let _ = self.0.lock().unwrap().recv();
                return Err(CallerError::InvalidToken);
            }
            let name = PrincipalName::parse("ada").unwrap();
            let principal =
                Principal { name, role: Role::Agent, token_id: AccessTokenId::from_bits([1; 10]) };
            Ok(Caller::Member { principal, client: None })
        }

        fn readiness(&self) -> Result<(), NotReady> {
            Ok(())
        }

        fn numbers(&self) -> StoreNumbers {
            StoreNumbers::default()
        }
    }

    fn guard(members: OneMember, unknown_wait: Duration) -> TeamGuard {
        TeamGuard {
            names: Arc::new(ListenerNames { hosts: Vec::new(), origins: Vec::new() }),
            members: Arc::new(members),
            metrics: Arc::default(),
            quotas: Quotas::default(),
            checks: CredentialChecks::default(),
            unknown_wait,
        }
    }

    /// After a restart every token is unknown.
    #[test]
    fn unknown_tokens_wait_for_their_turn() {
        let (release, hold) = channel();
        let guard = guard(OneMember(Mutex::new(hold)), Duration::MAX);
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut unknown = JoinSet::new();
            for n in 0..20 {
                let guard = guard.clone();
                unknown.spawn(async move { guard.caller(format!("random {n}")).await });
            }
            yield_now().await;
            drop(release);
            let answers = unknown.join_all().await;
            assert!(answers.iter().all(|found| *found == Err(RefusalReason::Token)), "{answers:?}");
        });
    }

    /// Broke: each request with a random token took a thread and a read of the store, until members waited.
    #[test]
    fn strangers_take_few_threads_and_members_do_not_wait_for_them() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let (release, hold) = channel();
        let guard = guard(OneMember(Mutex::new(hold)), Duration::ZERO);
        runtime.block_on(async {
            let asked = |token: &str| {
                let (guard, token) = (guard.clone(), token.to_owned());
                async move { guard.caller(token).await }
            };
            assert!(asked("good").await.is_ok());
            let mut strangers = JoinSet::new();
            for n in 0..200 {
                strangers.spawn(asked(&format!("random {n}")));
            }
            // All but the six that are being looked up, in whichever order they were run.
            for _ in 0..194 {
                let refused = strangers.join_next().await.unwrap().unwrap();
                assert_eq!(refused, Err(RefusalReason::UnknownTokens));
            }
            assert_eq!(asked("one more").await, Err(RefusalReason::UnknownTokens));
            assert!(asked("good").await.is_ok());
            drop(release);
            let looked_up = strangers.join_all().await;
            assert_eq!(looked_up, vec![Err(RefusalReason::Token); 6]);
            assert_eq!(asked("one more").await, Err(RefusalReason::Token), "there is room again");
        });
        let refused = answer_to(RefusalReason::UnknownTokens);
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers().get(header::RETRY_AFTER).unwrap(), "1");
    }
}
