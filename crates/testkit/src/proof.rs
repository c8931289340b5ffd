//! How far the long proofs go: a sample by default, everything with `WORKRAIL_PROOF=full`, which `./test --full` sets.

/// Whether everything is explored.
pub fn is_full() -> bool {
    std::env::var("WORKRAIL_PROOF").is_ok_and(|proof| proof == "full")
}
