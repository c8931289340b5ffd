//! Which forms are open and which were declined, so that one submission is asked about once (G63).
//!
//! In memory and bounded. A forgotten form is asked again; recording an answer is decided under the session's lock.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use workrail_engine::WaitingStep;
use workrail_model::digest::Sha256;
use workrail_model::id::{NodeId, SessionId};

const FORMS_MAX: usize = 256;

/// What a form is about: one submission at one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FormSubject {
    session: SessionId,
    node: NodeId,
    submitted: Sha256,
}

impl FormSubject {
    pub(crate) fn of(waiting: &WaitingStep) -> Self {
        Self { session: waiting.session, node: waiting.node, submitted: waiting.submitted }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FormState {
    /// A call of this server is waiting for it or recording its answer.
    Open,
    /// It was sent with the result of a call, and the answer, if any, comes with another call.
    Sent {
        until: Instant,
    },
    Declined,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct AskedForms(Arc<Mutex<VecDeque<(FormSubject, FormState)>>>);

impl AskedForms {
    /// Opens a form; `None` if one is open or was declined.
    pub(crate) fn open(&self, subject: FormSubject) -> Option<OpenForm> {
        self.claim(subject, |state| match state {
            FormState::Sent { until } => until <= Instant::now(),
            FormState::Open | FormState::Declined => false,
        })
    }

    /// Reopens the form that an answer belongs to.
    pub(crate) fn reopen(&self, subject: FormSubject) -> Option<OpenForm> {
        self.claim(subject, |state| match state {
            FormState::Sent { .. } => true,
            FormState::Open | FormState::Declined => false,
        })
    }

    fn claim(&self, subject: FormSubject, is_over: impl Fn(FormState) -> bool) -> Option<OpenForm> {
        let mut forms = self.forms();
        if let Some(index) = forms.iter().position(|(known, _)| *known == subject) {
            let (_, state) = forms.get(index)?;
            if !is_over(*state) {
                return None;
            }
            forms.remove(index);
        }
        if forms.len() >= FORMS_MAX {
            let oldest = forms.iter().position(|(_, state)| *state != FormState::Open)?;
            forms.remove(oldest);
        }
        forms.push_back((subject, FormState::Open));
        Some(OpenForm { asked: self.clone(), subject })
    }

    fn forms(&self) -> MutexGuard<'_, VecDeque<(FormSubject, FormState)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A form that is open until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenForm {
    asked: AskedForms,
    subject: FormSubject,
}

impl OpenForm {
    pub(crate) fn decline(self) {
        self.become_state(FormState::Declined);
    }

    /// A client that never answers is asked again after this time.
    pub(crate) fn send(self, wait: Duration) {
        // If the deadline cannot be represented, the form is forgotten, and its answer is still accepted.
        if let Some(until) = Instant::now().checked_add(wait) {
            self.become_state(FormState::Sent { until });
        }
    }

    fn become_state(&self, state: FormState) {
        let mut forms = self.asked.forms();
        if let Some((_, current)) = forms.iter_mut().find(|(subject, _)| *subject == self.subject) {
            *current = state;
        }
    }
}

impl Drop for OpenForm {
    fn drop(&mut self) {
        let closed = (self.subject, FormState::Open);
        self.asked.forms().retain(|form| *form != closed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(index: usize) -> FormSubject {
        FormSubject {
            session: SessionId::from_bits([1; 10]),
            node: NodeId::from_bits([2; 10]),
            submitted: Sha256::of(index.to_string().as_bytes()),
        }
    }

    #[test]
    fn one_form_is_open_and_a_declined_one_stays_closed() {
        let asked = AskedForms::default();
        let open = asked.open(subject(1)).expect("nothing is open");
        assert!(asked.open(subject(1)).is_none() && asked.reopen(subject(1)).is_none());
        assert!(asked.open(subject(2)).is_some(), "another submission is another form");
        drop(open);
        asked.open(subject(1)).expect("it was closed without an answer").decline();
        assert!(asked.open(subject(1)).is_none() && asked.reopen(subject(1)).is_none());
    }

    #[test]
    fn a_sent_form_is_open_until_it_is_answered_or_expires() {
        let asked = AskedForms::default();
        asked.open(subject(1)).expect("nothing is open").send(Duration::from_secs(3600));
        assert!(asked.open(subject(1)).is_none());
        asked.reopen(subject(1)).expect("its answer came").send(Duration::ZERO);
        assert!(asked.open(subject(1)).is_some());
    }

    #[test]
    fn the_oldest_form_that_is_not_open_is_forgotten() {
        let asked = AskedForms::default();
        let open = asked.open(subject(0)).expect("nothing is open");
        for index in 1..=FORMS_MAX {
            asked.open(subject(index)).expect("it is new").decline();
        }
        assert_eq!(asked.forms().len(), FORMS_MAX);
        assert!(asked.open(subject(0)).is_none(), "it is still open");
        assert!(asked.open(subject(1)).is_some(), "it was forgotten");
        assert!(asked.open(subject(FORMS_MAX)).is_none());
        drop(open);
    }
}
