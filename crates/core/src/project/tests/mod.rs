//! Tests of the fold: what it refuses, what it answers, and that it equals a literal walk over the log.

mod answers;
mod fixture;
mod history;
mod naive;
mod properties;
mod refusals;
