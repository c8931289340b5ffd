//! Run labels: two words, like `amber-falcon`, by which people and agents tell runs apart.
//!
//! A label is derived from the run's id alone, so every process shows the same one and nothing stores
//! it. It is a name, not a proof: several runs may share one, and only a token's signature decides
//! (G34). Words differ from each other in at least two letters, so that a typo gives an unknown
//! word and never another run's.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use workrail_model::digest::Sha256;
use workrail_model::id::RunId;
use workrail_model::nearest::is_one_slip;

/// The longest label: two words of six letters and a hyphen.
#[cfg(test)]
pub(crate) const LABEL_CHARS_MAX: usize = 13;

const DOMAIN: &[u8] = b"workrail/run-label/1";

/// A text that is not a label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run label is two known words, like `amber-falcon`")]
pub struct LabelError;

/// Two words that represent a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunLabel {
    adjective: u8,
    animal: u8,
}

impl RunLabel {
    pub fn of(run: RunId) -> Self {
        Self::of_bits(run.bits())
    }

    /// From the 80 bits of any id; session tokens, which have no run, use their session's.
    pub(crate) fn of_bits(bits: [u8; 10]) -> Self {
        // Hashed, so that ids that share a prefix do not share a word.
        let digest = Sha256::of_parts(&[DOMAIN, &bits]);
        Self { adjective: digest.as_bytes()[0], animal: digest.as_bytes()[1] }
    }

    /// Parses exactly what `Display` writes.
    pub fn parse(text: &str) -> Result<Self, LabelError> {
        let (adjective, animal) = text.split_once('-').ok_or(LabelError)?;
        Ok(Self { adjective: position(&ADJECTIVES, adjective)?, animal: position(&ANIMALS, animal)? })
    }

    /// Every label there is, in order.
    #[cfg(test)]
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).flat_map(|adjective| (0..=u8::MAX).map(move |animal| Self { adjective, animal }))
    }
}

/// How closely a text typed by the user matches a label, the closest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    Exact,
    /// A prefix of the label, of both words, or of the second word.
    Beginning,
    /// One letter is wrong, missing, extra or swapped with the next.
    OneSlip,
}

/// Shorter texts are too ambiguous to be a prefix of a label.
const BEGINNING_MIN: usize = 2;

impl RunLabel {
    /// How `typed` matches this label: in any case, with a space or an underscore in place of the hyphen.
    pub fn nearness(self, typed: &str) -> Option<Nearness> {
        let typed = normalised(typed);
        let own = self.to_string();
        if typed == own {
            return Some(Nearness::Exact);
        }
        if typed.len() < BEGINNING_MIN {
            return None;
        }
        let animal = ANIMALS[usize::from(self.animal)];
        let begins_both = typed.split_once('-').is_some_and(|(first, second)| {
            !first.is_empty()
                && !second.is_empty()
                && ADJECTIVES[usize::from(self.adjective)].starts_with(first)
                && animal.starts_with(second)
        });
        if own.starts_with(&typed) || begins_both || animal.starts_with(&typed) {
            return Some(Nearness::Beginning);
        }
        is_one_slip(&typed, &own).then_some(Nearness::OneSlip)
    }
}

/// The spelling of a label: lowercase, with a hyphen in place of a space or an underscore.
pub fn normalised(text: &str) -> String {
    let words =
        text.split(|c: char| c.is_whitespace() || c == '_' || c == '-').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

fn position(words: &[&str; 256], word: &str) -> Result<u8, LabelError> {
    let found = words.binary_search(&word).map_err(|_| LabelError)?;
    u8::try_from(found).map_err(|_| LabelError)
}

impl fmt::Display for RunLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (adjective, animal) = (usize::from(self.adjective), usize::from(self.animal));
        write!(f, "{}-{}", ADJECTIVES[adjective], ANIMALS[animal])
    }
}

impl fmt::Debug for RunLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for RunLabel {
    type Err = LabelError;

    fn from_str(text: &str) -> Result<Self, LabelError> {
        Self::parse(text)
    }
}

impl Serialize for RunLabel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Sorted, so that a word is found by binary search. Order is part of the format: it is the bits.
#[rustfmt::skip]
const ADJECTIVES: [&str; 256] = [
    "able", "active", "agile", "airy", "alert", "alpine", "amber", "ample",
    "arctic", "ardent", "artful", "astute", "aware", "azure", "balmy", "blithe",
    "bonny", "bouncy", "brainy", "brave", "breezy", "bright", "brisk", "bronze",
    "bubbly", "calm", "candid", "casual", "chatty", "cheery", "citrus", "civic",
    "classy", "clean", "clever", "cobalt", "copper", "cosmic", "cozy", "creamy",
    "crisp", "cubic", "cuddly", "curly", "cyan", "dainty", "dapper", "daring",
    "decent", "deft", "dulcet", "eager", "early", "earthy", "ebony", "elfin",
    "epic", "exact", "expert", "fabled", "famous", "fancy", "ferny", "firm",
    "fleet", "flinty", "floral", "fluent", "fluffy", "flying", "folksy", "fond",
    "free", "fresh", "frosty", "frugal", "funny", "fuzzy", "genial", "gentle",
    "gifted", "gilded", "glad", "global", "glossy", "golden", "grand", "grassy",
    "green", "groovy", "handy", "happy", "hazel", "hearty", "heroic", "honest",
    "humble", "icy", "ideal", "indigo", "ivory", "jade", "jaunty", "jazzy",
    "jolly", "jovial", "joyful", "juicy", "jumbo", "just", "keen", "kind",
    "kingly", "lavish", "leafy", "level", "lilac", "limber", "lively", "lofty",
    "loyal", "lucid", "lucky", "lunar", "lush", "lyric", "magic", "marble",
    "marine", "maroon", "mellow", "mighty", "mild", "minty", "modern", "modest",
    "mossy", "mystic", "natty", "neat", "nifty", "nimble", "noble", "novel",
    "oaken", "ochre", "olive", "onyx", "opal", "open", "orange", "ornate",
    "pastel", "peachy", "peppy", "perky", "petite", "placid", "poetic", "poised",
    "polite", "pretty", "prime", "prompt", "proper", "proud", "pure", "purple",
    "quaint", "quick", "quiet", "rapid", "rare", "ready", "regal", "rich",
    "robust", "roomy", "rosy", "ruby", "rugged", "russet", "rustic", "satin",
    "savvy", "scenic", "secure", "serene", "sharp", "shiny", "silent", "silken",
    "silver", "simple", "sleek", "smart", "smiley", "smooth", "snappy", "snazzy",
    "snowy", "snug", "social", "soft", "solar", "solid", "sonic", "sound",
    "spicy", "sporty", "spruce", "spry", "square", "stable", "starry", "steady",
    "still", "stoic", "strong", "sturdy", "suave", "sugary", "summer", "sunlit",
    "superb", "supple", "tangy", "tawny", "tender", "tidy", "topaz", "trendy",
    "tropic", "true", "trusty", "unique", "upbeat", "urban", "vast", "velvet",
    "vernal", "violet", "vital", "vivid", "vocal", "warm", "wavy", "winged",
    "winter", "witty", "wooden", "woolly", "worthy", "zany", "zesty", "zippy",
];

/// Animals, and a few beasts of legend. Sorted; order is part of the format.
#[rustfmt::skip]
const ANIMALS: [&str; 256] = [
    "agama", "agouti", "akita", "alpaca", "anole", "argali", "auklet", "avocet",
    "badger", "bantam", "barbet", "basset", "beetle", "beluga", "bilby", "bison",
    "blenny", "bobcat", "bongo", "bonito", "borzoi", "bowfin", "bream", "briard",
    "bronco", "bulbul", "bunny", "camel", "canary", "cicada", "civet", "clam",
    "coati", "cobra", "collie", "colt", "colugo", "condor", "corgi", "cougar",
    "cowrie", "coyote", "coypu", "crab", "crane", "curlew", "dassie", "dingo",
    "dipper", "dory", "dove", "dragon", "drake", "duck", "dugong", "duiker",
    "dunlin", "eagle", "egret", "eider", "eland", "elk", "elver", "emu",
    "ermine", "falcon", "fennec", "ferret", "filly", "finch", "foal", "fossa",
    "fox", "frog", "fulmar", "gannet", "gecko", "genet", "gerbil", "goanna",
    "goat", "goby", "godwit", "goose", "grebe", "grison", "grouse", "gull",
    "guppy", "hawk", "heron", "hippo", "hoopoe", "hornet", "hound", "husky",
    "hydra", "hyrax", "ibex", "ibis", "iguana", "impala", "indri", "jabiru",
    "jacana", "jaeger", "jaguar", "jerboa", "joey", "junco", "kakapo", "kelpie",
    "kitten", "kiwi", "koala", "kraken", "krill", "kudu", "lark", "lemur",
    "limpet", "linnet", "lion", "lizard", "loris", "macaw", "magpie", "manta",
    "mantis", "manul", "margay", "marlin", "marmot", "merino", "mink", "minnow",
    "mole", "moth", "motmot", "mouse", "muskox", "newt", "nilgai", "numbat",
    "nutria", "nyala", "ocelot", "okapi", "olingo", "onager", "orca", "oribi",
    "oriole", "oryx", "osprey", "otter", "ouzel", "owl", "oyster", "panda",
    "parrot", "parula", "perch", "pigeon", "piglet", "pika", "pinto", "pipit",
    "plover", "pony", "poodle", "possum", "potto", "puffin", "pug", "puma",
    "python", "quahog", "quail", "quelea", "quokka", "quoll", "rabbit", "raptor",
    "ratel", "raven", "rhino", "robin", "roller", "saiga", "salmon", "saluki",
    "sambar", "scaup", "seal", "serow", "serval", "shark", "sheep", "shiba",
    "shrike", "shrimp", "sifaka", "siskin", "skink", "skua", "sloth", "snail",
    "snipe", "sphinx", "sprat", "squid", "stag", "stoat", "stork", "suslik",
    "swan", "tabby", "takin", "tanuki", "tarpon", "tayra", "tench", "tenrec",
    "tetra", "thrush", "tiger", "tomcat", "toucan", "towhee", "trogon", "trout",
    "tuna", "turaco", "turbot", "turkey", "turtle", "urchin", "veery", "verdin",
    "vicuna", "vireo", "walrus", "wapiti", "weaver", "whydah", "willet", "wisent",
    "wolf", "wombat", "wrasse", "wren", "wyvern", "zander", "zebra", "zebu",
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use test_case::test_case;

    /// Optimal string alignment: swapping two neighbours counts as one typo, too.
    fn slips(a: &str, b: &str) -> usize {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        let mut d = vec![vec![0; b.len() + 1]; a.len() + 1];
        for i in 0..=a.len() {
            for j in 0..=b.len() {
                d[i][j] = if i == 0 || j == 0 {
                    i + j
                } else {
                    let changed = usize::from(a[i - 1] != b[j - 1]);
                    let best = (d[i - 1][j] + 1).min(d[i][j - 1] + 1).min(d[i - 1][j - 1] + changed);
                    let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                    if swapped { best.min(d[i - 2][j - 2] + 1) } else { best }
                };
            }
        }
        d[a.len()][b.len()]
    }

    #[test_case(&ADJECTIVES; "adjectives")]
    #[test_case(&ANIMALS; "animals")]
    fn words_are_short_sorted_and_never_one_typo_apart(words: &[&str; 256]) {
        assert!(words.is_sorted_by(|a, b| a < b), "sorted and distinct");
        for (position, word) in words.iter().enumerate() {
            assert!((3..=6).contains(&word.len()), "{word}");
            assert!(word.bytes().all(|b| b.is_ascii_lowercase()), "{word}");
            for other in &words[..position] {
                assert!(slips(word, other) >= 2, "{word} and {other}");
            }
        }
    }

    #[test]
    fn no_word_is_in_both_lists() {
        assert!(ADJECTIVES.iter().all(|word| !ANIMALS.contains(word)));
    }

    #[test]
    fn the_lists_are_part_of_the_format() {
        let digest = |words: &[&str]| Sha256::of(words.join("\n").as_bytes()).hex();
        assert_eq!(digest(&ADJECTIVES), "6a46d5ba37532ab7b597daaeef583e3d2d4f28f74ac45ce629d71e4b7df08f76");
        assert_eq!(digest(&ANIMALS), "b1c5db71cc5981e23ff6b7b838c6e8b9c3bb75d9426c879455daf8c473d4145f");
    }

    #[test]
    fn labels_are_pinned() {
        assert_eq!(RunLabel::of(RunId::from_bits([0; 10])).to_string(), "nimble-elver");
        assert_eq!(RunLabel::of(RunId::from_bits([0xff; 10])).to_string(), "unique-bison");
    }

    #[test]
    fn all_labels_are_distinct_bounded_and_parse_back() {
        let texts: std::collections::BTreeSet<String> = RunLabel::all()
            .map(|label| {
                let text = label.to_string();
                assert_eq!(RunLabel::parse(&text), Ok(label));
                assert!(text.len() <= LABEL_CHARS_MAX, "{text}");
                text
            })
            .collect();
        assert_eq!(texts.len(), 65_536);
        assert!(texts.contains("amber-falcon"));
    }

    #[test_case("")]
    #[test_case("-")]
    #[test_case("amber"; "one word")]
    #[test_case("falcon-amber"; "swapped words")]
    #[test_case("Amber-falcon"; "capital")]
    #[test_case("amber-falcon "; "space")]
    #[test_case("amber-falcon-x"; "third word")]
    #[test_case("amber_falcon"; "other separator")]
    #[test_case("amber-falcom"; "one letter changed")]
    fn no_label(text: &str) {
        assert_eq!(RunLabel::parse(text), Err(LabelError));
    }

    #[test_case("amber-falcon", Some(Nearness::Exact); "as it is")]
    #[test_case("Amber Falcon", Some(Nearness::Exact); "capitals and a space")]
    #[test_case("AMBER_FALCON", Some(Nearness::Exact); "an underscore")]
    #[test_case("amb", Some(Nearness::Beginning); "the beginning")]
    #[test_case("amber-f", Some(Nearness::Beginning); "the beginning of both")]
    #[test_case("am fa", Some(Nearness::Beginning); "the beginning of each word")]
    #[test_case("falcon", Some(Nearness::Beginning); "the animal")]
    #[test_case("amber-falcom", Some(Nearness::OneSlip); "a wrong letter")]
    #[test_case("amer-falcon", Some(Nearness::OneSlip); "a missing letter")]
    #[test_case("amberr-falcon", Some(Nearness::OneSlip); "a letter too many")]
    #[test_case("amber-faclon", Some(Nearness::OneSlip); "two letters swapped")]
    #[test_case("a", None; "too short")]
    #[test_case("ember-falcom", None; "two wrong letters")]
    #[test_case("amber-otter", None; "another animal")]
    fn near(typed: &str, expected: Option<Nearness>) {
        assert_eq!(RunLabel::parse("amber-falcon").unwrap().nearness(typed), expected);
    }

    proptest! {
        #[test]
        fn a_label_depends_on_the_id_alone(bits: [u8; 10]) {
            let run = RunId::from_bits(bits);
            prop_assert_eq!(RunLabel::of(run), RunLabel::of_bits(bits));
            prop_assert_eq!(RunLabel::of(run).to_string().parse(), Ok(RunLabel::of(run)));
        }
    }
}
