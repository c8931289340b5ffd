//! The terms by which a run is found in an index that supports queries: a number for each word, name and id.
//!
//! A term only selects runs that may be meant. Ranking their cards decides, so two things with the same number, or a
//! prefix shared by several names, do no harm.

use workrail_model::digest::Sha256;
use workrail_model::event::KeyedStart;
use workrail_model::id::RunId;

use super::RunCard;
use super::words::hash;
use crate::label::RunLabel;

/// The shortest prefix of a branch that names it.
pub(super) const BRANCH_BYTES_MIN: usize = 3;
/// A branch is found by prefixes up to this length.
const BRANCH_BYTES_MAX: usize = 40;

/// Words contain no slash, so none collides with these.
pub fn of_run(run: RunId) -> u64 {
    hash(&format!("run/{run}"))
}

pub fn of_label(label: RunLabel) -> u64 {
    hash(&format!("label/{label}"))
}

/// Of a run that was started with an idempotency key.
pub fn of_start_key(key_digest: Sha256) -> u64 {
    hash(&format!("start-key/{key_digest}"))
}

/// Of a run that was started with a key by a version that did not record the key's digest.
pub fn of_unknown_start_key() -> u64 {
    hash("start-key/unknown")
}

pub(super) fn of_keyed_start(keyed: &KeyedStart) -> u64 {
    keyed.key_digest.map_or_else(of_unknown_start_key, of_start_key)
}

pub(super) fn of_commit(sha: &str) -> u64 {
    hash(&format!("commit/{}", sha.to_ascii_lowercase()))
}

/// The term of the longest indexed prefix.
pub(super) fn of_branch(name: &str) -> u64 {
    hash(&format!("branch/{}", &name[..name.floor_char_boundary(BRANCH_BYTES_MAX)]))
}

fn of_beginnings(branch: &str) -> impl Iterator<Item = u64> {
    let ends =
        (BRANCH_BYTES_MIN..=branch.len().min(BRANCH_BYTES_MAX)).filter(|end| branch.is_char_boundary(*end));
    ends.map(|end| of_branch(&branch[..end])).chain([of_branch(branch)])
}

impl RunCard {
    pub(crate) fn terms(&self) -> impl Iterator<Item = u64> {
        let words = [&self.notes, &self.artifacts, &self.goal, &self.workflow, &self.branch];
        let words = words.into_iter().flat_map(|words| words.as_hashes().iter().copied());
        let names = self.run().map(of_run).into_iter().chain(self.label().map(of_label));
        let git = self.git_head_sha.as_deref().map(of_commit).into_iter();
        let names = names.chain(self.start_key);
        words.chain(names).chain(git).chain(self.git_branch.iter().flat_map(|branch| of_beginnings(branch)))
    }
}
