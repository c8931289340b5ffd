//! What a person asks about sessions: which there are, what one holds, what was written where.
//!
//! Queries for the command line and the console. They read what is readable of a damaged session and say so
//! (G20), and have no way to write (G36).

mod attention;
mod list;
mod log;
mod search;
mod show;
mod status;

pub use attention::Attention;
pub use log::SessionLog;
pub use search::NoteSearch;
pub use show::{RunContinuation, SessionView};
pub use status::{Need, NeedsYou, OpenQuestion, Status, WaitReason};
pub use workrail_core::overview::{
    DamagedRow, Extent, FoundIn, Hit, RowFilter, RunRow, SessionsList, Stage, Wanted,
};

/// How far a query over all sessions has come: how many are done, of how many.
pub type Heard<'a> = &'a mut dyn FnMut(u64, u64);
