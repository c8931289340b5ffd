//! How an agent asks: the tool catalogue, argument parsing, error mapping, and the transports.
//!
//! Stdout belongs to the transport; nothing here prints. A failure inside one call never ends the
//! server.

mod call;
pub mod catalogue;
pub mod http;
mod lines;
mod loopback;
mod message;
mod repair;
mod resources;
mod roots;
mod runtime;
mod server;
pub mod stdio;

pub use call::Execution;
pub use loopback::{Authentication, LoopbackAddress, NotLoopback};
pub use server::Server;
