//! The state of a running console, and what each visitor may use: deletions that can still be undone, the last list
//! of sessions, and the use cases in the visitor's own name.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use workrail_engine::credential_checks::SentCredential;
use workrail_engine::sessions::SessionsList;
use workrail_model::error::ErrorCode;
use workrail_model::keyring::HttpSecret;
use workrail_model::name::PrincipalName;
use workrail_model::team::{Act, Principal};

use crate::administration::Administration;
use crate::entry::{Logins, NotLoggedIn};
use crate::held::HeldDeletions;
use crate::quota::{Exceeded, MemberQuota, MemberSlot};
use crate::use_cases::{EngineResult, Environment, UseCases, refusal};

/// A write changes the stamp before it is committed, so a list is kept only if the stamp was quiet for this long before.
const QUIET: Duration = Duration::from_secs(5);
/// How long a list is kept while nothing changes. Damage that no write reports shows up after this time.
const CACHED_FOR: Duration = Duration::from_secs(30);

/// Pages rendered at the same poll share a list; the next poll is later than this.
const SHARED_FOR: Duration = Duration::from_millis(100);

/// What all visitors of a console share.
pub(crate) struct SharedConsole {
    /// The origin that passkeys are used under, as browsers write it.
    pub(crate) origin: String,
    pub(crate) environment: Arc<dyn Environment>,
    /// Access to the console's machine; `None` for a team, whose visitors have none.
    pub(crate) administration: Option<Arc<dyn Administration>>,
    pub(crate) held: HeldDeletions,
    list: Mutex<CachedList>,
    /// The requests of each member that are under way.
    requests: MemberQuota,
}

impl SharedConsole {
    pub(crate) fn new(
        origin: String,
        environment: Arc<dyn Environment>,
        administration: Option<Arc<dyn Administration>>,
    ) -> Self {
        Self {
            origin,
            environment,
            administration,
            held: HeldDeletions::default(),
            list: Mutex::default(),
            requests: MemberQuota::of_requests(),
        }
    }
}

/// An admitted visitor.
#[derive(Clone)]
pub(crate) struct Visitor {
    /// Acts in the visitor's own name: the engine knows who they are.
    pub(crate) use_cases: Arc<dyn UseCases>,
    /// Contained in all of this visitor's forms.
    pub(crate) form_token: HttpSecret,
    /// `None` for the user who started the console.
    pub(crate) member: Option<Member>,
}

/// A logged-in member of a team.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) principal: Principal,
    logins: Arc<dyn Logins>,
    cookie: SentCredential,
}

impl Member {
    pub(crate) fn new(principal: Principal, logins: Arc<dyn Logins>, cookie: SentCredential) -> Self {
        Self { principal, logins, cookie }
    }
}

/// A console as one visitor uses it.
#[derive(Clone)]
pub(crate) struct Console {
    shared: Arc<SharedConsole>,
    pub(crate) use_cases: Arc<dyn UseCases>,
    pub(crate) environment: Arc<dyn Environment>,
    visitor: Visitor,
    /// Counts a member's request until nothing works on it any more: a browser that leaves does not end the work.
    _request: Option<Arc<MemberSlot>>,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("origin", &self.shared.origin).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct CachedList {
    /// The last stamp, and since when it has been the same.
    stamp: Option<(u64, Instant)>,
    /// The cached list, and until when it may be used.
    cached: Option<(Instant, Arc<SessionsList>)>,
}

impl Console {
    pub(crate) fn new(shared: Arc<SharedConsole>, visitor: Visitor) -> Self {
        let (use_cases, environment) = (Arc::clone(&visitor.use_cases), Arc::clone(&shared.environment));
        Self { shared, use_cases, environment, visitor, _request: None }
    }

    /// The same for one request, if the visitor may have another.
    pub(crate) fn for_request(self) -> Result<Self, Exceeded> {
        let slot = self.member().map(|member| self.shared.requests.take(member).ok_or(Exceeded::Requests));
        let slot = slot.transpose()?.map(Arc::new);
        Ok(Self { _request: slot, ..self })
    }

    /// The same for work that continues after the request is answered.
    pub(crate) fn beyond_request(&self) -> Self {
        Self { _request: None, ..self.clone() }
    }

    pub(crate) fn origin(&self) -> &str {
        &self.shared.origin
    }

    pub(crate) fn form_token(&self) -> &str {
        self.visitor.form_token.reveal()
    }

    pub(crate) fn is_form_token(&self, sent: &str) -> bool {
        self.visitor.form_token.is(sent)
    }

    pub(crate) fn held(&self) -> &HeldDeletions {
        &self.shared.held
    }

    /// The logged-in member; `None` for the user who started the console.
    pub(crate) fn member(&self) -> Option<&Principal> {
        self.visitor.member.as_ref().map(|member| &member.principal)
    }

    /// Whose passkeys count here: members use their own.
    pub(crate) fn passkey_owner(&self) -> Option<&PrincipalName> {
        self.member().map(|principal| &principal.name)
    }

    /// Checks that the login is still valid: a page may stay open longer.
    pub(crate) fn check_login(&self) -> Result<(), NotLoggedIn> {
        let member = self.visitor.member.as_ref();
        member.map_or(Ok(()), |member| member.logins.visitor(member.cookie.reveal()).map(drop))
    }

    /// Access to the console's machine; refused to the visitors of a team's console.
    pub(crate) fn administration(&self) -> EngineResult<&dyn Administration> {
        self.shared.administration.as_deref().ok_or_else(|| {
            refusal(
                ErrorCode::ValidationError,
                "This concerns the machine of the server, so it is not part of a team's console.",
                "Run `workrail config`, `workrail workflow` or `workrail doctor` on that machine.",
            )
        })
    }

    /// Whether this is a team's console, where every visitor has a name and a role.
    pub(crate) fn is_of_team(&self) -> bool {
        self.shared.administration.is_none()
    }

    pub(crate) fn may(&self, act: Act) -> bool {
        self.use_cases.may(act)
    }

    /// All runs as of now; ten thousand sessions are not read again while nothing has changed.
    pub(crate) fn sessions(&self) -> EngineResult<Arc<SessionsList>> {
        let mut known = self.shared.list.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, stamp) = (Instant::now(), self.use_cases.change_stamp());
        let quiet_since = match (known.stamp, stamp) {
            (Some((before, since)), Some(stamp)) if before == stamp => Some(since),
            (_, Some(stamp)) => {
                known.stamp = Some((stamp, now));
                known.cached = None;
                None
            }
            // The store cannot tell whether it changed.
            (_, None) => {
                known.cached = None;
                None
            }
        };
        let is_quiet = quiet_since.is_some_and(|since| now.duration_since(since) >= QUIET);
        if let Some((until, list)) = &known.cached
            && now < *until
        {
            return Ok(Arc::clone(list));
        }
        let list = Arc::new(self.use_cases.sessions()?);
        // A list taken soon after a write may miss it, so it serves only this poll.
        known.cached = Some((now + if is_quiet { CACHED_FOR } else { SHARED_FOR }, Arc::clone(&list)));
        Ok(list)
    }
}
