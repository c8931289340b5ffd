//! Decodes values of the format and reports their problems, each with its position.

use workrail_model::nearest::nearest;

use super::super::SourceSpan;
use super::super::diagnostic::Code;
use super::super::document::{DocumentMember, DocumentNode};
use super::super::nearest::suggestion;
use super::super::path::{DocPath, PathSegment};
use super::super::report::{DiagnosticReport, DraftDiagnostic, shown};
use super::{Authored, ObjectShape, Shape};

#[derive(Debug)]
pub(crate) struct FormatReader<'r> {
    pub(crate) report: &'r mut DiagnosticReport,
    path: Vec<PathSegment>,
}

impl<'r> FormatReader<'r> {
    pub(crate) fn new(report: &'r mut DiagnosticReport) -> Self {
        Self { report, path: Vec::new() }
    }

    /// The path of the value being read.
    pub(crate) fn at(&self) -> DocPath {
        DocPath::new(self.path.clone())
    }

    /// A problem with the value being read.
    pub(crate) fn problem(&self, code: Code, node: &DocumentNode) -> DraftDiagnostic {
        DraftDiagnostic::both(code, node.span, self.at())
    }

    pub(crate) fn member<T: Authored>(&mut self, key: &str, node: &DocumentNode) -> Option<T::Value> {
        self.inside::<T>(PathSegment::Key(key.to_owned()), node)
    }

    pub(crate) fn item<T: Authored>(&mut self, index: usize, node: &DocumentNode) -> Option<T::Value> {
        self.inside::<T>(PathSegment::Index(index), node)
    }

    fn inside<T: Authored>(&mut self, segment: PathSegment, node: &DocumentNode) -> Option<T::Value> {
        self.path.push(segment);
        let value = T::decode(node, self);
        self.path.pop();
        value
    }

    /// The value of a declared field; `None` if it is absent or unusable.
    pub(crate) fn field<T: Authored>(&mut self, node: &DocumentNode, name: &str) -> Option<T::Value> {
        let inner = node.get(name)?;
        self.member::<T>(name, inner)
    }

    /// Whether the node has the JSON type of `T`; reports it if not.
    pub(crate) fn has_type<T: Authored>(&mut self, node: &DocumentNode) -> bool {
        let shape = T::shape();
        let fits = shape.takes(node);
        if !fits {
            self.wrong_type(node, &shape);
        }
        fits
    }

    /// The text of the node; reports it if there is none.
    pub(crate) fn text<'n, T: Authored>(&mut self, node: &'n DocumentNode) -> Option<&'n str> {
        let text = node.text();
        if text.is_none() {
            self.wrong_type(node, &T::shape());
        }
        text
    }

    pub(crate) fn wrong_type(&mut self, node: &DocumentNode, shape: &Shape) {
        let problem = self.problem(Code::WrongType, node);
        self.report.push(
            problem
                .message(format!("expected {}, found {}", shape.wanted(), node.type_name()))
                .why("a value of another type would be ignored or misread")
                .fix(format!("write {} here{}", shape.wanted(), shape.example())),
        );
    }

    /// Checks that the node is an object with all required fields and no unknown ones.
    pub(crate) fn object(&mut self, node: &DocumentNode, object: &'static ObjectShape) -> bool {
        if !node.is_object() {
            self.wrong_type(node, &Shape::Object(object));
            return false;
        }
        let members = node.members();
        let is_present = |name: &str| members.iter().any(|member| member.key == name);
        let absent: Vec<&str> =
            object.fields.iter().map(|field| field.name).filter(|name| !is_present(name)).collect();
        let mut misspelt = Vec::new();
        for member in members {
            if !object.fields.iter().any(|field| field.name == member.key) {
                self.unknown_field(member, object);
                misspelt.extend(nearest(&member.key, absent.iter().copied()));
            }
        }
        for name in &misspelt {
            let meant = self.at().key(name);
            self.report.misspelt(meant);
        }
        for field in object.fields {
            if field.required && !is_present(field.name) && !misspelt.contains(&field.name) {
                // The whole object would underline a page: its first character is enough.
                let span = SourceSpan { start: node.span.start, end: node.span.start + 1 };
                self.report.push(
                    DraftDiagnostic::both(Code::MissingField, span, self.at())
                        .message(format!("{} has no `{}`", object.what, field.name))
                        .why(field.doc())
                        .fix(format!("add \"{}\": {}", field.name, (field.shape)().placeholder())),
                );
            }
        }
        true
    }

    fn unknown_field(&mut self, member: &DocumentMember, object: &'static ObjectShape) {
        let known: Vec<&str> = object.fields.iter().map(|field| field.name).collect();
        self.report.push(
            DraftDiagnostic::both(Code::UnknownField, member.key_span, self.at().key(&member.key))
                .message(format!("{} has no field `{}`", object.what, shown(&member.key)))
                .why("an unknown field would silently do nothing")
                .fix(suggestion(&member.key, &known)),
        );
    }
}
