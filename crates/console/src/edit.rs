//! Actions of the editor form: check a text, run its tests, show what would change, save it (G100).
//!
//! The file is named by an opaque key that the server resolves. A text is saved only if it compiles, stays in one of
//! the user's own namespaces, its changes were shown, and the file on disk is still the one that was loaded.

use strum::{EnumString, IntoStaticStr};
use workrail_engine::compare::DiffLine;
use workrail_engine::edit::{
    CheckedText, Code, Diagnostic, DiagnosticSeverity, TrialReport, WorkflowFile, text_lines,
};
use workrail_model::digest::Sha256;
use workrail_model::error::ErrorCode;
use workrail_model::limits::WORKFLOW_SOURCE_BYTES_MAX;

use crate::administration::Administration;
use crate::state::Console;
use crate::target::QueryPairs;
use crate::use_cases::{EngineResult, refusal};

/// What a button of the editor asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, IntoStaticStr, EnumString)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum EditAction {
    #[default]
    Validate,
    Test,
    /// Shows what would change.
    Review,
    /// Like `Review`, if the file was changed meanwhile: the text is to replace the current file.
    Rebase,
    Save,
}

impl EditAction {
    /// A form without a button was sent by the Enter key: it only checks.
    fn parse(text: &str) -> Self {
        text.parse().unwrap_or_default()
    }
}

/// The text in the editor and everything shown about it.
#[derive(Debug)]
pub(crate) struct WorkflowEditor {
    pub(crate) file: WorkflowFile,
    /// The digest of the file that the text was made from.
    pub(crate) seen: Sha256,
    pub(crate) text: String,
    pub(crate) checked: CheckedText,
    /// The step whose prompt is shown.
    pub(crate) step: Option<String>,
    pub(crate) shown: EditResult,
}

/// The result of the last button.
#[derive(Debug)]
pub(crate) enum EditResult {
    Nothing,
    Review(Review),
    Tested(Result<TrialReport, String>),
    NotSaved(SaveProblem),
    Saved,
}

/// What saving would change.
#[derive(Debug)]
pub(crate) struct Review {
    /// From the file on disk to the text.
    pub(crate) lines: Vec<DiffLine>,
    pub(crate) save_problem: Option<SaveProblem>,
    /// The digest of the text under review; only this text may be saved.
    pub(crate) reviewed: Sha256,
}

/// Why a text cannot be saved, and what to do about it.
#[derive(Debug)]
pub(crate) struct SaveProblem {
    pub(crate) message: String,
    pub(crate) next: String,
}

impl SaveProblem {
    fn new(message: impl Into<String>, next: impl Into<String>) -> Self {
        Self { message: message.into(), next: next.into() }
    }
}

/// The editor of a file in its current state.
pub(crate) fn opened(console: &Console, key: Sha256) -> EngineResult<WorkflowEditor> {
    let file = console.use_cases.workflow_file(key)?;
    let checked = console.use_cases.check_workflow(&file.about, &file.text, None)?;
    Ok(WorkflowEditor {
        seen: file.digest,
        text: file.text.clone(),
        step: None,
        shown: EditResult::Nothing,
        checked,
        file,
    })
}

/// The editor with the contents of the form.
pub(crate) fn editor_from_form(
    console: &Console,
    key: Sha256,
    form: &QueryPairs,
) -> EngineResult<WorkflowEditor> {
    // Visitors of a team's console have no access to files of the machine (G125).
    console.administration()?;
    let file = console.use_cases.workflow_file(key)?;
    let text = own_line_ends(form.get("text").unwrap_or_default(), &file.text);
    if text.len() as u64 > WORKFLOW_SOURCE_BYTES_MAX {
        return Err(refused(&format!(
            "The text has more than the {WORKFLOW_SOURCE_BYTES_MAX} bytes that a workflow's file may have. Nothing was saved."
        )));
    }
    let cursor = form.get("at").and_then(|at| at.parse().ok());
    let checked = console.use_cases.check_workflow(&file.about, &text, cursor)?;
    let seen = form.get("seen").and_then(|seen| Sha256::parse(seen).ok());
    let seen =
        seen.ok_or_else(|| refused("The form does not say which file was loaded. Nothing was saved."))?;
    let chosen = form.get("step").filter(|step| !step.is_empty()).map(str::to_owned);
    let step = checked.step.clone().or(chosen);
    Ok(WorkflowEditor { file, seen, text, checked, step, shown: EditResult::Nothing })
}

/// Browsers send CRLF; a file keeps its own line endings.
fn own_line_ends(sent: &str, file: &str) -> String {
    let plain = sent.replace("\r\n", "\n");
    if file.contains("\r\n") { plain.replace('\n', "\r\n") } else { plain }
}

/// Carries out the action of the pressed button.
pub(crate) fn carry_out(console: &Console, key: Sha256, form: &QueryPairs) -> EngineResult<WorkflowEditor> {
    let administration = console.administration()?;
    let mut editor = editor_from_form(console, key, form)?;
    editor.shown = match EditAction::parse(form.get("action").unwrap_or_default()) {
        EditAction::Validate => EditResult::Nothing,
        EditAction::Test => EditResult::Tested(administration.try_workflow(key, editor.text.as_bytes())),
        EditAction::Review => EditResult::Review(review(console, &editor)),
        EditAction::Rebase => {
            editor.seen = editor.file.digest;
            EditResult::Review(review(console, &editor))
        }
        // Only a text that was shown is saved; further typing makes it another text.
        EditAction::Save if form.get("reviewed") != Some(editor.digest().to_string().as_str()) => {
            EditResult::Review(review(console, &editor))
        }
        EditAction::Save => save(console, administration, key, &editor),
    };
    Ok(editor)
}

impl WorkflowEditor {
    /// Whether the file on disk is the one that was loaded.
    pub(crate) fn is_current(&self) -> bool {
        self.seen == self.file.digest
    }

    fn digest(&self) -> Sha256 {
        Sha256::of(self.text.as_bytes())
    }
}

fn review(console: &Console, editor: &WorkflowEditor) -> Review {
    Review {
        lines: text_lines(&editor.file.text, &editor.text),
        save_problem: save_problem(console, editor).or_else(|| {
            (!editor.is_current()).then(|| {
                SaveProblem::new(
                    "The file was changed on disk since it was loaded.",
                    "Below is what your text would change in the file as it is now.",
                )
            })
        }),
        reviewed: editor.digest(),
    }
}

fn save(
    console: &Console,
    administration: &dyn Administration,
    key: Sha256,
    editor: &WorkflowEditor,
) -> EditResult {
    if !editor.is_current() || save_problem(console, editor).is_some() {
        return EditResult::Review(review(console, editor));
    }
    match administration.save_workflow(key, editor.seen, editor.text.as_bytes()) {
        Ok(()) => EditResult::Saved,
        Err(message) => EditResult::NotSaved(SaveProblem::new(message, "Your text is still here.")),
    }
}

/// Why a text must not be saved, regardless of what is on disk.
fn save_problem(console: &Console, editor: &WorkflowEditor) -> Option<SaveProblem> {
    if !editor.file.about.is_editable {
        return Some(SaveProblem::new(
            "This source is read-only.",
            "Copy the workflow to a namespace of your own and edit the copy.",
        ));
    }
    let problems = &editor.checked.diagnostics.problems;
    if let Some(first) = problems.iter().find(|problem| problem.severity == DiagnosticSeverity::Error) {
        let message =
            format!("The workflow has errors; the first is in line {}: {}.", first.line, first.message);
        return Some(SaveProblem::new(message, fix_of(first)));
    }
    let Some(id) = &editor.checked.workflow_id else {
        return Some(SaveProblem::new("The workflow has no id.", "Write an id such as `team.review`."));
    };
    match id.namespace() {
        None => {
            let legacy = problems.iter().find(|problem| problem.code == Code::LegacyId);
            let next = legacy.map_or_else(|| "Write an id such as `team.review`.".to_owned(), fix_of);
            Some(SaveProblem::new(format!("The id `{id}` has no namespace."), next))
        }
        Some(_) if id.is_reserved() => Some(SaveProblem::new(
            "Ids under `wr.` are reserved for bundled workflows.",
            "Use a namespace of your own.",
        )),
        Some(_) if editor.file.workflow_id.as_ref() != Some(id) && console.use_cases.has_workflow(id) => {
            Some(SaveProblem::new(format!("Another file has the id `{id}`."), "Choose another id."))
        }
        Some(_) => None,
    }
}

/// As below the problem itself: a fragment without a full stop, or a question.
fn fix_of(problem: &Diagnostic) -> String {
    format!("Fix: {}", problem.fix)
}

fn refused(message: &str) -> Box<workrail_model::error::ErrorEnvelope> {
    refusal(ErrorCode::ValidationError, message, "Go back to your text, or load the page again.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_line_endings() {
        assert_eq!(own_line_ends("a\r\nb\r\n", "x\ny\n"), "a\nb\n");
        assert_eq!(own_line_ends("a\r\nb\r\n", "x\r\ny\r\n"), "a\r\nb\r\n");
        assert_eq!(own_line_ends("a\nb", "x\r\n"), "a\r\nb");
    }

    #[test]
    fn only_a_button_changes_something() {
        assert_eq!(EditAction::parse(EditAction::Save.into_str()), EditAction::Save);
        assert_eq!(EditAction::parse(""), EditAction::Validate);
        assert_eq!(EditAction::parse("delete"), EditAction::Validate);
    }
}
