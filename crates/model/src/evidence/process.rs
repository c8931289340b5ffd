//! How a check's process ended, and what is kept of its output.

use std::collections::VecDeque;

use super::Confinement;
use crate::limits::{CHECK_OUTPUT_HEAD_BYTES_MAX, CHECK_OUTPUT_TAIL_BYTES_MAX};

/// A process that has ended, together with everything it started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedProcess {
    pub ending: ProcessEnding,
    pub duration_ms: u64,
    pub confinement: Confinement,
    pub output: ClippedOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnding {
    Exited(i32),
    Signalled,
    /// Its time was up, and it was killed.
    TimedOut,
}

/// The beginning and the end of an output, whatever its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClippedOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
}

impl ClippedOutput {
    pub fn push(&mut self, written: &[u8]) {
        self.total = self.total.saturating_add(written.len() as u64);
        let (first, rest) =
            written.split_at(written.len().min(CHECK_OUTPUT_HEAD_BYTES_MAX - self.head.len()));
        self.head.extend_from_slice(first);
        self.tail.extend(&rest[rest.len().saturating_sub(CHECK_OUTPUT_TAIL_BYTES_MAX)..]);
        let over = self.tail.len().saturating_sub(CHECK_OUTPUT_TAIL_BYTES_MAX);
        self.tail.drain(..over);
    }

    /// How much was written, kept or not.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What is kept, with a line where something was left out.
    pub fn text(&self) -> String {
        let left_out = self.total - self.head.len() as u64 - self.tail.len() as u64;
        if left_out == 0 {
            let whole: Vec<u8> = self.head.iter().chain(&self.tail).copied().collect();
            return String::from_utf8_lossy(&whole).into_owned();
        }
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        format!(
            "{}\n[... {left_out} bytes left out ...]\n{}",
            String::from_utf8_lossy(&self.head),
            String::from_utf8_lossy(&tail)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_output_is_kept_in_full() {
        let mut output = ClippedOutput::default();
        output.push(b"one ");
        output.push(b"two");
        assert_eq!((output.text().as_str(), output.total()), ("one two", 7));
    }

    #[test]
    fn the_beginning_and_end_of_a_long_output_are_kept() {
        let mut output = ClippedOutput::default();
        output.push(b"begin");
        for _ in 0..3 {
            output.push(&vec![b'x'; CHECK_OUTPUT_TAIL_BYTES_MAX]);
        }
        output.push(b"end");
        let text = output.text();
        assert!(text.starts_with("begin") && text.ends_with("end"));
        assert!(text.contains("bytes left out"));
        assert!(text.len() < CHECK_OUTPUT_HEAD_BYTES_MAX + CHECK_OUTPUT_TAIL_BYTES_MAX + 100);
        assert_eq!(output.total(), 3 * CHECK_OUTPUT_TAIL_BYTES_MAX as u64 + 8);
    }

    #[test]
    fn an_output_at_the_limits_is_kept_in_full() {
        let mut output = ClippedOutput::default();
        output.push(&vec![b'x'; CHECK_OUTPUT_HEAD_BYTES_MAX + CHECK_OUTPUT_TAIL_BYTES_MAX]);
        assert!(!output.text().contains("left out"));
        output.push(b"x");
        assert!(output.text().contains("[... 1 bytes left out ...]"));
    }
}
