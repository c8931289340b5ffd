//! What one console holds while it runs, and what each visitor of it may use: deletions that can still be undone, the last
//! list of sessions, and the use cases in the visitor's own name.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use workrail_engine::sessions::SessionsList;
use workrail_model::error::ErrorCode;
use workrail_model::keyring::HttpSecret;
use workrail_model::name::PrincipalName;
use workrail_model::team::{Act, Principal};

use crate::administration::Administration;
use crate::entry::{Logins, NotLoggedIn};
use crate::held::HeldDeletions;
use crate::use_cases::{Answer, Environment, UseCases, refusal};

/// A write changes the mark before it is committed, so a list is kept only if the mark was quiet for this long before.
const QUIET: Duration = Duration::from_secs(5);
/// How long a list is kept while nothing changes. Damage that no write reports is seen after this.
const CACHED_FOR: Duration = Duration::from_secs(30);

/// Pages that are rendered for the same look share a list; the next look at the store is later than this.
const SHARED: Duration = Duration::from_millis(100);

/// What all visitors of a console share.
pub(crate) struct Shared {
    /// The origin that passkeys are used under, as browsers write it.
    pub(crate) origin: String,
    pub(crate) environment: Arc<dyn Environment>,
    /// What concerns the machine of the console: nothing that a team's visitors reach.
    pub(crate) administration: Option<Arc<dyn Administration>>,
    pub(crate) held: HeldDeletions,
    list: Mutex<CachedList>,
}

impl Shared {
    pub(crate) fn new(
        origin: String,
        environment: Arc<dyn Environment>,
        administration: Option<Arc<dyn Administration>>,
    ) -> Self {
        Self { origin, environment, administration, held: HeldDeletions::default(), list: Mutex::default() }
    }
}

/// Somebody who was let in.
#[derive(Clone)]
pub(crate) struct Visitor {
    /// What they may ask and do is theirs: the engine knows who they are.
    pub(crate) use_cases: Arc<dyn UseCases>,
    /// In every form of theirs.
    pub(crate) form_token: HttpSecret,
    /// `None` for the user who started the console.
    pub(crate) member: Option<Member>,
}

/// A member of a team who is logged in.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) principal: Principal,
    logins: Arc<dyn Logins>,
    cookie: String,
}

impl Member {
    pub(crate) fn new(principal: Principal, logins: Arc<dyn Logins>, cookie: String) -> Self {
        Self { principal, logins, cookie }
    }
}

/// A console as one visitor uses it.
#[derive(Clone)]
pub(crate) struct Console {
    shared: Arc<Shared>,
    pub(crate) use_cases: Arc<dyn UseCases>,
    pub(crate) environment: Arc<dyn Environment>,
    visitor: Visitor,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").field("origin", &self.shared.origin).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct CachedList {
    /// The mark that was seen last, and since when.
    mark: Option<(u64, Instant)>,
    /// Until when a list can be used, and the list.
    cached: Option<(Instant, Arc<SessionsList>)>,
}

impl Console {
    pub(crate) fn new(shared: Arc<Shared>, visitor: Visitor) -> Self {
        let (use_cases, environment) = (Arc::clone(&visitor.use_cases), Arc::clone(&shared.environment));
        Self { shared, use_cases, environment, visitor }
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

    /// Who is logged in; `None` for the user who started the console.
    pub(crate) fn member(&self) -> Option<&Principal> {
        self.visitor.member.as_ref().map(|member| &member.principal)
    }

    /// Whose passkeys count here: a member's are their own.
    pub(crate) fn passkey_owner(&self) -> Option<&PrincipalName> {
        self.member().map(|principal| &principal.name)
    }

    /// Whether the login that this was opened with still holds: a page stays open for longer than that may take.
    pub(crate) fn still_let_in(&self) -> Result<(), NotLoggedIn> {
        let member = self.visitor.member.as_ref();
        member.map_or(Ok(()), |member| member.logins.visitor(&member.cookie).map(drop))
    }

    /// What concerns the machine that the console runs on; refused to the visitors of a team's console.
    pub(crate) fn administration(&self) -> Answer<&dyn Administration> {
        self.shared.administration.as_deref().ok_or_else(|| {
            refusal(
                ErrorCode::ValidationError,
                "This concerns the machine of the server, so it is not part of a team's console.",
                "Run `workrail config`, `workrail workflow` or `workrail doctor` on that machine.",
            )
        })
    }

    /// Whether this is the console of a team, in which everybody has a name and a role.
    pub(crate) fn is_of_team(&self) -> bool {
        self.shared.administration.is_none()
    }

    pub(crate) fn may(&self, act: Act) -> bool {
        self.use_cases.may(act)
    }

    /// Every run, as the store is now; looking at ten thousand sessions again is spared while nothing changed.
    pub(crate) fn sessions(&self) -> Answer<Arc<SessionsList>> {
        let mut known = self.shared.list.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, mark) = (Instant::now(), self.use_cases.change_mark());
        let quiet_since = match (known.mark, mark) {
            (Some((before, since)), Some(mark)) if before == mark => Some(since),
            (_, Some(mark)) => {
                known.mark = Some((mark, now));
                known.cached = None;
                None
            }
            // Nothing says whether it changed.
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
        // One that was taken soon after a write may miss it, so it serves this look alone.
        known.cached = Some((now + if is_quiet { CACHED_FOR } else { SHARED }, Arc::clone(&list)));
        Ok(list)
    }
}
