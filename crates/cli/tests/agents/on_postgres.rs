//! The same agents as in `main.rs`, on sessions in PostgreSQL.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test prints its figures and stops at the first surprise"
)]

mod at_once;
mod bad_input;
mod bundled;
mod corpus;
mod lost_chat;
mod mangle;
mod mixed_up;
mod odd_values;
mod repeated_starts;
mod replays;
mod rewinds;
mod slips;
mod stubborn;
mod support;
mod two_chats;
#[path = "../wording/mod.rs"]
mod wording;
