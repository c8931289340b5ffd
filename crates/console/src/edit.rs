//! What the form of the editor asks for: check a text, show what would change, try its tests, save it (G100).
//!
//! The file is named by an opaque key that the server resolves. A text is saved only if it compiles, keeps to a namespace of
//! the user's own, and the file on disk still is the one that was loaded.

use workrail_engine::compare::DiffLine;
use workrail_engine::edit::{CheckedText, Code, Severity, TrialReport, WorkflowFile, text_lines};
use workrail_model::digest::Sha256;
use workrail_model::error::ErrorCode;

use crate::state::Console;
use crate::target::Query;
use crate::use_cases::{Answer, refusal};

/// What a button of the editor asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EditAction {
    Validate,
    Diff,
    Test,
    Save,
}

impl EditAction {
    pub(crate) fn parse(text: &str) -> Self {
        match text {
            "diff" => Self::Diff,
            "test" => Self::Test,
            "save" => Self::Save,
            _ => Self::Validate,
        }
    }
}

/// The text in the editor and everything that is shown about it.
#[derive(Debug)]
pub(crate) struct Editor {
    pub(crate) file: WorkflowFile,
    /// The digest of the file that the text was made from.
    pub(crate) seen: Sha256,
    pub(crate) text: String,
    pub(crate) checked: CheckedText,
    /// The step whose prompt is shown.
    pub(crate) step: Option<String>,
    pub(crate) shown: Shown,
}

/// What the last button gave.
#[derive(Debug)]
pub(crate) enum Shown {
    Nothing,
    Refused { message: String, next: String },
    Diff(Vec<DiffLine>),
    Tested(Result<TrialReport, String>),
    Saved,
}

/// The editor of a file as it is now.
pub(crate) fn opened(console: &Console, key: Sha256) -> Answer<Editor> {
    let file = console.use_cases.workflow_file(key)?;
    let checked = console.use_cases.check_workflow(&file.about, &file.text, None)?;
    Ok(Editor {
        seen: file.digest,
        text: file.text.clone(),
        step: None,
        shown: Shown::Nothing,
        checked,
        file,
    })
}

/// The same with what the form holds.
pub(crate) fn typed(console: &Console, key: Sha256, form: &Query) -> Answer<Editor> {
    let file = console.use_cases.workflow_file(key)?;
    let text = own_line_ends(form.get("text").unwrap_or_default(), &file.text);
    let place = form.get("at").and_then(|at| at.parse().ok());
    let checked = console.use_cases.check_workflow(&file.about, &text, place)?;
    let seen = form.get("seen").and_then(|seen| Sha256::parse(seen).ok());
    let seen =
        seen.ok_or_else(|| refused("The form does not say which file was loaded. Nothing was saved."))?;
    let chosen = form.get("step").filter(|step| !step.is_empty()).map(str::to_owned);
    let step = checked.step.clone().or(chosen);
    Ok(Editor { file, seen, text, checked, step, shown: Shown::Nothing })
}

/// Browsers send CRLF; a file keeps the line ends that it has.
fn own_line_ends(sent: &str, file: &str) -> String {
    let plain = sent.replace("\r\n", "\n");
    if file.contains("\r\n") { plain.replace('\n', "\r\n") } else { plain }
}

/// Carries out what a button of the form asks for.
pub(crate) fn carry_out(console: &Console, key: Sha256, form: &Query) -> Answer<Editor> {
    let mut editor = typed(console, key, form)?;
    editor.shown = match EditAction::parse(form.get("action").unwrap_or_default()) {
        EditAction::Validate => Shown::Nothing,
        EditAction::Diff => match editor.is_current() {
            true => Shown::Diff(text_lines(&editor.file.text, &editor.text)),
            false => changed_on_disk(),
        },
        EditAction::Test => Shown::Tested(console.administration.try_workflow(key, editor.text.as_bytes())),
        EditAction::Save => save(console, key, &editor),
    };
    Ok(editor)
}

impl Editor {
    /// Whether the file on disk is the one that was loaded.
    pub(crate) fn is_current(&self) -> bool {
        self.seen == self.file.digest
    }
}

fn changed_on_disk() -> Shown {
    Shown::Refused {
        message: "The file was changed on disk since it was loaded. Nothing was saved.".to_owned(),
        next: "Copy your text, load the file again, and make your change there.".to_owned(),
    }
}

fn save(console: &Console, key: Sha256, editor: &Editor) -> Shown {
    if let Err((message, next)) = savable(console, editor) {
        return Shown::Refused { message: format!("{message} Nothing was saved."), next };
    }
    if !editor.is_current() {
        return changed_on_disk();
    }
    match console.administration.save_workflow(key, editor.seen, editor.text.as_bytes()) {
        Ok(()) => Shown::Saved,
        Err(message) => Shown::Refused { message, next: "Nothing was saved.".to_owned() },
    }
}

/// Why a text must not be saved, and what to do about it.
fn savable(console: &Console, editor: &Editor) -> Result<(), (String, String)> {
    let said = |message: &str, next: &str| Err((message.to_owned(), next.to_owned()));
    if !editor.file.about.is_editable {
        return said(
            "This source is read-only.",
            "Copy the workflow to a namespace of your own and edit the copy.",
        );
    }
    let problems = &editor.checked.diagnostics.problems;
    if let Some(first) = problems.iter().find(|own| own.severity == Severity::Error) {
        let message =
            format!("The workflow has errors; the first is in line {}: {}.", first.line, first.message);
        return Err((message, first.fix.clone()));
    }
    let Some(id) = &editor.checked.workflow_id else {
        return said("The workflow has no id.", "Write an id such as \"team.review\".");
    };
    match id.namespace() {
        None => {
            let legacy = problems.iter().find(|own| own.code == Code::LegacyId);
            let next = legacy.map_or("Write an id such as \"team.review\".", |own| own.fix.as_str());
            Err((format!("The id `{id}` has no namespace."), next.to_owned()))
        }
        Some("wr") => {
            said("Ids under `wr.` belong to the bundled workflows.", "Use a namespace of your own.")
        }
        Some(_) if editor.file.workflow_id.as_ref() != Some(id) && console.use_cases.has_workflow(id) => {
            Err((format!("Another file has the id `{id}`."), "Choose another id.".to_owned()))
        }
        Some(_) => Ok(()),
    }
}

fn refused(message: &str) -> Box<workrail_model::error::ErrorEnvelope> {
    refusal(ErrorCode::ValidationError, message, "Load the page again.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_line_ends() {
        assert_eq!(own_line_ends("a\r\nb\r\n", "x\ny\n"), "a\nb\n");
        assert_eq!(own_line_ends("a\r\nb\r\n", "x\r\ny\r\n"), "a\r\nb\r\n");
        assert_eq!(own_line_ends("a\nb", "x\r\n"), "a\r\nb");
    }
}
