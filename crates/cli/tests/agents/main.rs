//! Agents that make mistakes: each drives the compiled server over stdio as a model might, and the server must lead
//! it back without losing or mixing up anything.
//!
//! Every reply to every agent passes through `support::Agent`, which checks what holds for all of them: both channels
//! equal, small enough, short tokens, the next call in the text.
//!
//! This program works on data directories; `on_postgres.rs` has the same agents on databases.

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
