//! Initialization (Algorithm 2): one step of breaking symmetry, by who is asked by whom.

use fulmar_node::{NodeId, Random};

/// What a leader has been asked and offered in one iteration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Courtship {
    /// Leaders that want to merge.
    pub(super) requests: Vec<NodeId>,
    /// Who has offered to take it in, and whether surely: at most one, since it asked one.
    pub(super) offer: Option<(NodeId, bool)>,
    /// Whether it has made offers itself.
    is_joinee: bool,
}

impl Courtship {
    /// Whom to offer to take them in: all that asked, if they are several, or for tails of a coin; and whether surely. Who has no
    /// requests is a joiner.
    pub(super) fn offers(&mut self, me: NodeId, random: &mut Random) -> Option<(&[NodeId], bool)> {
        self.requests.retain(|request| *request != me);
        let is_sure = self.requests.len() > 1;
        self.is_joinee = is_sure || (self.requests.len() == 1 && random.one_in(2));
        self.is_joinee.then_some((self.requests.as_slice(), is_sure))
    }

    /// Whom to join. A joinee stays, as it is about to be joined; unless the only one that may join it is the one that made it an
    /// offer, and so will not: then the less sure of the two joins, or the one of the smaller address.
    pub(super) fn accepted(&self, me: NodeId) -> Option<NodeId> {
        let (other, is_sure) = self.offer?;
        let pair = self.requests == [other] && (is_sure, other) > (false, me);
        (!self.is_joinee || pair).then_some(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn courtship(requests: &[u32], offer: Option<(u32, bool)>) -> Courtship {
        let requests = requests.iter().copied().map(NodeId).collect();
        Courtship { requests, offer: offer.map(|(from, is_sure)| (NodeId(from), is_sure)), is_joinee: false }
    }

    /// Line 3: more than one request makes a joinee, which does not join whoever offers.
    #[test]
    fn who_is_asked_twice_takes_all_in_and_stays() {
        let mut asked = courtship(&[2, 3], Some((9, true)));
        let offers = asked.offers(NodeId(1), &mut Random::new(0)).map(|(to, is_sure)| (to.to_vec(), is_sure));
        assert_eq!(offers, Some((vec![NodeId(2), NodeId(3)], true)));
        assert_eq!(asked.accepted(NodeId(1)), None);
    }

    /// Line 8: who is asked once takes that one in, or joins whom it asked.
    #[test]
    fn a_coin_decides_for_who_is_asked_once() {
        let mut sides = [0, 0];
        for seed in 0..100 {
            let mut asked = courtship(&[2], Some((9, false)));
            let is_joinee = asked.offers(NodeId(1), &mut Random::new(seed)).is_some();
            assert_eq!(asked.accepted(NodeId(1)).is_some(), !is_joinee);
            sides[usize::from(is_joinee)] += 1;
        }
        assert!(sides.iter().all(|side| (30..70).contains(side)), "{sides:?}");
    }

    /// As printed, each of two that ask each other would accept the other.
    #[test]
    fn of_two_that_ask_each_other_one_joins() {
        for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
            let mut low = courtship(&[2], second.then_some((2, false)));
            let mut high = courtship(&[1], first.then_some((1, false)));
            (low.is_joinee, high.is_joinee) = (first, second);
            let joins = [low.accepted(NodeId(1)).is_some(), high.accepted(NodeId(2)).is_some()];
            // Of two joiners none takes the other in.
            assert_eq!(joins.iter().filter(|joins| **joins).count(), usize::from(first || second));
        }
    }
}
