//! What an agent learns before it starts: listing, inspecting, and that both agree with the run.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod inspecting;
mod listing;
mod replies;
mod scene;
mod schemas;
