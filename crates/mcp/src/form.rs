//! What the user is shown in the chat, and what their answer means: open questions, and approvals (G63).
//!
//! Submitted text is quoted line by line, so that it cannot pass for one of ours, and sanitised as everywhere (G76).

use std::collections::BTreeMap;

use rmcp::model::{
    BooleanSchema, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema, EnumSchema,
    NumberSchema, PrimitiveSchemaDefinition, StringSchema,
};
use serde_json::{Map, Value};
use workrail_engine::{Question, UserReply, WaitingStep};
use workrail_model::approval::ApprovalDecision;
use workrail_model::compiled::AcceptedValues;
use workrail_model::digest::Sha256;
use workrail_model::strict_json;
use workrail_model::text::{clean, truncate_with_marker};

use crate::elicit::ChatApprovals;

const DECISION: &str = "decision";
const REASON: &str = "reason";
const APPROVE: &str = "approve";
const REJECT: &str = "reject";

const GOAL_SHOWN_BYTES_MAX: usize = 500;
/// How much of each submitted part a dialog shows. If there is more, no approval is asked for: a decision is about
/// everything submitted, so all of it must be seen, and `workrail report` shows it.
const NOTES_SHOWN_BYTES_MAX: usize = 4096;
const ITEM_BYTES_MAX: usize = 1024;
/// Artifacts and context values.
const ITEMS_MAX: usize = 8;
const DESCRIPTION_BYTES_MAX: usize = 1024;
const ANSWER_CHARS_MAX: u32 = 8 * 1024;
const REASON_CHARS_MAX: u32 = 500;

/// One dialog about one step.
#[derive(Clone, Debug)]
pub(crate) struct Form {
    message: String,
    questions: Vec<Question>,
    asks_approval: bool,
}

impl Form {
    /// `None` if there is nothing that may be asked in the chat.
    pub(crate) fn of(waiting: &WaitingStep, approvals: ChatApprovals) -> Option<Self> {
        let (secret, questions): (Vec<Question>, Vec<Question>) =
            waiting.questions.iter().cloned().partition(|question| question.is_secret);
        // An answer comes before an approval, and a secret is never given in the chat. A key with the name of our own
        // field would be mistaken for it.
        let is_free = |name: &str| questions.iter().all(|question| question.key.as_str() != name);
        let may_approve = waiting.asks_approval
            && approvals == ChatApprovals::Allowed
            && secret.is_empty()
            && is_free(DECISION)
            && is_free(REASON);
        let submitted = may_approve.then(|| submitted(waiting)).flatten();
        if questions.is_empty() && submitted.is_none() {
            return None;
        }
        let message = message(waiting, &questions, submitted.as_deref());
        Some(Self { message, questions, asks_approval: submitted.is_some() })
    }

    pub(crate) fn request(&self) -> ElicitRequestParams {
        ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: self.message.clone(),
            requested_schema: self.schema(),
        }
    }

    /// Identifies what was shown. A client returns it with the answer, which is accepted only for the same form.
    pub(crate) fn digest(&self, waiting: &WaitingStep) -> String {
        let schema = serde_json::to_string(&self.schema()).unwrap_or_default();
        let parts = [
            waiting.session.to_string(),
            waiting.node.to_string(),
            waiting.submitted.to_string(),
            self.message.clone(),
            schema,
        ];
        Sha256::of(parts.join("\n").as_bytes()).to_string()
    }

    fn schema(&self) -> ElicitationSchema {
        let mut fields = BTreeMap::new();
        let mut required = Vec::new();
        for question in &self.questions {
            fields.insert(question.key.to_string(), field(question));
            required.push(question.key.to_string());
        }
        if self.asks_approval {
            let decision = EnumSchema::builder(vec![APPROVE.to_owned(), REJECT.to_owned()])
                .title("Decision")
                .description("Approve or reject exactly what is shown above");
            fields.insert(DECISION.to_owned(), PrimitiveSchemaDefinition::Enum(decision.build()));
            let reason = StringSchema::new()
                .title("Reason")
                .description("Why, and what to do instead. The agent receives it when you reject.")
                .max_length(REASON_CHARS_MAX);
            fields.insert(REASON.to_owned(), PrimitiveSchemaDefinition::String(reason));
            required.push(DECISION.to_owned());
        }
        ElicitationSchema::new(fields).with_required(required)
    }

    /// The user's replies, in the order in which they are recorded; empty if they declined, closed the form, or sent
    /// something that it does not have.
    pub(crate) fn read(&self, result: ElicitResult) -> Vec<UserReply> {
        let (ElicitationAction::Accept, Some(Value::Object(content))) = (result.action, result.content)
        else {
            return Vec::new();
        };
        let answers: Map<String, Value> = self
            .questions
            .iter()
            .filter_map(|question| {
                let answer = answer(question, content.get(question.key.as_str())?)?;
                Some((question.key.to_string(), answer))
            })
            .collect();
        let all_answered = answers.len() == self.questions.len();
        let mut replies = Vec::new();
        if !answers.is_empty() {
            replies.push(UserReply::Answered(answers));
        }
        // Approving something with an open question would not be recorded.
        if self.asks_approval && all_answered {
            replies.extend(decision(&content).map(|decision| match decision {
                ApprovalDecision::Approved => UserReply::Approved,
                ApprovalDecision::Rejected => UserReply::Rejected { reason: reason(&content) },
            }));
        }
        replies
    }
}

fn decision(content: &Map<String, Value>) -> Option<ApprovalDecision> {
    match content.get(DECISION)?.as_str()? {
        APPROVE => Some(ApprovalDecision::Approved),
        REJECT => Some(ApprovalDecision::Rejected),
        _ => None,
    }
}

fn reason(content: &Map<String, Value>) -> Option<String> {
    let reason = content.get(REASON)?.as_str()?.trim();
    (!reason.is_empty()).then(|| clean(reason))
}

fn field(question: &Question) -> PrimitiveSchemaDefinition {
    let title = question.key.to_string();
    let description = clean(&truncate_with_marker(&question.description, DESCRIPTION_BYTES_MAX));
    match &question.accepts {
        Some(AcceptedValues::OneOf { values }) if !values.is_empty() => PrimitiveSchemaDefinition::Enum(
            EnumSchema::builder(values.clone()).title(title).description(description).build(),
        ),
        Some(AcceptedValues::Boolean) => {
            PrimitiveSchemaDefinition::Boolean(BooleanSchema::new().title(title).description(description))
        }
        Some(AcceptedValues::Number) => {
            PrimitiveSchemaDefinition::Number(NumberSchema::new().title(title).description(description))
        }
        // A form has no lists, so the text is read as JSON.
        Some(AcceptedValues::OneOf { .. } | AcceptedValues::Text | AcceptedValues::List { .. }) | None => {
            PrimitiveSchemaDefinition::String(
                StringSchema::new().title(title).description(description).length(1, ANSWER_CHARS_MAX),
            )
        }
    }
}

/// A value that the field accepts; clients are not trusted to have checked it.
fn answer(question: &Question, value: &Value) -> Option<Value> {
    match (&question.accepts, value) {
        (Some(AcceptedValues::OneOf { values }), Value::String(text)) if !values.is_empty() => {
            values.contains(text).then(|| value.clone())
        }
        (Some(AcceptedValues::Boolean), Value::Bool(_))
        | (Some(AcceptedValues::Number), Value::Number(_)) => Some(value.clone()),
        (Some(AcceptedValues::List { .. }), Value::String(text)) => {
            strict_json::parse(text.as_bytes()).ok().filter(Value::is_array)
        }
        (Some(AcceptedValues::OneOf { .. } | AcceptedValues::Text) | None, Value::String(text)) => {
            let text = text.trim();
            let limit = usize::try_from(ANSWER_CHARS_MAX).unwrap_or(usize::MAX);
            let fits = !text.is_empty() && text.chars().count() <= limit;
            fits.then(|| Value::from(text))
        }
        (
            Some(
                AcceptedValues::OneOf { .. }
                | AcceptedValues::Boolean
                | AcceptedValues::Number
                | AcceptedValues::Text
                | AcceptedValues::List { .. },
            )
            | None,
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
        ) => None,
    }
}

fn message(waiting: &WaitingStep, questions: &[Question], submitted: Option<&str>) -> String {
    let mut text = format!("WorkRail run {} ({}) waits for you.", waiting.label, clean(&waiting.workflow));
    if let Some(goal) = &waiting.goal {
        text.push_str(&format!("\nGoal: {}", one_line(&truncate_with_marker(goal, GOAL_SHOWN_BYTES_MAX))));
    }
    text.push_str(&format!("\nStep `{}`: {}", waiting.step, one_line(&waiting.title)));
    for question in questions {
        let description = truncate_with_marker(&question.description, DESCRIPTION_BYTES_MAX);
        text.push_str(&format!("\n\nQuestion `{}`: {}", question.key, clean(&description)));
    }
    match submitted {
        Some(submitted) => text.push_str(submitted),
        None if waiting.asks_approval => {
            text.push_str("\n\nThis step also needs your approval, which cannot be given in this form. ");
            text.push_str(&match &waiting.team_page {
                None => format!(
                    "`workrail report {0} --context` shows what the agent submitted; approve it with \
                     `workrail approve {0}` at a terminal.",
                    waiting.label
                ),
                Some(page) => format!("An approver decides on {page}, which shows what the agent submitted."),
            });
        }
        None => {}
    }
    text
}

/// Everything that the agent submitted; `None` if a part would have to be left out.
fn submitted(waiting: &WaitingStep) -> Option<String> {
    let mut text = match &waiting.notes {
        Some(notes) => {
            format!("\n\nThe agent asks you to approve this:\n{}", quoted(notes, NOTES_SHOWN_BYTES_MAX)?)
        }
        None => "\n\nThe agent asks you to approve this step. It submitted no notes.".to_owned(),
    };
    if waiting.artifacts.len() + waiting.context.len() > ITEMS_MAX {
        return None;
    }
    for artifact in &waiting.artifacts {
        let json = serde_json::to_string_pretty(artifact).ok()?;
        text.push_str(&format!("\n\nArtifact:\n{}", quoted(&json, ITEM_BYTES_MAX)?));
    }
    for (key, value) in &waiting.context {
        let value = quoted(&value.to_string(), ITEM_BYTES_MAX)?;
        text.push_str(&format!("\n\nContext `{}`:\n{value}", one_line(key)));
    }
    if let Some(earlier) = &waiting.earlier {
        text.push_str(&format!("\n\n{}", earlier.replaced_text()));
    }
    let whole_run = match &waiting.team_page {
        None => format!("`workrail report {}` shows the whole run.", waiting.label),
        Some(page) => format!("{page} shows the whole run."),
    };
    text.push_str(&format!(
        "\n\nYour decision covers exactly this: all that the agent submitted. {whole_run}"
    ));
    Some(text)
}

fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `None` if the text is longer than that.
fn quoted(text: &str, bytes_max: usize) -> Option<String> {
    if text.len() > bytes_max {
        return None;
    }
    Some(clean(text).lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n"))
}
