//! Problems in a workflow file, explained so that an author can fix them (G45).
//!
//! Each has a position (line, column, path in the document), what is wrong, why it matters and a fix. All
//! problems of a file are collected; the caller renders them for a terminal.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// How bad it is. Only errors keep a workflow from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DiagnosticSeverity {
    Error,
    Warning,
    Hint,
}

/// A range of the source, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SourceSpan {
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    pub severity: DiagnosticSeverity,
    pub code: Code,
    /// Where in the document, as in `steps[3].loop.maxIterations`; empty for the whole file.
    pub path: String,
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in characters.
    pub column: usize,
    pub span: SourceSpan,
    /// What is wrong.
    pub message: String,
    /// Why it matters.
    pub why: String,
    /// What to write instead.
    pub fix: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            DiagnosticSeverity::Error => "error",
            DiagnosticSeverity::Warning => "warning",
            DiagnosticSeverity::Hint => "hint",
        };
        write!(f, "{severity}[{}] {}:{}: {}", self.code, self.line, self.column, self.message)?;
        if !self.path.is_empty() {
            write!(f, " (at `{}`)", self.path)?;
        }
        write!(f, "\n  why: {}\n  fix: {}", self.why, self.fix)
    }
}

/// Every problem of one file, errors first in the order of the text, then warnings, then hints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostics {
    pub file: String,
    pub problems: Vec<Diagnostic>,
    /// Problems found beyond the number that is worth listing.
    pub left_out: usize,
}

/// With more problems than this, the rest is shown once the first are fixed.
const PROBLEMS_MAX: usize = 200;

impl Diagnostics {
    pub(crate) fn new(file: &str, mut problems: Vec<Diagnostic>) -> Self {
        problems.sort_by(|a, b| {
            (a.severity, a.span, a.code, &a.message).cmp(&(b.severity, b.span, b.code, &b.message))
        });
        problems.dedup();
        let left_out = problems.len().saturating_sub(PROBLEMS_MAX);
        problems.truncate(PROBLEMS_MAX);
        Self { file: file.to_owned(), problems, left_out }
    }

    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.problems.iter().filter(|problem| problem.severity == DiagnosticSeverity::Error)
    }

    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            writeln!(f, "{}: {problem}", self.file)?;
        }
        if self.left_out > 0 {
            writeln!(f, "{}: {} more problems are not listed", self.file, self.left_out)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $spelling:literal, $severity:ident;)+) => {
        /// What kind of problem it is: stable names for scripts and documentation.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema)]
        pub enum Code {
            $($(#[$doc])* $variant,)+
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $spelling,)+
                }
            }

            pub fn severity(self) -> DiagnosticSeverity {
                match self {
                    $(Self::$variant => DiagnosticSeverity::$severity,)+
                }
            }
        }
    };
}

codes! {
    /// The text is not UTF-8.
    NotUtf8 = "not-utf8", Error;
    /// The text is not JSON or JSONC.
    Syntax = "syntax", Error;
    FileTooLarge = "file-too-large", Error;
    TooDeep = "too-deep", Error;
    ByteOrderMark = "byte-order-mark", Hint;
    DuplicateKey = "duplicate-key", Error;
    BadNumber = "bad-number", Error;
    UnknownField = "unknown-field", Error;
    MissingField = "missing-field", Error;
    WrongType = "wrong-type", Error;
    BadValue = "bad-value", Error;
    TextLength = "text-length", Error;
    NumberRange = "number-range", Error;
    ListLength = "list-length", Error;
    RepeatedItem = "repeated-item", Error;
    ConflictingFields = "conflicting-fields", Error;
    WorkflowId = "workflow-id", Error;
    ReservedNamespace = "reserved-namespace", Error;
    LegacyId = "legacy-id", Warning;
    StepId = "step-id", Error;
    DuplicateId = "duplicate-id", Error;
    PromptSource = "prompt-source", Error;
    EmptyPromptBlocks = "empty-prompt-blocks", Error;
    PromptOverBudget = "prompt-over-budget", Warning;
    /// A step's text is over the limit before any value is filled in.
    StepTooLong = "step-too-long", Error;
    /// The compiled form would be over its limit.
    WorkflowTooLarge = "workflow-too-large", Error;
    UnknownFeature = "unknown-feature", Error;
    FeatureConfig = "feature-config", Error;
    FeatureWithoutEffect = "feature-without-effect", Warning;
    UnknownRef = "unknown-ref", Error;
    RefBudget = "ref-budget", Error;
    UnknownTemplate = "unknown-template", Error;
    TemplateArg = "template-arg", Error;
    TemplateArgUnused = "template-arg-unused", Warning;
    UnknownContract = "unknown-contract", Error;
    UnknownBinding = "unknown-binding", Error;
    BindingUnused = "binding-unused", Warning;
    UnresolvedToken = "unresolved-token", Error;
    Capability = "capability", Error;
    UnknownAssessment = "unknown-assessment", Error;
    AssessmentLevel = "assessment-level", Error;
    AssessmentUnused = "assessment-unused", Warning;
    Consequence = "consequence", Error;
    UnknownFunction = "unknown-function", Error;
    FunctionCall = "function-call", Error;
    FunctionReference = "function-reference", Warning;
    FunctionUnused = "function-unused", Hint;
    UnknownCondition = "unknown-condition", Error;
    ConditionUnused = "condition-unused", Hint;
    ConditionIgnoredPart = "condition-ignored-part", Warning;
    ConditionNeverHolds = "condition-never-holds", Warning;
    UnreachableStep = "unreachable-step", Warning;
    LoopBody = "loop-body", Error;
    LoopControl = "loop-control", Error;
    LoopWithoutDecision = "loop-without-decision", Warning;
    LoopByContext = "loop-by-context", Hint;
    LoopDecisionNotLast = "loop-decision-not-last", Hint;
    LoopCost = "loop-cost", Warning;
    FragmentUnused = "fragment-unused", Warning;
    UnsetVariable = "unset-variable", Warning;
    NotAVariable = "not-a-variable", Hint;
    BadPattern = "bad-pattern", Error;
    BadSchema = "bad-schema", Error;
    UserDependency = "user-dependency", Error;
    /// A key in `sets` without values, or with a name that blockers cannot point at.
    ContextKey = "context-key", Error;
    /// A glob that fits no file, or files outside of the repository.
    BadGlob = "bad-glob", Error;
    /// A condition reads a key that nothing sets or mentions.
    UnsetContextKey = "unset-context-key", Warning;
    /// A condition compares a key with a value that its step does not allow.
    ForeignContextValue = "foreign-context-value", Warning;
    Delegation = "delegation", Error;
    /// A delegation to a workflow that does not exist.
    DelegationTarget = "delegation-target", Warning;
    /// A condition reads a key that is only set after it has decided.
    KeySetLater = "key-set-later", Warning;
    /// A condition compares a key with a text that no step mentions.
    UnannouncedValue = "unannounced-value", Warning;
    UnclosedVariable = "unclosed-variable", Warning;
    /// A reference to a web address, or to a file outside of its folder.
    ReferenceSource = "reference-source", Warning;
    /// A field that is accepted and changes nothing.
    NoEffect = "no-effect", Hint;
}

impl Code {
    /// Whether the problem is often caused by another one: it is reported only for a file without errors.
    pub(crate) fn may_follow_from_an_error(self) -> bool {
        matches!(
            self,
            Self::AssessmentUnused
                | Self::FunctionUnused
                | Self::ConditionUnused
                | Self::BindingUnused
                | Self::FeatureWithoutEffect
                | Self::UnsetVariable
                | Self::UnsetContextKey
                | Self::UnannouncedValue
                | Self::KeySetLater
                | Self::LoopWithoutDecision
                | Self::LoopByContext
                | Self::UnreachableStep
                | Self::ConditionNeverHolds
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
