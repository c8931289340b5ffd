//! The environment: clock, randomness, the machine's boot, the workspace, and where workflows come from.

pub mod boot;
mod bounded;
pub mod browser;
pub mod checks;
pub mod clients;
pub mod clock;
pub mod config;
pub mod data_dir;
pub mod entropy;
pub mod env_vars;
pub mod folders;
pub mod identity;
pub mod local_time;
pub mod machine;
pub mod notification;
pub mod pager;
pub mod path_watch;
pub mod processes;
mod programs;
pub mod remote_server;
pub mod sources;
pub mod store_password;
pub mod terminal;
pub mod tls_files;
mod tree;
mod whole_file;
pub mod workspace;
