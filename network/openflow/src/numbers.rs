//! Numbers that have names, each list written down once: enumerations, flags, and structures that are told apart by a number.

/// An enumeration. Of numbers that are not in it, the sender is told so.
macro_rules! numbers {
    (
        $(#[$meta:meta])*
        enum $name:ident: $type:ty, else $error:expr, {
            $($(#[$doc:meta])* $variant:ident = $number:literal,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$doc])* $variant = $number,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant),*];
        }

        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                let number: $type = match self { $(Self::$variant => $number,)* };
                number.put(out);
            }

            fn get(input: &mut $crate::wire::Reader<'_>) -> $crate::wire::Result<Self> {
                match <$type>::get(input)? {
                    $($number => Ok(Self::$variant),)*
                    _ => Err($error.into()),
                }
            }
        }

        #[cfg(test)]
        impl $crate::tests::Any for $name {
            fn any(random: &mut fulmar_node::Random) -> Self {
                *random.choose(Self::ALL).expect("there are some")
            }
        }
    };
}
pub(crate) use numbers;

/// A set of bits. Those without a name are left as they are, unless an error is named for them.
macro_rules! flags {
    (
        $(#[$meta:meta])*
        struct $name:ident: $type:ty $(, else $error:expr)?, {
            $($(#[$doc:meta])* $flag:ident = $number:expr,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $type);

        impl $name {
            /// None of them.
            pub const NONE: Self = Self(0);
            /// All that have a name.
            pub const ALL: Self = Self(0 $(| $number)*);
            $($(#[$doc])* pub const $flag: Self = Self($number);)*

            /// Whether all of `other` are among them.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl std::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl $crate::wire::Wire for $name {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }

            fn get(input: &mut $crate::wire::Reader<'_>) -> $crate::wire::Result<Self> {
                let bits = <$type>::get(input)?;
                $(
                    if bits & !Self::ALL.0 != 0 {
                        return Err($error.into());
                    }
                )?
                Ok(Self(bits))
            }
        }

        #[cfg(test)]
        impl $crate::tests::Any for $name {
            fn any(random: &mut fulmar_node::Random) -> Self {
                let flags = [$(Self::$flag),*];
                flags.into_iter().filter(|_| random.one_in(2)).fold(Self::NONE, |all, flag| all | flag)
            }
        }
    };
}
pub(crate) use flags;

/// An enumeration of structures, which a number that stands elsewhere tells apart.
macro_rules! choice {
    (
        $(#[$meta:meta])*
        enum $name:ident: $type:ty, else $error:expr, {
            $($(#[$doc:meta])* $variant:ident $(($content:ty))? = $number:expr,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$doc])* $variant $(($content))?,)*
        }

        impl $name {
            pub(crate) const fn number(&self) -> $type {
                match self {
                    $(Self::$variant { .. } => $number,)*
                }
            }

            pub(crate) fn put_content(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($crate::numbers::bound!($content, content)))? => {
                        $(<$content as $crate::wire::Wire>::put(content, out);)?
                    })*
                }
                let _ = out;
            }

            pub(crate) fn get_content(
                number: $type,
                input: &mut $crate::wire::Reader<'_>,
            ) -> $crate::wire::Result<Self> {
                $(
                    if number == $number {
                        return Ok(Self::$variant $((<$content as $crate::wire::Wire>::get(input)?))?);
                    }
                )*
                let _ = input;
                Err($error.into())
            }
        }

        #[cfg(test)]
        impl $crate::tests::Any for $name {
            fn any(random: &mut fulmar_node::Random) -> Self {
                let makers: &[fn(&mut fulmar_node::Random) -> Self] = &[
                    $(|_random| Self::$variant $((<$content as $crate::tests::Any>::any(_random)))?,)*
                ];
                random.choose(makers).expect("there are some")(random)
            }
        }
    };
}
pub(crate) use choice;

/// The name, if there is something to be named.
macro_rules! bound {
    ($content:ty, $name:ident) => {
        $name
    };
}
pub(crate) use bound;
