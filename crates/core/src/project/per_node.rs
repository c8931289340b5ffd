//! Facts of nodes, in the order in which they were recorded.
//!
//! A slot per node, up to the last node that has any: reaching one costs the same in a log of any length,
//! which a search tree does not give.

use serde::{Deserialize, Serialize};

use super::dag::NodeIx;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PerNode<T>(Vec<Vec<T>>);

impl<T> PerNode<T> {
    pub(super) fn get(&self, ix: NodeIx) -> &[T] {
        self.0.get(ix.place()).map_or(&[], Vec::as_slice)
    }

    pub(super) fn get_mut(&mut self, ix: NodeIx) -> &mut [T] {
        self.0.get_mut(ix.place()).map_or(&mut [], Vec::as_mut_slice)
    }

    pub(super) fn push(&mut self, ix: NodeIx, item: T) {
        if self.0.len() <= ix.place() {
            self.0.resize_with(ix.place() + 1, Vec::new);
        }
        let items = &mut self.0[ix.place()];
        if items.is_empty() {
            // One item is the usual case: no spare room for more until a second one comes.
            items.reserve_exact(1);
        }
        items.push(item);
    }

    /// All nodes up to the last one with items.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[T]> {
        self.0.iter().map(Vec::as_slice)
    }
}

impl<T> Default for PerNode<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}
