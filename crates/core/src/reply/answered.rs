//! Replaces a blocked reply when the user has answered in the chat meanwhile: what they said, and the call that
//! follows from it (G63).
//!
//! The recorded reply is unchanged: a replay returns that one (G30).

use serde_json::{Map, Value, json};
use workrail_model::blocker::{Blocker, BlockerPointer, PersonDecision};
use workrail_model::limits::SUMMARY_BYTES_MAX;
use workrail_model::placeholder;
use workrail_model::preferences::NextIntent;
use workrail_model::reply::{NextCall, ReplyBody, Warning, WarningCode};
use workrail_model::text::{BoundedText, truncate_with_marker};
use workrail_model::tool::ToolName;

/// How much is shown of one answer. The recorded one is complete.
const ANSWER_BYTES_MAX: usize = 2048;

/// What the user said.
#[derive(Clone, Debug, PartialEq)]
pub enum UserReply {
    Answered(Map<String, Value>),
    Approved,
    Rejected { reason: Option<String> },
}

/// The text and the data of the reply that is sent instead of the blocked one.
#[derive(Clone, Debug, PartialEq)]
pub struct AnsweredReply {
    pub parts: Vec<String>,
    pub body: ReplyBody,
}

/// `None` if the blocked reply has no call to continue with: then it is sent as it is.
pub fn answered(first_part: &str, blocked: ReplyBody, answers: &[UserReply]) -> Option<AnsweredReply> {
    let mut body = blocked;
    let mut arguments = body.next_call.take()?.arguments;
    for reply in answers {
        match reply {
            UserReply::Answered(values) => {
                body.blockers
                    .retain(|blocker| !asked_key(blocker).is_some_and(|key| values.contains_key(key)));
                drop_keys(&mut arguments, values);
            }
            UserReply::Approved => body.blockers.retain(|blocker| asked_key(blocker).is_some()),
            UserReply::Rejected { reason } => {
                for blocker in body.blockers.iter_mut().filter(|blocker| asked_key(blocker).is_none()) {
                    blocker.message = BoundedText::clip(&rejection(reason.as_deref()));
                    blocker.suggested_fix = Some(BoundedText::clip(AFTER_REJECTION));
                    blocker.decision = Some(PersonDecision::Rejected);
                }
                arguments.insert("output".to_owned(), json!({ "notesMarkdown": placeholder::STEP_NOTES }));
            }
        }
    }
    let was_rejected = answers.iter().any(|reply| matches!(reply, UserReply::Rejected { .. }));
    let waits = !was_rejected && !body.blockers.is_empty();
    let news: Vec<String> = answers.iter().map(news).collect();
    let news = news.join("\n");
    let header = first_part.lines().next().unwrap_or_default();
    let mut parts = vec![format!("{header}\n\n{news}")];
    if waits {
        parts.push(still_open(&body.blockers));
    }
    body.next_intent = match waits {
        true => NextIntent::AwaitUserConfirmation,
        false => NextIntent::PerformPendingThenContinue,
    };
    let call = NextCall { tool: ToolName::ContinueWorkflow, arguments };
    parts.push(ending(&body, &call, was_rejected));
    body.next_call = Some(call);
    body.warnings.insert(0, Warning { code: WarningCode::UserAnswered, message: news });
    Some(AnsweredReply { parts, body })
}

const AFTER_REJECTION: &str =
    "Change the result as they say and send it with the call below. The user is then asked again.";

/// The context key of a question; a blocker without one waits for a decision.
fn asked_key(blocker: &Blocker) -> Option<&str> {
    match &blocker.pointer {
        BlockerPointer::ContextKey { key } => Some(key.as_str()),
        BlockerPointer::AssessmentDimension { .. }
        | BlockerPointer::Capability { .. }
        | BlockerPointer::ContextBudget
        | BlockerPointer::OutputContract { .. }
        | BlockerPointer::WorkflowStep { .. } => None,
    }
}

/// Removes the placeholders of answered questions from a call: what the user said is already recorded.
fn drop_keys(arguments: &mut Map<String, Value>, answered: &Map<String, Value>) {
    let Some(Value::Object(context)) = arguments.get_mut("context") else { return };
    context.retain(|key, _| !answered.contains_key(key));
    if context.is_empty() {
        arguments.remove("context");
    }
}

fn rejection(reason: Option<&str>) -> String {
    match reason {
        Some(reason) => {
            let reason = truncate_with_marker(reason, SUMMARY_BYTES_MAX);
            format!("The user rejected this step's result: {reason}")
        }
        None => "The user rejected this step's result, without a reason.".to_owned(),
    }
}

fn news(answer: &UserReply) -> String {
    match answer {
        UserReply::Answered(values) => {
            let mut text = String::from("The user answered in the chat:");
            for (key, value) in values {
                let value = value.to_string();
                text.push_str(&format!("\n- {key}: {}", truncate_with_marker(&value, ANSWER_BYTES_MAX)));
            }
            text
        }
        UserReply::Approved => {
            "The user approved, in the chat, exactly what you submitted. Do not change it: nothing else is approved."
                .to_owned()
        }
        UserReply::Rejected { reason } => {
            format!("{}\nThey decided in the chat. {AFTER_REJECTION}", rejection(reason.as_deref()))
        }
    }
}

fn still_open(blockers: &[Blocker]) -> String {
    let mut text = String::from("Still open:");
    for blocker in blockers {
        text.push_str(&format!("\n- {}: {}", blocker.code.as_str(), blocker.message));
        if let Some(fix) = &blocker.suggested_fix {
            text.push_str(&format!("\n  Fix: {fix}"));
        }
    }
    text
}

fn ending(body: &ReplyBody, call: &NextCall, was_rejected: bool) -> String {
    let when = match (was_rejected, body.next_intent) {
        (true, _) => "Not complete. The rest is kept. Send what changed: call",
        (false, NextIntent::AwaitUserConfirmation) => {
            "Not complete. Your submission is kept. When the user has decided, call"
        }
        (
            false,
            NextIntent::PerformPendingThenContinue | NextIntent::RehydrateOnly | NextIntent::Complete,
        ) => "Not complete. Your submission is kept. To complete the step, call",
    };
    let token = &body.state_token;
    format!("Bookmark: stateToken {token}\n{when} {} with:\n{}", call.tool, call.arguments_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked() -> ReplyBody {
        let body = json!({
            "kind": "blocked", "stateToken": "st", "nextIntent": "await_user_confirmation", "isComplete": false,
            "run": { "label": "amber-heron", "workflowId": "team.a", "sessionId": "sess_0000000000000000",
                     "runId": "run_0000000000000000" },
            "preferences": { "autonomy": "guided", "riskPolicy": "conservative" },
            "blockers": [
                { "code": "USER_ONLY_DEPENDENCY", "pointer": { "kind": "context_key", "key": "branch" },
                  "message": "Which branch?" },
                { "code": "USER_ONLY_DEPENDENCY", "pointer": { "kind": "workflow_step", "stepId": "a" },
                  "message": "A person must approve." },
            ],
            "nextCall": { "tool": "continue_workflow", "arguments": {
                "ackToken": "ack", "context": { "branch": "<the user's answer>" } } },
        });
        serde_json::from_value(body).expect("a reply")
    }

    fn answer() -> UserReply {
        UserReply::Answered([("branch".to_owned(), json!("main"))].into_iter().collect())
    }

    fn after(said: &[UserReply]) -> AnsweredReply {
        answered("Run a · step 1\n\nBLOCKED", blocked(), said).expect("there is a call to continue with")
    }

    fn arguments(reply: &AnsweredReply) -> Value {
        json!(reply.body.next_call.as_ref().map(|call| &call.arguments))
    }

    #[test]
    fn an_answer_leaves_the_approval_open_and_need_not_be_sent_again() {
        let reply = after(&[answer()]);
        assert_eq!(reply.body.blockers.len(), 1);
        assert_eq!(reply.body.next_intent, NextIntent::AwaitUserConfirmation);
        assert_eq!(arguments(&reply), json!({ "ackToken": "ack" }));
        let text = reply.parts.join("\n\n");
        assert!(text.contains("- branch: \"main\"") && text.contains("Still open:"), "{text}");
    }

    #[test]
    fn once_everything_is_given_only_the_call_is_left() {
        let reply = after(&[answer(), UserReply::Approved]);
        assert_eq!(reply.body.blockers, []);
        assert_eq!(reply.body.next_intent, NextIntent::PerformPendingThenContinue);
        assert_eq!(reply.body.warnings[0].code, WarningCode::UserAnswered);
        assert!(reply.parts.last().is_some_and(|last| last.ends_with(r#"{"ackToken":"ack"}"#)));
    }

    #[test]
    fn a_rejection_asks_for_another_result_and_gives_the_reason() {
        let reason = Some("Keep the old table".to_owned());
        let reply = after(&[answer(), UserReply::Rejected { reason }]);
        assert_eq!(reply.body.next_intent, NextIntent::PerformPendingThenContinue);
        assert_eq!(arguments(&reply)["output"]["notesMarkdown"], placeholder::STEP_NOTES);
        assert!(reply.parts.join("\n").contains("Keep the old table"));
    }
}
