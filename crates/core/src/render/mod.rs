//! What agents and people read, rendered from typed values.

pub(crate) mod limited;
pub mod prompt;
pub(crate) mod template;
