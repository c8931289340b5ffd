//! Prompt blocks: features are added, snippets resolved, and all of it is rendered to one prompt.

use std::collections::BTreeMap;

use serde_json::Value;
use workrail_model::compiled::{
    BlockItem, CompiledFeature, InjectedRef, OutputRows, PromptBlocks, ResolvedRef,
};
use workrail_model::digest::Sha256;

use super::diagnostic::Code;
use super::nearest::suggestion;
use super::path::DocPath;
use super::report::{DiagnosticReport, DraftDiagnostic, shown};
use super::source::{FeatureUse, PromptBlocksSource, PromptPart, PromptText};
use crate::builtins::{self, Feature, STEP_REF_BYTES_MAX};

/// A feature that is turned on, with all of its settings.
pub(super) struct ActiveFeature {
    feature: &'static Feature,
    pub(super) compiled: CompiledFeature,
}

/// The features of a workflow, in the order of their ids, each once.
pub(super) fn active_features(uses: &[FeatureUse], report: &mut DiagnosticReport) -> Vec<ActiveFeature> {
    let mut active: BTreeMap<&str, ActiveFeature> = BTreeMap::new();
    for used in uses {
        let Some(feature) = builtins::feature(&used.id) else {
            let known: Vec<&str> = builtins::features().iter().map(|feature| feature.id).collect();
            report.push(
                DraftDiagnostic::on(Code::UnknownFeature, &used.at)
                    .message(format!("there is no feature `{}`", shown(&used.id)))
                    .why("features are a closed set; an unknown one would add nothing")
                    .fix(suggestion(&used.id, &known)),
            );
            continue;
        };
        let config = settings(feature, used, report);
        let compiled = CompiledFeature { feature_id: feature.id.to_owned(), config };
        if active.insert(feature.id, ActiveFeature { feature, compiled }).is_some() {
            report.push(
                DraftDiagnostic::on(Code::RepeatedItem, &used.at)
                    .message(format!("`{}` is switched on twice", feature.id))
                    .why("with two settings it would be unclear which one counts")
                    .fix("remove one of them"),
            );
        }
    }
    active.into_values().collect()
}

fn settings(feature: &Feature, used: &FeatureUse, report: &mut DiagnosticReport) -> BTreeMap<String, Value> {
    let known: Vec<&str> = feature.settings.iter().map(|setting| setting.name).collect();
    for name in used.config.keys().filter(|name| !known.contains(&name.as_str())) {
        let fix = if known.is_empty() { "remove the config".to_owned() } else { suggestion(name, &known) };
        report.push(
            DraftDiagnostic::on(Code::FeatureConfig, &used.at.key("config").key(name))
                .message(format!("`{}` has no setting `{}`", feature.id, shown(name)))
                .why(match known.is_empty() {
                    true => "this feature has no settings; features add instructions to prompts, and never add steps",
                    false => "an unknown setting would do nothing",
                })
                .fix(fix),
        );
    }
    let mut config = BTreeMap::new();
    for setting in feature.settings {
        let value = match used.config.get(setting.name) {
            None => setting.default,
            Some(given) => match given.as_u64().filter(|value| (setting.min..=setting.max).contains(value)) {
                Some(value) => value,
                None => {
                    report.push(
                        DraftDiagnostic::on(Code::FeatureConfig, &used.at.key("config").key(setting.name))
                            .message(format!("{given} is not allowed for `{}`", setting.name))
                            .why(setting.purpose)
                            .fix(format!("use a whole number from {} to {}", setting.min, setting.max)),
                    );
                    setting.default
                }
            },
        };
        config.insert(setting.name.to_owned(), Value::from(value));
    }
    config
}

/// The size of one step's snippets, and which they are.
#[derive(Default)]
pub(super) struct RefUse {
    pub(super) refs: Vec<InjectedRef>,
    bytes: usize,
}

/// Resolves snippets and keeps their full text for the compiled form.
#[derive(Default)]
pub(super) struct RefTable(BTreeMap<&'static str, ResolvedRef>);

impl RefTable {
    pub(super) fn into_refs(self) -> Vec<ResolvedRef> {
        self.0.into_values().collect()
    }

    fn resolve(
        &mut self,
        id: &str,
        used: &mut RefUse,
        at: &DocPath,
        report: &mut DiagnosticReport,
    ) -> &'static str {
        let Some(snippet) = builtins::snippet(id) else {
            let known: Vec<&str> = builtins::snippets().iter().map(|snippet| snippet.id).collect();
            report.push(
                DraftDiagnostic::on(Code::UnknownRef, at)
                    .message(format!("there is no snippet `{}`", shown(id)))
                    .why("the prompt would be incomplete")
                    .fix(suggestion(id, &known)),
            );
            return "";
        };
        // The registry's texts are below a kilobyte, so the count fits.
        let bytes = snippet.text.len() as u32;
        let resolved = self.0.entry(snippet.id).or_insert_with(|| ResolvedRef {
            ref_id: snippet.id.to_owned(),
            content_hash: Sha256::of(snippet.text.as_bytes()),
            bytes,
            text: snippet.text.to_owned(),
        });
        if !report.may_add(2 * snippet.text.len(), at) {
            return "";
        }
        used.refs.push(InjectedRef {
            ref_id: resolved.ref_id.clone(),
            content_hash: resolved.content_hash,
            bytes,
        });
        used.bytes += snippet.text.len();
        snippet.text
    }
}

/// The completed blocks, and the snippets that they use. `bind` fills in extension points.
pub(super) fn compile(
    source: &PromptBlocksSource,
    features: &[ActiveFeature],
    table: &mut RefTable,
    at: &DocPath,
    bind: &mut dyn FnMut(&str, &mut DiagnosticReport) -> String,
    report: &mut DiagnosticReport,
) -> (PromptBlocks, RefUse) {
    let mut used = RefUse::default();
    let blocks_at = at.key("promptBlocks");
    let mut resolve = |text: &PromptText, path: &DocPath, report: &mut DiagnosticReport| match text {
        PromptText::Plain(text) => bind(text, report),
        PromptText::Parts(parts) => parts.iter().enumerate().fold(String::new(), |mut out, (index, part)| {
            match part {
                PromptPart::Text(text) => out.push_str(&bind(text, report)),
                PromptPart::Ref(id) => {
                    out.push_str(table.resolve(id, &mut used, &path.index(index).key("refId"), report));
                }
            }
            out
        }),
    };
    let mut items = |texts: &[PromptText], section: &str, report: &mut DiagnosticReport| {
        let path = blocks_at.key(section);
        let texts = texts.iter().enumerate().map(|(index, text)| resolve(text, &path.index(index), report));
        texts.map(|text| BlockItem { text, feature_id: None }).collect::<Vec<_>>()
    };
    let mut blocks = PromptBlocks {
        goal: None,
        constraints: items(&source.constraints, "constraints", report),
        procedure: items(&source.procedure, "procedure", report),
        output_required: OutputRows::default(),
        verify: items(&source.verify, "verify", report),
    };
    blocks.goal = source.goal.as_ref().map(|goal| resolve(goal, &blocks_at.key("goal"), report));
    for (key, value) in &source.output_required {
        blocks.output_required.push(key.clone(), bind(value, report));
    }
    if is_empty(&blocks) && !report.is_broken(&blocks_at) {
        report.push(
            DraftDiagnostic::on(Code::EmptyPromptBlocks, &blocks_at)
                .message("promptBlocks has no section with text")
                .why("the step would have no prompt")
                .fix("add \"goal\": \"...\""),
        );
    }
    apply(features, &mut blocks, &mut used, table, at, report);
    if used.bytes > STEP_REF_BYTES_MAX {
        report.push(
            DraftDiagnostic::on(Code::RefBudget, &blocks_at)
                .message(format!("snippets add {} bytes to this step", used.bytes))
                .why(format!("more than {STEP_REF_BYTES_MAX} bytes of quoted text hide the instruction"))
                .fix("use fewer snippets in this step"),
        );
    }
    (blocks, used)
}

fn apply(
    features: &[ActiveFeature],
    blocks: &mut PromptBlocks,
    used: &mut RefUse,
    table: &mut RefTable,
    at: &DocPath,
    report: &mut DiagnosticReport,
) {
    for active in features {
        let texts = [active.feature.constraints, active.feature.procedure, active.feature.verify];
        // Counted twice: in the blocks and in the prompt.
        let bytes: usize = texts.iter().flat_map(|texts| texts.iter()).map(|text| 2 * text.len()).sum();
        if !report.may_add(bytes, at) {
            continue;
        }
        let item = |text: &str| BlockItem {
            text: builtins::configured(text, &active.compiled.config),
            feature_id: Some(active.feature.id.to_owned()),
        };
        blocks.constraints.extend(active.feature.constraints.iter().map(|text| item(text)));
        for id in active.feature.refs {
            let text = table.resolve(id, used, at, report);
            blocks.constraints.push(item(text));
        }
        blocks.procedure.extend(active.feature.procedure.iter().map(|text| item(text)));
        blocks.verify.extend(active.feature.verify.iter().map(|text| item(text)));
    }
}

fn is_empty(blocks: &PromptBlocks) -> bool {
    let blank = |items: &[BlockItem]| items.iter().all(|item| item.text.trim().is_empty());
    blocks.goal.as_ref().is_none_or(|goal| goal.trim().is_empty())
        && blank(&blocks.constraints)
        && blank(&blocks.procedure)
        && blank(&blocks.verify)
        && blocks.output_required.is_empty()
}

/// The prompt text: fixed order, empty sections left out.
pub(super) fn render(blocks: &PromptBlocks) -> String {
    let mut sections = Vec::new();
    if let Some(goal) = blocks.goal.as_ref().filter(|goal| !goal.trim().is_empty()) {
        sections.push(format!("## Goal\n{goal}"));
    }
    let bullets = |items: &[BlockItem]| {
        items.iter().map(|item| format!("- {}", item.text)).collect::<Vec<_>>().join("\n")
    };
    if !blocks.constraints.is_empty() {
        sections.push(format!("## Constraints\n{}", bullets(&blocks.constraints)));
    }
    if !blocks.procedure.is_empty() {
        let steps = blocks.procedure.iter().enumerate();
        let steps = steps.map(|(index, item)| format!("{}. {}", index + 1, item.text)).collect::<Vec<_>>();
        sections.push(format!("## Procedure\n{}", steps.join("\n")));
    }
    if !blocks.output_required.is_empty() {
        let rows = blocks.output_required.rows().map(|(key, value)| format!("- **{key}**: {value}"));
        sections.push(format!("## Output Required\n{}", rows.collect::<Vec<_>>().join("\n")));
    }
    if !blocks.verify.is_empty() {
        sections.push(format!("## Verify\n{}", bullets(&blocks.verify)));
    }
    sections.join("\n\n")
}
