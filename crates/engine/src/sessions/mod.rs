//! What a person asks about sessions: which exist, what one contains, what was written where.
//!
//! Queries for the command line and the console. They read the intact part of a damaged session and say so
//! (G20), and cannot write (G36).

mod attention;
mod list;
mod log;
mod search;
mod show;
mod status;

pub use attention::Attention;
pub use log::SessionLog;
pub use search::RecordSearch;
pub use show::{RunContinuation, SessionView};
pub use status::{Need, NeedsYou, OpenQuestion, StoreStatus, WaitReason};
pub use workrail_core::overview::{
    DamagedRow, FoundIn, Hit, ListLength, ListQuery, RowFilter, RunRow, SessionsList, Stage,
};
