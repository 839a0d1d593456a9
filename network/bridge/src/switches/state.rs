//! What the configuration database is told of a bridge's state.

use super::controllers::target;
use super::{Running, RunningPort};
use crate::configuration::BridgeWanted;
use fulmar_openflow::role::Role;
use fulmar_ovsdb::{Datum, Draft, Error, Uuid};
use std::collections::BTreeMap;
use std::path::Path;

impl Running {
    pub(super) fn tell(
        &self,
        wanted: &BridgeWanted,
        directory: &Path,
        draft: &mut Draft<'_>,
    ) -> Result<(), Error> {
        let datapath = format!("{:016x}", self.datapath);
        draft.set("Bridge", wanted.row, "datapath_id", Some(datapath))?;
        draft.set("Bridge", wanted.row, "datapath_version", "Fulmar")?;
        for interface in &wanted.interfaces {
            if let Some(port) = self.ports.get(&interface.name) {
                self.tell_port(port, interface.row, draft)?;
            }
        }
        self.tell_bonds(wanted, draft)?;
        self.tell_spanning(wanted, draft)?;
        let mirrored = self.bridge.switch().mirrored();
        for mirror in &self.mirrors {
            let own = mirrored.iter().find(|(id, _)| *id == mirror.row.into());
            if let Some((_, traffic)) = own {
                let statistics = [("tx_packets", count(traffic.packets)), ("tx_bytes", count(traffic.bytes))];
                draft.set("Mirror", mirror.row, "statistics", Datum::map(statistics))?;
            }
        }
        let status = self.bridge.status();
        for controller in &wanted.controllers {
            let target = target(&controller.target, directory).ok();
            let found = status.iter().find(|status| Some(&status.target) == target.as_ref());
            let error = found.and_then(|status| status.last_error.clone());
            let error = self.refused.get(&controller.target).cloned().or(error);
            let mut pairs = vec![("state", found.map_or("VOID", |status| status.state.name()).to_owned())];
            pairs.extend(error.map(|error| ("last_error", error)));
            let seconds = |long: std::time::Duration| long.as_secs().to_string();
            let since = found.and_then(|status| status.since_connect).map(seconds);
            pairs.extend(since.map(|since| ("sec_since_connect", since)));
            let role = found.and_then(|status| status.role).map(|role| match role {
                Role::Master => "master",
                Role::Slave => "slave",
                _ => "other",
            });
            let row = controller.row;
            draft.set("Controller", row, "is_connected", found.is_some_and(|status| status.is_connected))?;
            draft.set("Controller", row, "role", role)?;
            draft.set("Controller", row, "status", Datum::map(pairs))?;
        }
        Ok(())
    }

    /// By which member each bond is used.
    fn tell_bonds(&self, wanted: &BridgeWanted, draft: &mut Draft<'_>) -> Result<(), Error> {
        let mut bonds: BTreeMap<Uuid, Option<String>> = BTreeMap::new();
        for interface in &wanted.interfaces {
            let (Some(bond), Some(port)) = (&interface.bond, self.ports.get(&interface.name)) else {
                continue;
            };
            let is_in_use = port.error.is_none() && self.bridge.switch().is_in_use(port.number);
            let link = self.bridge.link(port.number).filter(|_| is_in_use);
            let member = bonds.entry(bond.row).or_default();
            if let Some(link) = link {
                *member = Some(address(link.address));
            }
        }
        bonds.into_iter().try_for_each(|(row, member)| draft.set("Port", row, "bond_active_slave", member))
    }

    fn tell_port(&self, port: &RunningPort, row: Uuid, draft: &mut Draft<'_>) -> Result<(), Error> {
        // Of the local port, 16 bits are told, as elsewhere in the database.
        let number = match (&port.error, port.number) {
            (Some(_), _) => -1,
            (None, number) => i64::from(number & 0xffff),
        };
        draft.set("Interface", row, "ofport", Some(number))?;
        draft.set("Interface", row, "error", port.error.clone())?;
        let link = self.bridge.link(port.number).filter(|_| port.error.is_none());
        let up_or_down = |is_up: bool| Some(if is_up { "up" } else { "down" });
        draft.set("Interface", row, "admin_state", link.and_then(|link| up_or_down(link.is_up)))?;
        draft.set("Interface", row, "link_state", link.and_then(|link| up_or_down(link.is_running)))?;
        draft.set("Interface", row, "mac_in_use", link.map(|link| address(link.address)))?;
        // A tunnel's is that of the way that it takes.
        let mtu = link.map(|link| i64::from(link.mtu)).filter(|mtu| *mtu > 0);
        draft.set("Interface", row, "mtu", mtu)?;
        let index = link.and_then(|link| link.index).map(i64::from);
        draft.set("Interface", row, "ifindex", index)?;
        // What is known of a speed is that of one direction.
        let speed = link.and_then(|link| link.bits_per_second).map(count);
        draft.set("Interface", row, "link_speed", speed)?;
        draft.set("Interface", row, "duplex", speed.map(|_| "full"))?;
        if let Some(info) = self.bridge.switch().port(port.number) {
            let [received, refused, sent, dropped] = info.counters.all();
            let statistics = [
                ("rx_packets", count(received.packets)),
                ("rx_bytes", count(received.bytes)),
                ("rx_dropped", count(refused.packets)),
                ("tx_packets", count(sent.packets)),
                ("tx_bytes", count(sent.bytes)),
                ("tx_dropped", count(dropped.packets)),
            ];
            draft.set("Interface", row, "statistics", Datum::map(statistics))?;
        }
        Ok(())
    }
}

/// An Ethernet address as the database has it.
pub(super) fn address(bytes: [u8; 6]) -> String {
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// A number as the database has it.
fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
