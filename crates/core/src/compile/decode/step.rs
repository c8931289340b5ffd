//! Steps as written: standard, loop, parallel, and template calls in each of their spellings.

use workrail_model::compiled::{FunctionCall, OnLimit, Requiredness};
use workrail_model::source::{
    AuditRequest, BodySource, ConditionSource, ConsequenceSource, DelegationSource, DocPath, FragmentSource,
    LoopSource, LoopStep, OutputSource, ParallelStep, PromptBlocksSource, PromptPart, PromptText,
    StandardStep, Step, StepCommon, SynthesisRequest, TemplateCall, UserDependencySource,
    VerificationRequest, literal,
};

use super::super::diagnostic::Code;
use super::super::document::{Kind, Node};
use super::super::report::Problem;
use super::{Decoder, flag, functions, integer, string_map, text, texts, value_map, word};

impl Decoder<'_> {
    pub(super) fn steps(&mut self, node: Option<&Node>, at: &DocPath) -> Vec<Step> {
        let items = node.map(Node::items).unwrap_or_default();
        items
            .iter()
            .enumerate()
            .filter(|(_, item)| item.is_object())
            .map(|(index, item)| self.step(item, at.index(index)))
            .collect()
    }

    fn step(&mut self, node: &Node, at: DocPath) -> Step {
        match text(node, "type").as_deref() {
            Some("loop") => Step::Loop(Box::new(self.loop_step(node, at))),
            Some("parallel") => Step::Parallel(Box::new(self.parallel_step(node, at))),
            Some(_) | None => Step::Standard(Box::new(self.standard_step(node, at))),
        }
    }

    fn common(&mut self, node: &Node, at: DocPath) -> StepCommon {
        StepCommon {
            id: text(node, "id").unwrap_or_default(),
            title: text(node, "title").unwrap_or_default(),
            run_condition: self.condition(node, "runCondition", &at),
            confirmation: self.confirmation(node, &at),
            notes_optional: flag(node, "notesOptional").unwrap_or(false),
            functions: functions(node),
            at,
        }
    }

    fn standard_step(&mut self, node: &Node, at: DocPath) -> StandardStep {
        let template_call = self.template_call(node, &at);
        let fragments = self.fragments(node, &at);
        let criteria = node
            .get("validationCriteria")
            .and_then(|inner| self.criteria(inner, &at.key("validationCriteria")));
        let output = self.output(node, &at);
        StandardStep {
            prompt: text(node, "prompt"),
            prompt_blocks: node.get("promptBlocks").filter(|blocks| blocks.is_object()).map(prompt_blocks),
            template_call,
            fragments,
            agent_role: text(node, "agentRole"),
            model_tier: word(node, "modelTier"),
            guidance: texts(node, "guidance"),
            hints: hints(node),
            criteria,
            output,
            assessment_refs: texts(node, "assessmentRefs"),
            consequences: consequences(node),
            user_dependencies: user_dependencies(node),
            function_references: texts(node, "functionReferences"),
            function_calls: function_calls(node),
            audit: node
                .get("audit")
                .map(|inner| AuditRequest { prompt: text(inner, "prompt"), rubric: texts(inner, "rubric") }),
            verification: node.get("verification").map(|inner| VerificationRequest {
                command: text(inner, "command"),
                prompt: text(inner, "prompt"),
            }),
            common: self.common(node, at),
        }
    }

    fn template_call(&mut self, node: &Node, at: &DocPath) -> Option<TemplateCall> {
        let (inner, at) = match (node.get("templateCall"), node.get("template_call")) {
            (Some(inner), _) => (inner, at.key("templateCall")),
            (None, Some(inner)) => (inner, at.key("template_call")),
            (None, None) if node.get("templateId").is_some() => (node, at.clone()),
            (None, None) => return None,
        };
        let mut args = std::collections::BTreeMap::new();
        for (name, value) in value_map(inner, "args") {
            match literal(&value) {
                Some(arg) => {
                    args.insert(name, arg);
                }
                None => self.report.push(
                    Problem::on(Code::TemplateArg, &at.key("args").key(&name))
                        .message(format!("the argument `{name}` must be text, a number or a boolean"))
                        .why("arguments become part of the prompt's text")
                        .fix("write the value as text"),
                ),
            }
        }
        Some(TemplateCall { template_id: text(inner, "templateId")?, args })
    }

    fn fragments(&mut self, node: &Node, at: &DocPath) -> Vec<FragmentSource> {
        let items = node.get("promptFragments").map(Node::items).unwrap_or_default();
        let at = at.key("promptFragments");
        items
            .iter()
            .enumerate()
            .filter_map(|(index, item)| {
                let when = self.condition(item, "when", &at.index(index));
                Some(FragmentSource { id: text(item, "id")?, when, text: text(item, "text")? })
            })
            .collect()
    }

    fn output(&mut self, node: &Node, at: &DocPath) -> Option<OutputSource> {
        let old = node.get("outputContract").filter(|inner| inner.get("contractRef").is_some());
        let new = node.get("output").filter(|inner| inner.get("contractRef").is_some());
        if old.is_some() && new.is_some() {
            self.report.push(
                Problem::on(Code::ConflictingFields, &at.key("output"))
                    .message("`outputContract` and `output.contractRef` are two spellings of one thing")
                    .why("a step has one output contract")
                    .fix("keep one of them"),
            );
        }
        output_source(old.or(new)?)
    }

    fn loop_step(&mut self, node: &Node, at: DocPath) -> LoopStep {
        let body = match node.get("body") {
            Some(Node { kind: Kind::Text(id), .. }) => BodySource::Named(id.clone()),
            inner => BodySource::Inline(self.steps(inner, &at.key("body"))),
        };
        let settings = node.get("loop").unwrap_or(node);
        let settings_at = if node.get("loop").is_some() { at.key("loop") } else { at.clone() };
        let control = self.loop_source(node, settings, &settings_at);
        let max_iterations = integer(settings, "maxIterations").or_else(|| integer(node, "maxIterations"));
        if max_iterations.is_none() && node.get("loop").is_none() {
            self.report.push(
                Problem::on(Code::MissingField, &at)
                    .message("a loop has no `maxIterations`")
                    .why("a loop without a bound may never end")
                    .fix("add \"maxIterations\": 3"),
            );
        }
        let on_limit = word::<OnLimit>(settings, "onLimit").or_else(|| word(node, "onLimit"));
        let variable = |key: &str| text(settings, key).filter(|name| !name.is_empty());
        let iteration_var = variable("iterationVar");
        let mut common = self.common(node, at);
        if let Some(loop_id) = text(node, "loopId") {
            common.id = loop_id;
        }
        LoopStep {
            common,
            control,
            max_iterations,
            on_limit: on_limit.unwrap_or_default(),
            iteration_var,
            body,
        }
    }

    fn loop_source(&mut self, node: &Node, settings: &Node, at: &DocPath) -> LoopSource {
        if node.get("loop").is_none() {
            if let Some(condition) = self.condition(node, "while", at) {
                return LoopSource::While { source: ConditionSource::Condition(condition) };
            }
            if let Some(condition) = self.condition(node, "until", at) {
                return LoopSource::Until { source: ConditionSource::Condition(condition) };
            }
            self.report.push(
                Problem::on(Code::LoopControl, at)
                    .message("the loop does not say how it repeats")
                    .why("without `loop`, `while` or `until` nothing decides whether it goes on")
                    .fix("add \"loop\": { \"type\": \"while\", \"maxIterations\": 3, ... }"),
            );
            return LoopSource::Unknown;
        }
        let variable = |key: &str| text(settings, key).filter(|name| !name.is_empty());
        match text(settings, "type").as_deref() {
            Some("while") => LoopSource::While { source: self.condition_source(settings, at) },
            Some("until") => LoopSource::Until { source: self.condition_source(settings, at) },
            Some("for") => match (integer(settings, "count"), text(settings, "count")) {
                (Some(count), _) => LoopSource::ForFixed { count },
                (None, Some(context_key)) => LoopSource::ForContext { context_key },
                (None, None) => self.missing_control(at, "count", "a number or a context key"),
            },
            Some("forEach") => match text(settings, "items") {
                Some(items) => LoopSource::ForEach {
                    items,
                    item_var: variable("itemVar"),
                    index_var: variable("indexVar"),
                },
                None => self.missing_control(at, "items", "the context key that holds the list"),
            },
            Some(_) | None => LoopSource::Unknown,
        }
    }

    fn missing_control(&mut self, at: &DocPath, field: &str, what: &str) -> LoopSource {
        self.report.push(
            Problem::on(Code::LoopControl, at)
                .message(format!("this kind of loop needs `{field}`"))
                .why("without it nothing says how often the loop runs")
                .fix(format!("add \"{field}\": {what}")),
        );
        LoopSource::Unknown
    }

    fn condition_source(&mut self, settings: &Node, at: &DocPath) -> ConditionSource {
        let explicit = settings.get("conditionSource");
        let Some(source) = explicit else {
            return match self.condition(settings, "condition", at) {
                Some(condition) => ConditionSource::Condition(condition),
                None => ConditionSource::Derived,
            };
        };
        let at = at.key("conditionSource");
        match text(source, "kind").as_deref() {
            Some("artifact_contract") => ConditionSource::Artifact {
                contract_ref: text(source, "contractRef").unwrap_or_default(),
                label: text(source, "loopId"),
            },
            Some(_) | None => match self.condition(source, "condition", &at) {
                Some(condition) => ConditionSource::Condition(condition),
                None => {
                    self.missing_control(&at, "condition", "a condition on the context");
                    ConditionSource::Derived
                }
            },
        }
    }

    fn parallel_step(&mut self, node: &Node, at: DocPath) -> ParallelStep {
        let items = node.get("parallelDelegations").map(Node::items).unwrap_or_default();
        let list_at = at.key("parallelDelegations");
        let delegations = items
            .iter()
            .enumerate()
            .map(|(index, item)| DelegationSource {
                workflow_id: text(item, "workflowId").unwrap_or_default(),
                goal: text(item, "goal"),
                run_condition: self.condition(item, "runCondition", &list_at.index(index)),
                context_mapping: string_map(item, "contextMapping"),
                args: string_map(item, "args"),
                model_tier: word(item, "modelTier"),
                allowed_tools: texts(item, "allowedTools"),
            })
            .collect();
        let synthesis = node.get("synthesis").map(|inner| SynthesisRequest {
            prompt: text(inner, "prompt"),
            output: inner.get("outputContract").and_then(output_source),
        });
        ParallelStep { common: self.common(node, at), delegations, synthesis }
    }
}

fn output_source(node: &Node) -> Option<OutputSource> {
    let presence = match flag(node, "required") {
        Some(false) => Requiredness::Optional,
        Some(true) | None => Requiredness::Required,
    };
    Some(OutputSource { contract_ref: text(node, "contractRef")?, presence })
}

fn hints(node: &Node) -> Vec<String> {
    let Some(output) = node.get("output") else { return Vec::new() };
    match text(output, "hints") {
        Some(hint) => vec![hint],
        None => texts(output, "hints"),
    }
}

fn prompt_blocks(node: &Node) -> PromptBlocksSource {
    let values = |key: &str| {
        let items = node.get(key).map(Node::items).unwrap_or_default();
        items.iter().filter_map(prompt_text).collect()
    };
    PromptBlocksSource {
        goal: node.get("goal").and_then(prompt_text),
        constraints: values("constraints"),
        procedure: values("procedure"),
        output_required: string_map(node, "outputRequired"),
        verify: values("verify"),
    }
}

fn prompt_text(node: &Node) -> Option<PromptText> {
    match &node.kind {
        Kind::Text(text) => Some(PromptText::Plain(text.clone())),
        Kind::List(items) => Some(PromptText::Parts(
            items
                .iter()
                .filter_map(|item| match text(item, "kind").as_deref() {
                    Some("ref") => text(item, "refId").map(PromptPart::Ref),
                    Some(_) | None => text(item, "text").map(PromptPart::Text),
                })
                .collect(),
        )),
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Object(_) => None,
    }
}

fn consequences(node: &Node) -> Vec<ConsequenceSource> {
    let items = node.get("assessmentConsequences").map(Node::items).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| {
            let when = item.get("when")?;
            Some(ConsequenceSource {
                level: text(when, "anyEqualsLevel")?,
                for_assessment: text(when, "forAssessment"),
                guidance: text(item.get("effect")?, "guidance")?,
            })
        })
        .collect()
}

fn user_dependencies(node: &Node) -> Vec<UserDependencySource> {
    let items = node.get("userDependencies").map(Node::items).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| {
            Some(UserDependencySource {
                reason: word(item, "reason")?,
                choice_kind: word(item, "choiceKind"),
                description: text(item, "description")?,
                context_key: text(item, "contextKey"),
            })
        })
        .collect()
}

fn function_calls(node: &Node) -> Vec<FunctionCall> {
    let items = node.get("functionCalls").map(Node::items).unwrap_or_default();
    items
        .iter()
        .filter_map(|item| Some(FunctionCall { name: text(item, "name")?, args: value_map(item, "args") }))
        .collect()
}
