//! Which file owns an id: precedence, the reserved namespace, and duplicates (G90).
//!
//! An invalid file keeps its claim: running a version other than the one its author is looking at would
//! be surprising; an error is not.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use workrail_model::digest::Sha256;
use workrail_model::discovery::{Precedence, WorkflowKind};
use workrail_model::name::WorkflowId;

use super::alias;

/// A file that claims an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdClaim {
    pub id: WorkflowId,
    pub precedence: Precedence,
    /// Position of its folder within its precedence.
    pub folder_position: usize,
    pub reference: String,
    /// Of the file's bytes.
    pub digest: Sha256,
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Chosen,
    /// Another file of higher precedence has the id: that is what precedence is for.
    Shadowed,
    /// Another file of the same precedence has the id; its position among the claims.
    Duplicate {
        winner: usize,
    },
    /// `wr.*` from outside the bundled workflows.
    Reserved,
    /// Byte-identical to a bundled workflow, as in a checkout of WorkRail: nothing is lost by ignoring it.
    BundledCopy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerSelection {
    /// One for each claim, in the same order.
    pub choices: Vec<Choice>,
    /// The position of each id's owner.
    pub owners: BTreeMap<WorkflowId, usize>,
}

impl OwnerSelection {
    /// The owner of an id. A former name that no file has also resolves to the bundled workflow that replaced it,
    /// so that old calls keep working (G90). A refused file with that name still
    /// keeps it: another workflow would confuse its author, an error does not.
    pub fn owner(&self, claims: &[IdClaim], id: &WorkflowId) -> Option<usize> {
        if let Some(own) = self.owners.get(id) {
            return Some(*own);
        }
        if claims.iter().any(|claim| claim.id == *id) {
            return None;
        }
        alias::canonical_ids(id).iter().find_map(|canonical| {
            let owner = *self.owners.get(canonical)?;
            (claims.get(owner)?.precedence == Precedence::Bundled).then_some(owner)
        })
    }
}

/// Decides on every claim. The order of the claims does not matter.
pub fn select(claims: &[IdClaim]) -> OwnerSelection {
    let bundled: BTreeMap<&WorkflowId, Sha256> = claims
        .iter()
        .filter(|claim| claim.precedence == Precedence::Bundled)
        .map(|claim| (&claim.id, claim.digest))
        .collect();
    let mut by_id: BTreeMap<&WorkflowId, Vec<usize>> = BTreeMap::new();
    let mut choices = vec![Choice::Chosen; claims.len()];
    for (position, claim) in claims.iter().enumerate() {
        if claim.id.is_reserved() && claim.precedence != Precedence::Bundled {
            let is_copy = bundled.get(&claim.id) == Some(&claim.digest);
            choices[position] = if is_copy { Choice::BundledCopy } else { Choice::Reserved };
        } else {
            by_id.entry(&claim.id).or_default().push(position);
        }
    }
    let mut owners = BTreeMap::new();
    for (id, mut positions) in by_id {
        // The highest precedence, then the last folder, then the first path by bytes.
        positions.sort_by_key(|position| {
            let claim = &claims[*position];
            (Reverse((claim.precedence, claim.folder_position)), &claim.reference)
        });
        let Some((winner, others)) = positions.split_first() else { continue };
        owners.insert(id.clone(), *winner);
        for other in others {
            let same = claims[*other].precedence == claims[*winner].precedence;
            choices[*other] = if same { Choice::Duplicate { winner: *winner } } else { Choice::Shadowed };
        }
    }
    OwnerSelection { choices, owners }
}

/// Routines are in a folder of that name, or say so in their id.
pub fn workflow_kind(id: &WorkflowId, reference: &str) -> WorkflowKind {
    let name = id.as_str().split_once('.').map_or(id.as_str(), |(_, name)| name);
    let mut folders = reference.split('/').rev().skip(1);
    if folders.any(|folder| folder == "routines")
        || ["routine-", "routine_"].iter().any(|prefix| name.starts_with(prefix))
    {
        WorkflowKind::Routine
    } else {
        WorkflowKind::Workflow
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    fn claim(id: &str, precedence: Precedence, folder_position: usize, reference: &str) -> IdClaim {
        let digest = Sha256::of(format!("{precedence:?}{folder_position}{reference}").as_bytes());
        IdClaim {
            id: WorkflowId::parse(id).unwrap(),
            precedence,
            folder_position,
            reference: reference.to_owned(),
            digest,
        }
    }

    const ORDER: [Precedence; 6] = [
        Precedence::Bundled,
        Precedence::Plugin,
        Precedence::User,
        Precedence::Custom,
        Precedence::Git,
        Precedence::Project,
    ];

    #[test]
    fn a_later_source_wins_in_every_pair_and_order() {
        for (low, first) in ORDER.iter().enumerate() {
            for second in &ORDER[low + 1..] {
                let one = claim("team.x", *first, 9, "a.json");
                let two = claim("team.x", *second, 0, "b.json");
                let forward = select(&[one.clone(), two.clone()]);
                assert_eq!(forward.choices, [Choice::Shadowed, Choice::Chosen], "{first:?} {second:?}");
                let backward = select(&[two, one]);
                assert_eq!(backward.choices, [Choice::Chosen, Choice::Shadowed], "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn the_reserved_namespace_is_refused_from_everywhere_and_shadows_nothing() {
        for other in &ORDER[1..] {
            let claims =
                [claim("wr.x", *other, 0, "x.json"), claim("wr.x", Precedence::Bundled, 0, "wr.x.json")];
            let selection = select(&claims);
            assert_eq!(selection.choices, [Choice::Reserved, Choice::Chosen], "{other:?}");
            assert_eq!(selection.owners.values().copied().collect::<Vec<_>>(), [1]);
            // Even if no bundled workflow has the id.
            let alone = select(&claims[..1]);
            assert_eq!(alone.choices, [Choice::Reserved]);
            assert!(alone.owners.is_empty());
        }
    }

    #[test]
    fn a_copy_of_a_bundled_file_is_ignored_silently() {
        let bundled = claim("wr.x", Precedence::Bundled, 0, "x.json");
        let copy = IdClaim { precedence: Precedence::Project, ..bundled.clone() };
        assert_eq!(select(&[bundled, copy]).choices, [Choice::Chosen, Choice::BundledCopy]);
    }

    #[test]
    fn within_one_precedence_the_last_folder_and_then_the_first_path_wins() {
        let claims = [
            claim("team.x", Precedence::Custom, 0, "a.json"),
            claim("team.x", Precedence::Custom, 1, "c.json"),
            claim("team.x", Precedence::Custom, 1, "b.json"),
        ];
        let selection = select(&claims);
        let loser = Choice::Duplicate { winner: 2 };
        assert_eq!(selection.choices, [loser, loser, Choice::Chosen]);
    }

    #[test]
    fn an_id_without_a_namespace_means_the_bundled_workflow_unless_a_file_has_it() {
        let asked = WorkflowId::parse("bug-hunt").unwrap();
        let bundled = claim("wr.bug_hunt", Precedence::Bundled, 0, "wr.bug_hunt.json");
        let own = claim("bug-hunt", Precedence::User, 0, "bug-hunt.json");
        let claims = [bundled, own];
        assert_eq!(select(&claims[..1]).owner(&claims[..1], &asked), Some(0));
        assert_eq!(select(&claims).owner(&claims, &asked), Some(1));
        let other = WorkflowId::parse("team.bug_hunt").unwrap();
        assert_eq!(select(&claims).owner(&claims, &other), None);
    }

    #[test]
    fn a_renamed_workflow_is_found_by_its_older_names_unless_a_file_has_one() {
        let bundled = claim("wr.code_review", Precedence::Bundled, 0, "wr.code_review.json");
        for old in ["mr-review-workflow", "wr.mr-review", "code-review", "wr.code-review"] {
            let asked = WorkflowId::parse(old).unwrap();
            let alone = [bundled.clone()];
            assert_eq!(select(&alone).owner(&alone, &asked), Some(0), "{old}");
            let both = [bundled.clone(), claim(old, Precedence::Project, 0, "own.json")];
            // A file in the reserved namespace is refused, and no other workflow takes its place.
            let expected = asked.namespace().is_none().then_some(1);
            assert_eq!(select(&both).owner(&both, &asked), expected, "{old}");
        }
    }

    #[test]
    fn an_alias_never_leads_to_a_file_from_outside() {
        let asked = WorkflowId::parse("mr-review-workflow").unwrap();
        let claims = [claim("wr.code_review", Precedence::User, 0, "x.json")];
        assert_eq!(select(&claims).owner(&claims, &asked), None);
    }

    #[test_case("team.x", "x.json", WorkflowKind::Workflow)]
    #[test_case("team.x", "routines/x.json", WorkflowKind::Routine)]
    #[test_case("team.x", "a/routines/b/x.json", WorkflowKind::Routine)]
    #[test_case("team.x", "a/routines", WorkflowKind::Workflow; "a file of that name")]
    #[test_case("wr.routine-x", "x.json", WorkflowKind::Routine)]
    #[test_case("routine-x", "x.json", WorkflowKind::Routine)]
    #[test_case("routine.x", "x.json", WorkflowKind::Workflow)]
    fn kinds(id: &str, reference: &str, expected: WorkflowKind) {
        assert_eq!(workflow_kind(&WorkflowId::parse(id).unwrap(), reference), expected);
    }
}
