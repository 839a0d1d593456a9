//! The direct-addressing model (section 1.1): rounds in which machines push to, and pull from, those whose addresses they know.

use crate::Marks;
use fulmar_node::NodeId;

/// What a message says, counted in addresses.
pub trait Content {
    /// Bits that are no address: which kind of message it is, and flags.
    const CONTROL_BITS: u64;

    /// How many addresses it says, as often as it says them.
    fn addresses(&self) -> u64;

    /// Hands out each of them.
    fn each_address(&self, hand: &mut dyn FnMut(NodeId));
}

/// A machine as the model sees it. It is told the round, and what was said to it; it answers with calls.
///
/// In a round first all machines [`act`](Machine::act), then those that are pulled [`answer`](Machine::answer), then all
/// [`hear`](Machine::hear): so an answer holds nothing that was said in the same round.
pub trait Machine {
    /// What machines say.
    type Message: Content;

    /// Whom it calls in this round.
    fn act(&mut self, round: &mut Round<'_, Self::Message>);

    /// What it says to whoever pulls from it; it does not learn who that is.
    fn answer(&self) -> Self::Message;

    /// What was pushed to it, or answered; who pushed is known only if the message says so.
    fn hear(&mut self, message: Self::Message);

    /// How many machines it knows, itself included.
    fn known(&self) -> usize;
}

/// One operation of one machine; each counts as one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call<M> {
    /// Says something to this machine.
    Push(NodeId, M),
    /// Asks this machine for what it has to say.
    Pull(NodeId),
}

impl<M> Call<M> {
    /// Whom it is to.
    pub const fn to(&self) -> NodeId {
        match self {
            Self::Push(to, _) | Self::Pull(to) => *to,
        }
    }
}

/// What a machine has in a round.
pub struct Round<'a, M> {
    /// Counted from 0.
    pub number: u32,
    /// A set for the time of one [`Machine::act`].
    pub marks: &'a mut Marks,
    calls: &'a mut Vec<Call<M>>,
}

impl<'a, M> Round<'a, M> {
    /// A round whose calls are appended to `calls`.
    pub const fn new(number: u32, marks: &'a mut Marks, calls: &'a mut Vec<Call<M>>) -> Self {
        Self { number, marks, calls }
    }

    /// Says something to a machine.
    pub fn push(&mut self, to: NodeId, message: M) {
        self.calls.push(Call::Push(to, message));
    }

    /// Asks a machine for what it has to say; it is heard before the next round.
    pub fn pull(&mut self, from: NodeId) {
        self.calls.push(Call::Pull(from));
    }
}

/// The place of a machine in arrays of all.
pub(crate) const fn place(node: NodeId) -> usize {
    node.0 as usize
}

/// The machine at a place in arrays of all.
pub(crate) fn node(place: usize) -> NodeId {
    NodeId(u32::try_from(place).expect("there are fewer than 2³² machines"))
}
