//! How much text a report includes: enough for complete notes, but bounded in memory.

use workrail_model::event::OutputPayload;
use workrail_model::text::truncate_with_marker;

use super::build::ContentReader;

/// Beyond this much text a report shows only the beginnings contained in the events.
const REPORT_TEXT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// A longer artifact is shown by its beginning.
pub(super) const ARTIFACT_BYTES_MAX: usize = 256 * 1024;

/// Artifacts of points that are not shown, for the tables of the whole run.
const HIDDEN_ARTIFACT_BYTES_MAX: u64 = 1024 * 1024;

/// What is left of the budget, and remarks about content that were made on the way.
#[derive(Debug)]
pub(super) struct TextBudget {
    left: usize,
    hidden_artifact_bytes: u64,
    pub(super) remarks: Vec<String>,
}

impl TextBudget {
    pub(super) fn new() -> Self {
        Self {
            left: REPORT_TEXT_BYTES_MAX,
            hidden_artifact_bytes: HIDDEN_ARTIFACT_BYTES_MAX,
            remarks: Vec::new(),
        }
    }

    /// Whether this many more bytes may be included; they are then spent.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }

    /// Whether an artifact of this size is read although its point is not shown.
    pub(super) fn take_hidden_artifact(&mut self, bytes: u64) -> bool {
        let left = self.hidden_artifact_bytes.checked_sub(bytes);
        self.hidden_artifact_bytes = left.unwrap_or(self.hidden_artifact_bytes);
        if left.is_none() {
            self.remark(
                "Tables of the whole run leave out large artifacts here. The report has them.".to_owned(),
            );
        }
        left.is_some()
    }

    pub(super) fn remark(&mut self, text: String) {
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    /// The full notes if the event contains only their beginning.
    pub(super) fn notes(&mut self, payload: &OutputPayload, content: &dyn ContentReader) -> Option<String> {
        let OutputPayload::Notes { notes_markdown, full_text_ref } = payload else { return None };
        let beginning = notes_markdown.as_str();
        let Some(reference) = full_text_ref else {
            return Some(if self.take(beginning.len()) { beginning } else { self.no_room() }.to_owned());
        };
        let Some(whole) = content.blob(*reference).and_then(|bytes| String::from_utf8(bytes).ok()) else {
            self.remark(format!(
                "The whole text {} cannot be read; its beginning is shown.",
                reference.digest()
            ));
            return Some(beginning.to_owned());
        };
        if self.take(whole.len()) {
            return Some(whole);
        }
        self.no_room();
        Some(truncate_with_marker(&whole, beginning.len()).into_owned())
    }

    fn no_room(&mut self) -> &'static str {
        self.remark("The session holds more text than one report takes in; long texts are cut.".to_owned());
        "[TRUNCATED]"
    }
}
