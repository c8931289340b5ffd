//! Asks the user through the client when a call is blocked on them: opt-in, bounded, never proof of a person (G63).
//!
//! No lock and no thread is held while the user reads: the blocked attempt is recorded, and what was shown is
//! compared again when the answer arrives. A client that is slow, declines or answers nonsense leaves the blocked
//! reply unchanged. Each submission has one form at a time, and none after it was declined.

use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientResult, ElicitRequest, ElicitResult, ElicitationAction, InputRequest,
    InputRequests, InputRequiredResult, InputResponses, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext, RoleServer};
use tokio::time::timeout;
use workrail_engine::{AttemptAwaitingUser, Reply, UserReply, WaitingStep};
use workrail_model::reply::{Warning, WarningCode};

use crate::asked_forms::FormSubject;
use crate::form::Form;
use crate::server::Server;

/// The name of our one request in a result that asks for input.
const INPUT: &str = "user";

/// Whether the user is asked through the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatQuestions {
    Off,
    On {
        /// How long a form stays open.
        wait: Duration,
        approvals: ChatApprovals,
    },
}

impl ChatQuestions {
    /// The same, with approvals only if the server also accepts them.
    fn within(self, server: ChatApprovals) -> Self {
        match (self, server) {
            (Self::On { wait, .. }, ChatApprovals::Refused) => {
                Self::On { wait, approvals: ChatApprovals::Refused }
            }
            (Self::On { .. } | Self::Off, ChatApprovals::Allowed) | (Self::Off, ChatApprovals::Refused) => {
                self
            }
        }
    }

    fn takes(self, reply: &UserReply) -> bool {
        match (self, reply) {
            (Self::Off, _) => false,
            (Self::On { .. }, UserReply::Answered(_)) => true,
            (Self::On { approvals, .. }, UserReply::Approved | UserReply::Rejected { .. }) => {
                approvals == ChatApprovals::Allowed
            }
        }
    }
}

/// Whether approvals may come from the chat; answers to questions always may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChatApprovals {
    Allowed,
    Refused,
}

/// How a client can be asked.
pub(crate) enum AskChannel {
    /// By a request during the call.
    Request,
    /// By the result of the call. The client repeats the call with the answer and the state.
    Result { responses: Option<InputResponses>, state: Option<String> },
}

/// The result of asking.
pub(crate) enum AskOutcome {
    /// The user was not asked, or gave no usable answer.
    Unanswered,
    /// The reply with what was recorded, or with a warning that an answer was not.
    Answered(Box<Reply>),
    /// The client must ask the user first.
    Pending(InputRequiredResult),
}

/// Whether the client shows forms. A client that names no mode supports forms.
pub(crate) fn shows_forms(capabilities: Option<&ClientCapabilities>) -> bool {
    let declared = capabilities.and_then(|declared| declared.elicitation.as_ref());
    declared.is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none())
}

impl Server {
    /// Asks the user about what blocks the reply.
    pub(crate) async fn ask_user(
        &self,
        reply: Reply,
        channel: AskChannel,
        context: &RequestContext<RoleServer>,
    ) -> AskOutcome {
        let Some(asked) = reply.asks_user().copied() else { return AskOutcome::Unanswered };
        let (approvals, forms) = (self.chat_approvals, self.asked_forms.clone());
        let (is_answer, is_accept) = match &channel {
            AskChannel::Request => (false, false),
            AskChannel::Result { responses, .. } => {
                (responses.is_some(), responses.as_ref().is_some_and(accepts))
            }
        };
        // Settings and the session are read on a blocking thread.
        let open = self.blocking(context, move |execution| match execution.chat().within(approvals) {
            ChatQuestions::Off => None,
            ChatQuestions::On { wait, approvals } => {
                let subject = FormSubject::of(&execution.waiting_for_user(&asked)?);
                let open = match is_answer {
                    true => forms.reopen(subject),
                    false => forms.open(subject),
                }?;
                // Checked again: the previous form may have been answered in between.
                let waiting =
                    execution.waiting_for_user(&asked).filter(|now| FormSubject::of(now) == subject)?;
                let form = Form::of(&waiting, approvals)?;
                Some((waiting, form, wait, open))
            }
        });
        let Ok(Some((waiting, form, wait, open))) = open.await else {
            return match is_accept {
                true => AskOutcome::Answered(Box::new(unrecorded(reply))),
                false => AskOutcome::Unanswered,
            };
        };
        let result = match channel {
            AskChannel::Request => request(&form, wait, context).await,
            AskChannel::Result { responses, state } => {
                let shown = form.digest(&waiting);
                match responses {
                    // The form shown must match what is waiting now. The state needs no signature: a client that
                    // forges it could just as well forge the answer.
                    Some(mut responses) if state.as_ref() == Some(&shown) => {
                        responses.remove(INPUT).and_then(|answer| serde_json::from_value(answer).ok())
                    }
                    Some(_) | None => {
                        open.send(wait);
                        let request = InputRequest::Elicitation(ElicitRequest::new(form.request()));
                        let requests = InputRequests::from([(INPUT.to_owned(), request)]);
                        return AskOutcome::Pending(InputRequiredResult::new(Some(requests), Some(shown)));
                    }
                }
            }
        };
        let Some(result): Option<ElicitResult> = result else { return AskOutcome::Unanswered };
        if matches!(result.action, ElicitationAction::Decline) {
            open.decline();
            return AskOutcome::Unanswered;
        }
        let replies = form.read(result);
        if replies.is_empty() {
            return AskOutcome::Unanswered;
        }
        let count = replies.len();
        let recorded = self.recorded(asked, waiting, replies, context).await;
        let is_whole = recorded.len() == count;
        let reply = match recorded.is_empty() {
            true => reply,
            false => reply.answered(&recorded),
        };
        AskOutcome::Answered(Box::new(if is_whole { reply } else { unrecorded(reply) }))
    }

    /// Records the user's answers, as far as they still apply; returns those.
    async fn recorded(
        &self,
        asked: AttemptAwaitingUser,
        seen: WaitingStep,
        replies: Vec<UserReply>,
        context: &RequestContext<RoleServer>,
    ) -> Vec<UserReply> {
        let approvals = self.chat_approvals;
        let recording = self.blocking(context, move |execution| {
            let mut recorded = Vec::new();
            let mut seen = seen;
            for reply in replies {
                // Checked again: the user may have disabled it while the form was open.
                if !execution.chat().within(approvals).takes(&reply) {
                    break;
                }
                if let Err(error) = execution.record_from_chat(&asked, &seen, &reply) {
                    tracing::warn!(code = error.code.as_str(), "an answer from the chat was not recorded");
                    break;
                }
                recorded.push(reply);
                match execution.waiting_for_user(&asked) {
                    Some(now) if differs_by_answers(&seen, &now) => seen = now,
                    Some(_) | None => break,
                }
            }
            recorded
        });
        recording.await.unwrap_or_default()
    }
}

/// Whether the user gave an answer, whatever it is.
fn accepts(responses: &InputResponses) -> bool {
    responses.get(INPUT).is_some_and(|answer| answer["action"] == "accept")
}

/// The reply with a warning that an answer was not recorded.
fn unrecorded(mut reply: Reply) -> Reply {
    reply.remark(&Warning {
        code: WarningCode::UserAnswerNotRecorded,
        message: "An answer from the chat was not recorded: the step no longer waits for it, or the settings changed \
                  in the meantime."
            .to_owned(),
    });
    reply
}

/// Whether only the effects of an answer differ: its questions are closed, and a title may contain it.
fn differs_by_answers(seen: &WaitingStep, now: &WaitingStep) -> bool {
    let answered = WaitingStep { questions: now.questions.clone(), title: now.title.clone(), ..seen.clone() };
    answered == *now
}

/// Shows a form through a request of ours; `None` if no usable answer arrives in time.
async fn request(form: &Form, wait: Duration, context: &RequestContext<RoleServer>) -> Option<ElicitResult> {
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(form.request()));
    let sending = context.peer.send_cancellable_request(request, PeerRequestOptions::no_options());
    let mut sent = timeout(wait, sending).await.ok()?.ok()?;
    let answered = tokio::select! {
        answered = &mut sent.rx => answered.ok(),
        () = tokio::time::sleep(wait) => None,
        // The client cancelled the call, so the reply would not be read.
        () = context.ct.cancelled() => None,
    };
    match answered {
        Some(Ok(ClientResult::ElicitResult(result))) => Some(result),
        Some(Ok(_) | Err(_)) => None,
        None => {
            // Makes the client close its form. The client may be gone as well.
            let closing =
                sent.cancel(Some("the form was open for too long, or the call was cancelled".to_owned()));
            let _ = timeout(Duration::from_secs(1), closing).await;
            None
        }
    }
}
