//! The console through the real binary, over HTTP: who is answered, what pages show, what forms change (G94 to G96).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod decisions;
mod guard;
mod harness;
mod live;
mod sessions;
mod settings;
