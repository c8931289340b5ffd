//! Pairs the steps of the two sides.

use std::collections::BTreeMap;

/// A step of A, of B, or of both, by index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aligned {
    Both(usize, usize),
    A(usize),
    B(usize),
}

/// Pairs steps with the same key, in the order of A; a step that only B has comes before the next one that B shares
/// with A. A key that occurs several times is paired in order. Steps without a key are not paired.
pub(super) fn align<K: Ord>(a: &[Option<K>], b: &[Option<K>]) -> Vec<Aligned> {
    let mut indexes: BTreeMap<&K, Vec<usize>> = BTreeMap::new();
    for (index, key) in b.iter().enumerate().rev() {
        if let Some(key) = key {
            indexes.entry(key).or_default().push(index);
        }
    }
    let partners: Vec<Option<usize>> =
        a.iter().map(|key| indexes.get_mut(key.as_ref()?).and_then(Vec::pop)).collect();
    let mut is_paired = vec![false; b.len()];
    partners.iter().flatten().for_each(|index| is_paired[*index] = true);
    let mut pairs = Vec::new();
    let mut reached = 0;
    let push_unpaired_of_b = |end: usize, reached: &mut usize, pairs: &mut Vec<Aligned>| {
        pairs.extend((*reached..end).filter(|index| !is_paired[*index]).map(Aligned::B));
        *reached = end.max(*reached);
    };
    for (own, partner) in partners.iter().enumerate() {
        match partner {
            None => pairs.push(Aligned::A(own)),
            Some(other) => {
                push_unpaired_of_b(*other, &mut reached, &mut pairs);
                pairs.push(Aligned::Both(own, *other));
            }
        }
    }
    push_unpaired_of_b(b.len(), &mut reached, &mut pairs);
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(a: &str, b: &str) -> String {
        let keys = |text: &str| text.chars().map(|c| (c != '?').then_some(c)).collect::<Vec<_>>();
        let (own, other) = (a.chars().collect::<Vec<_>>(), b.chars().collect::<Vec<_>>());
        let pairs = align(&keys(a), &keys(b)).into_iter().map(|aligned| match aligned {
            Aligned::Both(index, _) => format!("{}=", own[index]),
            Aligned::A(index) => format!("{}<", own[index]),
            Aligned::B(index) => format!("{}>", other[index]),
        });
        pairs.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn steps_are_paired_by_key_in_the_order_of_a() {
        assert_eq!(drawn("abc", "abd"), "a= b= c< d>");
        assert_eq!(drawn("abd", "acd"), "a= b< c> d=");
        assert_eq!(drawn("ab", "ba"), "a= b=", "another order is no difference in what was done");
        assert_eq!(drawn("aa", "aaa"), "a= a= a>");
        assert_eq!(drawn("a?", "a?"), "a= ?< ?>", "what cannot be read is not taken for the same");
        assert_eq!(drawn("", "ab"), "a> b>");
    }
}
