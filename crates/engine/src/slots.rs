//! Counts what each holder has at once, up to a limit: the connections of an address, the requests of a member.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many slots each holder has taken. A holder without one is not in the map.
#[derive(Clone, Debug)]
pub struct HolderSlots<K: Copy + Ord> {
    max: usize,
    taken: Arc<Mutex<BTreeMap<K, usize>>>,
}

/// A slot that is taken until this is dropped.
#[derive(Debug)]
pub struct HolderSlot<K: Copy + Ord> {
    slots: HolderSlots<K>,
    holder: K,
}

impl<K: Copy + Ord> HolderSlots<K> {
    /// At most `max` slots for each holder.
    pub fn new(max: usize) -> Self {
        Self { max, taken: Arc::default() }
    }

    /// Takes a slot; `None` when the holder has as many as they may.
    pub fn take(&self, holder: K) -> Option<HolderSlot<K>> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let count = taken.entry(holder).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(HolderSlot { slots: self.clone(), holder })
    }
}

impl<K: Copy + Ord> Drop for HolderSlot<K> {
    fn drop(&mut self) {
        let mut taken = self.slots.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.holder) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                taken.remove(&self.holder);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_has_so_many_slots_and_others_their_own() {
        let slots = HolderSlots::new(3);
        let mut held: Vec<_> = (0..3).map(|_| slots.take('a').unwrap()).collect();
        assert!(slots.take('a').is_none(), "above the limit");
        assert!(slots.take('b').is_some(), "another holder");
        held.pop();
        let last = slots.take('a');
        assert!(last.is_some(), "just below the limit, one that ended makes room");
        assert!(slots.take('a').is_none(), "at the limit again");
    }

    #[test]
    fn a_holder_without_slots_is_forgotten() {
        let slots = HolderSlots::new(2);
        let held = (slots.take('a'), slots.take('a'), slots.take('b'));
        assert_eq!(slots.taken.lock().unwrap().len(), 2);
        // One that was refused gives nothing back.
        drop(slots.take('a'));
        assert!(slots.take('a').is_none());
        drop(held);
        assert!(slots.taken.lock().unwrap().is_empty());
    }
}
