//! The envelope shared by all events, and their only reader and writer.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{DedupeKey, EventData, EventKind, ScopeRule};
use crate::canonical::{CanonicalError, to_canonical};
use crate::id::{EventId, NodeId, RunId, SessionId};
use crate::limits::{EVENT_INDEX_MAX, SAFE_INTEGER_MAX};
use crate::strict_json;
use crate::team::Actor;
use crate::time::Timestamp;

/// The position of an event in its session; the only order there is (G6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct EventIndex(#[schemars(range(min = 0, max = 33_554_431))] u64);

impl EventIndex {
    pub const ZERO: Self = Self(0);

    /// `None` beyond what a short token can represent.
    pub fn new(value: u64) -> Option<Self> {
        (value <= EVENT_INDEX_MAX).then_some(Self(value))
    }

    pub fn get(self) -> u64 {
        self.0
    }

    /// The index `steps` later; saturates one past the limit, where no event can be appended.
    pub fn plus(self, steps: u64) -> Self {
        Self(self.0.saturating_add(steps).min(EVENT_INDEX_MAX + 1))
    }
}

/// A store-wide, monotonic number that ranks sessions by recency without a clock (G7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Activity(u64);

impl Activity {
    pub fn new(value: u64) -> Option<Self> {
        (value <= SAFE_INTEGER_MAX).then_some(Self(value))
    }

    pub fn get(self) -> u64 {
        self.0
    }
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Session,
    Run(RunId),
    Node(RunId, NodeId),
}

impl Scope {
    pub fn run(&self) -> Option<RunId> {
        match self {
            Self::Session => None,
            Self::Run(run) | Self::Node(run, _) => Some(*run),
        }
    }

    pub fn node(&self) -> Option<NodeId> {
        match self {
            Self::Session | Self::Run(_) => None,
            Self::Node(_, node) => Some(*node),
        }
    }

    fn satisfies(&self, rule: ScopeRule) -> bool {
        match rule {
            ScopeRule::Any => true,
            ScopeRule::Absent => matches!(self, Self::Session),
            ScopeRule::Run => matches!(self, Self::Run(_)),
            ScopeRule::Node => matches!(self, Self::Node(..)),
            ScopeRule::NodeOrAbsent => matches!(self, Self::Node(..) | Self::Session),
        }
    }
}

/// One record of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub event_id: EventId,
    pub event_index: EventIndex,
    pub session_id: SessionId,
    pub scope: Scope,
    pub dedupe_key: DedupeKey,
    /// Informational; never used for ordering or decisions.
    pub at: Option<Timestamp>,
    pub activity: Option<Activity>,
    /// The actor, if the store is shared (G114). Nothing is decided by it.
    pub actor: Option<Actor>,
    pub data: EventData,
}

/// Why a record cannot be read; `field` is its path inside the record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    #[error("not JSON: {0}")]
    Json(#[from] strict_json::JsonError),
    #[error("`v` is {version}, this build reads version 1")]
    UnknownVersion { version: u64 },
    #[error("`kind` {kind:?} is not known")]
    UnknownKind { kind: String },
    #[error("`{field}`: {problem}")]
    Field { field: String, problem: String },
}

/// The written form, and the schema of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "SessionEvent")]
struct Written<'a> {
    /// Schema version of the record.
    #[schemars(range(min = 1, max = 1))]
    v: u32,
    event_id: EventId,
    event_index: EventIndex,
    session_id: SessionId,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<WrittenScope>,
    dedupe_key: &'a DedupeKey,
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<&'a Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    activity: Option<Activity>,
    /// Who caused it, where a store is shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor: Option<&'a Actor>,
    #[serde(flatten)]
    data: &'a EventData,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Scope")]
struct WrittenScope {
    run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node_id: Option<NodeId>,
}

/// The first step of reading: everything except the payload.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    event_id: EventId,
    event_index: EventIndex,
    session_id: SessionId,
    #[serde(default)]
    scope: Option<WrittenScope>,
    dedupe_key: DedupeKey,
    #[serde(default)]
    at: Option<Timestamp>,
    #[serde(default)]
    activity: Option<Activity>,
    #[serde(default)]
    actor: Option<Actor>,
    data: Value,
}

impl JsonSchema for Event {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Written::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Written::json_schema(generator)
    }
}

impl Event {
    pub fn kind(&self) -> EventKind {
        self.data.kind()
    }

    /// The canonical bytes, without a line break.
    pub fn to_canonical(&self) -> Result<Vec<u8>, CanonicalError> {
        to_canonical(&self.written())
    }

    fn written(&self) -> Written<'_> {
        let scope = self.scope.run().map(|run_id| WrittenScope { run_id, node_id: self.scope.node() });
        Written {
            v: 1,
            event_id: self.event_id,
            event_index: self.event_index,
            session_id: self.session_id,
            scope,
            dedupe_key: &self.dedupe_key,
            at: self.at.as_ref(),
            activity: self.activity,
            actor: self.actor.as_ref(),
            data: &self.data,
        }
    }

    /// Parses one record from its JSON bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, EventError> {
        Self::from_value(strict_json::parse(bytes)?)
    }

    /// Parses one record from a JSON value.
    pub fn from_value(value: Value) -> Result<Self, EventError> {
        let kind = version_and_kind(&value)?;
        let envelope: Envelope = read(value, "")?;
        let scope = match envelope.scope {
            None => Scope::Session,
            Some(WrittenScope { run_id, node_id: None }) => Scope::Run(run_id),
            Some(WrittenScope { run_id, node_id: Some(node_id) }) => Scope::Node(run_id, node_id),
        };
        let data = payload(kind, envelope.data)?;
        let event = Self {
            event_id: envelope.event_id,
            event_index: envelope.event_index,
            session_id: envelope.session_id,
            scope,
            dedupe_key: envelope.dedupe_key,
            at: envelope.at,
            activity: envelope.activity,
            actor: envelope.actor,
            data,
        };
        event.check()?;
        Ok(event)
    }

    /// The rules between fields; also checked before an event is written.
    pub fn check(&self) -> Result<(), EventError> {
        let field = |field: &str, problem: String| EventError::Field { field: field.to_owned(), problem };
        if self.event_index.get() > EVENT_INDEX_MAX {
            return Err(field("eventIndex", format!("is beyond {EVENT_INDEX_MAX}")));
        }
        if self.activity.is_some_and(|activity| activity.get() > SAFE_INTEGER_MAX) {
            return Err(field("activity", "is beyond 2^53-1".to_owned()));
        }
        let rule = self.kind().scope_rule();
        if !self.scope.satisfies(rule) {
            return Err(field("scope", format!("does not fit the kind, which needs {rule:?}")));
        }
        self.data.check().map_err(|problem| field("data", problem))
    }
}

fn version_and_kind(value: &Value) -> Result<EventKind, EventError> {
    let missing = |field: &str, problem: &str| EventError::Field {
        field: field.to_owned(),
        problem: problem.to_owned(),
    };
    let version =
        value.get("v").and_then(Value::as_u64).ok_or_else(|| missing("v", "must be a version number"))?;
    if version != 1 {
        return Err(EventError::UnknownVersion { version });
    }
    let kind =
        value.get("kind").and_then(Value::as_str).ok_or_else(|| missing("kind", "must be a string"))?;
    EventKind::parse(kind).ok_or_else(|| EventError::UnknownKind {
        kind: crate::text::truncate_with_marker(kind, 80).into_owned(),
    })
}

fn payload(kind: EventKind, data: Value) -> Result<EventData, EventError> {
    Ok(match kind {
        EventKind::SessionCreated => EventData::SessionCreated(read(data, "data")?),
        EventKind::ObservationRecorded => EventData::ObservationRecorded(read(data, "data")?),
        EventKind::RunStarted => EventData::RunStarted(read(data, "data")?),
        EventKind::NodeCreated => EventData::NodeCreated(read(data, "data")?),
        EventKind::EdgeCreated => EventData::EdgeCreated(read(data, "data")?),
        EventKind::AdvanceRecorded => EventData::AdvanceRecorded(read(data, "data")?),
        EventKind::NodeOutputAppended => EventData::NodeOutputAppended(read(data, "data")?),
        EventKind::PreferencesChanged => EventData::PreferencesChanged(read(data, "data")?),
        EventKind::CapabilityObserved => EventData::CapabilityObserved(read(data, "data")?),
        EventKind::GapRecorded => EventData::GapRecorded(read(data, "data")?),
        EventKind::DivergenceRecorded => EventData::DivergenceRecorded(read(data, "data")?),
        EventKind::DecisionTraceAppended => EventData::DecisionTraceAppended(read(data, "data")?),
        EventKind::ContextSet => EventData::ContextSet(read(data, "data")?),
        EventKind::ValidationPerformed => EventData::ValidationPerformed(read(data, "data")?),
        EventKind::AssessmentRecorded => EventData::AssessmentRecorded(read(data, "data")?),
        EventKind::AssessmentConsequenceApplied => {
            EventData::AssessmentConsequenceApplied(read(data, "data")?)
        }
        EventKind::ApprovalRecorded => EventData::ApprovalRecorded(read(data, "data")?),
        EventKind::RunClosed => EventData::RunClosed(read(data, "data")?),
        EventKind::EvidenceRecorded => EventData::EvidenceRecorded(read(data, "data")?),
    })
}

fn read<T: DeserializeOwned>(value: Value, under: &str) -> Result<T, EventError> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        let field = match (under, path.as_str()) {
            ("", path) => path.to_owned(),
            (under, ".") => under.to_owned(),
            (under, path) => format!("{under}.{path}"),
        };
        EventError::Field { field, problem: error.into_inner().to_string() }
    })
}
