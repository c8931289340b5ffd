//! Former names of bundled workflows, still used by old calls and documents (G90).
//!
//! Read-only: an alias resolves with a warning, and nothing can be saved or listed under it. A file that
//! actually has the id always takes precedence.

use workrail_model::name::WorkflowId;

/// Name without a namespace or with `wr.`, and the bundled workflow that replaced it. Names that differ from the
/// current one only in hyphens and the namespace follow from the rule in [`canonical_ids`]. Sorted.
const RENAMED: &[(&str, &str)] = &[
    ("adaptive-ticket-creation", "wr.ticket_writing"),
    ("bug-investigation-agentic", "wr.bug_investigation"),
    ("coding-task-workflow", "wr.coding_task"),
    ("coding-task-workflow-agentic", "wr.coding_task"),
    ("document-creation", "wr.documentation"),
    ("document-creation-workflow", "wr.documentation"),
    ("documentation-update", "wr.documentation"),
    ("documentation-update-workflow", "wr.documentation"),
    ("exploration-workflow", "wr.discovery"),
    ("intelligent-test-case-generation", "wr.test_design"),
    ("mr-review", "wr.code_review"),
    ("mr-review-workflow", "wr.code_review"),
    ("mr-review-workflow-agentic", "wr.code_review"),
    ("production-readiness-audit", "wr.production_readiness"),
    ("scoped-documentation", "wr.documentation"),
    ("scoped-documentation-workflow", "wr.documentation"),
    ("workflow-for-workflows", "wr.workflow_authoring"),
];

/// Older names, each with the id to use instead.
pub fn older_names() -> &'static [(&'static str, &'static str)] {
    RENAMED
}

/// The bundled workflows that a former name may refer to, the likeliest first. Ids in other namespaces are
/// never aliases.
pub(super) fn canonical_ids(asked: &WorkflowId) -> Vec<WorkflowId> {
    let text = asked.as_str();
    let name = match asked.namespace() {
        None => text,
        Some(WorkflowId::RESERVED_NAMESPACE) => text.trim_start_matches("wr."),
        Some(_) => return Vec::new(),
    };
    let renamed = RENAMED.iter().find(|(old, _)| *old == name).map(|(_, new)| (*new).to_owned());
    let respelled = [format!("wr.{name}"), format!("wr.{}", name.replace('-', "_"))];
    let ids = renamed.into_iter().chain(respelled);
    ids.filter_map(|id| WorkflowId::parse(&id).ok()).filter(|id| id != asked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_case::test_case;

    #[test_case("coding-task-workflow-agentic", Some("wr.coding_task"); "renamed")]
    #[test_case("wr.mr-review", Some("wr.code_review"); "renamed within the namespace")]
    #[test_case("wr.coding-task", Some("wr.coding_task"); "respelled within the namespace")]
    #[test_case("small-change", Some("wr.small-change"); "the spelling as it is comes first")]
    #[test_case("team.mr-review", None; "another namespace")]
    fn an_older_name_resolves_to_its_bundled_workflow(asked: &str, first: Option<&str>) {
        let ids = canonical_ids(&WorkflowId::parse(asked).unwrap());
        assert_eq!(ids.first().map(WorkflowId::as_str), first);
    }

    #[test]
    fn the_table_is_sorted_and_every_name_is_an_id() {
        assert!(RENAMED.is_sorted_by(|a, b| a.0 < b.0));
        for (old, new) in RENAMED {
            assert!(
                WorkflowId::parse(old).is_ok() && WorkflowId::parse(&format!("wr.{old}")).is_ok(),
                "{old}"
            );
            assert_eq!(WorkflowId::parse(new).unwrap().namespace(), Some("wr"), "{new}");
        }
    }
}
