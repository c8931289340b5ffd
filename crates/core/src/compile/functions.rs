//! Functions: named instructions, their calls and references, and which of them are unused.

use std::collections::BTreeSet;

use serde_json::Value;
use workrail_model::compiled::{
    CompiledStep, FunctionCall, FunctionDefinition, FunctionParameter, ParameterType,
};

use super::diagnostic::Code;
use super::nearest::suggestion;
use super::path::DocPath;
use super::report::{DiagnosticReport, DraftDiagnostic, shown};
use super::source::{StandardStep, Workflow};

/// The functions visible to the step being compiled: the workflow's and its loops'.
pub(super) struct VisibleFunctions<'a> {
    levels: Vec<&'a [FunctionDefinition]>,
}

impl<'a> VisibleFunctions<'a> {
    pub(super) fn new(workflow: &'a [FunctionDefinition]) -> Self {
        Self { levels: vec![workflow] }
    }

    pub(super) fn enter(&mut self, functions: &'a [FunctionDefinition]) {
        self.levels.push(functions);
    }

    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    fn find<'s>(&'s self, step: &'s StandardStep, name: &str) -> Option<&'s FunctionDefinition> {
        let outer = self.levels.iter().rev().flat_map(|level| level.iter());
        step.functions.iter().chain(outer).find(|function| function.name == name)
    }

    fn names<'s>(&'s self, step: &'s StandardStep) -> Vec<&'s str> {
        let outer = self.levels.iter().flat_map(|level| level.iter());
        step.functions.iter().chain(outer).map(|function| function.name.as_str()).collect()
    }

    pub(super) fn check(&self, step: &StandardStep, report: &mut DiagnosticReport) {
        let at = &step.at;
        for (index, reference) in step.function_references.iter().enumerate() {
            let name = reference.trim().trim_end_matches("()");
            if self.find(step, name).is_none() {
                report.push(
                    DraftDiagnostic::on(Code::FunctionReference, &at.key("functionReferences").index(index))
                        .message(format!("there is no function `{}`", shown(name)))
                        .why("the agent would not see its definition")
                        .fix(suggestion(name, &self.names(step))),
                );
            }
        }
        for (index, call) in step.function_calls.iter().enumerate() {
            let path = at.key("functionCalls").index(index);
            match self.find(step, &call.name) {
                Some(function) => check_call(function, call, &path, report),
                None => report.push(
                    DraftDiagnostic::on(Code::UnknownFunction, &path.key("name"))
                        .message(format!("there is no function `{}`", shown(&call.name)))
                        .why("the call would have no effect")
                        .fix(suggestion(&call.name, &self.names(step))),
                ),
            }
        }
    }

    /// Reports functions of the workflow that no step refers to, calls or names.
    pub(super) fn report_unused(
        &self,
        source: &Workflow,
        steps: &[CompiledStep],
        report: &mut DiagnosticReport,
    ) {
        if source.functions.is_empty() {
            return;
        }
        let mut used: BTreeSet<&str> = BTreeSet::new();
        for step in steps {
            used.extend(step.function_references.iter().map(String::as_str));
            used.extend(step.function_calls.iter().map(|call| call.name.as_str()));
        }
        let mut sought = SoughtNames::new(source.functions.iter().map(|function| function.name.as_str()));
        for step in steps {
            sought.find_in(&step.prompt, &mut used);
            step.guidance.iter().for_each(|line| sought.find_in(line, &mut used));
        }
        source.meta_guidance.iter().for_each(|line| sought.find_in(line, &mut used));
        for (index, function) in source.functions.iter().enumerate() {
            if !used.contains(function.name.as_str()) {
                report.push(
                    DraftDiagnostic::on(
                        Code::FunctionUnused,
                        &DocPath::root().key("functionDefinitions").index(index),
                    )
                    .message(format!("no step names the function `{}`", function.name))
                    .why("the agent never needs it")
                    .fix("refer to it in a step's functionReferences, or remove it"),
                );
            }
        }
    }
}

/// Names to find in texts; each text is read once, however many names there are.
struct SoughtNames<'n> {
    names: BTreeSet<&'n str>,
    lengths: BTreeSet<usize>,
    /// Indexed by byte, because it is checked for every byte of every text.
    first_bytes: [bool; 256],
}

impl<'n> SoughtNames<'n> {
    fn new(names: impl Iterator<Item = &'n str>) -> Self {
        let names: BTreeSet<&str> = names.collect();
        let mut first_bytes = [false; 256];
        for byte in names.iter().filter_map(|name| name.bytes().next()) {
            first_bytes[usize::from(byte)] = true;
        }
        Self { lengths: names.iter().map(|name| name.len()).collect(), first_bytes, names }
    }

    /// Adds the names that occur in the text; a name already found is not searched for again.
    fn find_in(&mut self, text: &str, found: &mut BTreeSet<&'n str>) {
        for (at, byte) in text.bytes().enumerate() {
            if !self.first_bytes[usize::from(byte)] {
                continue;
            }
            for length in &self.lengths {
                let Some(name) = text.get(at..at + length).and_then(|part| self.names.take(part)) else {
                    continue;
                };
                found.insert(name);
            }
        }
    }
}

fn check_call(
    function: &FunctionDefinition,
    call: &FunctionCall,
    at: &DocPath,
    report: &mut DiagnosticReport,
) {
    let known: Vec<&str> = function.parameters.iter().map(|parameter| parameter.name.as_str()).collect();
    let mut wrong = |path: DocPath, message: String, fix: String| {
        report.push(
            DraftDiagnostic::on(Code::FunctionCall, &path)
                .message(message)
                .why("the call does not fit the function's definition")
                .fix(fix),
        );
    };
    for parameter in function.parameters.iter().filter(|parameter| parameter.required) {
        if !call.args.contains_key(&parameter.name) {
            let message = format!("`{}` needs the argument `{}`", function.name, parameter.name);
            wrong(at.clone(), message, format!("add \"{}\" to args", parameter.name));
        }
    }
    for (name, value) in &call.args {
        let path = at.key("args").key(name);
        match function.parameters.iter().find(|parameter| parameter.name == *name) {
            None => {
                let message = format!("`{}` takes no argument `{}`", function.name, shown(name));
                wrong(path, message, suggestion(name, &known));
            }
            Some(parameter) if !fits(parameter, value) => {
                let message = format!("the argument `{name}` is {}", shown(&value.to_string()));
                wrong(path, message, format!("`{}` takes {}", function.name, wanted(parameter)));
            }
            Some(_) => {}
        }
    }
}

/// What a parameter takes, in words.
fn wanted(parameter: &FunctionParameter) -> String {
    let kind = match parameter.kind {
        ParameterType::String => "text",
        ParameterType::Number => "a number",
        ParameterType::Boolean => "true or false",
        ParameterType::Array => "a list",
        ParameterType::Object => "an object",
    };
    if parameter.allowed.is_empty() {
        return format!("{kind} here");
    }
    let allowed: Vec<String> = parameter.allowed.iter().take(12).map(ToString::to_string).collect();
    format!("{kind} here, one of {}", allowed.join(", "))
}

fn fits(parameter: &FunctionParameter, value: &Value) -> bool {
    let typed = match parameter.kind {
        ParameterType::String => value.is_string(),
        ParameterType::Number => value.is_number(),
        ParameterType::Boolean => value.is_boolean(),
        ParameterType::Array => value.is_array(),
        ParameterType::Object => value.is_object(),
    };
    typed && (parameter.allowed.is_empty() || parameter.allowed.contains(value))
}
