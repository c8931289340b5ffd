//! What a role may do, and whether a token is good: the only table of rights (G113).

use workrail_model::team::{AccessToken, Act, PresentedToken, Principal, Role};
use workrail_model::time::Timestamp;

/// Whether an actor with this role may do this.
pub fn allows(role: Role, act: Act) -> bool {
    match (role, act) {
        (_, Act::Read) | (Role::Admin, Act::Work | Act::Decide | Act::Administer) => true,
        (Role::Agent, Act::Work) | (Role::Approver, Act::Decide) => true,
        (Role::Viewer, Act::Work | Act::Decide | Act::Administer)
        | (Role::Agent, Act::Decide | Act::Administer)
        | (Role::Approver, Act::Work | Act::Administer) => false,
    }
}

/// The roles that may do this, weakest first.
pub fn allowed(act: Act) -> impl Iterator<Item = Role> {
    Role::ALL.into_iter().filter(move |role| allows(*role, act))
}

/// Why a token lets nobody in. What a stranger is told is the same for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// No token of this store, or not its secret.
    Unknown,
    Expired,
    Revoked,
}

/// Whose token it is. `stored` is what the store has under the token's id.
pub fn check(
    sent: &PresentedToken,
    stored: Option<&AccessToken>,
    now: &Timestamp,
) -> Result<Principal, TokenRefusal> {
    let stored = stored.filter(|own| own.id == sent.id).ok_or(TokenRefusal::Unknown)?;
    if !same(stored.digest.as_bytes(), sent.secret.digest().as_bytes()) {
        return Err(TokenRefusal::Unknown);
    }
    holds(stored, now)
}

/// Whether a token that is known to be genuine can still be used.
pub fn holds(stored: &AccessToken, now: &Timestamp) -> Result<Principal, TokenRefusal> {
    if stored.revoked_at.is_some() {
        return Err(TokenRefusal::Revoked);
    }
    // Both have one shape, which sorts as time does.
    if stored.expires_at <= *now {
        return Err(TokenRefusal::Expired);
    }
    Ok(Principal { name: stored.name.clone(), role: stored.role, token_id: stored.id })
}

fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    a.iter().zip(b).fold(0, |seen, (a, b)| std::hint::black_box(seen | (a ^ b))) == 0
}

#[cfg(test)]
mod tests {
    use workrail_model::id::AccessTokenId;
    use workrail_model::name::PrincipalName;
    use workrail_model::team::AccessSecret;

    use super::*;

    /// G113, G114
    #[test]
    fn the_table_of_rights() {
        let table = [
            (Role::Viewer, [true, false, false, false]),
            (Role::Agent, [true, true, false, false]),
            (Role::Approver, [true, false, true, false]),
            (Role::Admin, [true, true, true, true]),
        ];
        for (role, expected) in table {
            assert_eq!(Act::ALL.map(|act| allows(role, act)), expected, "{role:?}");
        }
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn made() -> (PresentedToken, AccessToken) {
        let sent =
            PresentedToken { id: AccessTokenId::from_bits([1; 10]), secret: AccessSecret::new([2; 32]) };
        let stored = AccessToken {
            id: sent.id,
            name: PrincipalName::parse("ada").unwrap(),
            role: Role::Agent,
            digest: sent.secret.digest(),
            created_at: at("2026-01-01T00:00:00.000Z"),
            expires_at: at("2026-02-01T00:00:00.000Z"),
            revoked_at: None,
        };
        (sent, stored)
    }

    #[test]
    fn a_token_is_good_until_it_expires_or_is_revoked() {
        let (sent, stored) = made();
        let during = at("2026-01-31T23:59:59.999Z");
        assert_eq!(check(&sent, Some(&stored), &during).map(|own| own.role), Ok(Role::Agent));
        assert_eq!(check(&sent, Some(&stored), &stored.expires_at), Err(TokenRefusal::Expired));
        let revoked = AccessToken { revoked_at: Some(at("2026-01-02T00:00:00.000Z")), ..stored.clone() };
        assert_eq!(check(&sent, Some(&revoked), &during), Err(TokenRefusal::Revoked));
        assert_eq!(check(&sent, None, &during), Err(TokenRefusal::Unknown));
        let other = PresentedToken { secret: AccessSecret::new([3; 32]), ..sent };
        assert_eq!(check(&other, Some(&stored), &during), Err(TokenRefusal::Unknown));
    }
}
