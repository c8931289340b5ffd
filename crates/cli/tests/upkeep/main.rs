//! Checking, cleaning, keeping, removing, repairing and rotating, through the real binary (G24, G25, G33).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod access_tokens;
mod backing_up;
mod cleaning;
mod deciding;
mod foreign;
mod keys;
mod killed;
mod obstructed;
mod partial_copies;
mod reading;
mod repairing;
mod repairing_content;
mod scene;
mod thousands;
#[path = "../wording/mod.rs"]
mod wording;
