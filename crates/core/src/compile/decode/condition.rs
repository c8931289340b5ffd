//! Conditions as written become the closed expression that runs; the first operator decides.

use workrail_model::compiled::{Expr, GateKind};
use workrail_model::source::{Condition, ConfirmationRequest, DocPath};

use super::super::diagnostic::Code;
use super::super::document::{Kind, Node};
use super::super::report::Problem;
use super::{Decoder, text, word};

/// In the order in which an operator wins over the others of the same object.
const LEAF_OPERATORS: [&str; 8] = ["equals", "not_equals", "gt", "gte", "lt", "lte", "contains", "in"];
const GROUPS: [&str; 3] = ["and", "or", "not"];

impl Decoder<'_> {
    pub(super) fn condition(&mut self, node: &Node, key: &str, at: &DocPath) -> Option<Condition> {
        let inner = node.get(key)?;
        Some(self.condition_value(inner, &at.key(key)))
    }

    fn condition_value(&mut self, node: &Node, at: &DocPath) -> Condition {
        match text(node, "conditionId") {
            Some(id) => Condition::Named(id),
            None => Condition::Expr(self.expr(node, at)),
        }
    }

    pub(super) fn confirmation(&mut self, node: &Node, at: &DocPath) -> Option<ConfirmationRequest> {
        let inner = node.get("requireConfirmation")?;
        let at = at.key("requireConfirmation");
        if let Kind::Bool(flag) = inner.kind {
            return Some(ConfirmationRequest::Flag(flag));
        }
        if !inner.is_object() {
            return None;
        }
        match word::<GateKind>(inner, "kind") {
            Some(gate) => {
                Some(ConfirmationRequest::Gate { gate, when: self.condition(inner, "condition", &at) })
            }
            None => Some(ConfirmationRequest::When(self.condition_value(inner, &at))),
        }
    }

    /// An empty condition at the top holds always.
    pub(super) fn expr(&mut self, node: &Node, at: &DocPath) -> Expr {
        if node.members().is_empty() { Expr::Always } else { self.nested(node, at) }
    }

    fn nested(&mut self, node: &Node, at: &DocPath) -> Expr {
        if let Some(var) = text(node, "var") {
            return self.leaf(node, var, at);
        }
        let present: Vec<&str> = GROUPS.into_iter().filter(|group| node.get(group).is_some()).collect();
        let Some(group) = present.first() else {
            self.report.push(
                Problem::on(Code::ConditionIgnoredPart, at)
                    .message("this part of the condition tests nothing")
                    .why("when evaluation reaches it, the whole condition is false")
                    .fix("add \"var\" with an operator, or remove this part"),
            );
            return Expr::Malformed;
        };
        self.ignored(present.get(1..).unwrap_or_default(), group, at);
        self.ignored(&operators(node), group, at);
        let Some(inner) = node.get(group) else { return Expr::Malformed };
        let at = at.key(group);
        let mut parts = || {
            let items = inner.items().iter().enumerate();
            items.map(|(index, item)| self.nested(item, &at.index(index))).collect::<Vec<_>>()
        };
        match *group {
            "and" => Expr::And { all: parts() },
            "or" => Expr::Or { any: parts() },
            _ => Expr::Not { inner: Box::new(self.nested(inner, &at)) },
        }
    }

    fn leaf(&mut self, node: &Node, var: String, at: &DocPath) -> Expr {
        let present = operators(node);
        let Some(operator) = present.first().copied() else { return Expr::Truthy { var } };
        self.ignored(present.get(1..).unwrap_or_default(), operator, at);
        let groups: Vec<&str> = GROUPS.into_iter().filter(|group| node.get(group).is_some()).collect();
        self.ignored(&groups, "var", at);
        let Some(operand) = node.get(operator) else { return Expr::Malformed };
        let value = operand.to_value();
        match operator {
            "equals" => Expr::Equals { var, value },
            "not_equals" => Expr::NotEquals { var, value },
            "gt" => Expr::Gt { var, value },
            "gte" => Expr::Gte { var, value },
            "lt" => Expr::Lt { var, value },
            "lte" => Expr::Lte { var, value },
            "contains" => Expr::Contains { var, value },
            _ => Expr::In { var, values: operand.items().iter().map(Node::to_value).collect() },
        }
    }

    fn ignored(&mut self, parts: &[&str], winner: &str, at: &DocPath) {
        for part in parts {
            self.report.push(
                Problem::on(Code::ConditionIgnoredPart, &at.key(part))
                    .message(format!("`{part}` is ignored beside `{winner}`"))
                    .why("one object is one test: the first operator decides")
                    .fix("write the tests as separate objects inside \"and\""),
            );
        }
    }
}

fn operators(node: &Node) -> Vec<&'static str> {
    LEAF_OPERATORS.into_iter().filter(|operator| node.get(operator).is_some()).collect()
}
