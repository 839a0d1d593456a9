//! The mirrors of a bridge: what they copy, and where to.

use super::Running;
use crate::configuration::{BridgeWanted, MirrorTo, MirrorWanted};
use crate::event::{EventKind, Report};
use fulmar_openflow::{TextError, parse_match};
use fulmar_packet::Match;
use fulmar_vswitch::{Mirror, MirrorOutput};

impl Running {
    pub(super) fn mirror_wanted(&mut self, bridge: &str, wanted: &BridgeWanted, report: &Report) {
        if self.mirrors != wanted.mirrors {
            self.mirrors.clone_from(&wanted.mirrors);
            if wanted.unmirrored > 0 {
                report(&EventKind::Mirror.event(format!(
                    "bridge {bridge}: {} mirrors copy nothing: there are too many",
                    wanted.unmirrored
                )));
            }
            for mirror in &self.mirrors {
                if let Err(why) = filter(mirror) {
                    report(&EventKind::Mirror.event(format!(
                        "bridge {bridge}: mirror {} copies nothing: its filter: {why}",
                        mirror.name
                    )));
                }
            }
        }
        self.mirror();
    }

    /// Mirrors what is to be, of the ports that there are.
    pub(super) fn mirror(&self) {
        let number =
            |name: &String| self.ports.get(name).map(|port| port.number).filter(|number| *number > 0);
        let mirror = |wanted: &MirrorWanted| {
            Some(Mirror {
                id: wanted.row.into(),
                name: wanted.name.clone(),
                arriving: wanted.arriving.iter().filter_map(number).collect(),
                leaving: wanted.leaving.iter().filter_map(number).collect(),
                vlans: wanted.vlans.clone(),
                filter: filter(wanted).ok()?,
                output: match &wanted.output {
                    MirrorTo::Port(name) => MirrorOutput::Port(number(name)?),
                    MirrorTo::Vlan(vlan) => MirrorOutput::Vlan(*vlan),
                },
                length: wanted.length,
            })
        };
        self.bridge.switch().set_mirrors(self.mirrors.iter().filter_map(mirror).collect());
    }
}

/// What packets a mirror copies, besides where they come in and leave.
fn filter(mirror: &MirrorWanted) -> Result<Match, TextError> {
    mirror.filter.as_deref().map_or(Ok(Match::ANY), parse_match)
}
