//! How much of a team's console one member may use at once, so that others need not wait (G125).
//!
//! Members are counted by access token, as for agents: a token in several browsers is one member. The user who started
//! a console of their own is alone there and is not counted.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use workrail_engine::slots::{HolderSlot, HolderSlots};
use workrail_model::id::AccessTokenId;
use workrail_model::team::Principal;

/// A browser opens six connections to a server, so two browsers stay below it. Agents have the same limit.
const REQUESTS_MAX: usize = 16;

/// A quarter of all live pages. Only the visible tab of a window holds one.
const PAGES_MAX: usize = 16;

/// Counts what each member holds.
#[derive(Clone, Debug)]
pub(crate) struct MemberQuota(HolderSlots<AccessTokenId>);

/// One of the things that a member may hold, until this is dropped.
pub(crate) type MemberSlot = HolderSlot<AccessTokenId>;

impl MemberQuota {
    /// Requests that are under way.
    pub(crate) fn of_requests() -> Self {
        Self(HolderSlots::new(REQUESTS_MAX))
    }

    /// Pages that are kept up to date.
    pub(crate) fn of_pages() -> Self {
        Self(HolderSlots::new(PAGES_MAX))
    }

    /// Counts one more; `None` when the member holds as many as they may.
    pub(crate) fn take(&self, member: &Principal) -> Option<MemberSlot> {
        self.0.take(member.token_id)
    }
}

/// Why a request of a logged-in member is not answered now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    /// The member has as many requests under way as they may.
    Requests,
    /// As many pages of the member are live as may be.
    Pages,
    /// As many pages of everybody are live as may be.
    AllPages,
}

impl IntoResponse for Exceeded {
    /// A sentence and no page: scripts show it to people as it is.
    fn into_response(self) -> Response {
        let (status, reason) = match self {
            Self::Requests => (
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "{REQUESTS_MAX} requests with your token are in progress, the most allowed at once. Nothing was \
                     changed. Try again when one of them is answered.\n"
                ),
            ),
            Self::Pages => (
                StatusCode::TOO_MANY_REQUESTS,
                format!(
                    "{PAGES_MAX} pages opened with your token are live, the most allowed at once. Close one of them, \
                     or reload this page to see what changed.\n"
                ),
            ),
            Self::AllPages => (
                StatusCode::SERVICE_UNAVAILABLE,
                "Too many pages are open. Close some of them, or reload this page to see what changed.\n"
                    .to_owned(),
            ),
        };
        (status, [(header::RETRY_AFTER, "1")], reason).into_response()
    }
}

#[cfg(test)]
mod tests {
    use workrail_model::name::PrincipalName;
    use workrail_model::team::Role;

    use super::*;

    fn member(n: u8) -> Principal {
        Principal {
            name: PrincipalName::parse("ada").unwrap(),
            role: Role::Viewer,
            token_id: AccessTokenId::from_bits([n; 10]),
        }
    }

    #[test]
    fn a_member_holds_so_many_and_others_their_own() {
        for (quota, max) in [(MemberQuota::of_requests(), 16), (MemberQuota::of_pages(), 16)] {
            let mut held: Vec<_> = (0..max).map(|_| quota.take(&member(1)).unwrap()).collect();
            assert!(quota.take(&member(1)).is_none(), "above the limit");
            assert!(quota.take(&member(2)).is_some(), "another token of the same name");
            held.pop();
            let last = quota.take(&member(1));
            assert!(last.is_some(), "just below the limit, one that ended makes room");
            assert!(quota.take(&member(1)).is_none(), "at the limit again");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do_and_when() {
        for (exceeded, status) in
            [(Exceeded::Requests, 429), (Exceeded::Pages, 429), (Exceeded::AllPages, 503)]
        {
            let answer = exceeded.into_response();
            assert_eq!(answer.status(), status);
            assert_eq!(answer.headers()[header::RETRY_AFTER], "1");
        }
    }
}
