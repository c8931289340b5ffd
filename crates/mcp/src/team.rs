//! The HTTP server of a team: members with tokens, on any address (G115).
//!
//! Order of checks: whether the request names this server and comes from no foreign page, whose token it carries,
//! whether that member exceeded a limit; then as on loopback. The engine decides what a member may do. Strangers take
//! few threads: only some unknown tokens are looked up at once, and all probes share one look at the store.

use std::io;
use std::net::SocketAddr;
use std::slice;
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
use workrail_engine::credential_checks::{
    CheckStart, CredentialCheck, CredentialChecks, SentCredential, TooManyUnknown,
};
use workrail_model::loopback::ListenerNames;
use workrail_model::team::Caller;

use crate::call::Execution;
use crate::connections::{self, TlsListener};
use crate::http::{BLOCKING_WORK_WAIT, ServerShutdown, mcp_route, shutdown_signal, unauthorized};
use crate::loopback::{AdmissionError, bearer, check_names};
use crate::metrics::{Metrics, RefusalReason, StoreNumbers};
use crate::quota::{Quotas, too_many_requests};
use crate::readiness::ReadinessProbes;
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
    /// The access tokens cannot be used until an administrator has acted.
    TokensUnusable,
}

/// Why no call can be answered. A probe needs no token, so it learns no more than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeFailure {
    Store,
    Keys,
    AccessTokens,
}

/// What the team server asks of its store: members, readiness, counters.
pub trait TeamBackend: Send + Sync + 'static {
    /// Who has this token. Called for every request, on a thread that may block.
    fn caller(&self, token: &str) -> Result<Caller, CallerError>;
    /// Whether calls can be answered. Implementations log the cause.
    fn readiness(&self) -> Result<(), ProbeFailure>;
    /// The store's counters. Reads only memory.
    fn store_numbers(&self) -> StoreNumbers;
}

#[derive(Clone)]
struct TeamGuard {
    names: Arc<ListenerNames>,
    members: Arc<dyn TeamBackend>,
    metrics: Arc<Metrics>,
    quotas: Quotas,
    checks: CredentialChecks,
}

/// The routes for agents and monitoring: `/mcp`, `/metrics`, `/whoami`, `/healthz` and `/readyz`; `console` answers the
/// rest. Approvals in the chat are off, because anyone with an agent's token could give them.
pub fn routes(
    execution: Arc<dyn Execution>,
    names: ListenerNames,
    members: Arc<dyn TeamBackend>,
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
        let text = counted.text(&store.store_numbers());
        ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
    });
    let console = console.layer(map_response_with_state(Arc::clone(&metrics), count_refusal));
    let guard = TeamGuard {
        names: Arc::new(names),
        members: Arc::clone(&members),
        metrics,
        quotas: Quotas::default(),
        checks,
    };
    let members_own = agents.route("/metrics", numbers).route("/whoami", get(whoami));
    let for_members = members_own.layer(from_fn_with_state(guard, admit));
    // A load balancer probes by address, and learns only whether the server answers.
    let readiness = ReadinessProbes::new(members);
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

/// Counts what the console refuses because of a limit, as `admit` does for agents.
async fn count_refusal(State(metrics): State<Arc<Metrics>>, response: Response) -> Response {
    if response.status() == StatusCode::TOO_MANY_REQUESTS {
        metrics.refused(RefusalReason::Quota);
    }
    if response.extensions().get::<TooManyUnknown>().is_some() {
        metrics.refused(RefusalReason::UnknownTokens);
    }
    response
}

async fn ready(readiness: ReadinessProbes) -> Response {
    let reason = match readiness.current().await {
        Ok(()) => return "ready\n".into_response(),
        Err(ProbeFailure::Keys) => "the keyring cannot be used\n",
        Err(ProbeFailure::AccessTokens) => "the access tokens cannot be used\n",
        Err(ProbeFailure::Store) => "the store does not answer\n",
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
    fn token(&self, request: &Request) -> Result<SentCredential, RefusalReason> {
        check_names(&self.names, request.uri(), request.headers()).map_err(|refused| match refused {
            AdmissionError::Host | AdmissionError::Secret => RefusalReason::Host,
            AdmissionError::Origin => RefusalReason::Origin,
        })?;
        bearer(request.headers()).and_then(SentCredential::parse).ok_or(RefusalReason::Token)
    }

    /// The lookup of a token, once there is room for it.
    async fn begin_check(&self, token: &SentCredential) -> Result<CredentialCheck, TooManyUnknown> {
        let began = Instant::now();
        loop {
            match self.checks.begin(slice::from_ref(token), began.elapsed())? {
                CheckStart::Begun(check) => return Ok(check),
                CheckStart::Wait(pause) => sleep(pause).await,
            }
        }
    }

    async fn caller(&self, token: SentCredential) -> Result<Caller, RefusalReason> {
        let members = Arc::clone(&self.members);
        let check = self.begin_check(&token).await.map_err(|TooManyUnknown| RefusalReason::UnknownTokens)?;
        // The check ends with the lookup, also if the client has left.
        let lookup = move || {
            let found = members.caller(token.reveal());
            match &found {
                Ok(_) => check.accepted(&token),
                Err(CallerError::InvalidToken) => check.refused(&token),
                Err(CallerError::Unavailable | CallerError::TokensUnusable) => {}
            }
            found
        };
        match spawn_blocking(lookup).await {
            Ok(Ok(caller)) => Ok(caller),
            Ok(Err(CallerError::InvalidToken)) => Err(RefusalReason::Token),
            Ok(Err(CallerError::Unavailable)) | Err(_) => Err(RefusalReason::Store),
            Ok(Err(CallerError::TokensUnusable)) => Err(RefusalReason::AccessTokens),
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
        // Without `Retry-After`: a repeated call would be refused as well.
        RefusalReason::AccessTokens => {
            let reason = "Service Unavailable: this server cannot check tokens now. Nothing was recorded. Do not send the \
                          call again; tell the user. An administrator finds the cause with `workrail doctor` on the \
                          machine of the server.\n";
            (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
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
    routes: impl FnOnce(SocketAddr, ServerShutdown) -> Router,
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

    use axum::body::{Body, to_bytes};
    use tokio::runtime::Builder;
    use tokio::task::{JoinSet, yield_now};
    use workrail_model::id::AccessTokenId;
    use workrail_model::name::PrincipalName;
    use workrail_model::team::{Principal, Role};

    use super::*;

    /// Knows one member at once; a look for anybody else takes until the sender is dropped.
    struct OneMember(Mutex<Receiver<()>>);

    impl TeamBackend for OneMember {
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

        fn readiness(&self) -> Result<(), ProbeFailure> {
            Ok(())
        }

        fn store_numbers(&self) -> StoreNumbers {
            StoreNumbers::default()
        }
    }

    fn sent(token: &str) -> SentCredential {
        SentCredential::parse(token).unwrap()
    }

    fn guard(members: OneMember, unknown_wait: Duration) -> TeamGuard {
        TeamGuard {
            names: Arc::new(ListenerNames { hosts: Vec::new(), origins: Vec::new() }),
            members: Arc::new(members),
            metrics: Arc::default(),
            quotas: Quotas::default(),
            checks: CredentialChecks::waiting(unknown_wait),
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
                unknown.spawn(async move { guard.caller(sent(&format!("random {n}"))).await });
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
                let (guard, token) = (guard.clone(), sent(token));
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

    #[test]
    fn only_a_store_that_does_not_answer_is_asked_again() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let answered = |why| {
            let response = answer_to(why);
            let status = response.status().as_u16();
            let after =
                response.headers().get(header::RETRY_AFTER).map(|after| after.to_str().unwrap().to_owned());
            let body = runtime.block_on(to_bytes(response.into_body(), 1000)).unwrap();
            (status, after, String::from_utf8(body.to_vec()).unwrap())
        };
        let (status, after, body) = answered(RefusalReason::Store);
        assert_eq!((status, after.as_deref()), (503, Some("5")));
        assert!(body.contains("Send the same call again"), "{body}");
        let (status, after, body) = answered(RefusalReason::AccessTokens);
        assert_eq!((status, after), (503, None));
        assert!(body.contains("Do not send the call again; tell the user."), "{body}");
    }

    /// Broke: a header of hundreds of kilobytes was hashed again and again while it waited.
    #[test]
    fn a_token_that_is_longer_than_any_takes_no_lookup() {
        let names = ListenerNames { hosts: vec!["w.example".to_owned()], origins: Vec::new() };
        let guard =
            TeamGuard { names: Arc::new(names), ..guard(OneMember(Mutex::new(channel().1)), Duration::ZERO) };
        let token = |length: usize| {
            let bearer = format!("Bearer {}", "x".repeat(length));
            let request = Request::get("/mcp").header(header::HOST, "w.example");
            guard.token(&request.header(header::AUTHORIZATION, bearer).body(Body::empty()).unwrap())
        };
        assert_eq!(token(80), Ok(sent(&"x".repeat(80))));
        assert_eq!(token(400_000), Err(RefusalReason::Token));
    }

    /// Broke: only agents' requests were counted.
    #[test]
    fn what_the_console_refuses_is_counted_with_its_reason() {
        let metrics = Arc::<Metrics>::default();
        let runtime = Builder::new_current_thread().build().unwrap();
        let refused = |status: StatusCode| (status, "page").into_response();
        let mut unknown = refused(StatusCode::SERVICE_UNAVAILABLE);
        unknown.extensions_mut().insert(TooManyUnknown);
        let quota = refused(StatusCode::TOO_MANY_REQUESTS);
        for response in [unknown, quota, refused(StatusCode::SERVICE_UNAVAILABLE), refused(StatusCode::OK)] {
            runtime.block_on(count_refusal(State(Arc::clone(&metrics)), response));
        }
        let text = metrics.text(&StoreNumbers::default());
        let counted: Vec<_> =
            text.lines().filter(|line| line.starts_with("workrail_refused_total{")).collect();
        assert_eq!(
            counted,
            [
                "workrail_refused_total{reason=\"quota\"} 1",
                "workrail_refused_total{reason=\"unknown_tokens\"} 1",
                "workrail_refused_total{reason=\"connections\"} 0",
            ]
        );
    }
}
