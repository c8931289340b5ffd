//! Collects problems while a file is read; lines and columns are computed at the end.

use workrail_model::limits::COMPILED_EXPANSION_BYTES_MAX;

use super::diagnostic::{Code, Diagnostic, Diagnostics, SourceSpan};
use super::path::DocPath;

/// A problem before its line is known.
#[derive(Debug)]
pub(super) struct DraftDiagnostic {
    code: Code,
    location: DiagnosticLocation,
    message: String,
    why: String,
    fix: String,
}

#[derive(Debug)]
enum DiagnosticLocation {
    Span(SourceSpan),
    Path(DocPath),
    Both(SourceSpan, DocPath),
}

impl DraftDiagnostic {
    pub(super) fn at(code: Code, span: SourceSpan) -> Self {
        Self::new(code, DiagnosticLocation::Span(span))
    }

    /// The span is looked up when the report is finished.
    pub(super) fn on(code: Code, path: &DocPath) -> Self {
        Self::new(code, DiagnosticLocation::Path(path.clone()))
    }

    pub(super) fn both(code: Code, span: SourceSpan, path: DocPath) -> Self {
        Self::new(code, DiagnosticLocation::Both(span, path))
    }

    fn new(code: Code, location: DiagnosticLocation) -> Self {
        Self { code, location, message: String::new(), why: String::new(), fix: String::new() }
    }

    pub(super) fn message(mut self, text: impl Into<String>) -> Self {
        self.message = text.into();
        self
    }

    pub(super) fn why(mut self, text: impl Into<String>) -> Self {
        self.why = text.into();
        self
    }

    pub(super) fn fix(mut self, text: impl Into<String>) -> Self {
        self.fix = text.into();
        self
    }
}

/// Beyond this, problems are counted but not kept: a file of 10,000 bad steps must not cost a gigabyte.
const KEPT_MAX: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct DiagnosticReport {
    text: String,
    problems: Vec<DraftDiagnostic>,
    errors: usize,
    dropped: usize,
    /// Bytes that the compiler added to what the author wrote.
    expanded: usize,
    /// Fields that are present under a misspelled name.
    misspelt: Vec<DocPath>,
}

impl DiagnosticReport {
    pub(super) fn set_text(&mut self, text: &str) {
        text.clone_into(&mut self.text);
    }

    pub(super) fn push(&mut self, problem: DraftDiagnostic) {
        if problem.code.severity() == super::DiagnosticSeverity::Error {
            self.errors += 1;
        }
        if self.problems.len() < KEPT_MAX {
            self.problems.push(problem);
        } else {
            self.dropped += 1;
        }
    }

    /// Records that a field is present under a wrong name, which has been reported.
    pub(super) fn misspelt(&mut self, meant: DocPath) {
        if self.misspelt.len() < KEPT_MAX {
            self.misspelt.push(meant);
        }
    }

    /// Whether an error about this field, or about something in it, has been reported: reporting it as missing
    /// would be a misleading consequence.
    pub(super) fn is_broken(&self, at: &DocPath) -> bool {
        let own = at.segments();
        let within = |location: &DiagnosticLocation| match location {
            DiagnosticLocation::Span(_) => false,
            DiagnosticLocation::Path(path) | DiagnosticLocation::Both(_, path) => {
                path.segments().starts_with(own)
            }
        };
        let is_error =
            |problem: &&DraftDiagnostic| problem.code.severity() == super::DiagnosticSeverity::Error;
        self.misspelt.contains(at)
            || self.problems.iter().filter(is_error).any(|problem| within(&problem.location))
    }

    pub(super) fn push_all(&mut self, problems: impl IntoIterator<Item = DraftDiagnostic>) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }

    /// Whether the compiler may add this many more bytes; checked before they are copied. The first refusal is
    /// reported.
    pub(super) fn may_add(&mut self, bytes: usize, at: &DocPath) -> bool {
        let allowed = self.expanded <= COMPILED_EXPANSION_BYTES_MAX;
        self.expanded = self.expanded.saturating_add(bytes);
        let fits = self.expanded <= COMPILED_EXPANSION_BYTES_MAX;
        if allowed && !fits {
            self.push(
                DraftDiagnostic::on(Code::WorkflowTooLarge, at)
                    .message(format!(
                        "bindings, templates, features and inherited texts add more than \
                         {COMPILED_EXPANSION_BYTES_MAX} bytes to this workflow, counted up to here"
                    ))
                    .why("a compiled workflow is stored and read as a whole")
                    .fix("repeat long texts less often, or write them once in metaGuidance"),
            );
        }
        fits
    }

    pub(super) fn expanded(&self) -> usize {
        self.expanded
    }

    pub(super) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    pub(super) fn finish(self, file: &str, root: Option<&super::document::DocumentNode>) -> Diagnostics {
        if self.problems.is_empty() {
            return Diagnostics::new(file, Vec::new());
        }
        let lines = line_starts(&self.text);
        let mut placed = Vec::with_capacity(self.problems.len());
        let has_errors = self.errors > 0;
        let problems = self.problems.into_iter();
        for problem in problems.filter(|problem| !(has_errors && problem.code.may_follow_from_an_error())) {
            let (span, path) = match problem.location {
                DiagnosticLocation::Span(span) => (span, String::new()),
                DiagnosticLocation::Path(path) => {
                    (root.map(|root| root.find(&path)).unwrap_or_default(), path.to_string())
                }
                DiagnosticLocation::Both(span, path) => (span, path.to_string()),
            };
            let (line, column) = position(&self.text, &lines, span.start);
            placed.push(Diagnostic {
                severity: problem.code.severity(),
                code: problem.code,
                path,
                line,
                column,
                span,
                message: problem.message,
                why: problem.why,
                fix: problem.fix,
            });
        }
        let mut diagnostics = Diagnostics::new(file, placed);
        diagnostics.left_out += self.dropped;
        diagnostics
    }
}

fn line_starts(text: &str) -> Vec<usize> {
    let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(breaks).collect()
}

fn position(text: &str, lines: &[usize], offset: usize) -> (usize, usize) {
    let offset = text.floor_char_boundary(offset.min(text.len()));
    let line = lines.partition_point(|start| *start <= offset).max(1);
    // `lines` starts with 0, so there is a start at or before every offset.
    let start = lines.get(line - 1).copied().unwrap_or(0);
    (line, text[start..offset].chars().count() + 1)
}

/// A text short enough to repeat in a message.
pub(super) fn shown(text: &str) -> String {
    if text.len() <= 60 { text.to_owned() } else { format!("{}...", &text[..text.floor_char_boundary(57)]) }
}
