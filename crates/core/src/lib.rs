//! The pure core: compile, interpret, decide, project, tokens, render.
//!
//! No I/O, no clock, no randomness, no maps with random order. Ids and time are arguments,
//! so that equal inputs give equal decisions in every process.

pub mod access;
pub mod agent_site;
pub mod author;
pub mod builtins;
pub mod bundle;
pub mod claims;
pub mod compare;
pub mod compile;
pub mod condition;
pub mod contract;
pub mod decide;
pub mod derive;
pub mod discover;
pub mod edits;
pub mod evidence;
pub mod explain;
pub mod hook;
pub mod interpret;
pub mod label;
pub mod link;
pub mod overview;
pub mod passkey;
mod paths;
pub mod progress;
pub mod project;
pub mod read_run;
mod reason;
pub mod recompute;
pub mod render;
pub mod reply;
pub mod report;
pub mod resume;
pub mod retention;
mod routing;
mod search;
pub mod secrets;
mod shell;
mod skeleton;
pub mod summary;
pub mod token;
pub mod trial;
