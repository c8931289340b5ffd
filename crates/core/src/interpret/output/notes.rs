//! Notes that a step requires: the agent's own words, with content (G43).

use workrail_model::blocker::{Blocker, BlockerCode, BlockerPointer};
use workrail_model::compiled::CompiledStep;
use workrail_model::placeholder::{STEP_NOTES, are_placeholder_notes};
use workrail_model::reason::{ContractViolation, Reason};
use workrail_model::text::BoundedText;

use super::super::Finding;

/// Whole notes without content, in lower case and without punctuation.
const SAY_NOTHING: [&str; 20] = [
    "all done",
    "as above",
    "complete",
    "completed",
    "done",
    "finished",
    "n a",
    "na",
    "no notes",
    "none",
    "notes",
    "nothing",
    "ok",
    "okay",
    "see above",
    "step complete",
    "step completed",
    "step done",
    "tbd",
    "todo",
];

/// What is wrong with the notes; `None` if a reader learns from them what was done.
pub(super) fn finding(step: &CompiledStep, notes: Option<&str>) -> Option<Finding> {
    let message = match notes.filter(|text| !text.trim().is_empty()) {
        None => "This step needs notes: output.notesMarkdown is missing or blank.".to_owned(),
        Some(text) if are_placeholder_notes(text) => {
            "This step needs notes: output.notesMarkdown is the placeholder that a WorkRail reply showed, not your \
             own words."
                .to_owned()
        }
        Some(text) if says_nothing(text) => {
            format!("This step needs notes: {:?} does not say what you did.", text.trim())
        }
        Some(_) => return None,
    };
    let blocker = Blocker {
        code: BlockerCode::MissingRequiredNotes,
        pointer: BlockerPointer::WorkflowStep { step_id: step.step_id.clone() },
        message: BoundedText::clip(&message),
        suggested_fix: Some(BoundedText::clip(&format!(
            "Send {{\"output\":{{\"notesMarkdown\":\"{STEP_NOTES}\"}}}} in your own words: what you did, what you \
             produced, what is open."
        ))),
        decision: None,
    };
    Some(Finding { reason: Reason::ContractViolation(ContractViolation::MissingRequiredNotes), blocker })
}

/// Whether a text has no content.
pub(crate) fn says_nothing(text: &str) -> bool {
    const LONGEST: usize = 40;
    if text.trim().len() > LONGEST {
        return false;
    }
    // Only characters that are words in no language: a single ideogram or emoji may be a word.
    if text.chars().all(|c| c.is_ascii_punctuation() || c.is_whitespace() || c == '…') {
        return true;
    }
    let words: Vec<String> = text
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    SAY_NOTHING.contains(&words.join(" ").as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_phrases_are_distinguished_from_short_notes() {
        for text in [".", "...", "Done.", "DONE", "- ok", "n/a", "N/A", "**completed**", "Step done!", "TODO"]
        {
            assert!(says_nothing(text), "{text}");
        }
        for text in ["Done: renamed it", "fixed", "Not done", "42", "已完成", "Read a.rs"] {
            assert!(!says_nothing(text), "{text}");
        }
    }
}
