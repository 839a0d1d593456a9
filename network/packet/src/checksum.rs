//! The Internet checksum: the complement of a sum of 16-bit words in which carries come back in (RFC 1071).

/// A sum underway. Of bytes in several pieces, each but the last has an even number.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes, in network order; an odd one at the end counts as if a 0 followed.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        // Sums of any width fold to the same (RFC 1071, section 2 (C)), and a sum of 2^32 words of 32 bits does not overflow.
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(u32::from_be_bytes(*word));
        }
        let (halves, last) = rest.as_chunks::<2>();
        for half in halves {
            self.0 += u64::from(u16::from_be_bytes(*half));
        }
        if let [last] = last {
            self.0 += u64::from(*last) << 8;
        }
        self
    }

    /// Adds a number of 16 bits, or one of 32 as two of them.
    #[must_use]
    pub fn number(mut self, number: u32) -> Self {
        self.0 += u64::from(number);
        self
    }

    /// Adds what stands for the IP header before a transport's: addresses, protocol and length (RFC 9293, section 3.1; RFC 8200,
    /// section 8.1).
    #[must_use]
    pub fn pseudo_header(self, source: &[u8], destination: &[u8], protocol: u8, length: usize) -> Self {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.bytes(source).bytes(destination).number(protocol.into()).number(length)
    }

    /// The checksum. Over data that includes a right one it is 0.
    pub fn finish(self) -> u16 {
        let mut sum = self.0;
        while sum > u16::MAX.into() {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).unwrap_or_else(|_| unreachable!("it is folded"))
    }
}

/// The checksum of bytes.
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::default().bytes(bytes).finish()
}

/// A checksum after these 16-bit words of what it is over have become those (RFC 1624, equation 3).
#[must_use]
pub fn updated(checksum: u16, before: &[u8], after: &[u8]) -> u16 {
    let mut sum = Sum::default().number((!checksum).into()).bytes(after);
    for pair in before.chunks(2) {
        let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
        sum = sum.number((!word).into());
    }
    sum.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;

    fn any(random: &mut Random, length: usize) -> Vec<u8> {
        (0..length).map(|_| u8::try_from(random.below(256)).expect("a byte")).collect()
    }

    /// Word by word, as it is defined.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !u16::try_from(sum).expect("it is folded")
    }

    #[test]
    fn it_is_the_sum_of_words() {
        let mut random = Random::new(1);
        for length in 0..300 {
            let bytes = any(&mut random, length);
            assert_eq!(checksum(&bytes), naive(&bytes), "{bytes:?}");
        }
        assert_eq!(checksum(&[0xff; 1 << 16]), 0);
    }

    /// RFC 1071, section 3.
    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), !0xddf2);
    }

    #[test]
    fn it_is_0_over_what_includes_it() {
        let mut bytes = any(&mut Random::new(2), 60);
        bytes[10..12].fill(0);
        let sum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(checksum(&bytes), 0);
    }

    #[test]
    fn a_change_counts_as_if_all_were_summed_again() {
        let mut random = Random::new(3);
        for _ in 0..2_000 {
            // Not all 0: of those there are two sums, and no header is.
            let mut bytes = any(&mut random, 40);
            bytes[0] = 0x45;
            let before = checksum(&bytes);
            let length = 2 * usize::try_from(1 + random.below(8)).expect("few");
            let at = 2 + 2 * usize::try_from(random.below(10)).expect("few");
            let (old, new) = (bytes[at..at + length].to_vec(), any(&mut random, length));
            bytes[at..at + length].copy_from_slice(&new);
            assert_eq!(updated(before, &old, &new), checksum(&bytes));
        }
    }
}
