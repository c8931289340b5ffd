//! The meaning of every code that people and agents see: errors, diagnostics, blockers, gaps, warnings.
//!
//! A word that occurs in several sets (a blocker and the detail of a gap) is one topic that names where it occurs. Codes are
//! found in any case, with `-` or `_`.

mod diagnostics;
mod runs;

use std::collections::BTreeMap;

use workrail_model::blocker::BlockerCode;
use workrail_model::compiled::CompiledWarningCode;
use workrail_model::discovery::DiscoveryWarningCode;
use workrail_model::error::ErrorCode;
use workrail_model::event::DivergenceReason;
use workrail_model::health::CorruptionKind;
use workrail_model::nearest::nearest;
use workrail_model::reason::{
    Advisory, CapabilityMissing, ContractViolation, NonAssumableChoiceKind, Unexpected,
    UserOnlyDependencyReason,
};
use workrail_model::reply::WarningCode;

use crate::compile::{Code, DiagnosticSeverity};

pub use diagnostics::explanation_of;

/// A code and everything about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The spelling where it matters most.
    pub code: String,
    pub kinds: Vec<TopicKind>,
    /// The first sentence.
    pub meaning: String,
    /// All of it, as Markdown.
    pub page: String,
}

/// Where a code occurs, in the order of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicKind {
    Error,
    Diagnostic(DiagnosticSeverity),
    Blocker,
    /// The detail of a recorded gap.
    Gap,
    /// Why a choice is the user's.
    Choice,
    Warning,
    /// A warning that is part of the compiled workflow.
    CompiledWarning,
    Divergence,
    Damage,
}

impl TopicKind {
    /// One word for a column and for `--json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Diagnostic(_) => "diagnostic",
            Self::Blocker => "blocker",
            Self::Gap => "gap",
            Self::Choice => "choice",
            Self::Warning => "warning",
            Self::CompiledWarning => "compiled_warning",
            Self::Divergence => "divergence",
            Self::Damage => "damage",
        }
    }

    fn described(self) -> &'static str {
        match self {
            Self::Error => "an error",
            Self::Diagnostic(DiagnosticSeverity::Error) => "an error of `workrail workflow validate`",
            Self::Diagnostic(DiagnosticSeverity::Warning) => "a warning of `workrail workflow validate`",
            Self::Diagnostic(DiagnosticSeverity::Hint) => "a hint of `workrail workflow validate`",
            Self::Blocker => "a blocker",
            Self::Gap => "the reason for a gap",
            Self::Choice => "a `choiceKind`",
            Self::Warning => "a warning in a reply",
            Self::CompiledWarning => "a warning in a compiled workflow",
            Self::Divergence => "the reason for a divergence",
            Self::Damage => "the reason why a session is damaged",
        }
    }
}

/// The three things that a reader wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub what: &'static str,
    pub why: &'static str,
    pub remedy: &'static str,
}

/// No topic has the code; names the closest one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownCode {
    pub nearest: Option<String>,
}

/// Every topic: errors first, then by kind in the order of declaration.
pub fn topics() -> Vec<Topic> {
    let mut drafts = Drafts::default();
    for code in Code::ALL {
        drafts.add(code.as_str(), TopicKind::Diagnostic(code.severity()), explanation_of(*code));
    }
    for code in BlockerCode::ALL {
        drafts.add(code.as_str(), TopicKind::Blocker, runs::blocker(code));
    }
    for reason in UserOnlyDependencyReason::ALL {
        drafts.add(reason.as_str(), TopicKind::Gap, runs::dependency(reason));
    }
    for kind in NonAssumableChoiceKind::ALL {
        drafts.add(kind.as_str(), TopicKind::Choice, runs::choice(kind));
    }
    for code in WarningCode::ALL {
        drafts.add(code.as_str(), TopicKind::Warning, runs::warning(code));
    }
    for code in DiscoveryWarningCode::ALL {
        drafts.add(code.as_str(), TopicKind::Warning, runs::discovery(code));
    }
    for code in CompiledWarningCode::ALL {
        drafts.add(code.as_str(), TopicKind::CompiledWarning, runs::compiled(code));
    }
    // Reasons that are blockers or warnings in another mode (G61).
    for code in reason_codes() {
        drafts.occurs(code, TopicKind::Gap);
    }
    for reason in DivergenceReason::ALL {
        drafts.add(reason.as_str(), TopicKind::Divergence, runs::divergence(reason));
    }
    for kind in CorruptionKind::ALL {
        drafts.add(kind.as_str(), TopicKind::Damage, runs::corruption(kind));
    }
    let errors = ErrorCode::ALL.iter().map(|code| error(*code));
    errors.chain(drafts.finished()).collect()
}

/// The topic of a code in any spelling.
pub fn find(text: &str) -> Result<Topic, UnknownCode> {
    let topics = topics();
    let wanted = folded(text);
    match topics.iter().find(|topic| folded(&topic.code) == wanted) {
        Some(found) => Ok(found.clone()),
        None => {
            let known: Vec<(String, &str)> =
                topics.iter().map(|topic| (folded(&topic.code), topic.code.as_str())).collect();
            let near = nearest(&wanted, known.iter().map(|(folded, _)| folded.as_str()));
            let near = near.and_then(|near| known.iter().find(|(folded, _)| folded == near));
            Err(UnknownCode { nearest: near.map(|(_, code)| (*code).to_owned()) })
        }
    }
}

/// One spelling for `LOOP_LIMIT_REACHED`, `loop_limit_reached` and `loop-limit-reached`. Strips what a terminal prints
/// around a code (`error[syntax]`).
fn folded(text: &str) -> String {
    let text = text.trim();
    let inner = text.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']')).unwrap_or(text);
    inner.trim().to_lowercase().replace(['_', ' '], "-")
}

fn reason_codes() -> impl Iterator<Item = &'static str> {
    let violations = ContractViolation::ALL.into_iter().map(ContractViolation::as_str);
    let capabilities = CapabilityMissing::ALL.into_iter().map(CapabilityMissing::as_str);
    let unexpected = Unexpected::ALL.into_iter().map(Unexpected::as_str);
    let advisories = Advisory::ALL.into_iter().map(Advisory::as_str);
    violations.chain(capabilities).chain(unexpected).chain(advisories)
}

#[derive(Default)]
struct Drafts {
    order: Vec<(String, Explanation, Vec<TopicKind>)>,
    indexes: BTreeMap<String, usize>,
}

impl Drafts {
    fn add(&mut self, code: &str, kind: TopicKind, explanation: Explanation) {
        let key = folded(code);
        if self.indexes.contains_key(&key) {
            self.occurs(code, kind);
            return;
        }
        self.indexes.insert(key, self.order.len());
        self.order.push((code.to_owned(), explanation, vec![kind]));
    }

    fn occurs(&mut self, code: &str, kind: TopicKind) {
        let index = self.indexes.get(&folded(code));
        let Some((_, _, kinds)) = index.and_then(|index| self.order.get_mut(*index)) else { return };
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }

    fn finished(self) -> impl Iterator<Item = Topic> {
        self.order.into_iter().map(|(code, explanation, kinds)| {
            let occurs: Vec<&str> = kinds.iter().map(|kind| kind.described()).collect();
            let Explanation { what, why, remedy } = explanation;
            let text = format!(
                "# {code}\n\nThis is {}.\n\n**What.** {what}\n\n**Why it matters.** {why}\n\n**What to do.** {remedy}\n",
                listed(&occurs),
            );
            Topic { code, kinds, meaning: first_sentence(what), page: text }
        })
    }
}

/// `a`, `a and b`, `a, b and c`.
fn listed(parts: &[&str]) -> String {
    match parts {
        [first @ .., before, last] if !first.is_empty() => {
            format!("{}, {before} and {last}", first.join(", "))
        }
        [] | [..] => parts.join(" and "),
    }
}

fn error(code: ErrorCode) -> Topic {
    let lines = code.page().lines().map(str::trim);
    let text = lines.skip_while(|line| line.is_empty() || line.starts_with('#'));
    let paragraph: Vec<&str> = text.take_while(|line| !line.is_empty()).collect();
    let meaning = first_sentence(paragraph.join(" ").trim_start_matches("**What.** "));
    Topic {
        code: code.as_str().to_owned(),
        kinds: vec![TopicKind::Error],
        meaning,
        page: code.page().to_owned(),
    }
}

fn first_sentence(text: &str) -> String {
    match text.find(". ") {
        Some(end) => text[..=end].to_owned(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_code_has_one_topic_with_all_three_parts() {
        let topics = topics();
        let names: BTreeSet<String> = topics.iter().map(|topic| folded(&topic.code)).collect();
        assert_eq!(names.len(), topics.len(), "two topics have the same name");
        for topic in &topics {
            for part in ["**What.**", "**Why it matters.**", "**What to do.**"] {
                assert!(topic.page.contains(part), "{}: {part}", topic.code);
            }
            assert!(topic.meaning.ends_with('.'), "{}: {}", topic.code, topic.meaning);
        }
        for code in reason_codes() {
            assert!(find(code).is_ok_and(|topic| topic.kinds.contains(&TopicKind::Gap)), "{code}");
        }
    }

    #[test]
    fn a_code_is_found_in_any_spelling_and_a_typo_gets_the_nearest_one() {
        let kinds = [TopicKind::Blocker, TopicKind::Warning, TopicKind::Gap];
        for spelling in ["LOOP_LIMIT_REACHED", "loop_limit_reached", " loop-limit-reached "] {
            assert_eq!(find(spelling).unwrap().kinds, kinds, "{spelling}");
        }
        assert_eq!(find("error[unknown-field]").unwrap().code, "unknown-field");
        assert_eq!(find("unknwon_feild").unwrap_err().nearest.as_deref(), Some("unknown-field"));
        assert_eq!(find("MISSING_NOTES_REQUIRED_X").unwrap_err().nearest, None);
    }
}
