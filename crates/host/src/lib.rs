//! What is around us: clock, randomness, the machine's boot, the workspace, and where workflows come from.

pub mod boot;
mod bounded;
pub mod browser;
pub mod clock;
pub mod data_dir;
pub mod entropy;
pub mod env_vars;
pub mod sources;
pub mod workspace;
