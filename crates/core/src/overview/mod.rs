//! Sessions at a glance: the rows of a list, the lines of a log, the hits of a search.
//!
//! Views only: made from folded sessions, equal for equal stores (G76), and never a basis for advancing anything.
//! Damaged sessions are shown up to the damage and say so (G20).

mod arrange;
mod list;
mod log;
mod search;

pub use arrange::{ListLength, ListQuery, RowFilter, SessionsList, arrange};
pub(crate) use list::stage;
pub use list::{DamagedRow, RunRow, Stage, StepAt, damaged, rows};
pub use log::{LogLine, LoggedNodes, line};
pub use search::{FoundIn, Hit, SearchWords, hits, order};
