//! What one simulated crash kept and dropped, and how many such choices are tried.

use std::sync::Arc;

use super::content::{ContentChange, SyncState};
use super::rng::Rng;

/// What happened to one pending change of a file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    Dropped,
    Kept,
    /// Only the first bytes of the write are there.
    Prefix(usize),
    /// The file got its length, but the write's bytes from here on are NUL.
    Zeroed {
        from: usize,
    },
}

/// One possible outcome of a power cut; `SimFs::crash` reproduces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashChoice {
    /// Whether each open name operation was kept, oldest first.
    pub names: Arc<[bool]>,
    /// For each file that still exists, by inode, the fate of each change that is not durable. Files that are not
    /// listed are gone.
    pub writes: Vec<(u64, Arc<[Fate]>)>,
}

/// How far the enumeration of crash images goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CrashLimits {
    /// Up to this many open name operations, every subset is tried.
    pub max_exhaustive_names: usize,
    /// Random subsets that are tried when there are more.
    pub random_subsets: usize,
    /// Random cut points per pending write, in addition to the fixed ones.
    pub random_cuts: usize,
    /// Up to this many combinations of names and writes, all are tried; beyond, as many are sampled.
    pub max_product: usize,
    pub seed: u64,
}

impl Default for CrashLimits {
    fn default() -> Self {
        Self { max_exhaustive_names: 7, random_subsets: 16, random_cuts: 1, max_product: 2_000, seed: 0 }
    }
}

/// The name subsets to try: all kept first, none kept second.
pub(super) fn name_subsets(count: usize, limits: &CrashLimits, rng: &mut Rng) -> Vec<Vec<bool>> {
    let mut subsets = vec![vec![true; count], vec![false; count]];
    // Beyond 16, trying every subset is never sensible, whatever the limits say.
    if count <= limits.max_exhaustive_names.min(16) {
        let last = (1_u32 << count) - 1;
        subsets.extend((1..last).map(|bits| (0..count).map(|i| bits >> i & 1 == 1).collect()));
        return subsets;
    }
    for i in 0..count {
        subsets.push((0..count).map(|j| j != i).collect());
        subsets.push((0..count).map(|j| j < i).collect());
    }
    for _ in 0..limits.random_subsets {
        subsets.push((0..count).map(|_| rng.coin()).collect());
    }
    subsets
}

/// The fates to try for one change: dropped first, kept last.
pub(super) fn fates(
    change: &ContentChange,
    sync_state: SyncState,
    limits: &CrashLimits,
    rng: &mut Rng,
) -> Vec<Fate> {
    match (change, sync_state) {
        (_, SyncState::Synced) => vec![Fate::Kept],
        (ContentChange::SetLen(_), SyncState::Pending | SyncState::Lost) => vec![Fate::Dropped, Fate::Kept],
        // Pages of a failed write-back may be missing; the metadata may exist without them.
        (ContentChange::Write { .. }, SyncState::Lost) => {
            vec![Fate::Dropped, Fate::Zeroed { from: 0 }, Fate::Kept]
        }
        (ContentChange::Write { bytes, .. }, SyncState::Pending) => {
            let len = bytes.len();
            let mut cuts = vec![1, len / 2, len - 1];
            cuts.extend((0..limits.random_cuts).map(|_| rng.below(len)));
            cuts.retain(|cut| (1..len).contains(cut));
            cuts.sort_unstable();
            cuts.dedup();
            let mut fates = vec![Fate::Dropped, Fate::Zeroed { from: 0 }];
            fates.extend(cuts.iter().flat_map(|cut| [Fate::Prefix(*cut), Fate::Zeroed { from: *cut }]));
            fates.push(Fate::Kept);
            fates
        }
    }
}

/// Combinations of one fate per change: all dropped first, all kept last.
pub(super) fn combinations(options: &[Vec<Fate>], limits: &CrashLimits, rng: &mut Rng) -> Vec<Vec<Fate>> {
    let product = options.iter().fold(1_usize, |product, fates| product.saturating_mul(fates.len()));
    if product <= limits.max_product {
        return product_of(options);
    }
    let first = |fates: &Vec<Fate>| fates[0];
    let last = |fates: &Vec<Fate>| fates[fates.len() - 1];
    let mut picked = vec![options.iter().map(first).collect()];
    for (i, fates) in options.iter().enumerate() {
        for fate in fates {
            // The order in which most disks write: everything before, part of this one, nothing after ...
            let earlier = options[..i].iter().map(last);
            picked.push(earlier.clone().chain([*fate]).chain(options[i + 1..].iter().map(first)).collect());
            // ... and the one change that was lost among those that were not.
            picked.push(earlier.chain([*fate]).chain(options[i + 1..].iter().map(last)).collect());
        }
    }
    while picked.len() + 1 < limits.max_product {
        picked.push(options.iter().map(|fates| fates[rng.below(fates.len())]).collect());
    }
    picked.push(options.iter().map(last).collect());
    picked
}

fn product_of(options: &[Vec<Fate>]) -> Vec<Vec<Fate>> {
    options.iter().fold(vec![Vec::new()], |combined, fates| {
        let extend = |head: &Vec<Fate>| {
            let head = head.clone();
            fates.iter().map(move |fate| head.iter().copied().chain([*fate]).collect::<Vec<_>>())
        };
        combined.iter().flat_map(extend).collect()
    })
}
