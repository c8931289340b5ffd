//! `capability_observed`: what an agent can do, with where that knowledge comes from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::capability::{Capability, CapabilityStatus, Provenance};
use crate::id::CapObsId;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CapabilityObserved {
    pub cap_obs_id: CapObsId,
    pub capability: Capability,
    pub status: CapabilityStatus,
    pub provenance: Provenance,
}
