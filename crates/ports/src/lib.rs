//! What the outside owes us: traits and their error enums, nothing else.

pub mod file_system;
