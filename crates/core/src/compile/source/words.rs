//! Closed words that occur only in the authored format; the others are enums of the model.

use serde::Deserialize;

macro_rules! words {
    ($($(#[$meta:meta])* $name:ident { $($(#[$inner:meta])* $variant:ident),+ })+) => {
        $(
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
            #[serde(rename_all = "snake_case")]
            pub(crate) enum $name {
                $($(#[$inner])* $variant),+
            }
        )+
    };
}

words! {
    #[derive(Default)]
    StepType { #[default] Standard, Loop, Parallel, TemplateCall }
    #[derive(Default)]
    LoopType { While, Until, For, #[serde(rename = "forEach")] ForEach, #[default] #[serde(skip)] Unknown }
    /// What decides a `while` or `until` loop.
    #[derive(Default)]
    DecidedBy { ArtifactContract, #[default] ContextVariable }
    #[derive(Default)]
    NamedKind { LoopControl, #[default] Context }
    RefKind { ConditionRef }
    PromptPartKind { Text, Ref }
    RuleType { Contains, Regex, Length, Schema }
    EffectKind { RequireFollowup }
    CapabilityNeed { Required, Preferred, Disabled }
    SlotKind { Routine, Workflow }
    /// The types of a context key that a step sets.
    ContextType { Boolean, Number, String, List }
}
