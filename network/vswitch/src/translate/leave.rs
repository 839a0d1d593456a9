//! Ways out of the switch, of which some are tunnels, and before some of which there are queues.

use super::{Translation, is_ip, number};
use crate::step::{Enqueued, Step};
use crate::tunnel::{Encapsulation, Tunnel};
use fulmar_packet::Field;
use fulmar_port::vxlan::Outer;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The bits of the type of service that say something of congestion.
const CONGESTION: u8 = 3;

impl Translation<'_> {
    /// To a port that sends: all of the packet, or so many bytes.
    pub(super) fn leave(&mut self, port: u32, length: Option<u32>) {
        if !self.may_work() {
            return;
        }
        self.mirror_leaving(port);
        let (tunnel, queue) = {
            let ports = self.pipeline.ports.read();
            let Some(info) = ports.get(&port) else { return };
            let queues = info.queues.as_ref();
            (info.tunnel, queues.and_then(|queues| queues.get(self.queue.unwrap_or(0)).cloned()))
        };
        let Some(way) = self.way(port, length, tunnel) else { return };
        self.steps.push(match queue {
            None => way,
            Some(queue) => Step::Enqueue(Arc::new(Enqueued { queue, way })),
        });
    }

    fn way(&mut self, port: u32, length: Option<u32>, tunnel: Option<Tunnel>) -> Option<Step> {
        match (tunnel, length) {
            (None, None) => Some(Step::Output(port)),
            (None, Some(length)) => Some(Step::Truncated(port, length)),
            (Some(tunnel), length) => {
                let outer = self.outer(tunnel);
                if outer.remote.is_unspecified() {
                    self.say(|| format!("port {port}: no tun_dst, so that the tunnel leads nowhere"));
                    return None;
                }
                Some(Step::Encapsulate(Arc::new(Encapsulation { port, outer, length })))
            }
        }
    }

    fn outer(&mut self, tunnel: Tunnel) -> Outer {
        let address = |this: &mut Self, field| Ipv4Addr::from_bits(number(this.consult(field, u128::MAX)));
        // 24 bits are all that there is room for.
        let key =
            tunnel.key.unwrap_or_else(|| number(self.consult(Field::TUNNEL_ID, 0x00ff_ffff) & 0x00ff_ffff));
        let remote = tunnel.remote.unwrap_or_else(|| address(self, Field::TUNNEL_DESTINATION));
        let local = tunnel.local.unwrap_or_else(|| address(self, Field::TUNNEL_SOURCE));
        let is_ip = is_ip(&self.key);
        let mut inner = |field, bits| if is_ip { number(self.consult(field, bits) & bits) } else { 0u8 };
        let congestion = inner(Field::IP_TOS, CONGESTION.into());
        let tos = tunnel.tos.unwrap_or_else(|| inner(Field::IP_TOS, (!CONGESTION).into()));
        let ttl = tunnel.ttl.unwrap_or_else(|| match inner(Field::IP_TTL, u128::MAX) {
            0 => Tunnel::TTL,
            ttl => ttl,
        });
        let tos = tos & !CONGESTION | congestion;
        Outer { network: key, remote, local, tos, ttl, is_whole: tunnel.is_whole }
    }
}
