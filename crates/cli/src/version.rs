//! Which build this is.

/// The version alone.
pub(crate) const SHORT: &str = env!("CARGO_PKG_VERSION");

/// The version and the commit it was built from, `unknown` outside a checkout.
pub(crate) const LONG: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("WORKRAIL_COMMIT"), ")");
