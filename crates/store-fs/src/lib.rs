//! The local store on a file system, and the simulated disk that its proofs use.
//!
//! `FORMAT.md` in this crate specifies every byte; `commit` is the append protocol, and `load` the reader, which
//! verifies everything.

mod access;
mod activity;
mod archive;
mod backup;
mod cache;
mod chats;
mod commit;
mod content;
mod dedupe;
pub mod disk;
mod folder_tree;
mod import;
mod index;
mod keyring;
mod layout;
mod load;
mod memo;
#[cfg(doctest)]
mod misuse;
mod observations;
mod obstacles;
mod orphan;
mod passkeys;
mod pending_preferences;
mod reachable;
mod rebuild;
mod removal;
mod repair;
mod segment;
mod servers;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod stamps;
mod store;
mod strays;
mod suspect;
mod sweep;
mod upkeep;

pub use import::StagedLocalImport;
pub use servers::ServerRegistration;
pub use store::{LocalStore, LockedLocalSession};
