//! Turns the checked document into the authored model; both spellings end here as one.
//!
//! Values of the wrong type have been reported already and are left out, so that later checks can
//! still find what else is wrong.

mod condition;
mod criteria;
mod step;

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::Value;
use workrail_model::capability::Capability;
use workrail_model::compiled::{
    AssessmentDefinition, CapabilityNeeds, Dimension, FunctionDefinition, FunctionParameter, ParameterType,
    RecommendedPreferences, ReferenceDeclaration, ResolveFrom,
};
use workrail_model::name::AssessmentName;
use workrail_model::source::{ConditionBody, DocPath, ExtensionPoint, FeatureUse, NamedCondition, Workflow};

use super::diagnostic::Code;
use super::document::{Kind, Node};
use super::nearest::suggestion;
use super::report::{Problem, Report};
use super::shape::shown;
use crate::builtins;

pub(super) struct Decoder<'r> {
    report: &'r mut Report,
}

pub(super) fn workflow(root: &Node, report: &mut Report) -> Workflow {
    Decoder { report }.workflow(root)
}

fn text(node: &Node, key: &str) -> Option<String> {
    node.get(key).and_then(Node::text).map(str::to_owned)
}

fn texts(node: &Node, key: &str) -> Vec<String> {
    let items = node.get(key).map(Node::items).unwrap_or_default();
    items.iter().filter_map(Node::text).map(str::to_owned).collect()
}

fn flag(node: &Node, key: &str) -> Option<bool> {
    match node.get(key)?.kind {
        Kind::Bool(flag) => Some(flag),
        Kind::Null | Kind::Number(_) | Kind::Text(_) | Kind::List(_) | Kind::Object(_) => None,
    }
}

fn integer(node: &Node, key: &str) -> Option<u32> {
    match &node.get(key)?.kind {
        Kind::Number(number) => {
            let number = number.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0)?;
            // Larger numbers are refused by the shape check; the cast saturates.
            Some(number as u32)
        }
        Kind::Null | Kind::Bool(_) | Kind::Text(_) | Kind::List(_) | Kind::Object(_) => None,
    }
}

/// A word of a closed set, by its spelling in the format.
fn word<T: DeserializeOwned>(node: &Node, key: &str) -> Option<T> {
    serde_json::from_value(Value::String(text(node, key)?)).ok()
}

fn string_map(node: &Node, key: &str) -> BTreeMap<String, String> {
    let members = node.get(key).map(Node::members).unwrap_or_default();
    members.iter().filter_map(|member| Some((member.key.clone(), member.value.text()?.to_owned()))).collect()
}

fn value_map(node: &Node, key: &str) -> BTreeMap<String, Value> {
    let members = node.get(key).map(Node::members).unwrap_or_default();
    members.iter().map(|member| (member.key.clone(), member.value.to_value())).collect()
}

impl Decoder<'_> {
    fn workflow(&mut self, root: &Node) -> Workflow {
        let at = DocPath::root();
        Workflow {
            id: text(root, "id").unwrap_or_default(),
            name: text(root, "name").unwrap_or_default(),
            description: text(root, "description").unwrap_or_default(),
            version: text(root, "version").unwrap_or_default(),
            about: text(root, "about"),
            examples: texts(root, "examples"),
            preconditions: texts(root, "preconditions"),
            clarification_prompts: texts(root, "clarificationPrompts"),
            agent_role: text(root, "agentRole"),
            meta_guidance: texts(root, "metaGuidance"),
            model_tier: word(root, "modelTier"),
            metrics_profile: word(root, "metricsProfile").unwrap_or_default(),
            validated_against_spec_version: integer(root, "validatedAgainstSpecVersion"),
            recommended: recommended(root),
            capabilities: self.capabilities(root),
            features: features(root),
            assessments: assessments(root),
            extension_points: extension_points(root),
            references: references(root),
            functions: functions(root),
            conditions: self.named_conditions(root),
            steps: self.steps(root.get("steps"), &at.key("steps")),
        }
    }

    fn capabilities(&mut self, root: &Node) -> CapabilityNeeds {
        let mut needs = CapabilityNeeds::default();
        let Some(node) = root.get("capabilities") else { return needs };
        let at = DocPath::root().key("capabilities");
        for (name, list) in [
            ("required", &mut needs.required),
            ("preferred", &mut needs.preferred),
            ("disabled", &mut needs.disabled),
        ] {
            for (index, item) in node.get(name).map(Node::items).unwrap_or_default().iter().enumerate() {
                let Some(word) = item.text() else { continue };
                match serde_json::from_value::<Capability>(Value::String(word.to_owned())) {
                    Ok(capability) => list.push(capability),
                    Err(_) => self.report.push(
                        Problem::on(Code::Capability, &at.key(name).index(index))
                            .message(format!("`{}` is no capability", shown(word)))
                            .why("capabilities are a closed set, so that every tool means the same by them")
                            .fix(suggestion(word, &builtins::CAPABILITY_NAMES)),
                    ),
                }
            }
            for (capability, spelled) in
                [(Capability::Delegation, "delegation"), (Capability::WebBrowsing, "web_browsing")]
            {
                if text(node, spelled).as_deref() == Some(name) {
                    list.push(capability);
                }
            }
            list.sort();
            list.dedup();
        }
        for capability in [Capability::Delegation, Capability::WebBrowsing] {
            let lists = [&needs.required, &needs.preferred, &needs.disabled];
            if lists.iter().filter(|list| list.contains(&capability)).count() > 1 {
                self.report.push(
                    Problem::on(Code::Capability, &at)
                        .message("a capability stands in two lists")
                        .why("it cannot be required and optional, or used and disabled, at once")
                        .fix("keep it in one of `required`, `preferred`, `disabled`"),
                );
            }
        }
        needs
    }

    fn named_conditions(&mut self, root: &Node) -> Vec<NamedCondition> {
        let items = root.get("conditions").map(Node::items).unwrap_or_default();
        let mut conditions = Vec::new();
        for (index, node) in items.iter().enumerate() {
            let at = DocPath::root().key("conditions").index(index);
            let Some(id) = text(node, "id").or_else(|| text(node, "conditionId")) else {
                self.report.push(
                    Problem::on(Code::MissingField, &at)
                        .message("a named condition has no `id`")
                        .why("steps and loops refer to it by its id")
                        .fix("add \"id\": \"...\""),
                );
                continue;
            };
            let test = match text(node, "kind").as_deref() {
                Some("loop_control") => ConditionBody::LoopControl {
                    contract_ref: text(node, "contractRef")
                        .unwrap_or_else(|| builtins::LOOP_CONTROL_CONTRACT.to_owned()),
                    label: text(node, "loopId"),
                },
                Some(_) | None => {
                    let Some(inner) = node.get("condition") else {
                        self.report.push(
                            Problem::on(Code::MissingField, &at)
                                .message(format!("the condition `{}` has no `condition`", shown(&id)))
                                .why("without a test nothing decides")
                                .fix("add \"condition\": { \"var\": \"...\", \"equals\": ... }"),
                        );
                        continue;
                    };
                    ConditionBody::Context(self.expr(inner, &at.key("condition")))
                }
            };
            conditions.push(NamedCondition { at, id, test });
        }
        conditions
    }
}

fn recommended(root: &Node) -> RecommendedPreferences {
    let Some(node) = root.get("recommendedPreferences") else { return RecommendedPreferences::default() };
    RecommendedPreferences {
        autonomy: word(node, "recommendedAutonomy"),
        risk_policy: word(node, "recommendedRiskPolicy"),
    }
}

fn features(root: &Node) -> Vec<FeatureUse> {
    let items = root.get("features").map(Node::items).unwrap_or_default();
    items
        .iter()
        .enumerate()
        .filter_map(|(index, item)| {
            let id = item.text().map(str::to_owned).or_else(|| text(item, "id"))?;
            let at = DocPath::root().key("features").index(index);
            Some(FeatureUse { at, id, config: value_map(item, "config") })
        })
        .collect()
}

fn assessments(root: &Node) -> Vec<AssessmentDefinition> {
    let name = |node: &Node| AssessmentName::parse(node.get("id")?.text()?).ok();
    let items = root.get("assessments").map(Node::items).unwrap_or_default();
    items
        .iter()
        .filter_map(|node| {
            let dimensions = node.get("dimensions").map(Node::items).unwrap_or_default();
            Some(AssessmentDefinition {
                id: name(node)?,
                purpose: text(node, "purpose")?,
                dimensions: dimensions
                    .iter()
                    .filter_map(|dimension| {
                        Some(Dimension {
                            id: name(dimension)?,
                            purpose: text(dimension, "purpose")?,
                            levels: texts(dimension, "levels"),
                            required: flag(dimension, "required").unwrap_or(true),
                        })
                    })
                    .collect(),
            })
        })
        .collect()
}

fn extension_points(root: &Node) -> Vec<ExtensionPoint> {
    let items = root.get("extensionPoints").map(Node::items).unwrap_or_default();
    items
        .iter()
        .filter_map(|node| {
            Some(ExtensionPoint {
                slot_id: text(node, "slotId")?,
                purpose: text(node, "purpose")?,
                default: text(node, "default")?,
            })
        })
        .collect()
}

fn references(root: &Node) -> Vec<ReferenceDeclaration> {
    let items = root.get("references").map(Node::items).unwrap_or_default();
    items
        .iter()
        .filter_map(|node| {
            Some(ReferenceDeclaration {
                id: text(node, "id")?,
                title: text(node, "title")?,
                source: text(node, "source")?,
                purpose: text(node, "purpose")?,
                authoritative: flag(node, "authoritative")?,
                resolve_from: word(node, "resolveFrom").unwrap_or(ResolveFrom::Workspace),
            })
        })
        .collect()
}

fn functions(node: &Node) -> Vec<FunctionDefinition> {
    let items = node.get("functionDefinitions").map(Node::items).unwrap_or_default();
    items
        .iter()
        .filter_map(|node| {
            let parameters = node.get("parameters").map(Node::items).unwrap_or_default();
            Some(FunctionDefinition {
                name: text(node, "name")?,
                definition: text(node, "definition")?,
                parameters: parameters.iter().filter_map(parameter).collect(),
                scope: word(node, "scope"),
            })
        })
        .collect()
}

fn parameter(node: &Node) -> Option<FunctionParameter> {
    let allowed = node.get("enum").map(Node::items).unwrap_or_default();
    Some(FunctionParameter {
        name: text(node, "name")?,
        kind: word::<ParameterType>(node, "type")?,
        required: flag(node, "required").unwrap_or(false),
        description: text(node, "description"),
        allowed: allowed.iter().map(Node::to_value).collect(),
        default: node.get("default").map(Node::to_value),
    })
}
