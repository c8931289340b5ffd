//! The use cases through the engine: what an agent reads, and what a person can do about it.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod bounds;
mod bundles;
mod failing_disks;
mod inspecting;
mod listing;
mod overview;
mod reading_runs;
mod replies;
mod reporting;
mod rich;
mod scene;
mod schemas;
mod starting;
mod steering;
