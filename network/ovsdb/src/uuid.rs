//! Names of rows.

use fulmar_node::Random;
use std::fmt;
use std::str::FromStr;

/// A universally unique identifier (RFC 4122).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(u128);

/// Text that is no UUID.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no UUID: expected hexadecimal digits, 8-4-4-4-12")]
pub struct UuidError(String);

impl Uuid {
    /// The default of columns that hold one (RFC 7047, section 5.2.1).
    pub const ZERO: Self = Self(0);

    /// One by chance: version 4.
    #[must_use]
    pub fn random(chance: &mut Random) -> Self {
        let bits = (u128::from(chance.next()) << 64) | u128::from(chance.next());
        let version = 0xf << 76;
        let variant = 0x3 << 62;
        Self(bits & !version & !variant | 4 << 76 | 2 << 62)
    }
}

impl From<Uuid> for u128 {
    fn from(uuid: Uuid) -> Self {
        uuid.0
    }
}

impl FromStr for Uuid {
    type Err = UuidError;

    fn from_str(text: &str) -> Result<Self, UuidError> {
        let wrong = || UuidError(text.into());
        let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        if text.len() != 36 {
            return Err(wrong());
        }
        let mut bits = 0;
        for (at, byte) in text.bytes().enumerate() {
            match char::from(byte).to_digit(16) {
                Some(digit) if !is_dash(at) => bits = bits << 4 | u128::from(digit),
                None if is_dash(at) && byte == b'-' => {}
                _ => return Err(wrong()),
            }
        }
        Ok(Self(bits))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |from: u32, digits: u32| (self.0 >> from) & ((1 << (4 * digits)) - 1);
        let (a, b, c, d, e) = (part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12));
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_it_was_written() {
        let mut chance = Random::new(1);
        for _ in 0..100 {
            let uuid = Uuid::random(&mut chance);
            let text = uuid.to_string();
            assert_eq!(text.parse(), Ok(uuid));
            assert_eq!((&text[14..15], text[19..20].contains(['8', '9', 'a', 'b'])), ("4", true), "{text}");
        }
        assert_eq!(Uuid::ZERO.to_string(), "00000000-0000-0000-0000-000000000000");
    }

    #[test]
    fn other_text_is_refused() {
        let wrong = [
            "",
            "550e8400e29b41d4a716446655440000",
            "550e8400-e29b-41d4-a716-44665544000g",
            "550e8400-e29b-41d4-a716-4466554400000",
            "550e84000e29b-41d4-a716-446655440000",
            "550e8400-e29b-41d4-a716-4466554400-0",
            "é50e8400-e29b-41d4-a716-44665544000",
        ];
        for text in wrong {
            assert_eq!(text.parse::<Uuid>(), Err(UuidError(text.into())), "{text}");
        }
    }
}
