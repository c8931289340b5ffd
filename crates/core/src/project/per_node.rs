//! Facts of nodes, in the order recorded.
//!
//! One slot per node, up to the last node that has any: access costs the same in a log of any length,
//! which a search tree cannot offer.
//!
//! Slots are saved in chunks, and a chunk read from a cache is parsed when one of its nodes is first accessed:
//! a new process that continues a long run needs the last few nodes, not all of them (G23).

use std::fmt;
use std::marker::PhantomData;
use std::sync::OnceLock;

use data_encoding::BASE64;
use miniz_oxide::deflate::compress_to_vec;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use serde::de::{self, DeserializeOwned, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};

use super::dag::NodeIx;

/// Nodes per chunk: few enough to parse a chunk at once, enough that there are not too many.
const CHUNK_NODES: usize = 64;

/// Of a chunk before it is compressed. A forged cache must not fill the memory (G18).
const CHUNK_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The fastest level of deflate: higher ones make chunks only a little smaller.
const COMPRESSION: u8 = 1;

#[derive(Clone, Debug)]
pub(super) struct PerNode<T>(Vec<Chunk<T>>);

#[derive(Clone, Debug)]
struct Chunk<T> {
    /// The text it was read from or written as, unless something was added since.
    saved: OnceLock<String>,
    /// `None` within when the text could not be parsed.
    slots: OnceLock<Option<Vec<Vec<T>>>>,
}

impl<T> Chunk<T> {
    fn empty() -> Self {
        Self { saved: OnceLock::new(), slots: OnceLock::from(Some(Vec::new())) }
    }

    fn is_readable(&self) -> bool {
        !matches!(self.slots.get(), Some(None))
    }
}

impl<T: DeserializeOwned> Chunk<T> {
    fn parsed(&self) -> Option<&Vec<Vec<T>>> {
        self.slots.get_or_init(|| parse(self.saved.get().map_or("", String::as_str))).as_ref()
    }

    fn slots(&self) -> &[Vec<T>] {
        self.parsed().map_or(&[], Vec::as_slice)
    }

    /// The slots to be changed; `None` if the chunk is unreadable and must not be changed.
    fn slots_mut(&mut self) -> Option<&mut Vec<Vec<T>>> {
        self.parsed()?;
        self.saved = OnceLock::new();
        self.slots.get_mut()?.as_mut()
    }
}

fn parse<T: DeserializeOwned>(saved: &str) -> Option<Vec<Vec<T>>> {
    if saved.is_empty() {
        return Some(Vec::new());
    }
    let compressed = BASE64.decode(saved.as_bytes()).ok()?;
    let json = decompress_to_vec_with_limit(&compressed, CHUNK_BYTES_MAX).ok()?;
    serde_json::from_slice(&json).ok().map(|ChunkSlots(slots)| slots)
}

/// The slots of a chunk as they are read: never more than a chunk has. Millions of empty ones are short as text.
struct ChunkSlots<T>(Vec<Vec<T>>);

impl<'de, T: DeserializeOwned> Deserialize<'de> for ChunkSlots<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AtMostAChunk<T>(PhantomData<T>);

        impl<'de, T: DeserializeOwned> Visitor<'de> for AtMostAChunk<T> {
            type Value = ChunkSlots<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "at most {CHUNK_NODES} slots")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ChunkSlots<T>, A::Error> {
                let mut slots = Vec::new();
                while let Some(slot) = items.next_element()? {
                    if slots.len() == CHUNK_NODES {
                        return Err(de::Error::invalid_length(CHUNK_NODES + 1, &self));
                    }
                    slots.push(slot);
                }
                Ok(ChunkSlots(slots))
            }
        }

        deserializer.deserialize_seq(AtMostAChunk(PhantomData))
    }
}

impl<T: Serialize> Chunk<T> {
    /// Compressed, because a new process reads and checks every byte of a state and then needs few of its chunks. In
    /// Base64, which is skipped faster than JSON. Cached, so that saving a long session's state costs only what is
    /// new in it.
    fn text(&self) -> Result<&str, serde_json::Error> {
        if let Some(saved) = self.saved.get() {
            return Ok(saved);
        }
        let slots = self.slots.get().and_then(Option::as_ref);
        let text = match slots.filter(|slots| slots.iter().any(|slot| !slot.is_empty())) {
            Some(slots) => {
                let json = serde_json::to_vec(slots)?;
                if json.len() > CHUNK_BYTES_MAX {
                    return Err(ser::Error::custom("a chunk that is larger than a reader accepts"));
                }
                BASE64.encode(&compress_to_vec(&json, COMPRESSION))
            }
            None => String::new(),
        };
        Ok(self.saved.get_or_init(|| text))
    }
}

impl<T> PerNode<T> {
    /// Whether everything accessed so far could be parsed. A cache is used only with the digest and the
    /// version it was written under, so this fails only for a forged one.
    pub(super) fn is_readable(&self) -> bool {
        self.0.iter().all(Chunk::is_readable)
    }
}

impl<T: DeserializeOwned> PerNode<T> {
    pub(super) fn get(&self, ix: NodeIx) -> &[T] {
        let chunk = self.0.get(ix.position() / CHUNK_NODES);
        chunk.and_then(|chunk| chunk.slots().get(ix.position() % CHUNK_NODES)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn get_mut(&mut self, ix: NodeIx) -> &mut [T] {
        let chunk = self.0.get_mut(ix.position() / CHUNK_NODES).and_then(Chunk::slots_mut);
        chunk.and_then(|slots| slots.get_mut(ix.position() % CHUNK_NODES)).map_or(&mut [], Vec::as_mut_slice)
    }

    pub(super) fn push(&mut self, ix: NodeIx, item: T) {
        let (chunk, slot) = (ix.position() / CHUNK_NODES, ix.position() % CHUNK_NODES);
        if self.0.len() <= chunk {
            self.0.resize_with(chunk + 1, Chunk::empty);
        }
        let Some(slots) = self.0[chunk].slots_mut() else { return };
        if slots.len() <= slot {
            slots.resize_with(slot + 1, Vec::new);
        }
        let items = &mut slots[slot];
        if items.is_empty() {
            // One item is the usual case: reserve no spare room until a second one comes.
            items.reserve_exact(1);
        }
        items.push(item);
    }

    /// The items of all nodes that have any; parses everything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (NodeIx, &[T])> {
        let chunks = self.0.iter().enumerate();
        let slots = chunks.flat_map(|(chunk, slots)| {
            let slots = slots.slots().iter().enumerate();
            slots.map(move |(slot, items)| (NodeIx::at(chunk * CHUNK_NODES + slot), items.as_slice()))
        });
        slots.filter(|(_, items)| !items.is_empty())
    }
}

impl<T> Default for PerNode<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: DeserializeOwned + PartialEq> PartialEq for PerNode<T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter()) && self.is_readable() && other.is_readable()
    }
}

impl<T: Serialize> Serialize for PerNode<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let texts: Result<Vec<_>, _> = self.0.iter().map(Chunk::text).collect();
        serializer.collect_seq(texts.map_err(ser::Error::custom)?)
    }
}

impl<'de, T> Deserialize<'de> for PerNode<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let chunk = |text| Chunk { saved: OnceLock::from(text), slots: OnceLock::new() };
        Ok(Self(texts.into_iter().map(chunk).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(nodes: usize) -> PerNode<String> {
        let mut facts = PerNode::default();
        for position in (0..nodes).step_by(3) {
            facts.push(NodeIx::at(position), format!("fact {position}"));
        }
        facts
    }

    fn reopened(facts: &PerNode<String>) -> PerNode<String> {
        serde_json::from_slice(&serde_json::to_vec(facts).unwrap()).unwrap()
    }

    fn parsed_chunks(facts: &PerNode<String>) -> usize {
        facts.0.iter().filter(|chunk| chunk.slots.get().is_some()).count()
    }

    #[test]
    fn only_the_accessed_chunk_is_parsed() {
        let facts = reopened(&filled(1000));
        assert_eq!(facts.get(NodeIx::at(999)), ["fact 999".to_owned()]);
        assert_eq!(facts.get(NodeIx::at(998)), [] as [String; 0]);
        assert_eq!((facts.0.len(), parsed_chunks(&facts)), (16, 1));
        assert!(facts == filled(1000));
    }

    #[test]
    fn changes_to_reopened_facts_are_saved() {
        let (mut plain, mut facts) = (filled(200), reopened(&filled(200)));
        for facts in [&mut plain, &mut facts] {
            facts.push(NodeIx::at(3), "late".to_owned());
            facts.push(NodeIx::at(500), "beyond".to_owned());
            facts.get_mut(NodeIx::at(150))[0].push('!');
        }
        assert!(reopened(&facts) == plain);
        assert_eq!(reopened(&facts).get(NodeIx::at(150)), ["fact 150!".to_owned()]);
    }

    #[test]
    fn a_chunk_that_does_not_parse_is_detected_and_never_equal() {
        let forged = |json: &str| BASE64.encode(&compress_to_vec(json.as_bytes(), COMPRESSION));
        let many_slots = forged(&format!("[{}[]]", "[],".repeat(CHUNK_NODES)));
        let large = forged(&format!("[[\"{}\"]]", "a".repeat(CHUNK_BYTES_MAX)));
        for text in ["no base64", "bm8ganNvbg==", "y8tXyCrOzwMA", &many_slots, &large] {
            let mut facts: PerNode<String> = serde_json::from_value(serde_json::json!(["", text])).unwrap();
            assert!(facts.is_readable(), "nothing was asked for");
            facts.push(NodeIx::at(CHUNK_NODES), "dropped".to_owned());
            assert_eq!(facts.get(NodeIx::at(CHUNK_NODES)), [] as [String; 0]);
            assert!(!facts.is_readable());
            assert!(facts != PerNode::default());
            assert_eq!(serde_json::to_value(&facts).unwrap(), serde_json::json!(["", text]));
        }
    }
}
