//! What a role may do, and whether a token is valid: the only table of rights (G113).

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256 as Sha256Hash;
use workrail_model::id::AccessTokenId;
use workrail_model::keyring::{Keyring, SigningKey};
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
pub fn roles_allowed(act: Act) -> impl Iterator<Item = Role> {
    Role::ALL.into_iter().filter(move |role| allows(*role, act))
}

/// Why a token is not accepted. An unauthenticated caller gets the same answer for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// Not a token of this store, or with a wrong secret.
    Unknown,
    Expired,
    Revoked,
}

/// The principal of a token. `stored` is what the store has under the token's id.
pub fn check(
    sent: &PresentedToken,
    stored: Option<&AccessToken>,
    now: &Timestamp,
) -> Result<Principal, TokenRefusal> {
    let stored = stored.filter(|token| token.id == sent.id).ok_or(TokenRefusal::Unknown)?;
    if !same(stored.digest.as_bytes(), sent.secret.digest().as_bytes()) {
        return Err(TokenRefusal::Unknown);
    }
    check_valid(stored, now)
}

/// The principal of a token that is known to be genuine, if it is still valid.
pub fn check_valid(stored: &AccessToken, now: &Timestamp) -> Result<Principal, TokenRefusal> {
    if stored.revoked_at.is_some() {
        return Err(TokenRefusal::Revoked);
    }
    // Both have the same format, which sorts chronologically.
    if stored.expires_at <= *now {
        return Err(TokenRefusal::Expired);
    }
    Ok(Principal { name: stored.name.clone(), role: stored.role, token_id: stored.id })
}

/// Compares secrets in constant time.
fn same<const N: usize>(a: &[u8; N], b: &[u8; N]) -> bool {
    a.iter().zip(b).fold(0, |seen, (a, b)| std::hint::black_box(seen | (a ^ b))) == 0
}

/// What a browser is given for a token, so that the token itself is in no cookie: `ID.SECONDS.MAC`. Every server with the
/// store's keys accepts it until it or the token expires (G125).
pub fn mint_login(keyring: &Keyring, token: AccessTokenId, until_epoch_s: u64) -> String {
    let payload = format!("{token}.{until_epoch_s}");
    let mac = data_encoding::BASE64URL_NOPAD.encode(&seal(&keyring.current, "login", payload.as_bytes()));
    format!("{payload}.{mac}")
}

/// The token that a login was made for; `None` if no key of this store made it, or if it is too old.
pub fn verify_login(keyring: &Keyring, text: &str, now_epoch_s: u64) -> Option<AccessTokenId> {
    let (payload, mac) = text.rsplit_once('.')?;
    let mac: [u8; 32] = data_encoding::BASE64URL_NOPAD.decode(mac.as_bytes()).ok()?.try_into().ok()?;
    let is_ours = keyring.in_order().any(|key| same(&seal(key, "login", payload.as_bytes()), &mac));
    let (token, until) = payload.split_once('.').filter(|_| is_ours)?;
    let until: u64 = until.parse().ok()?;
    AccessTokenId::parse(token).ok().filter(|_| now_epoch_s < until)
}

/// The token in the forms of a login: known to the pages shown to that login, and in no cookie.
pub fn form_token(keyring: &Keyring, login: &str) -> [u8; 32] {
    seal(&keyring.current, "form", login.as_bytes())
}

/// How long a user may take to find their key.
const NONCE_SECONDS: u64 = 600;
/// The allowed clock difference between two servers.
const SKEW_SECONDS: u64 = 60;

/// A nonce for one use of a passkey: random, timestamped and sealed, so that every server with the store's keys
/// recognises it. The passkey log ensures that it is used only once.
pub fn nonce(keyring: &Keyring, random: [u8; 12], now_epoch_s: u64) -> [u8; 32] {
    let mut nonce = [0; 32];
    let (payload, mac) = nonce.split_at_mut(16);
    payload[..12].copy_from_slice(&random);
    // The seconds fit until the year 2106; a later nonce is never valid.
    payload[12..].copy_from_slice(&u32::try_from(now_epoch_s).unwrap_or_default().to_be_bytes());
    mac.copy_from_slice(&seal(&keyring.current, "nonce", payload)[..16]);
    nonce
}

/// Whether a server of this store drew the nonce recently.
pub fn nonce_holds(keyring: &Keyring, nonce: &[u8], now_epoch_s: u64) -> bool {
    let Some((payload, mac)) = nonce.split_first_chunk::<16>() else { return false };
    let Ok(mac) = <[u8; 16]>::try_from(mac) else { return false };
    let is_ours = keyring.in_order().any(|key| {
        let sealed = seal(key, "nonce", payload);
        sealed.first_chunk::<16>().is_some_and(|own| same(own, &mac))
    });
    let drawn = payload.last_chunk::<4>().map_or(0, |at| u64::from(u32::from_be_bytes(*at)));
    is_ours && drawn <= now_epoch_s + SKEW_SECONDS && now_epoch_s.saturating_sub(drawn) < NONCE_SECONDS
}

fn seal(key: &SigningKey, purpose: &str, payload: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256Hash>::new_from_slice(key.bytes()).expect("HMAC accepts keys of any length");
    mac.update(b"workrail/team/");
    mac.update(purpose.as_bytes());
    mac.update(b"/");
    mac.update(payload);
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use workrail_model::name::PrincipalName;
    use workrail_model::team::AccessSecret;

    use super::*;

    /// G113, G114
    #[test]
    fn each_role_has_exactly_its_rights() {
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
    fn a_token_is_valid_until_it_expires_or_is_revoked() {
        let (sent, stored) = made();
        let during = at("2026-01-31T23:59:59.999Z");
        assert_eq!(check(&sent, Some(&stored), &during).map(|token| token.role), Ok(Role::Agent));
        assert_eq!(check(&sent, Some(&stored), &stored.expires_at), Err(TokenRefusal::Expired));
        let revoked = AccessToken { revoked_at: Some(at("2026-01-02T00:00:00.000Z")), ..stored.clone() };
        assert_eq!(check(&sent, Some(&revoked), &during), Err(TokenRefusal::Revoked));
        assert_eq!(check(&sent, None, &during), Err(TokenRefusal::Unknown));
        let other = PresentedToken { secret: AccessSecret::new([3; 32]), ..sent };
        assert_eq!(check(&other, Some(&stored), &during), Err(TokenRefusal::Unknown));
    }

    #[test]
    fn a_login_is_valid_with_the_keys_that_made_it_until_it_expires() {
        let keys = |n| Keyring { current: SigningKey::new([n; 32]), previous: None };
        let token = AccessTokenId::from_bits([1; 10]);
        let login = mint_login(&keys(1), token, 1000);
        assert_eq!(verify_login(&keys(1), &login, 999), Some(token));
        assert_eq!(verify_login(&keys(1), &login, 1000), None, "too late");
        assert_eq!(verify_login(&keys(2), &login, 999), None, "other keys");
        let rotated = keys(1).rotated(SigningKey::new([2; 32]));
        assert_eq!(verify_login(&rotated, &login, 999), Some(token), "one rotation");
        let later = login.replace(".1000.", ".9999.");
        for forged in ["", "..", &later, &login[1..], &format!("{login}A")] {
            assert_eq!(verify_login(&keys(1), forged, 999), None, "{forged:?}");
        }
        assert_ne!(form_token(&keys(1), &login), form_token(&keys(1), &later));
    }

    #[test]
    fn a_nonce_is_valid_on_every_server_for_some_minutes() {
        let keys = |n| Keyring { current: SigningKey::new([n; 32]), previous: None };
        let drawn = nonce(&keys(1), [7; 12], 5000);
        assert!(nonce_holds(&keys(1), &drawn, 5000) && nonce_holds(&keys(1), &drawn, 5599));
        assert!(!nonce_holds(&keys(1), &drawn, 5600), "too old");
        assert!(!nonce_holds(&keys(1), &drawn, 4900), "from the future");
        assert!(!nonce_holds(&keys(2), &drawn, 5000), "other keys");
        assert!(nonce_holds(&keys(1).rotated(SigningKey::new([2; 32])), &drawn, 5000), "one rotation");
        for index in 0..drawn.len() {
            let mut forged = drawn;
            forged[index] ^= 1;
            assert!(!nonce_holds(&keys(1), &forged, 5000), "{index}");
        }
        assert!(!nonce_holds(&keys(1), &drawn[..31], 5000));
        assert!(!nonce_holds(&keys(1), &[], 5000));
    }
}
