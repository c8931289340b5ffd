//! The data model: ids, closed sets, events, manifest, snapshots, and the one canonical form.
//!
//! Pure data: no I/O, no clock, no randomness, no maps with random order. Every value of a type in this
//! crate has been checked; illegal states cannot be represented.

pub mod approval;
pub mod assessment;
pub mod blocker;
pub mod bundle;
pub mod canonical;
pub mod capability;
pub mod chat;
mod closed_set;
pub mod compiled;
pub mod config;
pub mod digest;
pub mod discovery;
pub mod error;
pub mod event;
pub mod evidence;
pub mod gap;
pub mod health;
pub mod id;
pub mod keyring;
pub mod limits;
pub mod loopback;
pub mod manifest;
pub mod name;
pub mod nearest;
pub mod passkey;
pub mod placeholder;
pub mod plan;
pub mod preferences;
pub mod public_url;
pub mod read_run;
pub mod reason;
pub mod reply;
pub mod resume;
pub mod retention;
pub mod server;
pub mod session;
pub mod shell;
pub mod snapshot;
pub mod step_key;
pub mod strict_json;
pub mod submission;
pub mod team;
pub mod text;
pub mod time;
pub mod token;
pub mod tool;
