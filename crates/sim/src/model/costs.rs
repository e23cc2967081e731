//! The figures of an interface in a machine file: each is declared once, with its meaning and key.

/// Declares a struct of figures and the function that reads it from sections of a machine file. A
/// figure is `field: section.unit("key")`, where the unit is `time`, `rate`, `bytes` or `count`. A
/// field that is no single figure follows a semicolon, with its type and an expression to read it.
///
/// ```text
/// costs! {
///     /// The program's side.
///     pub struct Host from (section) {
///         /// Copying shared data between its place and a buffer.
///         copy: section.rate("copy"),
///     }
/// }
/// ```
macro_rules! costs {
    (
        $(#[$of_all:meta])*
        pub struct $name:ident from ($($section:ident),+) {
            $($(#[$meaning:meta])* $field:ident: $from:ident.$unit:ident($key:literal)),+ $(,)?
            $(; $($(#[$other_meaning:meta])* $other:ident: $type:ty = $read:expr),+ $(,)?)?
        }
    ) => {
        $(#[$of_all])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$meaning])* pub $field: $crate::model::costs::costs!(@type $unit),)+
            $($($(#[$other_meaning])* pub $other: $type,)+)?
        }

        impl $name {
            /// Reads all of them.
            pub(crate) fn read(
                $($section: &$crate::machine::Section<'_>),+
            ) -> Result<$name, $crate::machine::MachineError> {
                Ok($name {
                    $($field: $from.$unit($key)?,)+
                    $($($other: $read,)+)?
                })
            }
        }
    };
    (@type time) => { hikyaku_nic::time::Time };
    (@type rate) => { $crate::network::Rate };
    (@type bytes) => { u64 };
    (@type count) => { u64 };
}

pub(crate) use costs;
