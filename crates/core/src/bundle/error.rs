//! What is wrong with a bundle: one of a closed set of problems, where, and in words.

use std::fmt;
use std::io;

use workrail_model::error::ErrorCode;
use workrail_model::text::quoted_in_part;

/// The closed set of reasons for which a bundle is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BundleErrorKind {
    InvalidFormat,
    UnsupportedVersion,
    IntegrityFailed,
    MissingSnapshot,
    MissingPinnedWorkflow,
    EventOrderInvalid,
    ManifestOrderInvalid,
}

impl BundleErrorKind {
    pub fn code(self) -> ErrorCode {
        match self {
            Self::InvalidFormat => ErrorCode::BundleInvalidFormat,
            Self::UnsupportedVersion => ErrorCode::BundleUnsupportedVersion,
            Self::IntegrityFailed => ErrorCode::BundleIntegrityFailed,
            Self::MissingSnapshot => ErrorCode::BundleMissingSnapshot,
            Self::MissingPinnedWorkflow => ErrorCode::BundleMissingPinnedWorkflow,
            Self::EventOrderInvalid => ErrorCode::BundleEventOrderInvalid,
            Self::ManifestOrderInvalid => ErrorCode::BundleManifestOrderInvalid,
        }
    }
}

/// The part of a problem that concerns the document as a whole; the others are paths in it.
pub(super) const WHOLE_DOCUMENT: &str = "the document";

/// A bundle that is not imported.
#[derive(Debug)]
pub enum BundleError {
    Refused {
        kind: BundleErrorKind,
        /// The part of the document, such as `session/events/17`.
        at: String,
        what: String,
        /// Line and column, if the problem has a position in the text.
        position: Option<(usize, usize)>,
    },
    /// The source could not be read; this says nothing about the bundle.
    Source(io::Error),
}

impl BundleError {
    pub(super) fn new(kind: BundleErrorKind, at: impl fmt::Display, what: impl fmt::Display) -> Self {
        let (at, what) = (quoted_in_part(&at.to_string()), quoted_in_part(&what.to_string()));
        Self::Refused { kind, at, what, position: None }
    }

    pub(super) fn format(at: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::new(BundleErrorKind::InvalidFormat, at, what)
    }

    pub(super) fn integrity(at: impl fmt::Display, what: impl fmt::Display) -> Self {
        Self::new(BundleErrorKind::IntegrityFailed, at, what)
    }

    pub(super) fn events(index: u64, what: impl fmt::Display) -> Self {
        Self::new(BundleErrorKind::EventOrderInvalid, format_args!("session/events/{index}"), what)
    }

    pub(super) fn manifest(index: u64, what: impl fmt::Display) -> Self {
        Self::new(BundleErrorKind::ManifestOrderInvalid, format_args!("session/manifest/{index}"), what)
    }

    /// Adds the position in the text, if the reader knows it.
    pub(super) fn placed(mut self, line: usize, column: usize) -> Self {
        if let Self::Refused { position, .. } = &mut self
            && line > 0
        {
            *position = Some((line, column));
        }
        self
    }

    pub(crate) fn kind(&self) -> Option<BundleErrorKind> {
        match self {
            Self::Refused { kind, .. } => Some(*kind),
            Self::Source(_) => None,
        }
    }
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { at, what, position, .. } => {
                if at != WHOLE_DOCUMENT {
                    write!(f, "`{at}`: ")?;
                }
                f.write_str(what)?;
                match position {
                    Some((line, column)) => write!(f, " (line {line}, column {column})"),
                    None => Ok(()),
                }
            }
            Self::Source(error) => write!(f, "the bundle cannot be read: {error}"),
        }
    }
}

impl std::error::Error for BundleError {}
