//! What is around us: clock, randomness, the machine's boot, and where workflows come from.

pub mod boot;
pub mod clock;
pub mod data_dir;
pub mod entropy;
pub mod env_vars;
pub mod sources;
