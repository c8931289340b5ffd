//! The agent's interface: the tool catalogue, argument parsing, error mapping, and the transports.
//!
//! Stdout belongs to the transport; nothing here prints. A failure inside one call never ends the
//! server.

mod addressee;
mod arguments;
mod asked_forms;
mod batch;
mod call;
pub mod catalogue;
mod connections;
mod elicit;
mod form;
pub mod http;
mod indexing;
mod lines;
mod loopback;
mod message;
pub mod metrics;
mod output_schema;
mod peers;
mod progress;
mod prompts;
pub mod quota;
mod readiness;
mod resources;
mod roots;
mod runtime;
mod server;
pub mod stdio;
pub mod team;
pub mod tls;

pub use call::{Execution, StructuredContent, TextInData};
pub use elicit::{ChatApprovals, ChatQuestions};
pub use loopback::Authentication;
pub use runtime::check_open_files;
pub use server::Server;
