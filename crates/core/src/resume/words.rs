//! Sets of words that can be asked for membership, at eight bytes a word.

use std::collections::BTreeSet;

use crate::search;

/// The words of some texts as sorted hashes. A collision of 64-bit hashes would only rank a run too high.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Vec<u64>);

impl Words {
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all: Vec<u64> = Vec::new();
        for text in texts {
            all.extend(Self::hashes(&search::tokens(text)));
        }
        all.sort_unstable();
        all.dedup();
        all.shrink_to_fit();
        Self(all)
    }

    /// The sorted hashes, as an index keeps them.
    pub(crate) fn as_hashes(&self) -> &[u64] {
        &self.0
    }

    /// From what `as_hashes` gave; `None` when they are not sorted, so that every search finds what is here.
    pub(crate) fn from_hashes(hashes: Vec<u64>) -> Option<Self> {
        hashes.is_sorted_by(|a, b| a < b).then_some(Self(hashes))
    }

    pub(super) fn hashes(tokens: &BTreeSet<String>) -> Vec<u64> {
        tokens.iter().map(|token| hash(token)).collect()
    }

    pub(super) fn contain_all(&self, words: &[u64]) -> bool {
        words.iter().all(|word| self.contains(*word))
    }

    /// Whether both together hold all words.
    pub(super) fn contain_all_with(&self, other: &Self, words: &[u64]) -> bool {
        words.iter().all(|word| self.contains(*word) || other.contains(*word))
    }

    pub(super) fn count(&self, words: &[u64]) -> usize {
        words.iter().filter(|word| self.contains(**word)).count()
    }

    fn contains(&self, word: u64) -> bool {
        self.0.binary_search(&word).is_ok()
    }
}

/// FNV-1a: fixed, so that equal stores rank equally in every process.
fn hash(word: &str) -> u64 {
    word.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
