//! Randomness from the operating system.

use workrail_ports::environment::{Entropy, EntropyError};

#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), EntropyError> {
        getrandom::fill(bytes).map_err(|error| EntropyError { detail: error.to_string() })
    }
}
