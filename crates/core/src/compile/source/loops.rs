//! Loops: the nested `loop` object and the short spelling with `while` or `until` become one form.

use workrail_model::compiled::{FunctionDefinition, OnLimit};

use super::super::diagnostic::Code;
use super::super::document::DocumentNode;
use super::super::format::{
    Authored, ContractName, Distinct, EnumWord, Flag, FormatReader, Integer, List, LoopVariable, Shape,
    StepIdText, StepName, Text, authored, either,
};
use super::super::path::DocPath;
use super::super::report::DraftDiagnostic;
use super::condition::{Condition, ConfirmationRequest};
use super::step::AuthoredStep;
use super::words::{DecidedBy, LoopType, StepType};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoopStep {
    pub(crate) at: DocPath,
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) run_condition: Option<Condition>,
    pub(crate) functions: Vec<FunctionDefinition>,
    pub(crate) control: LoopSource,
    pub(crate) max_iterations: u32,
    pub(crate) on_limit: OnLimit,
    pub(crate) iteration_var: Option<String>,
    pub(crate) body: BodySource,
    /// Whether `conditionSource`, `while` or `until` names what decides, which then wins over a step of the body.
    pub(crate) is_explicit: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LoopSource {
    While {
        source: ConditionSource,
    },
    Until {
        source: ConditionSource,
    },
    ForFixed {
        count: u32,
    },
    ForContext {
        context_key: String,
    },
    ForEach {
        items: String,
        item_var: Option<String>,
        index_var: Option<String>,
    },
    /// The document does not say, which has been reported.
    Unknown,
}

/// What decides whether a `while` or `until` loop continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConditionSource {
    Artifact {
        contract_ref: String,
        label: Option<String>,
    },
    Condition(Condition),
    /// Nothing was written: a decision step in the body, if there is one, decides.
    Derived,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BodySource {
    /// The id of another step at the top level.
    Named(String),
    Inline(Vec<AuthoredStep>),
}

impl Default for BodySource {
    fn default() -> Self {
        Self::Inline(Vec::new())
    }
}

authored! {
    /// Steps that repeat. `loop` says how they repeat, or, as a short form, `while` or `until` with
    /// `maxIterations`. The condition is evaluated on entry and between passes, never inside a pass. Loops can be
    /// nested.
    keep struct LoopStepFields "a loop step" {
        /// The id of the loop; unique in the workflow. Required unless `loopId` is given.
        id "id": StepIdText, optional;
        /// Another spelling of `id`; it wins if both are given.
        loop_id "loopId": StepIdText, optional;
        /// `loop`.
        _kind "type": EnumWord<StepType>, required;
        /// The title of the loop. Absent: its id.
        title "title": Text<1, 128>, optional;
        /// How the loop repeats.
        settings "loop": LoopSettings, optional;
        /// Repeats while this holds: the short spelling, used if there is no `loop`.
        while_condition "while": Condition, optional;
        /// Repeats until this holds: the short spelling, used if there is no `loop`.
        until_condition "until": Condition, optional;
        /// In the short spelling: the most passes, and required.
        max_iterations "maxIterations": Integer<1, 1000>, optional;
        /// What happens if the loop reaches its limit and would continue; see `onLimit` of the `loop` object,
        /// which wins.
        on_limit "onLimit": EnumWord<OnLimit>, optional("advance");
        /// In the short spelling: the variable that holds the number of the pass, counted from 1.
        iteration_var "iterationVar": LoopVariable, optional("currentIteration");
        /// The steps that repeat, or the id of one other step at the top level.
        body "body": BodySource, required;
        /// Functions that are visible in the steps of the loop.
        functions "functionDefinitions": Distinct<FunctionDefinition>, default;
        /// No effect: the agent never works on the loop itself.
        confirmation "requireConfirmation": ConfirmationRequest, optional;
        /// The loop runs only if this holds.
        run_condition "runCondition": Condition, optional;
        /// No effect: the agent never works on the loop itself.
        notes_optional "notesOptional": Flag, optional;
    }
}

authored! {
    /// How a loop repeats.
    keep struct LoopSettings "a loop" {
        /// `while` and `until` repeat by a condition, `for` a number of times, `forEach` for each item of a list.
        kind "type": EnumWord<LoopType>, required;
        /// The most passes. A loop without a limit might never end.
        max_iterations "maxIterations": Integer<1, 1000>, required;
        /// What happens if the loop reaches its limit and would continue. `advance`: the loop ends, and this is
        /// recorded. `block`: the run is blocked until the agent decides to stop.
        on_limit "onLimit": EnumWord<OnLimit>, optional("advance");
        /// For `while` and `until`: the condition. Without it and `conditionSource`, a step in the body with the
        /// contract `wr.contracts.loop_control` decides.
        condition "condition": Condition, optional;
        /// For `while` and `until`: what decides. It wins over `condition`.
        condition_source "conditionSource": ConditionSource, optional;
        /// For `for`: the number of passes, or the context key that holds it.
        count "count": ForCountSource, optional;
        /// For `forEach`: the context key that holds the list.
        items "items": Text<1, 128>, optional;
        /// The variable that holds the number of the pass, counted from 1.
        iteration_var "iterationVar": LoopVariable, optional("currentIteration");
        /// For `forEach`: the variable that holds the item.
        item_var "itemVar": LoopVariable, optional("currentItem");
        /// For `forEach`: the variable that holds the position of the item, counted from 0.
        index_var "indexVar": LoopVariable, optional("currentIndex");
    }
}

authored! {
    /// What decides whether a loop continues.
    keep struct ConditionSourceFields "a condition source" {
        /// `artifact_contract`: a decision artifact from a step in the body. `context_variable`: a condition.
        kind "kind": EnumWord<DecidedBy>, required;
        /// For `artifact_contract`: the contract, which must be `wr.contracts.loop_control`.
        contract_ref "contractRef": ContractName, optional;
        /// For `artifact_contract`: a second name by which the artifact may name the loop.
        loop_id "loopId": Text<1, 64>, optional;
        /// For `context_variable`: the condition.
        condition "condition": Condition, optional;
    }
}

impl Authored for ConditionSource {
    type Value = Self;

    fn shape() -> Shape {
        ConditionSourceFields::shape()
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        let fields = ConditionSourceFields::decode(node, reader)?;
        match fields.kind {
            DecidedBy::ArtifactContract => Some(Self::Artifact {
                contract_ref: fields.contract_ref.unwrap_or_default(),
                label: fields.loop_id,
            }),
            DecidedBy::ContextVariable => {
                let Some(condition) = fields.condition else {
                    missing_control(reader, &fields.at, "condition", "a condition on the context");
                    return Some(Self::Derived);
                };
                Some(Self::Condition(condition))
            }
        }
    }
}

/// A number of passes or the name of a context key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ForCountSource {
    Fixed(u32),
    Context(String),
}

either! {
    ForCountSource -> ForCountSource {
        Integer<1, 1000> => ForCountSource::Fixed,
        Text<1, 128> => ForCountSource::Context,
    }
}

either! {
    BodySource -> BodySource {
        StepName => BodySource::Named,
        List<AuthoredStep, 1> => BodySource::Inline,
    }
}

impl Authored for LoopStep {
    type Value = Self;

    fn shape() -> Shape {
        LoopStepFields::shape()
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        let fields = LoopStepFields::decode(node, reader)?;
        let (control, max_iterations, on_limit, iteration_var) = match fields.settings {
            Some(mut settings) => {
                let (limit, variable) = (settings.on_limit, settings.iteration_var.take());
                let max_iterations = settings.max_iterations.max(1);
                (settings.control(reader), Some(max_iterations), limit, variable)
            }
            // A `loop` that cannot be used has been reported; the short spelling does not replace it.
            None if node.get("loop").is_some() => (LoopSource::Unknown, Some(1), None, None),
            None => {
                let control = short_control(fields.while_condition, fields.until_condition, reader);
                (control, fields.max_iterations, None, fields.iteration_var)
            }
        };
        for (field, is_there) in [
            ("requireConfirmation", fields.confirmation.is_some()),
            ("notesOptional", fields.notes_optional.is_some()),
        ] {
            if is_there {
                reader.report.push(
                    DraftDiagnostic::on(Code::NoEffect, &fields.at.key(field))
                        .message(format!("`{field}` has no effect on a loop"))
                        .why("the agent works on the steps of the body, never on the loop itself")
                        .fix("put it on a step of the body, or remove it"),
                );
            }
        }
        let is_silent = control == LoopSource::Unknown;
        if max_iterations.is_none() && !is_silent {
            reader.report.push(
                DraftDiagnostic::on(Code::MissingField, &fields.at)
                    .message("a loop has no `maxIterations`")
                    .why("a loop without a limit might never end")
                    .fix("add \"maxIterations\": 3"),
            );
        }
        Some(Self {
            at: fields.at,
            id: fields.loop_id.or(fields.id).unwrap_or_default(),
            title: fields.title.unwrap_or_default(),
            run_condition: fields.run_condition,
            functions: fields.functions,
            control,
            max_iterations: max_iterations.unwrap_or(1),
            on_limit: on_limit.or(fields.on_limit).unwrap_or_default(),
            iteration_var: named(iteration_var),
            body: fields.body,
            is_explicit: node.get("loop").is_none_or(|looped| looped.get("conditionSource").is_some()),
        })
    }
}

/// An empty name means the default one.
fn named(variable: Option<String>) -> Option<String> {
    variable.filter(|name| !name.is_empty())
}

fn short_control(
    while_condition: Option<Condition>,
    until_condition: Option<Condition>,
    reader: &mut FormatReader<'_>,
) -> LoopSource {
    if let Some(condition) = while_condition {
        return LoopSource::While { source: ConditionSource::Condition(condition) };
    }
    if let Some(condition) = until_condition {
        return LoopSource::Until { source: ConditionSource::Condition(condition) };
    }
    reader.report.push(
        DraftDiagnostic::on(Code::LoopControl, &reader.at())
            .message("the loop does not say how it repeats")
            .why("without `loop`, `while` or `until` nothing decides whether it continues")
            .fix("add \"loop\": { \"type\": \"while\", \"maxIterations\": 3, ... }"),
    );
    LoopSource::Unknown
}

impl LoopSettings {
    fn control(self, reader: &mut FormatReader<'_>) -> LoopSource {
        let at = self.at.clone();
        match self.kind {
            LoopType::Unknown => LoopSource::Unknown,
            LoopType::While => LoopSource::While { source: self.source() },
            LoopType::Until => LoopSource::Until { source: self.source() },
            LoopType::For => match self.count {
                Some(ForCountSource::Fixed(count)) => LoopSource::ForFixed { count },
                Some(ForCountSource::Context(context_key)) => LoopSource::ForContext { context_key },
                None => missing_control(reader, &at, "count", "a number or a context key"),
            },
            LoopType::ForEach => match self.items {
                Some(items) => LoopSource::ForEach {
                    items,
                    item_var: named(self.item_var),
                    index_var: named(self.index_var),
                },
                None => missing_control(reader, &at, "items", "the context key that holds the list"),
            },
        }
    }

    fn source(self) -> ConditionSource {
        let condition = self.condition.map(ConditionSource::Condition);
        self.condition_source.or(condition).unwrap_or(ConditionSource::Derived)
    }
}

fn missing_control(reader: &mut FormatReader<'_>, at: &DocPath, field: &str, what: &str) -> LoopSource {
    reader.report.push(
        DraftDiagnostic::on(Code::LoopControl, at)
            .message(format!("this kind of loop needs `{field}`"))
            .why("without it nothing says how often the loop runs")
            .fix(format!("add \"{field}\": {what}")),
    );
    LoopSource::Unknown
}
