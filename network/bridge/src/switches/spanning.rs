//! The spanning tree that a bridge is to be in, and what the database is told of that.

use super::Running;
use crate::configuration::BridgeWanted;
use crate::spanning::{SpanningStatus, SpanningTree};
use fulmar_ovsdb::{Datum, Draft, Error};
use fulmar_rstp::{BridgeId, Role, State};
use std::collections::BTreeMap;

impl Running {
    pub(super) fn span_wanted(&mut self, wanted: &BridgeWanted) {
        let [_, _, own @ ..] = self.datapath.to_be_bytes();
        self.spanning = wanted.spanning.map(|wanted| SpanningTree {
            id: BridgeId::new(wanted.priority, wanted.address.unwrap_or(own)),
            times: wanted.times,
        });
        self.span();
    }

    /// Those of its ports that run are in the tree.
    pub(super) fn span(&self) {
        let running = self.ports.values().filter(|port| port.error.is_none());
        let ports =
            running.filter_map(|port| Some((u16::try_from(port.number).ok()?, port.wanted.spanning?)));
        let ports: BTreeMap<_, _> = ports.collect();
        self.bridge.set_spanning_tree(self.spanning.as_ref().map(|tree| (tree, &ports)));
    }

    /// As Open vSwitch tells it, in the columns of the protocol that was asked for.
    pub(super) fn tell_spanning(&self, wanted: &BridgeWanted, draft: &mut Draft<'_>) -> Result<(), Error> {
        let status = self.bridge.spanning_tree();
        let pairs = status.as_ref().map(bridge_pairs).unwrap_or_default();
        draft.set("Bridge", wanted.row, "rstp_status", Datum::map(pairs))?;
        for interface in &wanted.interfaces {
            let port = self.ports.get(&interface.name).filter(|port| port.error.is_none());
            let pairs = port
                .zip(status.as_ref())
                .and_then(|(port, status)| port_pairs(u16::try_from(port.number).ok()?, status));
            draft.set("Port", interface.port, "rstp_status", Datum::map(pairs.unwrap_or_default()))?;
        }
        Ok(())
    }
}

fn bridge_pairs(status: &SpanningStatus) -> Vec<(&'static str, String)> {
    let (port, cost) = status.way.map_or((None, 0), |(port, cost)| (Some(port), cost));
    let mut pairs = vec![
        ("rstp_bridge_id", status.id.to_string()),
        ("rstp_root_id", status.root.to_string()),
        ("rstp_root_path_cost", cost.to_string()),
    ];
    pairs.extend(port.map(|port| ("rstp_bridge_port_id", port.to_string())));
    pairs
}

fn port_pairs(number: u16, status: &SpanningStatus) -> Option<Vec<(&'static str, String)>> {
    let port = status.ports.get(&number)?;
    let role = match port.role {
        Role::Disabled => "Disabled",
        Role::Root => "Root",
        Role::Designated => "Designated",
        Role::Alternate => "Alternate",
        Role::Backup => "Backup",
    };
    let state = match (port.role, port.state) {
        (Role::Disabled, _) => "Disabled",
        (_, State { forwarding: true, .. }) => "Forwarding",
        (_, State { learning: true, .. }) => "Learning",
        _ => "Discarding",
    };
    Some(vec![
        ("rstp_port_role", role.to_owned()),
        ("rstp_port_state", state.to_owned()),
        ("rstp_port_oper_edge", port.is_edge.to_string()),
    ])
}
