//! What agents and people read, built from typed values.

pub(crate) mod limited;
pub mod prompt;
pub(crate) mod template;
