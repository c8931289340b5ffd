//! How much is explored: enough for every change by default, ten times as much with `WORKRAIL_PROOF=full`.

use workrail_store_fs::sim::CrashLimits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    Default,
    Full,
}

impl Effort {
    pub(crate) fn from_environment() -> Self {
        if workrail_testkit::proof::is_full() { Self::Full } else { Self::Default }
    }

    pub(crate) fn crash_limits(self) -> CrashLimits {
        let (random_cuts, max_product) = match self {
            Self::Default => (10, 400),
            Self::Full => (16, 4_000),
        };
        CrashLimits { max_exhaustive_names: 8, random_subsets: 16, random_cuts, max_product, seed: 0 }
    }

    pub(crate) fn crash_states_min(self) -> u64 {
        match self {
            Self::Default => 100_000,
            Self::Full => 1_000_000,
        }
    }

    pub(crate) fn double_crashes_min(self) -> u64 {
        match self {
            Self::Default => 20_000,
            Self::Full => 200_000,
        }
    }

    /// How many torn and how many other first crashes of each step are recovered from.
    pub(crate) fn first_crashes_per_step(self) -> usize {
        match self {
            Self::Default => 2,
            Self::Full => 8,
        }
    }

    pub(crate) fn second_crash_limits(self) -> CrashLimits {
        let (random_cuts, max_product) = match self {
            Self::Default => (1, 7),
            Self::Full => (8, 60),
        };
        CrashLimits { max_exhaustive_names: 3, random_subsets: 2, random_cuts, max_product, seed: 0 }
    }

    /// How many recoveries are tested with every single operation failing.
    pub(crate) fn faulty_recoveries(self) -> usize {
        match self {
            Self::Default => 2,
            Self::Full => 14,
        }
    }

    pub(crate) fn seeds(self) -> u64 {
        match self {
            Self::Default => 2_000,
            Self::Full => 20_000,
        }
    }
}
