//! What WorkRail provides to authors: contracts, features, snippets, templates, capabilities.
//!
//! Closed sets. The compiler and the generated catalogue read the same definitions, so they cannot
//! differ. Compiled workflows embed what they use: changing a text here never changes a started run.

mod contracts;
mod features;
mod insertions;
mod snippets;
mod templates;

pub use contracts::{Contract, contract, contracts};
pub use features::{Feature, FeatureSetting, features};
pub(crate) use features::{configured, feature};
pub use insertions::{Insertion, InsertionKind, insertions};
pub(crate) use snippets::STEP_REF_BYTES_MAX;
pub use snippets::{Snippet, snippet, snippets};
pub use templates::{PROBE_TEMPLATE, Routine, Template, TemplateArgument, TemplateStep, templates};
pub(crate) use templates::{routine_template, routines, template};

use serde_json::{Value, json};

pub(crate) const LOOP_CONTROL_CONTRACT: &str = "wr.contracts.loop_control";
/// The kind of its artifact.
pub(crate) const LOOP_CONTROL_KIND: &str = "wr.loop_control";
/// The kinds of the other artifacts that are read here and not only checked by their contract.
pub(crate) const ASSESSMENT_KIND: &str = "wr.assessment";
pub(crate) const CAPABILITY_OBSERVATION_KIND: &str = "wr.capability_observation";
pub(crate) const CODING_HANDOFF_KIND: &str = "wr.coding_handoff";
pub(crate) const VERIFICATION_KIND: &str = "wr.verification_report";
pub(crate) const WORKFLOW_DIVERGENCE_KIND: &str = "wr.workflow_divergence";

/// The operators of conditions, with what they test.
pub const CONDITION_KINDS: [(&str, &str); 13] = [
    ("equals", "the value is the same; text ignores case and outer spaces"),
    ("not_equals", "the value differs; a missing value differs from everything but null"),
    ("gt", "the value is a number greater than the given one"),
    ("gte", "the value is a number greater than or equal to the given one"),
    ("lt", "the value is a number less than the given one"),
    ("lte", "the value is a number less than or equal to the given one"),
    ("contains", "the value, as text, contains the text"),
    ("in", "the value equals one of the list"),
    ("and", "all hold; holds when there are none"),
    ("or", "one holds; does not hold when there are none"),
    ("not", "it does not hold"),
    ("truthy", "`var` alone: the value exists and is not false, 0 or empty text"),
    ("loop_control", "the decision artifact of the loop's own body says continue"),
];

/// The whole registry as data, for `schemas/builtins.json` and the catalogue.
pub fn registry() -> Value {
    json!({
        "capabilities": [
            { "id": "delegation", "purpose": "Hand work to subagents that run in parallel." },
            { "id": "web_browsing", "purpose": "Read pages of the web." },
        ],
        "conditions": CONDITION_KINDS.map(|(id, purpose)| json!({ "id": id, "purpose": purpose })),
        "contracts": contracts().iter().map(|contract| json!({
            "id": contract.id,
            "artifactKind": contract.artifact_kind,
            "purpose": contract.purpose,
            "schema": contract.schema,
            "example": contract.example,
        })).collect::<Vec<_>>(),
        "features": features().iter().map(|feature| json!({
            "id": feature.id,
            "purpose": feature.purpose,
            "settings": feature.settings.iter().map(|setting| json!({
                "name": setting.name,
                "min": setting.min,
                "max": setting.max,
                "default": setting.default,
                "purpose": setting.purpose,
            })).collect::<Vec<_>>(),
            "constraints": feature.constraints,
            "procedure": feature.procedure,
            "verify": feature.verify,
            "refs": feature.refs,
        })).collect::<Vec<_>>(),
        "refs": snippets().iter().map(|snippet| json!({
            "id": snippet.id, "bytes": snippet.text.len(), "text": snippet.text,
        })).collect::<Vec<_>>(),
        "templates": templates().iter().map(|template| json!({
            "id": template.id,
            "purpose": template.purpose,
            "args": template.args.iter().map(|arg| json!({
                "name": arg.name, "required": arg.default.is_none(), "purpose": arg.purpose,
            })).collect::<Vec<_>>(),
            "impliedContract": template.contract,
            "sampleCall": template.sample_call(),
            "steps": template.steps.iter().map(|step| json!({ "id": step.id, "title": step.title }))
                .collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_are_unique_and_sorted_within_each_kind() {
        let ids: [Vec<&str>; 4] = [
            contracts().iter().map(|contract| contract.id).collect(),
            features().iter().map(|feature| feature.id).collect(),
            snippets().iter().map(|snippet| snippet.id).collect(),
            templates().iter().map(|template| template.id).collect(),
        ];
        for list in ids {
            assert!(list.is_sorted_by(|a, b| a < b), "{list:?}");
        }
    }

    #[test]
    fn every_example_passes_its_own_schema_and_fits_a_blocker() {
        for contract in contracts() {
            let issues = crate::contract::issues(&contract.schema, &contract.example);
            assert_eq!(issues, Vec::<String>::new(), "{}", contract.id);
            assert_eq!(contract.example["kind"], contract.artifact_kind);
            let wrapped = format!("{{\"output\":{{\"artifacts\":[{}]}}}}", contract.example);
            assert!(wrapped.len() + 40 <= 1024, "{} has {} bytes", contract.id, wrapped.len());
        }
    }

    #[test]
    fn every_contract_refuses_unknown_fields() {
        for contract in contracts() {
            let mut example = contract.example.clone();
            example.as_object_mut().unwrap().insert("surprise".into(), json!(1));
            assert!(!crate::contract::issues(&contract.schema, &example).is_empty(), "{}", contract.id);
        }
    }

    #[test]
    fn features_use_known_snippets_and_snippets_fit_their_budget() {
        let known: BTreeSet<&str> = snippets().iter().map(|snippet| snippet.id).collect();
        for feature in features() {
            assert!(feature.refs.iter().all(|id| known.contains(id)), "{}", feature.id);
        }
        // A snippet is a reminder, not a chapter.
        for snippet in snippets() {
            assert!(snippet.text.len() <= 1024, "{}", snippet.id);
        }
    }

    #[test]
    fn templates_use_only_their_arguments() {
        for template in templates() {
            for step in template.steps {
                for name in crate::compile::argument_names(step.prompt) {
                    assert!(template.args.iter().any(|arg| arg.name == name), "{}: {name}", template.id);
                }
            }
        }
    }

    #[test]
    fn the_registry_is_deterministic() {
        assert_eq!(registry().to_string(), registry().to_string());
    }
}
