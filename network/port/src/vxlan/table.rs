//! By which tunnel a datagram came.

use super::arrivals::Inbox;
use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Which datagrams are a tunnel's: what is not said may be anything. Of several tunnels the one counts that says a network, then one that
/// says who sent it, then one that says to which address, as in Open vSwitch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The number of the network.
    pub network: Option<u32>,
    /// Who sends.
    pub remote: Option<Ipv4Addr>,
    /// To which of the host's addresses.
    pub local: Option<Ipv4Addr>,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn or_any<T: fmt::Display>(told: Option<T>) -> String {
            told.map_or_else(|| "any".to_owned(), |told| told.to_string())
        }
        let Self { network, remote, local } = self;
        write!(f, "key {}, remote_ip {}, local_ip {}", or_any(*network), or_any(*remote), or_any(*local))
    }
}

/// Whose a datagram is.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) port: u32,
    pub(super) inbox: Arc<Inbox>,
}

/// All claims: no two are the same.
#[derive(Debug, Default)]
pub(super) struct Table(HashMap<Claim, Owner>);

impl Table {
    /// Says whether nobody else has made the same claim; otherwise nothing changes.
    pub(super) fn admit(&mut self, claim: Claim, owner: Owner) -> bool {
        let is_free = !self.0.contains_key(&claim);
        if is_free {
            self.0.insert(claim, owner);
        }
        is_free
    }

    pub(super) fn dismiss(&mut self, port: u32, inbox: &Arc<Inbox>) {
        self.0.retain(|_, owner| owner.port != port || !Arc::ptr_eq(&owner.inbox, inbox));
    }

    pub(super) fn dismiss_all(&mut self, inbox: &Arc<Inbox>) {
        self.0.retain(|_, owner| !Arc::ptr_eq(&owner.inbox, inbox));
    }

    /// Of the claims that are true, the most specific one's.
    pub(super) fn find(&self, network: u32, remote: Ipv4Addr, local: Ipv4Addr) -> Option<&Owner> {
        (0..8u8).find_map(|without| {
            let claim = Claim {
                network: (without & 4 == 0).then_some(network),
                remote: (without & 2 == 0).then_some(remote),
                local: (without & 1 == 0).then_some(local),
            };
            self.0.get(&claim)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const THEM: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn claim(bits: u32) -> Claim {
        Claim {
            network: (bits & 4 != 0).then_some(42),
            remote: (bits & 2 != 0).then_some(THEM),
            local: (bits & 1 != 0).then_some(US),
        }
    }

    /// Of any set of claims, each of which is true, the one that says the most wins, a network before all else.
    #[test]
    fn the_most_specific_claim_counts() {
        let inbox = Arc::new(Inbox::new().expect("a signal"));
        for set in 0..256u32 {
            let mut table = Table::default();
            let chosen = || (0..8).filter(|bits| set >> bits & 1 != 0);
            for bits in chosen() {
                assert!(table.admit(claim(bits), Owner { port: bits, inbox: inbox.clone() }));
            }
            assert_eq!(table.find(42, THEM, US).map(|owner| owner.port), chosen().max());
            let other = table.find(43, US, THEM).map(|owner| owner.port);
            assert_eq!(other, chosen().find(|bits| *bits == 0), "only what claims all");
        }
    }

    #[test]
    fn a_claim_is_made_once_until_it_is_given_up() {
        let inbox = || Arc::new(Inbox::new().expect("a signal"));
        let (one, two, mut table) = (inbox(), inbox(), Table::default());
        assert!(table.admit(claim(7), Owner { port: 1, inbox: one.clone() }));
        assert!(!table.admit(claim(7), Owner { port: 2, inbox: one.clone() }));
        table.dismiss(1, &two);
        assert!(table.find(42, THEM, US).is_some(), "another switch's port of the same number");
        table.dismiss(1, &one);
        assert!(table.find(42, THEM, US).is_none());
        assert!(table.admit(claim(7), Owner { port: 2, inbox: one }));
    }
}
