//! The console through the real binary, over HTTP: admission, what pages show, what forms change (G94 to G100).

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod checks;
mod decisions;
mod editing;
#[path = "../forge/mod.rs"]
mod forge;
mod guard;
mod harness;
mod live;
mod passkey_attacks;
mod passkey_modes;
mod passkeys;
mod sessions;
mod settings;
#[path = "../wording/mod.rs"]
mod wording;
