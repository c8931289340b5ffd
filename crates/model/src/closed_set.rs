//! Closed sets of words: all values, their spelling, and parsing it, based on strum's derives.
//!
//! Nothing lists the variants a second time, and a test below compares serde's and strum's spelling of every value.

/// `ALL`, in the order of declaration.
macro_rules! all_values {
    ($($name:ident),+ $(,)?) => {$(
        impl $name {
            /// All values, in the order of declaration.
            pub const ALL: [Self; <Self as strum::EnumCount>::COUNT] =
                match <Self as strum::VariantArray>::VARIANTS.first_chunk() {
                    Some(all) => *all,
                    // strum counts what it lists; a difference would not compile.
                    None => unreachable!(),
                };
        }
    )+};
}

/// A closed set of words: the enum with what every such set derives, `ALL`, `as_str` and `parse`. The first argument is
/// the case in which its values are spelled on the wire and on disk.
macro_rules! closed_set {
    ($case:tt, $(#[$about:meta])* $vis:vis enum $name:ident { $($(#[$of:meta])* $value:ident),+ $(,)? }) => {
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
            schemars::JsonSchema, strum::EnumCount, strum::VariantArray, strum::VariantNames, strum::IntoStaticStr,
            strum::EnumString,
        )]
        $(#[$about])*
        #[serde(rename_all = $case)]
        #[strum(serialize_all = $case, const_into_str)]
        $vis enum $name {
            $($(#[$of])* $value),+
        }

        $crate::closed_set::all_values!($name);

        impl $name {
            /// The spelling on the wire and on disk.
            pub const fn as_str(self) -> &'static str {
                self.into_str()
            }

            /// Parses exactly what `as_str` writes.
            pub fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    };
}

pub(crate) use {all_values, closed_set};

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::Serialize;

    fn check<T: Serialize + Debug + PartialEq + Copy>(
        all: &[T],
        spelling: fn(T) -> &'static str,
        parse: fn(&str) -> Option<T>,
    ) {
        assert!(!all.is_empty());
        for value in all {
            assert_eq!(serde_json::to_value(value).unwrap(), spelling(*value));
            assert_eq!(parse(spelling(*value)), Some(*value));
            assert_eq!(parse(&format!("{} ", spelling(*value))), None);
            assert_eq!(parse(&format!("{value:?}")), None, "only the spelling is read");
        }
    }

    macro_rules! check_all {
        ($($name:path),+ $(,)?) => {$({
            use $name as Set;
            check(&Set::ALL, Set::as_str, Set::parse);
        })+};
    }

    #[test]
    fn every_closed_set_has_one_spelling_in_json_and_in_text() {
        check_all!(
            crate::approval::RequiredProof,
            crate::blocker::BlockerCode,
            crate::capability::Capability,
            crate::compiled::CompiledWarningCode,
            crate::config::ValueOrigin,
            crate::discovery::DiscoveryWarningCode,
            crate::event::DivergenceReason,
            crate::event::EdgeKind,
            crate::event::EventKind,
            crate::event::ObservationKey,
            crate::preferences::Autonomy,
            crate::preferences::Mode,
            crate::preferences::RiskPolicy,
            crate::preferences::RunStatus,
            crate::reason::Advisory,
            crate::reason::CapabilityMissing,
            crate::reason::ContractViolation,
            crate::reason::NonAssumableChoiceKind,
            crate::reason::Unexpected,
            crate::reason::UserOnlyDependencyReason,
            crate::reply::ReplyKind,
            crate::reply::WarningCode,
            crate::resume::MatchReason,
            crate::team::Act,
            crate::team::Role,
            crate::token::TokenEncoding,
            crate::tool::ToolName,
        );
    }
}
