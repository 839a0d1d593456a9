//! How two sides agree on a version (sections 6.3.1 and 7.5.1).

use crate::property::{get_property, put_property};
use crate::wire::{Reader, Result, Wire};
use crate::{VERSION, Version};

/// The first message of each side. That it is sent with some version says that its sender speaks that one and, if it says no more,
/// all before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The version of the message's header.
    pub version: u8,
    /// The versions that its sender speaks, 32 in each word, from the lowest bit of the first.
    pub bitmap: Option<Vec<u32>>,
}

/// The only element of hellos.
const BITMAP: u16 = 1;

impl Hello {
    /// Of one that speaks these, or nothing.
    pub fn of(versions: &[Version]) -> Self {
        let numbers = versions.iter().map(|version| version.number());
        let word = numbers.clone().fold(0, |word, number| word | 1 << number);
        Self { version: numbers.max().unwrap_or(VERSION), bitmap: Some(vec![word]) }
    }

    /// Of one that speaks OpenFlow 1.3 alone.
    pub fn new() -> Self {
        Self::of(&[Version::V13])
    }

    fn speaks(&self, version: u8) -> bool {
        let Some(bitmap) = &self.bitmap else { return version <= self.version };
        bitmap.get(usize::from(version / 32)).is_some_and(|word| word >> (version % 32) & 1 != 0)
    }
}

/// Without the header, which has the version.
impl Wire for Hello {
    fn put(&self, out: &mut Vec<u8>) {
        if let Some(bitmap) = &self.bitmap {
            put_property(out, BITMAP, |out| bitmap.put(out));
        }
    }

    /// Elements that are not known are passed over, so that there can be others one day.
    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut hello = Self { version: VERSION, bitmap: None };
        while !input.is_empty() {
            let (kind, mut content) = get_property(input)?;
            if kind == BITMAP {
                hello.bitmap = Some(Vec::get(&mut content)?);
            }
        }
        Ok(hello)
    }
}

impl Default for Hello {
    fn default() -> Self {
        Self::new()
    }
}

/// The highest version that both sides speak; nothing, if there is none, so that they cannot go on.
///
/// If both have told which they speak, that is the highest they have in common. Otherwise it is the lower one of those of their
/// messages, which the other side may turn out not to speak.
pub fn negotiate(ours: &Hello, theirs: &Hello) -> Option<u8> {
    let both = |version: &u8| ours.speaks(*version) && theirs.speaks(*version);
    if ours.bitmap.is_some() && theirs.bitmap.is_some() {
        (1..=u8::MAX).rev().find(both)
    } else {
        Some(ours.version.min(theirs.version)).filter(|version| *version > 0).filter(both)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_in_common_is_chosen() {
        let tells = |versions: &[u8]| Hello {
            version: *versions.iter().max().expect("some"),
            bitmap: Some(vec![versions.iter().fold(0, |bits, version| bits | 1 << version)]),
        };
        let silent = |version| Hello { version, bitmap: None };
        assert_eq!(negotiate(&Hello::new(), &tells(&[1, 4])), Some(4));
        assert_eq!(negotiate(&Hello::new(), &tells(&[1, 4, 6])), Some(4));
        assert_eq!(negotiate(&Hello::new(), &tells(&[1, 5])), None);
        assert_eq!(negotiate(&Hello::new(), &silent(4)), Some(4));
        assert_eq!(negotiate(&Hello::new(), &silent(6)), Some(4));
        assert_eq!(negotiate(&Hello::new(), &silent(1)), None);
        assert_eq!(negotiate(&tells(&[1, 4]), &silent(1)), Some(1));
        assert_eq!(negotiate(&silent(3), &silent(2)), Some(2));
    }
}
