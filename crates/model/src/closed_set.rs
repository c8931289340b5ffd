//! The plain methods of closed sets, over what strum derives: every value, its spelling, and the value of a
//! spelling.
//!
//! An enum derives `EnumCount`, `VariantArray`, `IntoStaticStr` and `EnumString` with
//! `#[strum(serialize_all = "...", const_into_str)]`, in the case that serde uses. Nothing lists the variants a
//! second time, and a test below compares both spellings of every value.

/// `ALL`, in the order of declaration.
macro_rules! all_values {
    ($($name:ident),+ $(,)?) => {$(
        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: [Self; <Self as strum::EnumCount>::COUNT] =
                match <Self as strum::VariantArray>::VARIANTS.first_chunk() {
                    Some(all) => *all,
                    // strum counts what it lists; a difference would not compile.
                    None => unreachable!(),
                };
        }
    )+};
}

/// `ALL`, `as_str` and `parse`.
macro_rules! spelled {
    ($($name:ident),+ $(,)?) => {
        $crate::closed_set::all_values!($($name),+);
        $(impl $name {
            /// As it is spelled on the wire and on disk.
            pub const fn as_str(self) -> &'static str {
                self.into_str()
            }

            /// Reads exactly what `as_str` writes.
            pub fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        })+
    };
}

pub(crate) use {all_values, spelled};

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
            crate::blocker::BlockerCode,
            crate::config::Origin,
            crate::preferences::Autonomy,
            crate::preferences::Mode,
            crate::preferences::RiskPolicy,
            crate::preferences::RunStatus,
            crate::reply::ReplyKind,
            crate::resume::MatchReason,
            crate::token::TokenEncoding,
            crate::tool::ToolName,
        );
    }
}
