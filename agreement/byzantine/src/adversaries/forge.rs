//! Messages that can be made to lie.

use crate::baselines::{Level, Sequences, Vote};
use crate::{Value, Wire};
use fulmar_node::Random;

/// Whose message it is, and of when.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    /// How many processes there are.
    pub n: usize,
    /// Its sender.
    pub from: u8,
    /// The round in which it is sent.
    pub round: u32,
}

/// What a message says of one node of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// Which of the protocols that go on at the same time; 0 is that on the value.
    pub instance: usize,
    /// The node: who said that who said …; empty for the sender's own value, and where there are no trees.
    pub node: &'a [u8],
}

/// A message whose claims can be changed.
pub trait Forge<V>: Wire {
    /// Asks `lie` of each claim what to say instead: `None` is nothing, for this node alone if the message can say that, else it stays as
    /// it is.
    fn forge(&mut self, origin: Origin, lie: &mut dyn FnMut(Claim<'_>, V) -> Option<V>);

    /// Says of so many processes of these, that lie or do not, that they are known to lie; nothing where messages do not say that.
    fn accuse(&mut self, _accused: crate::Processes) {}
}

impl<V: Value> Forge<V> for Vote<V> {
    fn forge(&mut self, _origin: Origin, lie: &mut dyn FnMut(Claim<'_>, V) -> Option<V>) {
        self.0 = self.0.and_then(|value| lie(Claim { instance: 0, node: &[] }, value));
    }
}

impl<V: Value> Forge<V> for Level<V> {
    fn forge(&mut self, origin: Origin, lie: &mut dyn FnMut(Claim<'_>, V) -> Option<V>) {
        let mut nodes = Sequences::new(origin.n, origin.round as usize - 1);
        let mut values = self.0.iter_mut();
        while let Some(node) = nodes.current() {
            if !node.contains(&origin.from)
                && let Some(value) = values.next()
                && let Some(other) = lie(Claim { instance: 0, node }, *value)
            {
                *value = other;
            }
            nodes.advance();
        }
    }
}

/// Changes one to four of a message's bytes; what is no message any more is not sent.
pub(super) fn garble<M: Wire>(message: &M, random: &mut Random) -> Option<M> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    for _ in 0..=random.below(4) {
        let place = random.index(bytes.len());
        match random.below(8) {
            0 => drop(bytes.drain(..place)),
            1 => bytes.truncate(place),
            2 => bytes.insert(place, random.below(4).to_le_bytes()[0]),
            _ => {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte = if random.one_in(2) { random.next() } else { random.below(4) }.to_le_bytes()[0];
                }
            }
        }
    }
    M::decode(&mut bytes.as_slice())
}
