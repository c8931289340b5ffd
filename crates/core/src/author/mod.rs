//! Tools for workflow authors: one layout, current spellings, the differences between two versions, and what a hash
//! is made of.

pub mod diff;
mod inputs;
mod layout;
mod migrate;

pub use inputs::{HashInputs, hash_inputs};
pub use layout::formatted;
pub use migrate::{Migrated, Migration, Renames, migrated, migrated_bindings, renamed};
