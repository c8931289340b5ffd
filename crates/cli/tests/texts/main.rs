//! What users and agents read, word for word, from the real program.
//!
//! Each snapshot shows commands or calls with everything they printed. What differs from run to run (ids, labels,
//! tokens, digests, times, sizes, folders) is replaced by a name in brackets. After changing a text, run
//! `INSTA_UPDATE=always cargo nextest run -p workrail --all-features --test texts`, and read the difference.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod authors;
mod replies;
mod runs;
mod sessions;
mod settings;
#[path = "../snapshot/mod.rs"]
mod snapshot;
mod stage;
mod status;
mod store;
