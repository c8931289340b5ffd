//! What a step says and delivers: prompt blocks, fragments, template calls and outputs.

use workrail_model::compiled::Requiredness;

use super::super::diagnostic::Code;
use super::super::document::DocumentNode;
use super::super::format::{
    Authored, ContractName, EnumWord, Flag, FormatReader, List, Map, Ordered, RoutineOrTemplate, Shape,
    SnippetName, Text, authored, either,
};
use super::super::report::{DraftDiagnostic, shown};
use super::PromptString;
use super::condition::Condition;
use super::words::PromptPartKind;

/// Text with built-in snippets in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PromptText {
    Plain(String),
    Parts(Vec<PromptPart>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PromptPart {
    Text(String),
    Ref(String),
}

authored! {
    /// A part of a prompt text. The parts are joined without anything between them.
    struct PartFields "a prompt part" {
        /// Plain `text`, or a `ref` to a built-in snippet.
        kind "kind": EnumWord<PromptPartKind>, required;
        /// For `text`: the text.
        text "text": Text<0, 65_536>, optional;
        /// For `ref`: the snippet, as in `wr.refs.notes_first_durability`.
        ref_id "refId": SnippetName, optional;
    }
}

impl Authored for PromptPart {
    type Value = Self;

    fn shape() -> Shape {
        PartFields::shape()
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        let part = PartFields::decode(node, reader)?;
        let (found, field) = match part.kind {
            PromptPartKind::Text => (part.text.map(Self::Text), "text"),
            PromptPartKind::Ref => (part.ref_id.map(Self::Ref), "refId"),
        };
        if found.is_none() && !reader.report.is_broken(&reader.at().key(field)) {
            reader.report.push(
                DraftDiagnostic::on(Code::MissingField, &reader.at())
                    .message(format!("a part of this kind needs `{field}`"))
                    .why("without it the part says nothing")
                    .fix(format!("add \"{field}\": \"...\"")),
            );
        }
        found
    }
}

either! {
    PromptText -> PromptText {
        Text<0, 65_536> => PromptText::Plain,
        List<PromptPart, 1> => PromptText::Parts,
    }
}

authored! {
    /// A prompt in sections. They are shown in this order; features add to them. At least one has text.
    struct PromptBlocksSource "promptBlocks" {
        /// What the step achieves.
        goal "goal": PromptText, optional;
        /// What must hold while the agent works.
        constraints "constraints": List<PromptText>, default;
        /// What to do, in order. Shown as a numbered list.
        procedure "procedure": List<PromptText>, default;
        /// What to deliver, by name. Shown in the order of the file; it is an instruction, not a check.
        output_required "outputRequired": Ordered<Text<0, 65_536>>, default;
        /// What to check before the step is complete.
        verify "verify": List<PromptText>, default;
    }
}

authored! {
    /// Text that is added to the prompt of a step.
    struct FragmentSource "a prompt fragment" {
        /// The name of the fragment; unique in the step.
        id "id": Text<1, 128>, required;
        /// The fragment is shown only if this holds.
        when "when": Condition, optional;
        /// The text. `{{key}}` is replaced by the value of the context key.
        text "text": PromptString, required;
    }
}

authored! {
    /// Steps that are built into WorkRail, or those of a routine, replace the calling step. See
    /// [the list of templates](builtins.md#templates).
    keep struct TemplateCall "a template call" {
        /// The template, as in `wr.templates.routine.design-review`, or the id of a routine: a workflow in a folder
        /// `routines`, or with a name that starts with `routine-`.
        template_id "templateId": RoutineOrTemplate, required;
        /// Values for the template's arguments: text, numbers or booleans.
        args "args": Map<TemplateArg>, default;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateArg(pub(crate) String);

impl Authored for TemplateArg {
    type Value = Self;

    fn shape() -> Shape {
        Shape::Any
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        let number = node.number().map(ToString::to_string);
        let text = node.text().map(str::to_owned).or(number).or(node.flag().map(|flag| flag.to_string()));
        if text.is_none() {
            let at = reader.at();
            let name = at.to_string();
            let name = name.rsplit_once("args.").map_or(name.as_str(), |(_, name)| name);
            reader.report.push(
                DraftDiagnostic::on(Code::TemplateArg, &at)
                    .message(format!("the argument `{}` must be text, a number or a boolean", shown(name)))
                    .why("arguments become part of the prompt's text")
                    .fix("write the value as text"),
            );
        }
        text.map(Self)
    }
}

/// Whether an output must be delivered, written as a boolean.
pub(crate) struct RequiredFlag;

impl Authored for RequiredFlag {
    type Value = Requiredness;

    fn shape() -> Shape {
        Flag::shape()
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Requiredness> {
        let required = Flag::decode(node, reader)?;
        Some(if required { Requiredness::Required } else { Requiredness::Optional })
    }
}

authored! {
    /// The artifact that a step delivers. See [the list of contracts](builtins.md#contracts).
    struct OutputSource "an output contract" {
        /// The contract, as in `wr.contracts.loop_control`.
        contract_ref "contractRef": ContractName, required;
        /// Whether the step is blocked without the artifact. An artifact that is sent is always checked.
        presence "required": RequiredFlag, default(Requiredness::Required, "true");
    }
}

authored! {
    /// Another spelling of `outputContract`, with hints.
    keep struct Output "an output" {
        /// The contract, as in `wr.contracts.loop_control`.
        contract_ref "contractRef": ContractName, optional;
        /// Whether the step is blocked without the artifact.
        presence "required": RequiredFlag, optional("true");
        /// Advice on the output, one text or several. The agent reads it; nothing checks it.
        hints "hints": Hints, default;
    }
}

/// One text or a list of texts.
pub(crate) struct Hints;

either! {
    Hints -> Vec<String> {
        Text<1, 1024> => |hint| vec![hint],
        List<Text<1, 4096>> => |hints| hints,
    }
}
