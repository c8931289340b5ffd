//! What the core needs from the outside: traits and their error enums, nothing else.
//!
//! All ports are synchronous: a cancelled async append could stop half-way, a blocking call on a
//! blocking thread cannot.

pub mod access;
pub mod archive;
pub mod backup;
pub mod cache;
pub mod chats;
pub mod checks;
pub mod content;
pub mod environment;
pub mod file_system;
pub mod keyring;
pub mod observations;
pub mod passkeys;
pub mod pending_preferences;
pub mod servers;
pub mod session_store;
pub mod upkeep;
pub mod workflow_source;
pub mod workspace;
