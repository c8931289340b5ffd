//! Passkeys: what is signed, whether an assertion holds, and which keys a store has enrolled (G97, G98).
//!
//! Values in, verdict out: nothing here asks an authenticator. `statement` makes the challenge of exactly what is decided;
//! `assertion` checks what an authenticator returned; `log` folds the store's passkey log; `recorded` judges what an event
//! kept.

mod assertion;
mod fingerprint;
mod log;
mod recorded;
mod statement;

pub use assertion::{AssertionError, NewKey, RegistrationError, registered};
pub use fingerprint::fingerprint;
pub use log::{Accepted, Ended, Enrolment, LogDamage, Passkeys, Refusal, Trust};
pub use recorded::{ProofError, RecordedIn, SignerOrigin, check_preferences, check_recorded};
pub use statement::Statement;
