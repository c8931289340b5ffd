//! Gets from the ports what decisions cannot make themselves: random ids, the time, the activity number.

use workrail_core::decide::Minting;
use workrail_model::error::ErrorEnvelope;
use workrail_model::id::{AttemptId, RunId, SessionId};
use workrail_model::team::Act;
use workrail_ports::environment::Entropy;

use crate::{Engine, Store, error};

pub(crate) fn random<const N: usize>(entropy: &dyn Entropy) -> Result<[u8; N], Box<ErrorEnvelope>> {
    let mut bytes = [0; N];
    entropy.fill(&mut bytes).map_err(|cause| error::internal(&cause.to_string()))?;
    Ok(bytes)
}

/// A new attempt with no record, for a step that is shown again.
pub(crate) fn fresh_attempt(entropy: &dyn Entropy) -> Result<AttemptId, Box<ErrorEnvelope>> {
    random(entropy).map(|bytes| AttemptId::from_bits(u64::from_be_bytes(bytes)))
}

impl<S: Store> Engine<S> {
    pub(crate) fn fresh_session(&self) -> Result<SessionId, Box<ErrorEnvelope>> {
        random(&*self.environment.entropy).map(SessionId::from_bits)
    }

    pub(crate) fn fresh_run(&self) -> Result<RunId, Box<ErrorEnvelope>> {
        random(&*self.environment.entropy).map(RunId::from_bits)
    }

    /// What a plan is built with. A caller who may not do this gets no plan (G113).
    pub(crate) fn minting(&self, act: Act) -> Result<Minting, Box<ErrorEnvelope>> {
        self.permit(act)?;
        Ok(Minting {
            event_seed: random(&*self.environment.entropy)?,
            at: self.environment.clock.now(),
            activity: self.store.next().map_err(error::store)?,
            actor: self.caller.actor(),
        })
    }
}
