//! The damage matrix: every kind of file of a data directory, damaged in every way, under every command.
//!
//! For each cell an oracle computes from the undamaged store what must hold: the right verdict, no other session
//! harmed, nothing lost that could be saved, a next step that works, and never a panic, a hang, a write by a
//! read-only command, or excessive memory (G11, G13, G17, G18, G20, G22, G24). By default a sample is tried; with
//! `WORKRAIL_PROOF=full` every cell is.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod advice;
mod cell_group;
#[path = "../command_tree/mod.rs"]
mod command_tree;
mod commands;
mod coverage;
mod damages;
mod differences;
mod faults;
mod file_tree;
mod files;
mod matrix;
mod obstacles;
mod oracle;
mod rows;
mod template;
mod usable;
