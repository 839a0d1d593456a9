//! Which prefixes of a field rules ask for, and how much of a value decides which of them it has (section 5.4).

use std::ops::Not;

/// Prefixes of values of up to 128 bits, which are aligned to the left.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trie {
    root: Option<Box<Node>>,
}

/// Bits that follow those of the nodes above. But for the root it has at least one; and either rules, or two children.
#[derive(Clone, Debug)]
struct Node {
    bits: u128,
    length: u8,
    /// How many rules ask for the prefix that ends here.
    rules: usize,
    children: [Option<Box<Self>>; 2],
}

/// What a value has of the prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// So many of its first bits decide that.
    pub(crate) bits: u8,
    /// The lengths of those that it has: bit n - 1 for n.
    lengths: u128,
}

impl Found {
    /// Whether it has one of this length.
    pub(crate) fn has(&self, length: u8) -> bool {
        self.lengths >> (length - 1) & 1 == 1
    }
}

/// The first bits of a value; the others are 0.
fn first(value: u128, length: u8) -> u128 {
    u128::MAX.checked_shr(length.into()).map_or(value, |rest| value & rest.not())
}

fn without_first(value: u128, length: u8) -> u128 {
    value.checked_shl(length.into()).unwrap_or(0)
}

/// The first bit, as the number of a child.
fn branch(value: u128) -> usize {
    usize::from(value >> 127 == 1)
}

impl Node {
    fn leaf(value: u128, length: u8) -> Box<Self> {
        Box::new(Self { bits: first(value, length), length, rules: 1, children: [None, None] })
    }

    /// How many of the first bits of a value, of which `length` count, are the node's.
    fn common(&self, value: u128, length: u8) -> u8 {
        let same = u8::try_from((self.bits ^ value).leading_zeros()).unwrap_or(u8::MAX);
        same.min(self.length).min(length)
    }

    /// Has the node end after so many of its bits, and a child go on.
    fn split(&mut self, length: u8) {
        let rest = without_first(self.bits, length);
        let below = Self {
            bits: rest,
            length: self.length - length,
            rules: std::mem::take(&mut self.rules),
            children: std::mem::take(&mut self.children),
        };
        self.children[branch(rest)] = Some(Box::new(below));
        (self.bits, self.length) = (first(self.bits, length), length);
    }
}

impl Trie {
    /// One more rule asks for the first `length` bits of `value`, of which there is at least one.
    pub(crate) fn insert(&mut self, value: u128, length: u8) {
        let (mut value, mut length) = (value, length);
        let mut place = &mut self.root;
        while let Some(node) = place {
            let common = node.common(value, length);
            if common < node.length {
                node.split(common);
            }
            (value, length) = (without_first(value, common), length - common);
            if length == 0 {
                node.rules += 1;
                return;
            }
            place = &mut node.children[branch(value)];
        }
        *place = Some(Node::leaf(value, length));
    }

    /// One of the rules that asked for the first `length` bits of `value` is gone.
    pub(crate) fn remove(&mut self, value: u128, length: u8) {
        remove(&mut self.root, value, length);
    }

    /// What a value of so many bits has of the prefixes (figure 3).
    pub(crate) fn find(&self, value: u128, width: u8) -> Found {
        let mut found = Found { bits: 0, lengths: 0 };
        let mut rest = value;
        let mut next = &self.root;
        let mut last = None;
        while let Some(node) = next {
            let common = node.common(rest, width - found.bits);
            found.bits += common;
            if common < node.length {
                // With the bit that differs.
                found.bits += 1;
                return found;
            }
            if node.rules > 0 {
                found.lengths |= 1 << (found.bits - 1);
            }
            if found.bits >= width {
                return found;
            }
            rest = without_first(rest, common);
            last = Some(node);
            next = &node.children[branch(rest)];
        }
        if last.is_some_and(|node| node.children.iter().any(Option::is_some)) {
            found.bits += 1;
        }
        found
    }
}

fn remove(place: &mut Option<Box<Node>>, value: u128, length: u8) {
    let Some(node) = place else { return };
    if node.common(value, length) < node.length {
        return;
    }
    let (rest, left) = (without_first(value, node.length), length - node.length);
    if left > 0 {
        remove(&mut node.children[branch(rest)], rest, left);
    } else {
        node.rules -= 1;
    }
    if node.rules > 0 {
        return;
    }
    match node.children.iter().flatten().count() {
        0 => *place = None,
        1 => {
            let only = node.children.iter_mut().find_map(Option::take);
            // The node was only there for this one.
            *place = only.map(|mut child| {
                child.bits = node.bits | child.bits >> node.length;
                child.length += node.length;
                child
            });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;

    fn prefix(octets: &[u8]) -> (u128, u8) {
        let mut bytes = [0; 16];
        bytes[..octets.len()].copy_from_slice(octets);
        (u128::from_be_bytes(bytes), u8::try_from(8 * octets.len()).expect("few"))
    }

    fn address(octets: [u8; 4]) -> u128 {
        prefix(&octets).0
    }

    /// Section 5.4's own: 20/8, 10.1/16, 10.2/16, 10.1.3/24, 10.1.4.5/32. In bits, not octets.
    #[test]
    fn the_papers_example() {
        let mut trie = Trie::default();
        let prefixes: [&[u8]; 5] = [&[20], &[10, 1], &[10, 2], &[10, 1, 3], &[10, 1, 4, 5]];
        for octets in prefixes {
            let (value, length) = prefix(octets);
            trie.insert(value, length);
        }
        let found = trie.find(address([10, 1, 3, 5]), 32);
        assert_eq!((found.bits, found.lengths), (24, 1 << 15 | 1 << 23));
        let found = trie.find(address([20, 0, 5, 1]), 32);
        assert_eq!((found.bits, found.lengths), (8, 1 << 7));
        // 10.3 shares with 10.2 all but the last bit.
        let found = trie.find(address([10, 3, 5, 1]), 32);
        assert_eq!((found.bits, found.lengths), (16, 0));
        let found = trie.find(address([10, 1, 6, 1]), 32);
        assert!(found.has(16) && !found.has(24) && !found.has(32));
        // 30 is 0001_1110, 20 is 0001_0100, and 10 is 0000_1010.
        assert_eq!(trie.find(address([30, 10, 5, 2]), 32), Found { bits: 5, lengths: 0 });
    }

    /// Beside a list of prefixes: the lengths are right, and whoever agrees in the bits has the same.
    #[test]
    fn it_is_a_set_of_prefixes() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let (mut trie, mut prefixes) = (Trie::default(), Vec::new());
            let any = |random: &mut Random| {
                u128::from(random.below(64)) << 122 | u128::from(random.below(4)) << 120
            };
            for _ in 0..1 + random.below(60) {
                if random.one_in(3) && !prefixes.is_empty() {
                    let at = usize::try_from(random.below(prefixes.len() as u64)).expect("few");
                    let (value, length) = prefixes.swap_remove(at);
                    trie.remove(value, length);
                } else {
                    let length = u8::try_from(1 + random.below(8)).expect("few");
                    let prefix = (first(any(&mut random), length), length);
                    trie.insert(prefix.0, length);
                    prefixes.push(prefix);
                }
                let value = any(&mut random);
                let lengths = |value: u128| {
                    let has = |(prefix, length): &&(u128, u8)| first(value, *length) == *prefix;
                    prefixes.iter().filter(has).fold(0, |lengths, (_, length)| lengths | 1 << (length - 1))
                };
                let found = trie.find(value, 8 + 1);
                assert_eq!(found.lengths, lengths(value), "seed {seed}");
                let other = first(value, found.bits) | any(&mut random) & !first(u128::MAX, found.bits);
                assert_eq!(lengths(other), found.lengths, "seed {seed}");
            }
            for (value, length) in prefixes {
                trie.remove(value, length);
            }
            assert!(trie.root.is_none());
        }
    }
}
