//! Objects of the format: the macro that declares one.

use super::Shape;

#[derive(Debug)]
pub(crate) struct ObjectShape {
    /// The object in a sentence, as in "a step".
    pub(crate) what: &'static str,
    /// What the object is for.
    about: &'static str,
    pub(crate) fields: &'static [FieldShape],
}

impl ObjectShape {
    pub(crate) const fn new(what: &'static str, about: &'static str, fields: &'static [FieldShape]) -> Self {
        Self { what, about, fields }
    }

    pub(crate) fn about(&self) -> &'static str {
        self.about.trim_start()
    }
}

#[derive(Debug)]
pub(crate) struct FieldShape {
    pub(crate) name: &'static str,
    pub(crate) shape: fn() -> Shape,
    pub(crate) required: bool,
    /// The value of an absent field, if worth mentioning.
    pub(crate) default: Option<&'static str>,
    doc: &'static str,
}

impl FieldShape {
    pub(crate) const fn new(name: &'static str, shape: fn() -> Shape, doc: &'static str) -> Self {
        Self { name, shape, required: false, default: None, doc }
    }

    pub(crate) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    pub(crate) const fn default(mut self, shown: &'static str) -> Self {
        self.default = Some(shown);
        self
    }

    pub(crate) fn doc(&self) -> &'static str {
        self.doc.trim_start()
    }
}

/// Declares an object: `/// doc`, the Rust name, the JSON name, the type, and how an absent field is treated.
///
/// - `required`: its absence is reported, and the object cannot be used without it.
/// - `optional` or `optional("shown default")`: an `Option`.
/// - `default` or `default(value, "shown default")`: the value itself.
///
/// `keep struct` can be used even if required fields are missing: they get their type's default. It also
/// records its path as `at`. `fields of` declares the fields of a struct that exists already.
macro_rules! authored {
    (
        $(#[doc = $about:literal])+
        struct $name:ident $what:literal { $($fields:tt)* }
    ) => {
        $crate::compile::format::authored!(@struct $name [Clone, Debug, PartialEq, Eq] [] $($fields)*);
        $crate::compile::format::authored!(@decode strict $name $what [$($about)+] [] $($fields)*);
    };
    (
        $(#[doc = $about:literal])+
        keep struct $name:ident $what:literal { $($fields:tt)* }
    ) => {
        $crate::compile::format::authored!(@struct $name [Clone, Debug, Default, PartialEq, Eq] [
            pub(crate) at: $crate::compile::path::DocPath,
        ] $($fields)*);
        $crate::compile::format::authored!(@decode keep $name $what [$($about)+] [at] $($fields)*);
    };
    (
        $(#[doc = $about:literal])+
        fields of $name:ident $what:literal { $($fields:tt)* }
    ) => {
        $crate::compile::format::authored!(@decode strict $name $what [$($about)+] [] $($fields)*);
    };

    (@struct $name:ident [$($derive:ident),*] [$($extra:tt)*]
        $($(#[doc = $doc:literal])+ $field:ident $json:literal: $ty:ty, $kind:ident $(($($arg:tt)*))?;)+
    ) => {
        #[derive($($derive),*)]
        pub(crate) struct $name {
            $($extra)*
            $(
                $(#[doc = $doc])+
                pub(crate) $field: $crate::compile::format::authored!(@type $kind $ty),
            )+
        }
    };
    (@type optional $ty:ty) => { Option<<$ty as $crate::compile::format::Authored>::Value> };
    (@type $kind:ident $ty:ty) => { <$ty as $crate::compile::format::Authored>::Value };

    (@decode $mode:ident $name:ident $what:literal [$($about:literal)+] [$($at:ident)?]
        $($(#[doc = $doc:literal])+ $field:ident $json:literal: $ty:ty, $kind:ident $(($($arg:tt)*))?;)+
    ) => {
        const _: () = {
            use $crate::compile::format::{Authored, FieldShape, ObjectShape, FormatReader, Shape, authored};

            static OBJECT: ObjectShape = ObjectShape::new($what, concat!($($about),+), &[$(
                authored!(@field $kind $(($($arg)*))? FieldShape::new(
                    $json, <$ty as Authored>::shape, concat!($($doc),+),
                ))
            ),+]);

            impl Authored for $name {
                type Value = Self;

                fn shape() -> Shape {
                    Shape::Object(&OBJECT)
                }

                fn decode(
                    node: &$crate::compile::document::DocumentNode,
                    reader: &mut FormatReader<'_>,
                ) -> Option<Self> {
                    if !reader.object(node, &OBJECT) {
                        return None;
                    }
                    // All fields are read before one of them can fail, so that every problem is reported.
                    $(let $field = reader.field::<$ty>(node, $json);)+
                    Some(Self {
                        $($at: reader.at(),)?
                        $($field: authored!(@value $mode $kind $(($($arg)*))? $field $ty),)+
                    })
                }
            }
        };
    };

    (@field required $field:expr) => { $field.required() };
    (@field optional $field:expr) => { $field };
    (@field optional($shown:literal) $field:expr) => { $field.default($shown) };
    (@field default $field:expr) => { $field };
    (@field default($value:expr, $shown:literal) $field:expr) => { $field.default($shown) };

    (@value strict required $field:ident $ty:ty) => { $field.or_else(<$ty as Authored>::substitute)? };
    (@value keep required $field:ident $ty:ty) => { $field.unwrap_or_default() };
    (@value $mode:ident optional $(($shown:literal))? $field:ident $ty:ty) => { $field };
    (@value $mode:ident default $field:ident $ty:ty) => { $field.unwrap_or_default() };
    (@value $mode:ident default($value:expr, $shown:literal) $field:ident $ty:ty) => {
        $field.unwrap_or($value)
    };
}
pub(crate) use authored;

/// Declares a value with two spellings: the first is used for nodes of its JSON type.
macro_rules! either {
    ($name:ident -> $value:ty { $first:ty => $from_first:expr, $second:ty => $from_second:expr $(,)? }) => {
        impl $crate::compile::format::Authored for $name {
            type Value = $value;

            fn shape() -> $crate::compile::format::Shape {
                $crate::compile::format::Shape::AnyOf(vec![<$first>::shape(), <$second>::shape()])
            }

            fn decode(
                node: &$crate::compile::document::DocumentNode,
                reader: &mut $crate::compile::format::FormatReader<'_>,
            ) -> Option<$value> {
                if <$first>::shape().takes(node) {
                    <$first>::decode(node, reader).map($from_first)
                } else if reader.has_type::<Self>(node) {
                    <$second>::decode(node, reader).map($from_second)
                } else {
                    None
                }
            }
        }
    };
}
pub(crate) use either;
