//! Which build this is.

/// Only the version.
pub(crate) const SHORT: &str = env!("CARGO_PKG_VERSION");

/// The version and the commit it was built from, or `unknown` outside a checkout.
pub(crate) const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WORKRAIL_COMMIT"), ")");
