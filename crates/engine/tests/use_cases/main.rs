//! The use cases through the engine: what an agent reads, and what a person can do about it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod bounds;
mod bundles;
mod drift;
mod evidence;
mod failing_disks;
mod gates;
mod indexing;
mod inspecting;
mod left_behind;
mod listing;
mod next_calls;
mod numbering;
mod overview;
mod played;
mod reading_runs;
mod replies;
mod reporting;
mod resuming;
mod retries;
mod rich;
mod roles;
mod scene;
mod schemas;
mod skipped;
mod starting;
mod steering;
