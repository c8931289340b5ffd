//! What each compiler diagnostic means in general: the rule, its reason and the usual remedy.

use super::Explanation;
use crate::compile::Code;

/// The explanation of a diagnostic. `validate` names the place and the exact fix.
pub fn explanation_of(code: Code) -> Explanation {
    let (what, why, remedy) = match code {
        Code::NotUtf8 => (
            "The file contains bytes that are not UTF-8 text.",
            "JSON is UTF-8. In another encoding the same bytes mean other characters.",
            "Save the file as UTF-8.",
        ),
        Code::Syntax => (
            "The file is not valid JSON. Comments and trailing commas are allowed.",
            "Nothing after the first syntax error can be read, so other problems stay hidden until it is fixed.",
            "Correct the JSON at the marked place. Usual causes: a missing comma or quote, single quotes, a line break inside a text (write \\n).",
        ),
        Code::FileTooLarge => (
            "The file is larger than a workflow may be.",
            "Every listing reads every file, so their size is limited.",
            "Move long material into files of the project and point at them with `references`.",
        ),
        Code::TooDeep => (
            "Objects and lists are nested deeper than any workflow needs.",
            "Deep nesting exhausts the programs that read it.",
            "Flatten the document. Usually a bracket is missing or repeated.",
        ),
        Code::ByteOrderMark => (
            "The file starts with a byte order mark.",
            "JSON forbids it, and other tools refuse such files.",
            "Save the file as UTF-8 without a byte order mark.",
        ),
        Code::DuplicateKey => (
            "An object has the same key twice.",
            "JSON readers disagree on which of the two counts.",
            "Remove one of them.",
        ),
        Code::BadNumber => (
            "A number cannot be stored exactly.",
            "Numbers are doubles. Beyond 2^53-1 digits are lost, and the workflow's hash would depend on the reader.",
            "Use a smaller number, or text.",
        ),
        Code::UnknownField => (
            "An object has a field that the format does not know.",
            "An unknown field would silently do nothing, which is how misspelled rules go unnoticed.",
            "Correct the spelling or remove the field. docs/reference/workflow-format.md lists every field; an editor with the schema completes them.",
        ),
        Code::MissingField => {
            ("A required field is missing.", "The workflow cannot run without it.", "Add the field.")
        }
        Code::WrongType => (
            "A value has the wrong JSON type for its field.",
            "It would be ignored or misread.",
            "Write a value of the named type.",
        ),
        Code::BadValue => (
            "A value is not one of the allowed words, or has characters that are not allowed.",
            "These are closed sets: another word would have no effect.",
            "Use one of the words that the diagnostic lists.",
        ),
        Code::TextLength => (
            "A text is shorter or longer than allowed.",
            "An empty text tells the agent nothing, and a long one hides the instruction.",
            "Change the text to a length within the bounds.",
        ),
        Code::NumberRange => {
            ("A number is out of range.", "Bounds keep runs finite.", "Use a whole number within the bounds.")
        }
        Code::ListLength => (
            "A list has too few or too many items.",
            "The format limits the length of the list.",
            "Add or remove items.",
        ),
        Code::RepeatedItem => (
            "An item occurs twice in a list whose items must differ.",
            "A repetition is usually a slip, and its second copy has no effect.",
            "Remove one of them.",
        ),
        Code::ConflictingFields => (
            "Two fields say the same thing, and only one of them can count.",
            "A reader could not tell which one is meant.",
            "Keep one of them.",
        ),
        Code::WorkflowId => (
            "The workflow's `id` is not a valid id.",
            "Ids are part of file names, commands and tokens.",
            "Use `namespace.name`: lowercase letters, digits, `-` and `_`, each part starting with a letter.",
        ),
        Code::ReservedNamespace => (
            "The id starts with `wr.`, which is reserved for bundled workflows.",
            "Ids under `wr.` always mean the workflows that ship with WorkRail; no file may replace them.",
            "Choose another namespace. `workrail workflow migrate FILE --write` renames it and updates what refers to the id.",
        ),
        Code::LegacyId => (
            "The id has no namespace.",
            "It still runs, but ids without a namespace collide more easily, and new files need one.",
            "Rename it to `namespace.name`. `workrail workflow migrate FILE` shows the change; with `--write` it makes it.",
        ),
        Code::StepId => (
            "A step's id is not valid.",
            "Step ids become part of keys and tokens.",
            "Use lowercase letters, digits, `-` and `_`.",
        ),
        Code::DuplicateId => (
            "Two parts of the workflow have the same id.",
            "Records and references could not tell them apart.",
            "Rename one of them.",
        ),
        Code::PromptSource => (
            "A step has none or more than one of `prompt`, `promptBlocks` and `templateCall`.",
            "A step has one text, and nothing says which of several counts.",
            "Keep exactly one of them.",
        ),
        Code::EmptyPromptBlocks => (
            "`promptBlocks` has no section with text.",
            "The agent would get an empty step.",
            "Write at least a `goal`.",
        ),
        Code::PromptOverBudget => (
            "A prompt is so long that agents lose the instruction in it.",
            "The instruction competes with everything around it.",
            "Split the step, or move material into `references`.",
        ),
        Code::StepTooLong => (
            "A step's text is over the limit before any value is filled in.",
            "The whole step must fit into one reply.",
            "Shorten the prompt, split the step, or move material into `references`.",
        ),
        Code::WorkflowTooLarge => (
            "The compiled workflow would be over its limit.",
            "Every run stores its compiled workflow.",
            "Split the workflow, or move long texts into `references`.",
        ),
        Code::UnknownFeature => (
            "`features` names a feature that does not exist.",
            "It would add nothing.",
            "Correct the id; docs/reference/builtins.md lists the features.",
        ),
        Code::FeatureConfig => (
            "A feature has no such setting, or the value is out of its bounds.",
            "An unknown setting would do nothing.",
            "Correct the setting; docs/reference/builtins.md lists them.",
        ),
        Code::FeatureWithoutEffect => (
            "The workflow uses features, but no step has `promptBlocks`.",
            "Features add to the sections of `promptBlocks`, never to a plain `prompt`.",
            "Write a step with `promptBlocks`, or remove the features.",
        ),
        Code::UnknownRef => (
            "A prompt part names a snippet that does not exist.",
            "The agent would miss the text.",
            "Correct the `refId`; docs/reference/builtins.md lists the snippets.",
        ),
        Code::RefBudget => (
            "Snippets add too much text to one step.",
            "Much quoted text hides the instruction.",
            "Use fewer snippets in the step.",
        ),
        Code::UnknownTemplate => (
            "A step calls a template that does not exist.",
            "There would be no steps to put in its place.",
            "Correct the `templateId`; docs/reference/builtins.md lists the templates.",
        ),
        Code::TemplateArg => (
            "A template call lacks an argument, or gives one of the wrong type.",
            "The template's prompt would be incomplete.",
            "Give every argument that the template names, as text, a number or a boolean.",
        ),
        Code::TemplateArgUnused => (
            "A template call gives an argument that the template does not have.",
            "It has no effect, which usually means that its name is misspelled.",
            "Correct the name or remove the argument.",
        ),
        Code::UnknownContract => (
            "A step names an output contract that does not exist.",
            "Nothing could check the artifact.",
            "Correct the `contractRef`; docs/reference/builtins.md lists the contracts.",
        ),
        Code::UnknownBinding => (
            "A prompt uses `{{wr.bindings.SLOT}}` for a slot that is not declared, or a bindings file sets one.",
            "Nothing would be filled in.",
            "Declare the slot in `extensionPoints`, or correct its name.",
        ),
        Code::BindingUnused => (
            "No prompt uses a declared slot.",
            "A project that binds it would see no effect.",
            "Use `{{wr.bindings.SLOT}}` in a prompt, or remove the slot.",
        ),
        Code::UnresolvedToken => (
            "A prompt contains an unknown token that starts with `{{wr.`.",
            "`{{wr.` is reserved for what the compiler fills in.",
            "Only `{{wr.bindings.SLOT}}` exists. Snippets are `{ \"kind\": \"ref\" }` parts of a prompt text.",
        ),
        Code::Capability => (
            "A capability is unknown, or is in more than one list.",
            "Capabilities are a closed set, and each is either required, preferred or disabled.",
            "Use `delegation` or `web_browsing`, each in one list.",
        ),
        Code::UnknownAssessment => (
            "A step refers to an assessment that the workflow does not declare.",
            "The agent could not be asked for it.",
            "Declare it in `assessments`, or correct the name.",
        ),
        Code::AssessmentLevel => (
            "A level is not one of the assessment's levels.",
            "The rule could never apply.",
            "Use one of the levels of the dimension.",
        ),
        Code::AssessmentUnused => (
            "No step uses a declared assessment.",
            "Agents are never asked for this rating.",
            "Name it in the `assessmentRefs` of a step, or remove it.",
        ),
        Code::Consequence => (
            "A consequence can never apply, or two apply to one level.",
            "The author meant a rule that would not be followed.",
            "Give the step the assessment in `assessmentRefs`, and one consequence per level.",
        ),
        Code::UnknownFunction => (
            "A function call names a function that is not declared.",
            "There is no definition to show.",
            "Declare it in `functionDefinitions`, or correct the name.",
        ),
        Code::FunctionCall => (
            "A function call does not fit the function's parameters.",
            "The agent would read a call that cannot be followed.",
            "Give every required argument, with values of the declared types.",
        ),
        Code::FunctionReference => (
            "A `functionReferences` entry names a function that is not declared.",
            "The agent would not see its definition.",
            "Declare the function, or correct the name.",
        ),
        Code::FunctionUnused => (
            "No step uses a declared function.",
            "Its text is shown nowhere.",
            "Name it as `name()` in the `functionReferences` of each step that uses it, or remove it.",
        ),
        Code::UnknownCondition => (
            "A `condition_ref` names a condition that is not declared.",
            "There is nothing to evaluate.",
            "Declare it in `conditions`, or correct the id.",
        ),
        Code::ConditionUnused => (
            "Nothing uses a declared condition.",
            "It has no effect.",
            "Refer to it with `condition_ref`, or remove it.",
        ),
        Code::ConditionIgnoredPart => (
            "A part of a condition is ignored or tests nothing.",
            "One object is one test: only its first operator decides.",
            "Write the tests as separate objects inside `and`.",
        ),
        Code::ConditionNeverHolds => {
            ("A condition can never hold.", "What depends on it never happens.", "Correct the condition.")
        }
        Code::UnreachableStep => (
            "A step or loop never runs.",
            "Its condition can never hold, so it is skipped in every run.",
            "Correct the condition, or remove the step.",
        ),
        Code::LoopBody => (
            "A loop's `body` is not usable.",
            "The body is the id of another step at the top level, or a list of steps.",
            "Write the steps into the loop, or name one existing step.",
        ),
        Code::LoopControl => (
            "A loop does not say how it repeats.",
            "Without a condition, a count or a list nothing decides whether it continues.",
            "Add `loop` with a `type` and what that type needs, or a decision step with `wr.contracts.loop_control`.",
        ),
        Code::LoopWithoutDecision => (
            "No step in the body delivers the decision that the loop waits for.",
            "A missing decision never ends a loop, so it always runs to its limit.",
            "End the body with a step whose `outputContract` is `wr.contracts.loop_control`.",
        ),
        Code::LoopByContext => (
            "A loop is decided by context values.",
            "If the agent forgets to set a value, the loop ends too early or runs too long, unnoticed.",
            "Prefer a decision step with `wr.contracts.loop_control`, or declare the key in `sets`.",
        ),
        Code::LoopDecisionNotLast => (
            "The decision step of a loop is not its last step.",
            "The steps after it still run: a loop ends between passes, never inside one.",
            "Move the decision step to the end of the body.",
        ),
        Code::LoopCost => (
            "Nested loops may make too many passes.",
            "When conditions skip their steps, choosing the next step takes too long and fails.",
            "Lower `maxIterations` of the nested loops.",
        ),
        Code::FragmentUnused => (
            "A prompt fragment is never shown.",
            "Its condition can never hold.",
            "Correct the condition, or remove the fragment.",
        ),
        Code::UnsetVariable => (
            "A prompt shows `{{key}}`, and nothing sets or mentions the key.",
            "If it is not set, the agent reads `[unset: key]` there.",
            "Declare the key in `sets` of an earlier step, or correct the name.",
        ),
        Code::NotAVariable => (
            "A prompt contains `{{...}}` with something that is not a name.",
            "Only names and dots are filled in; there are no expressions. The text is shown unchanged.",
            "Use a plain `{{name}}`, and let a step compute the value.",
        ),
        Code::BadPattern => (
            "A regular expression cannot be used.",
            "The rule could never pass.",
            "Correct the pattern. Patterns run in bounded time, so some constructs are not supported.",
        ),
        Code::BadSchema => (
            "A JSON Schema of a validation rule cannot be used.",
            "The rule could never pass.",
            "Correct the schema.",
        ),
        Code::UserDependency => (
            "A `userDependencies` entry contradicts itself.",
            "A choice blocks a run only if the author says why the agent must not make it.",
            "Add `choiceKind` with `needs_user_choice`, and only then. Use a valid context key.",
        ),
        Code::ContextKey => (
            "A key in `sets` has no values or type, or a name that is not allowed.",
            "The agent is shown which values the key takes, and others are refused.",
            "Give either `values` or `type`, for example `{ \"values\": [\"small\", \"large\"] }`.",
        ),
        Code::BadGlob => (
            "A glob in `edits` cannot be used.",
            "It would match no file, so edits that the author wants would be refused.",
            "Write globs relative to the root of the repository, for example `docs/**` or `src/*.rs`.",
        ),
        Code::UnsetContextKey => (
            "A condition reads a context key that nothing sets or mentions.",
            "No agent can know that it should set it, so the condition never changes.",
            "Declare the key in `sets` of the step that decides it, or correct the name.",
        ),
        Code::ForeignContextValue => (
            "A condition compares a key with a value that it never has.",
            "The step that sets the key allows other values only.",
            "Correct the value in the condition or in `sets`.",
        ),
        Code::Delegation => (
            "A parallel step delegates to a workflow that cannot be used.",
            "The other agent would not be able to start it, or would start further children without end.",
            "Delegate to another workflow that exists.",
        ),
        Code::DelegationTarget => (
            "A parallel step delegates to a workflow that does not exist.",
            "The other agent could not start it, and the work would not be done.",
            "Correct the id; `workrail workflow list` shows the workflows. Files that are validated together may delegate to each other.",
        ),
        Code::KeySetLater => (
            "A condition reads a context key that is set only after the condition was evaluated.",
            "The step is skipped before the key can be set.",
            "Set the key in an earlier step, or move the step that reads it.",
        ),
        Code::UnannouncedValue => (
            "A condition compares a key with a text that no step mentions.",
            "An agent sets only values that it knows about, so the condition never holds.",
            "Declare the values in `sets` of the step that decides the key, or correct the value.",
        ),
        Code::UnclosedVariable => (
            "A text has `{{` without `}}`.",
            "Nothing is filled in; the agent reads the braces.",
            "Close it as in `{{name}}`, or write a single brace.",
        ),
        Code::ReferenceSource => (
            "A reference is a web address, points outside its folder, or names a document that is missing.",
            "Runs report it as not found, and the agent works without it.",
            "Keep the document in the project and write its relative path.",
        ),
        Code::NoEffect => (
            "A field is accepted but has no effect here.",
            "The author may rely on a rule that has no effect.",
            "Put it where it has an effect, or remove it.",
        ),
    };
    Explanation { what, why, remedy }
}
