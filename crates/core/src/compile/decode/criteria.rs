//! Validation criteria as written: a list, one composition or one rule.

use workrail_model::compiled::RuleCheck;
use workrail_model::source::{CriteriaSource, DocPath, RuleSource};

use super::super::diagnostic::Code;
use super::super::document::{Kind, Node};
use super::super::report::Problem;
use super::{Decoder, integer, text};
use crate::contract::schema_problem;
use crate::interpret::pattern_of;

impl Decoder<'_> {
    pub(super) fn criteria(&mut self, node: &Node, at: &DocPath) -> Option<CriteriaSource> {
        match &node.kind {
            Kind::List(items) => {
                let parts = items.iter().enumerate();
                Some(CriteriaSource::All(
                    parts.filter_map(|(index, item)| self.criteria(item, &at.index(index))).collect(),
                ))
            }
            Kind::Object(_) => self.criterion(node, at),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => None,
        }
    }

    fn criterion(&mut self, node: &Node, at: &DocPath) -> Option<CriteriaSource> {
        if node.get("type").is_some() {
            return self.rule(node, at);
        }
        let present: Vec<&str> =
            ["and", "or", "not"].into_iter().filter(|key| node.get(key).is_some()).collect();
        if present.len() > 1 {
            self.report.push(
                Problem::on(Code::ConflictingFields, at)
                    .message("a composition has one of `and`, `or`, `not`, not several")
                    .why("it would be unclear how they combine")
                    .fix("nest one inside the other"),
            );
        }
        let key = present.first()?;
        let inner = node.get(key)?;
        let at = at.key(key);
        if *key == "not" {
            return Some(CriteriaSource::Not(Box::new(self.criteria(inner, &at)?)));
        }
        let parts = inner.items().iter().enumerate();
        let parts = parts.filter_map(|(index, item)| self.criteria(item, &at.index(index))).collect();
        Some(if *key == "and" { CriteriaSource::All(parts) } else { CriteriaSource::Any(parts) })
    }

    fn rule(&mut self, node: &Node, at: &DocPath) -> Option<CriteriaSource> {
        let kind = text(node, "type")?;
        let check = match kind.as_str() {
            "contains" => RuleCheck::Contains { value: self.needed(node, "value", at)? },
            "regex" => {
                let pattern = self.needed(node, "pattern", at)?;
                let flags = text(node, "flags").unwrap_or_default();
                self.check_pattern(&pattern, &flags, at);
                RuleCheck::Regex { pattern, flags }
            }
            "length" => RuleCheck::Length { min: integer(node, "min"), max: integer(node, "max") },
            "schema" => {
                let schema = node.get("schema")?.to_value();
                if let Some(problem) = schema_problem(&schema) {
                    self.report.push(
                        Problem::on(Code::BadSchema, &at.key("schema"))
                            .message(format!("this is no usable JSON Schema: {problem}"))
                            .why("the rule could never pass")
                            .fix("correct the schema"),
                    );
                }
                RuleCheck::Schema { schema }
            }
            _ => return None,
        };
        let when = self.condition(node, "condition", at);
        Some(CriteriaSource::Rule(RuleSource { check, message: text(node, "message")?, when }))
    }

    fn needed(&mut self, node: &Node, key: &str, at: &DocPath) -> Option<String> {
        let found = text(node, key);
        if found.is_none() {
            self.report.push(
                Problem::on(Code::MissingField, at)
                    .message(format!("a rule of this type needs `{key}` as text"))
                    .why("without it there is nothing to check")
                    .fix(format!("add \"{key}\": \"...\"")),
            );
        }
        found
    }

    fn check_pattern(&mut self, pattern: &str, flags: &str, at: &DocPath) {
        if let Some(unknown) = flags.chars().find(|flag| !"dgimsuvy".contains(*flag)) {
            self.report.push(
                Problem::on(Code::BadPattern, &at.key("flags"))
                    .message(format!("`{unknown}` is no flag"))
                    .why("flags change what a pattern matches")
                    .fix("use i (ignore case), m (lines), s (dot matches line ends)"),
            );
        }
        if let Err(error) = pattern_of(pattern, flags) {
            self.report.push(
                Problem::on(Code::BadPattern, &at.key("pattern"))
                    .message(format!("the pattern cannot be read: {error}"))
                    .why("the rule could never pass")
                    .fix("correct the regular expression"),
            );
        }
    }
}
