//! What users and agents read, word for word, from the real program.
//!
//! Each snapshot shows commands or calls with everything they printed. What differs from run to run (ids, labels,
//! tokens, digests, times, sizes, folders) is replaced by a name in brackets. After changing a text, run
//! `INSTA_UPDATE=always cargo nextest run --workspace --all-features --test texts`, and read the difference.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod authors;
#[path = "../command_tree/mod.rs"]
mod command_tree;
mod complete;
mod people;
mod replies;
mod runs;
mod serving;
mod sessions;
mod settings;
#[path = "../snapshot/mod.rs"]
mod snapshot;
mod stage;
mod status;
mod store;
