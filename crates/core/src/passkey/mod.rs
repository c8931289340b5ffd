//! Passkeys: what is signed, whether an assertion is valid, and which keys a store has enrolled (G97, G98).
//!
//! Pure functions: nothing here talks to an authenticator. `statement` computes the challenge for exactly what is
//! decided; `assertion` checks an authenticator's response; `log` folds the store's passkey log; `recorded` checks
//! what an event stored.

mod assertion;
mod fingerprint;
mod log;
mod recorded;
mod statement;

pub use assertion::{AssertionError, NewKey, RegistrationError, registered};
pub use fingerprint::fingerprint;
pub use log::{Accepted, AssertionRefusal, Enrolment, KeyEnd, LogDamage, Passkeys, Trust};
pub(crate) use recorded::check_preferences;
pub use recorded::{ProofError, RecordedIn, SignerOrigin, check_recorded};
pub use statement::Statement;
