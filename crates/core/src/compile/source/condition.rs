//! Conditions become the closed expression that runs; in one object, the first operator decides.

use workrail_model::approval::RequiredProof;
use workrail_model::compiled::{Expr, GateKind};

use super::super::diagnostic::Code;
use super::super::document::DocumentNode;
use super::super::format::{
    Any, Authored, ContractName, EnumWord, Flag, FormatReader, List, Number, Shape, StepName, Text, authored,
};
use super::super::path::DocPath;
use super::super::report::{DraftDiagnostic, shown};
use super::words::{NamedKind, RefKind};
use crate::builtins::LOOP_CONTROL_CONTRACT;

/// A condition where it is used: written out, or by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Expr(Expr),
    Named(String),
}

authored! {
    /// A test on the context, which the agent fills as the run proceeds. One object is one test: `var` with one
    /// operator, or one of `and`, `or`, `not`. With `var` alone, the value must be neither missing nor null,
    /// false, 0 or empty text. An empty object always holds.
    struct ConditionFields "a condition" {
        /// The context key whose value is tested. A dot is part of the key.
        var "var": Text<1, 128>, optional;
        /// Holds if the value is equal. Text is compared without case and outer spaces; `"3"` equals `3`, and
        /// `"yes"`, `"1"` and `"true"` equal `true`.
        equals "equals": Any, optional;
        /// Holds if the value is not equal. A missing value is not equal to anything but null.
        not_equals "not_equals": Any, optional;
        /// Holds if the value is a number greater than this one.
        gt "gt": Number, optional;
        /// Holds if the value is a number greater than or equal to this one.
        gte "gte": Number, optional;
        /// Holds if the value is a number less than this one.
        lt "lt": Number, optional;
        /// Holds if the value is a number less than or equal to this one.
        lte "lte": Number, optional;
        /// Holds if the value, written as text, contains this text, without regard to case.
        contains "contains": Any, optional;
        /// Holds if the value equals one of these.
        one_of "in": List<Any>, optional;
        /// Holds if all of these hold.
        and "and": List<NestedCondition>, optional;
        /// Holds if one of these holds.
        or "or": List<NestedCondition>, optional;
        /// Holds if this does not hold.
        not "not": NestedCondition, optional;
    }
}

authored! {
    /// A named condition, used instead of a test.
    struct ConditionRef "a condition reference" {
        /// Marks the object as a reference.
        _kind "kind": EnumWord<RefKind>, required;
        /// The id of an entry in the workflow's `conditions`.
        condition_id "conditionId": StepName, required;
    }
}

/// The fields of a test; `None` for a reference and for what cannot be used, both checked.
fn test_fields(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<ConditionFields> {
    if node.get("kind").is_some() {
        ConditionRef::decode(node, reader);
        return None;
    }
    ConditionFields::decode(node, reader)
}

impl Authored for Condition {
    type Value = Self;

    fn shape() -> Shape {
        Shape::AnyOf(vec![ConditionFields::shape(), ConditionRef::shape()])
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        let fields = test_fields(node, reader);
        // A condition that cannot be used has been reported. It stays, so that nothing reports it as missing.
        Some(match (node.get("conditionId").and_then(DocumentNode::text), fields) {
            (Some(id), _) => Self::Named(id.to_owned()),
            (None, Some(fields)) if !node.members().is_empty() => Self::Expr(fields.expr(reader)),
            (None, _) => Self::Expr(Expr::Always),
        })
    }
}

/// A part of a condition. Names are allowed only at the top.
pub(crate) struct NestedCondition;

impl Authored for NestedCondition {
    type Value = Expr;

    fn shape() -> Shape {
        Condition::shape()
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Expr> {
        Some(match test_fields(node, reader) {
            Some(fields) => fields.expr(reader),
            None => tests_nothing(reader, &reader.at()),
        })
    }
}

fn tests_nothing(reader: &mut FormatReader<'_>, at: &DocPath) -> Expr {
    reader.report.push(
        DraftDiagnostic::on(Code::ConditionIgnoredPart, at)
            .message("this part of the condition tests nothing")
            .why("when evaluation reaches it, the whole condition is false")
            .fix("add \"var\" with an operator, or remove this part"),
    );
    Expr::Malformed
}

impl ConditionFields {
    /// The test that decides. Anything else is reported as ignored.
    fn expr(self, reader: &mut FormatReader<'_>) -> Expr {
        let has_var = self.var.is_some();
        let var = self.var.unwrap_or_default();
        let own = || var.clone();
        let leaves = [
            ("equals", self.equals.map(|value| Expr::Equals { var: own(), value })),
            ("not_equals", self.not_equals.map(|value| Expr::NotEquals { var: own(), value })),
            ("gt", self.gt.map(|value| Expr::Gt { var: own(), value })),
            ("gte", self.gte.map(|value| Expr::Gte { var: own(), value })),
            ("lt", self.lt.map(|value| Expr::Lt { var: own(), value })),
            ("lte", self.lte.map(|value| Expr::Lte { var: own(), value })),
            ("contains", self.contains.map(|value| Expr::Contains { var: own(), value })),
            ("in", self.one_of.map(|values| Expr::In { var: own(), values })),
        ];
        let groups = [
            ("and", self.and.map(|all| Expr::And { all })),
            ("or", self.or.map(|any| Expr::Or { any })),
            ("not", self.not.map(|inner| Expr::Not { inner: Box::new(inner) })),
        ];
        let (leaves, groups) = (present(leaves), present(groups));
        let (mut tests, others) = if has_var { (leaves, groups) } else { (groups, leaves) };
        if tests.is_empty() {
            return if has_var { Expr::Truthy { var } } else { tests_nothing(reader, &reader.at()) };
        }
        let (winner, expr) = tests.remove(0);
        ignored(reader, winner, &tests);
        ignored(reader, if has_var { "var" } else { winner }, &others);
        expr
    }
}

type Test = (&'static str, Expr);

fn present<const N: usize>(tests: [(&'static str, Option<Expr>); N]) -> Vec<Test> {
    tests.into_iter().filter_map(|(name, test)| Some((name, test?))).collect()
}

fn ignored(reader: &mut FormatReader<'_>, winner: &str, tests: &[Test]) {
    for (part, _) in tests {
        reader.report.push(
            DraftDiagnostic::on(Code::ConditionIgnoredPart, &reader.at().key(part))
                .message(format!("`{part}` is ignored next to `{winner}`"))
                .why("one object is one test: the first operator decides")
                .fix("write the tests as separate objects inside \"and\""),
        );
    }
}

/// A condition with a name of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedCondition {
    pub(crate) at: DocPath,
    pub(crate) id: String,
    pub(crate) test: ConditionBody,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConditionBody {
    Context(Expr),
    LoopControl { contract_ref: String, label: Option<String> },
}

authored! {
    /// A condition that steps and loops use by its id.
    keep struct NamedConditionFields "a named condition" {
        /// The id; unique in the workflow.
        id "id": StepName, optional;
        /// Another spelling of `id`.
        condition_id "conditionId": StepName, optional;
        /// `loop_control`: the decision artifact of the loop that uses it. `context`: a test on the context.
        kind "kind": EnumWord<NamedKind>, required;
        /// For `loop_control`: the contract of the decision artifact.
        contract_ref "contractRef": ContractName, optional("wr.contracts.loop_control");
        /// For `loop_control`: a second name by which the artifact may name the loop.
        loop_id "loopId": Text<1, 64>, optional;
        /// For `context`: the test.
        condition "condition": Condition, optional;
    }
}

impl Authored for NamedCondition {
    type Value = Self;

    fn shape() -> Shape {
        NamedConditionFields::shape()
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        let fields = NamedConditionFields::decode(node, reader)?;
        let at = fields.at;
        let Some(id) = fields.id.or(fields.condition_id) else {
            reader.report.push(
                DraftDiagnostic::on(Code::MissingField, &at)
                    .message("a named condition has no `id`")
                    .why("steps and loops refer to it by its id")
                    .fix("add \"id\": \"...\""),
            );
            return None;
        };
        let test = match (fields.kind, fields.condition) {
            (NamedKind::LoopControl, _) => ConditionBody::LoopControl {
                contract_ref: fields.contract_ref.unwrap_or_else(|| LOOP_CONTROL_CONTRACT.to_owned()),
                label: fields.loop_id,
            },
            (NamedKind::Context, Some(Condition::Expr(expr))) => ConditionBody::Context(expr),
            (NamedKind::Context, Some(Condition::Named(_))) => {
                ConditionBody::Context(tests_nothing(reader, &at.key("condition")))
            }
            (NamedKind::Context, None) => {
                reader.report.push(
                    DraftDiagnostic::on(Code::MissingField, &at)
                        .message(format!("the condition `{}` has no `condition`", shown(&id)))
                        .why("without a test there is nothing to decide")
                        .fix("add \"condition\": { \"var\": \"...\", \"equals\": ... }"),
                );
                ConditionBody::Context(Expr::Always)
            }
        };
        Some(Self { at, id, test })
    }
}

/// Whether a person is asked before the run continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfirmationRequest {
    Flag(bool),
    When(Condition),
    Gate { gate: GateKind, when: Option<Condition>, proof: Option<RequiredProof> },
}

authored! {
    /// A gate before the run continues.
    struct Gate "a confirmation gate" {
        /// `human_approval`: a person must approve, and no tool call does it; a run that never stops continues and records a gap.
        /// `coordinator_eval`: the step asks the agent to wait for the user's word, as with `true`.
        kind "kind": EnumWord<GateKind>, required;
        /// The gate exists only if this holds.
        condition "condition": Condition, optional;
        /// What an approval needs to count, for `human_approval`. `passkey`: only a passkey in the console opens the gate, and a
        /// mode that never stops waits there unless a passkey allowed that mode. `terminal`, the default:
        /// a typed label is enough, unless the setting `approvals.require` asks for more.
        proof "proof": EnumWord<RequiredProof>, optional;
    }
}

impl Authored for ConfirmationRequest {
    type Value = Self;

    fn shape() -> Shape {
        let objects = vec![Gate::shape(), ConditionFields::shape(), ConditionRef::shape()];
        Shape::AnyOf(vec![Flag::shape(), Shape::AnyOf(objects)])
    }

    fn decode(node: &DocumentNode, reader: &mut FormatReader<'_>) -> Option<Self> {
        if !reader.has_type::<Self>(node) {
            return None;
        }
        if let Some(flag) = node.flag() {
            return Some(Self::Flag(flag));
        }
        match node.get("kind").map(DocumentNode::text) {
            None | Some(Some("condition_ref")) => Some(Self::When(Condition::decode(node, reader)?)),
            Some(_) => {
                let gate = Gate::decode(node, reader)?;
                Some(Self::Gate { gate: gate.kind, when: gate.condition, proof: gate.proof })
            }
        }
    }
}
