//! What agents and people read, built from typed values.

pub mod prompt;
pub(crate) mod template;
