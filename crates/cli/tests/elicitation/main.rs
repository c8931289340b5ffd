//! A step that waits for the user asks them through the client, if the settings and the client allow it (G63);
//! through the real binary, with clients that answer, decline, stay silent or cannot be asked.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod decisions;
mod forms;
mod harness;
mod transports;
#[path = "../wording/mod.rs"]
mod wording;
