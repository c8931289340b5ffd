//! Where a team's sessions are stored: the store ports on PostgreSQL 15 or newer.
//!
//! Stores the same canonical bytes as the local store, so that bundles from both are equal. One append is one
//! transaction that is acknowledged after its COMMIT (G102); rows of other tenants are invisible (G103).
//!
//! The client waits for answers on its own runtime, so nothing here may be called from async code: the servers call
//! the engine on blocking threads.

mod access;
mod activity;
mod address;
mod append;
mod archive;
mod cache;
mod connection;
mod content;
mod encryption;
mod error;
mod index;
mod inspect;
mod keys;
mod loan;
mod log;
mod open;
mod passkeys;
mod pending_preferences;
mod pool;
mod reader;
mod repair;
mod schema;
mod search;
mod session;
mod sweep;
mod transaction;
mod upkeep;
mod wrapping;

pub use address::{AddressError, DatabaseAddress, Password, TenantName};
pub use archive::StagedPgImport;
pub use open::{OpenError, PgStore, ServerFacts};
pub use pool::PoolUse;
pub use search::FoundRow;
pub use session::LockedPgSession;
pub use wrapping::WrappingKey;
