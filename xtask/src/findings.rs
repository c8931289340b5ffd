//! The result of a check: problems fail it, notes are only printed.

/// In the order of discovery; checks walk their input in a fixed order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    problems: Vec<String>,
    notes: Vec<String>,
    fix: Option<&'static str>,
}

impl Findings {
    pub(crate) fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The command that fixes all problems, if there is one.
    pub(crate) fn fixed_by(&mut self, command: &'static str) {
        self.fix = Some(command);
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.problems.extend(other.problems);
        self.notes.extend(other.notes);
        self.fix = self.fix.or(other.fix);
    }

    pub(crate) fn problems(&self) -> &[String] {
        &self.problems
    }

    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(crate) fn fix(&self) -> Option<&'static str> {
        self.fix
    }
}
