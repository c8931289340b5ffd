//! Bundles: what is checked before one is trusted, and what is changed on export and import (G80, G81).
//!
//! A bundle is hostile input and may be larger than memory. It is read as a stream, several times, one item
//! at a time: [`read_intact`] checks its format and every digest, [`check_history`] that its events are one history and
//! that everything they refer to is there, and [`deliver`] reads it again and hands over what to store. Nothing is
//! written before the second pass has succeeded, and the third trusts nothing that the first did not see.
//!
//! Code map: `read` walks the document; `checked`, `history` and `deliver` are its three passes; `identity` rewrites
//! the ids; `positions` are the positions of its snapshots in their workflows; `write` writes one; `redact` leaves values out;
//! `purge` removes a text; `portable` keeps absolute paths out.

mod checked;
mod deliver;
mod error;
mod history;
mod identity;
mod needle;
mod portable;
mod positions;
mod purge;
mod read;
mod redact;
#[cfg(test)]
mod tests;
mod write;

pub use checked::{IntactBundle, read_intact};
pub use deliver::{DeliveryError, Sink, deliver};
pub use error::{BundleError, BundleErrorKind};
pub use history::{ImportableBundle, check_history};
pub use identity::{ImportIdentity, Renumbering};
pub use portable::portable_event;
pub use purge::{Purge, TooShort};
pub use redact::{KeyPatterns, RedactionScan, Redactor};
pub use write::BundleWriter;
