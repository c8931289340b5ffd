//! Test support: a store in memory, fixed time and entropy, histories to append, and one suite that every store must
//! pass.
//!
//! A dev-dependency only: nothing here is shipped.

pub mod authenticator;
pub mod bare_rows;
pub mod conformance;
pub mod fixed;
pub mod fleet;
pub mod folder;
pub mod git;
pub mod history;
pub mod home;
pub mod large_store;
pub mod mcp_client;
pub mod memory;
pub mod monitor;
pub mod page;
pub mod pooler;
pub mod postgres;
pub mod proof;
pub mod proxy;
pub mod skipped;
pub mod standby;
pub mod strace;
pub mod team;
pub mod tls;
pub mod volatile;
pub mod wire;
