//! Parses JSON and JSONC into a tree that records the position of everything (G45).
//!
//! Comments and trailing commas are allowed; everything else that JSON forbids is not. Refused with a
//! position: duplicate keys, deep nesting, numbers that a double cannot represent.

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::{Map, Number, Value};
use workrail_model::limits::{JSON_DEPTH_MAX, SAFE_INTEGER_MAX, WORKFLOW_SOURCE_BYTES_MAX};

use super::diagnostic::{Code, SourceSpan};
use super::path::{DocPath, PathSegment};
use super::report::{DiagnosticReport, DraftDiagnostic};
use super::syntax;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct DocumentNode {
    pub(super) span: SourceSpan,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<DocumentNode>),
    Object(Vec<DocumentMember>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct DocumentMember {
    pub(super) key: String,
    pub(super) key_span: SourceSpan,
    pub(super) value: DocumentNode,
}

impl DocumentNode {
    pub(super) fn get(&self, key: &str) -> Option<&DocumentNode> {
        self.members().iter().find(|member| member.key == key).map(|member| &member.value)
    }

    pub(super) fn members(&self) -> &[DocumentMember] {
        match &self.kind {
            Kind::Object(members) => members,
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => &[],
        }
    }

    pub(super) fn items(&self) -> &[DocumentNode] {
        match &self.kind {
            Kind::List(items) => items,
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::Object(_) => &[],
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::List(_) | Kind::Object(_) => None,
        }
    }

    pub(super) fn flag(&self) -> Option<bool> {
        match self.kind {
            Kind::Bool(flag) => Some(flag),
            Kind::Null | Kind::Number(_) | Kind::Text(_) | Kind::List(_) | Kind::Object(_) => None,
        }
    }

    pub(super) fn number(&self) -> Option<&Number> {
        match &self.kind {
            Kind::Number(number) => Some(number),
            Kind::Null | Kind::Bool(_) | Kind::Text(_) | Kind::List(_) | Kind::Object(_) => None,
        }
    }

    pub(super) fn is_object(&self) -> bool {
        matches!(self.kind, Kind::Object(_))
    }

    pub(super) fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Null => "null",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "text",
            Kind::List(_) => "a list",
            Kind::Object(_) => "an object",
        }
    }

    pub(super) fn to_value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(flag) => Value::Bool(*flag),
            Kind::Number(number) => Value::Number(number.clone()),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(items) => Value::Array(items.iter().map(Self::to_value).collect()),
            Kind::Object(members) => {
                let pairs = members.iter().map(|member| (member.key.clone(), member.value.to_value()));
                Value::Object(pairs.collect::<Map<_, _>>())
            }
        }
    }

    /// The span of a path, or of its deepest part that exists.
    pub(super) fn find(&self, path: &DocPath) -> SourceSpan {
        let mut node = self;
        let mut span = self.span;
        for segment in path.segments() {
            let next = match segment {
                PathSegment::Index(index) => node.items().get(*index).map(|item| (item, item.span)),
                PathSegment::Key(key) => {
                    node.members().iter().find(|member| member.key == *key).map(|member| {
                        (
                            &member.value,
                            SourceSpan { start: member.key_span.start, end: member.value.span.end },
                        )
                    })
                }
            };
            match next {
                Some((inner, inner_span)) => {
                    node = inner;
                    span = inner_span;
                }
                // The whole object would underline a page: its first character is enough.
                None => return SourceSpan { start: node.span.start, end: node.span.start + 1 },
            }
        }
        span
    }
}

/// The tree, or `None` if the text cannot be parsed; every reason is in the report.
pub(super) fn parse(bytes: &[u8], report: &mut DiagnosticReport) -> Option<DocumentNode> {
    if bytes.len() as u64 > WORKFLOW_SOURCE_BYTES_MAX {
        report.push(
            DraftDiagnostic::at(Code::FileTooLarge, SourceSpan::default())
                .message(format!("the file has {} bytes", bytes.len()))
                .why(format!("the limit is {WORKFLOW_SOURCE_BYTES_MAX} bytes, so that listing stays fast"))
                .fix("move long material into files that `references` point at"),
        );
        return None;
    }
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let start = error.valid_up_to();
            report.set_text(&String::from_utf8_lossy(&bytes[..start]));
            report.push(
                DraftDiagnostic::at(Code::NotUtf8, SourceSpan { start, end: start })
                    .message("the file is not UTF-8 text")
                    .why("JSON is UTF-8; in another encoding the same bytes mean other characters")
                    .fix("save the file as UTF-8"),
            );
            return None;
        }
    };
    let start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    report.set_text(text);
    if start > 0 {
        report.push(
            DraftDiagnostic::at(Code::ByteOrderMark, SourceSpan { start: 0, end: start })
                .message("the file starts with a byte order mark")
                .why("JSON forbids it, and other tools refuse such files")
                .fix("save the file as UTF-8 without a byte order mark"),
        );
    }
    let tree = match parse_to_ast(&text[start..], &CollectOptions::default(), &parse_options()) {
        Ok(result) => result.value,
        Err(error) => {
            report.push(syntax::problem(text, start, &error));
            return None;
        }
    };
    let Some(tree) = tree else {
        report.push(
            DraftDiagnostic::at(Code::Syntax, SourceSpan::default())
                .message("the file is empty")
                .why("a workflow is one JSON object")
                .fix("start with { \"id\": \"project.name\", \"name\": ..., \"steps\": [...] }"),
        );
        return None;
    };
    DocumentReader { offset: start, text, report }.node(&tree, 0)
}

/// JSON with comments and trailing commas, nothing else.
pub(crate) fn parse_options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

struct DocumentReader<'r> {
    offset: usize,
    text: &'r str,
    report: &'r mut DiagnosticReport,
}

impl DocumentReader<'_> {
    fn span(&self, range: jsonc_parser::common::Range) -> SourceSpan {
        SourceSpan { start: range.start + self.offset, end: range.end + self.offset }
    }

    fn node(&mut self, tree: &ast::Value<'_>, depth: usize) -> Option<DocumentNode> {
        let span = self.span(tree.range());
        if depth > JSON_DEPTH_MAX {
            self.report.push(syntax::too_deep(span));
            return None;
        }
        let kind = match tree {
            ast::Value::NullKeyword(_) => Kind::Null,
            ast::Value::BooleanLit(literal) => Kind::Bool(literal.value),
            ast::Value::NumberLit(literal) => Kind::Number(self.number(literal.value, span)?),
            ast::Value::StringLit(literal) => {
                self.report.push_all(syntax::raw_control(self.text, span));
                Kind::Text(literal.value.clone().into_owned())
            }
            ast::Value::Array(array) => {
                let mut items = Vec::with_capacity(array.elements.len());
                for element in &array.elements {
                    items.push(self.node(element, depth + 1)?);
                }
                Kind::List(items)
            }
            ast::Value::Object(object) => Kind::Object(self.members(object, depth)?),
        };
        Some(DocumentNode { span, kind })
    }

    fn members(&mut self, object: &ast::Object<'_>, depth: usize) -> Option<Vec<DocumentMember>> {
        let mut members: Vec<DocumentMember> = Vec::with_capacity(object.properties.len());
        let mut seen = std::collections::BTreeSet::new();
        for property in &object.properties {
            let key = property.name.as_str();
            let key_span = self.span(property.name.range());
            if !seen.insert(key) {
                self.report.push(
                    DraftDiagnostic::at(Code::DuplicateKey, key_span)
                        .message(format!("the key `{key}` occurs twice in this object"))
                        .why("JSON readers disagree on which of the two counts")
                        .fix("remove one of them"),
                );
                continue;
            }
            let value = self.node(&property.value, depth + 1)?;
            members.push(DocumentMember { key: key.to_owned(), key_span, value });
        }
        Some(members)
    }

    fn number(&mut self, text: &str, span: SourceSpan) -> Option<Number> {
        let number: Option<Number> = serde_json::from_str(text).ok();
        // An integer literal must fit a double exactly; 1e300 is visibly a double.
        let is_integer = !text.contains(['.', 'e', 'E']);
        let exact = number.filter(|number| {
            let integer = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            let fits = integer.map_or(!is_integer, |integer| integer <= SAFE_INTEGER_MAX);
            fits && number.as_f64().is_some_and(f64::is_finite)
        });
        if exact.is_none() {
            self.report.push(DraftDiagnostic::at(Code::BadNumber, span)
                .message("this number cannot be stored exactly")
                .why("numbers are doubles: beyond 2^53-1 digits are lost, and the workflow's hash would change")
                .fix("use a smaller number, or text"));
        }
        exact
    }
}
