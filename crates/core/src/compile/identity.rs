//! Workflow ids: namespaces, the reserved one, and the replacement for a legacy id (G90).

use workrail_model::digest::Sha256;
use workrail_model::event::WorkflowSourceKind;
use workrail_model::name::WorkflowId;

use super::diagnostic::Code;
use super::path::DocPath;
use super::report::{DiagnosticReport, DraftDiagnostic, shown};

/// Where a file comes from, as far as compiling is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrigin {
    /// Part of this build; may use the reserved namespace.
    Bundled,
    User,
    Project,
    /// Git, remote or plugin.
    Shared,
}

impl FileOrigin {
    pub fn of(kind: WorkflowSourceKind) -> Self {
        match kind {
            WorkflowSourceKind::Bundled => Self::Bundled,
            WorkflowSourceKind::User => Self::User,
            WorkflowSourceKind::Project => Self::Project,
            WorkflowSourceKind::Remote | WorkflowSourceKind::Plugin => Self::Shared,
        }
    }

    fn namespace(self) -> &'static str {
        match self {
            Self::Bundled => WorkflowId::RESERVED_NAMESPACE,
            Self::User => "user",
            Self::Project => "project",
            Self::Shared => "repo",
        }
    }
}

/// The namespaced replacement for a legacy id: derived from its source, never from a clock. If that id
/// is taken, four digits of the digest of the source's bytes are appended.
pub(crate) fn suggested_id(
    legacy: &str,
    origin: FileOrigin,
    source: Sha256,
    is_taken: impl Fn(&str) -> bool,
) -> Option<WorkflowId> {
    let mut name = legacy.to_lowercase().replace('-', "_");
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name = format!("w{name}");
    }
    let plain = format!("{}.{name}", origin.namespace());
    let id = if is_taken(&plain) { format!("{plain}_{}", &source.hex()[..4]) } else { plain };
    WorkflowId::parse(&id).ok()
}

pub(super) fn check(id: &str, origin: FileOrigin, report: &mut DiagnosticReport) -> Option<WorkflowId> {
    let at = DocPath::root().key("id");
    let parsed = match WorkflowId::parse(id) {
        Ok(parsed) => parsed,
        // The shape check has already reported a missing or empty id.
        Err(_) if id.is_empty() => return None,
        Err(error) => {
            let cleaned: String = id
                .to_lowercase()
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' })
                .take(60)
                .collect();
            report.push(
                DraftDiagnostic::on(Code::WorkflowId, &at)
                    .message(format!("{:?} is not a valid workflow id", shown(id)))
                    .why(error.rule)
                    .fix(format!("for example \"{}.{cleaned}\"", origin.namespace())),
            );
            return None;
        }
    };
    match parsed.namespace() {
        Some(WorkflowId::RESERVED_NAMESPACE) if origin != FileOrigin::Bundled => {
            let name = id.strip_prefix("wr.").unwrap_or(id);
            report.push(
                DraftDiagnostic::on(Code::ReservedNamespace, &at)
                    .message(format!("`{id}` is in the reserved namespace `wr`"))
                    .why("ids under `wr.` always mean the workflows that ship with WorkRail; no file may shadow them")
                    .fix(format!("rename it to \"{}.{name}\"", origin.namespace())),
            );
        }
        None => {
            let suggestion = suggested_id(id, origin, Sha256::of(&[]), |_| false);
            report.push(
                DraftDiagnostic::on(Code::LegacyId, &at)
                    .message(format!("`{id}` has no namespace"))
                    .why("it still runs, but new workflows need `namespace.name`, so that names do not collide")
                    .fix(match suggestion {
                        Some(new) => format!("rename it to \"{new}\""),
                        // With a namespace it would be too long.
                        None => format!("use a shorter id such as \"{}.review\"", origin.namespace()),
                    }),
            );
        }
        Some(_) => {}
    }
    Some(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("bug-investigation", FileOrigin::User, "user.bug_investigation")]
    #[test_case("bug-investigation", FileOrigin::Project, "project.bug_investigation")]
    #[test_case("bug-investigation", FileOrigin::Shared, "repo.bug_investigation")]
    #[test_case("2fa", FileOrigin::User, "user.w2fa"; "a segment starts with a letter")]
    fn legacy_ids_are_renamed_by_their_source(legacy: &str, origin: FileOrigin, expected: &str) {
        assert_eq!(suggested_id(legacy, origin, Sha256::of(b""), |_| false).unwrap().as_str(), expected);
    }

    #[test]
    fn a_collision_gets_digits_of_the_source() {
        let id = suggested_id("a-b", FileOrigin::User, Sha256::of(b"abc"), |id| id == "user.a_b").unwrap();
        assert_eq!(id.as_str(), "user.a_b_ba78");
    }
}
