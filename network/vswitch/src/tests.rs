//! A switch in memory: frames go in, and what comes out is looked at.

mod bonds;
mod conjunctions;
mod forwarding;
mod megaflows;
mod mirrors;
mod model;
mod monitors;
mod requests;

use crate::execute::Output;
use crate::{Encapsulation, Event, Forwarder, Notice, PortInfo, Settings, Switch, tunnelled};
use fulmar_node::Time;
use fulmar_openflow::flow::{FlowFilter, FlowMod, FlowStats};
use fulmar_openflow::multipart::{MultipartReply, MultipartRequest, ReplyBody, RequestBody};
use fulmar_openflow::{ALL_TABLES, Body, ErrorCode, GroupNumber, PortNumber};
use fulmar_packet::{Field, FlowKey, Match, build, ethernet, ip};
use fulmar_port::{Frame, Offload};
use std::net::Ipv4Addr;
use std::time::Duration;

/// What came out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) frames: Vec<(u32, Vec<u8>)>,
    pub(super) notices: Vec<(Notice, Vec<u8>)>,
    pub(super) encapsulated: Vec<(Encapsulation, Vec<u8>)>,
}

impl Output for Sent {
    fn send(&mut self, port: u32, frame: &Frame<'_>) {
        self.frames.push((port, frame.bytes().to_vec()));
    }

    fn send_part(&mut self, port: u32, frame: &Frame<'_>, length: usize) {
        self.frames.push((port, frame.bytes()[..length].to_vec()));
    }

    fn encapsulate(&mut self, step: &Encapsulation, frame: &Frame<'_>, _: u64) {
        self.encapsulated.push((*step, frame.bytes().to_vec()));
    }

    fn tell(&mut self, notice: &Notice, frame: &[u8]) {
        self.notices.push((notice.clone(), frame.to_vec()));
    }
}

impl Sent {
    pub(super) fn ports(&self) -> Vec<u32> {
        let mut ports: Vec<u32> = self.frames.iter().map(|(port, _)| *port).collect();
        ports.sort_unstable();
        ports
    }
}

/// A switch with a way for packets, or several.
pub(super) struct Bench {
    pub(super) switch: Switch,
    pub(super) forwarders: Vec<Forwarder>,
    pub(super) now: Time,
}

impl Bench {
    pub(super) fn new(ports: u32, settings: Settings) -> Self {
        let switch = Switch::new(1, "tested", settings);
        for number in 1..=ports {
            let address = [2, 0, 0, 0, 0, u8::try_from(number).expect("few")];
            switch.put_port(number, PortInfo::new(&format!("p{number}"), address), Time::ZERO);
        }
        let forwarders = vec![switch.forwarder()];
        Self { switch, forwarders, now: Time::ZERO + Duration::from_secs(1000) }
    }

    pub(super) fn with(ports: u32, flows: &[&str]) -> Self {
        let bench = Self::new(ports, Settings::default());
        flows.iter().for_each(|flow| bench.add(flow).expect(flow));
        bench
    }

    pub(super) fn add(&self, flow: &str) -> Result<(), ErrorCode> {
        self.switch.add_flow(flow.parse::<FlowMod>().expect(flow), self.now)
    }

    pub(super) fn request(&self, body: Body) -> Result<Vec<Event>, ErrorCode> {
        self.switch.request(body, self.now).map(|done| done.events)
    }

    /// A frame comes in; what goes out.
    pub(super) fn send(&mut self, port: u32, frame: &[u8]) -> Sent {
        self.send_known(port, frame, &FlowKey::EMPTY)
    }

    /// One comes by a tunnel.
    pub(super) fn send_from(&mut self, port: u32, frame: &[u8], network: u32, remote: Ipv4Addr) -> Sent {
        self.send_known(port, frame, &tunnelled(network, remote, Ipv4Addr::new(10, 0, 1, 1)))
    }

    fn send_known(&mut self, port: u32, frame: &[u8], known: &FlowKey) -> Sent {
        let mut sent = Sent::default();
        let mut buffer = vec![0; 64];
        buffer.extend_from_slice(frame);
        let way = port as usize % self.forwarders.len();
        let frame = Frame::new(&mut buffer, 64, Offload::NONE);
        self.forwarders[way].forward(self.now, port, known, frame, &mut sent);
        sent
    }

    pub(super) fn credit(&mut self) {
        self.forwarders.iter_mut().for_each(|forwarder| forwarder.credit(self.now));
    }

    pub(super) fn ask(&mut self, request: RequestBody) -> ReplyBody {
        self.credit();
        let asked = MultipartRequest { has_more: false, body: request };
        let done = self.switch.request(Body::MultipartRequest(asked), self.now).expect("it can be answered");
        match done.answers.into_iter().next() {
            Some(Body::MultipartReply(MultipartReply { body, .. })) => body,
            other => panic!("{other:?} is no answer"),
        }
    }

    pub(super) fn flows(&mut self) -> Vec<FlowStats> {
        let all = FlowFilter {
            table: ALL_TABLES,
            out_port: PortNumber::ANY,
            out_group: GroupNumber::ANY,
            cookie: 0,
            cookie_mask: 0,
            asked: Match::ANY,
        };
        let ReplyBody::Flows(mut flows) = self.ask(RequestBody::Flows(all)) else { panic!("they are flows") };
        flows.sort_by_key(|flow| (flow.table, flow.priority, flow.asked.to_key()));
        flows
    }
}

/// Something to sort by.
trait ToKey {
    fn to_key(&self) -> String;
}

impl ToKey for Match {
    fn to_key(&self) -> String {
        fulmar_openflow::MatchText(self).to_string()
    }
}

/// A frame of TCP over IPv4, with a SYN.
pub(super) fn tcp(source: u32, destination: u32, from: u16, to: u16) -> Vec<u8> {
    let mut key = FlowKey::EMPTY;
    key.set(Field::ETH_SOURCE, 0x0200_0000_0001);
    key.set(Field::ETH_DESTINATION, 0x0200_0000_0002);
    key.set(Field::ETH_TYPE, ethernet::IPV4.into());
    key.set(Field::IP_PROTOCOL, ip::TCP.into());
    key.set(Field::IP_TTL, 64);
    key.set(Field::IPV4_SOURCE, source.into());
    key.set(Field::IPV4_DESTINATION, destination.into());
    key.set(Field::L4_SOURCE, from.into());
    key.set(Field::L4_DESTINATION, to.into());
    // The first of a connection.
    key.set(Field::TCP_FLAGS, 2);
    build(&key, b"content")
}

/// A frame from one station to another, with a tag or without.
pub(super) fn between(source: u8, destination: u8, tag: Option<u16>) -> Vec<u8> {
    let mut key = FlowKey::EMPTY;
    key.set(Field::ETH_SOURCE, 0x0200_0000_0000 + u128::from(source));
    key.set(Field::ETH_DESTINATION, 0x0200_0000_0000 + u128::from(destination));
    key.set(Field::ETH_TYPE, 0x1234);
    if let Some(tag) = tag {
        key.set(Field::VLAN_TCI, (tag | ethernet::TAGGED).into());
    }
    build(&key, b"content")
}
