//! Shows problems like a good compiler: the line, the position, why, and the fix.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use workrail_core::compile::{Diagnostic, DiagnosticSeverity, Diagnostics};

use crate::output;

/// Prints every problem with its part of the source.
pub(super) fn print(diagnostics: &Diagnostics, source: &[u8]) {
    let text = String::from_utf8_lossy(source);
    for problem in &diagnostics.problems {
        output::rendered(&rendered(&diagnostics.file, problem, &text));
    }
    if diagnostics.left_out > 0 {
        output::line(&format!("{} more problems are not listed", diagnostics.left_out));
    }
}

fn rendered(file: &str, problem: &Diagnostic, source: &str) -> String {
    let level = match problem.severity {
        DiagnosticSeverity::Error => Level::ERROR,
        DiagnosticSeverity::Warning => Level::WARNING,
        DiagnosticSeverity::Hint => Level::HELP,
    };
    let code = problem.code.to_string();
    let title = level.primary_title(problem.message.as_str()).id(code.as_str());
    let span = in_source(problem, source);
    let label = problem.path.as_str();
    let snippet =
        Snippet::source(source).path(file).annotation(AnnotationKind::Primary.span(span).label(label));
    let group: Group<'_> = title
        .element(snippet)
        .element(Level::NOTE.message(problem.why.as_str()))
        .element(Level::HELP.message(problem.fix.as_str()));
    Renderer::styled().render(&[group])
}

/// The span, moved to character boundaries; one line is enough to find the position.
fn in_source(problem: &Diagnostic, source: &str) -> std::ops::Range<usize> {
    let start = source.floor_char_boundary(problem.span.start.min(source.len()));
    let end = source.ceil_char_boundary(problem.span.end.clamp(start, source.len()));
    let line_end = source[start..end].find('\n').map_or(end, |offset| start + offset);
    start..line_end
}
