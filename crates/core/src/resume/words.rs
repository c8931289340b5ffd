//! Sets of words that support membership tests, at eight bytes per word.

use crate::search;

/// The stems of the words of some texts as sorted hashes. A collision of 64-bit hashes would only rank a run too high.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(Vec<u64>);

impl Words {
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all: Vec<u64> = Vec::new();
        for text in texts {
            all.extend(search::stems(text).iter().map(|stem| hash(stem)));
        }
        all.sort_unstable();
        all.dedup();
        all.shrink_to_fit();
        Self(all)
    }

    /// The sorted hashes, as stored in an index.
    pub(crate) fn as_hashes(&self) -> &[u64] {
        &self.0
    }

    /// From the result of `as_hashes`; `None` if they are not sorted, since searching relies on that.
    pub(crate) fn from_hashes(hashes: Vec<u64>) -> Option<Self> {
        hashes.is_sorted_by(|a, b| a < b).then_some(Self(hashes))
    }

    /// Whether the set contains all of these.
    pub(super) fn contain_all(&self, hashes: &[u64]) -> bool {
        hashes.iter().all(|hash| self.0.binary_search(hash).is_ok())
    }
}

/// The hash of a stem. FNV-1a: fixed, so that equal stores rank equally in every process.
pub(super) fn hash(stem: &str) -> u64 {
    stem.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
