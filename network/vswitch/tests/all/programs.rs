//! Open vSwitch (Debian's package) and this switch have the same random flows, and random frames come to both: they send the same
//! frames to the same ports, byte by byte.
//!
//! Each table is fresh, and so is what both remember. The frames of a batch are compared as sets, as each has a number of its own; a
//! copy that is looked at again may leave later. Not compared are what depends on time or on a hash, and what goes to controllers.
//! NORMAL is: no station receives at an address that it has sent from, so that nothing that was learned changes what is done.
//!
//! # Where this switch follows Open vSwitch against the specification
//!
//! - A tag that is added is empty, instead of like the one that it is put around; the class of a label that is added is the last three
//!   bits of the code point, instead of 0; its hops are 64 for a packet that has none left.
//! - A packet whose hops are over leaves its flow, or set of actions, alone: the flow that sent it there goes on.
//! - A clone carries out what has been written so far. A resubmitted packet is looked up as if it had come in elsewhere, and then has come
//!   in where it did.
//! - Ports of fragments are as good as not there when flows are looked up; later fragments of IPv6 are of protocol 44.
//! - A tag that says only a priority is kept by NORMAL, one that says nothing is taken away.
//!
//! # Where it does not, and so what is not compared
//!
//! - More than two tags, or three labels: Open vSwitch loses tags, or drops the packet. Of two tags it loses the one that says nothing.
//! - It ends at an assertion when it looks again at a clone of a packet that has actions for the end (version 3.1).
//! - It truncates a frame to its length before tags that are added just then, or taken away.
//! - It changes bytes of later fragments where their checksums would be, and the sum of SCTP in a first fragment.
//! - What is done in a clone may end with `exit` what comes after it.
//! - It sets nothing in RARP, nothing in ARP whose operation it has set to 0, and no address of a neighbour behind another.
//! - It does not look at the version of IP, and takes the last byte of an operation of ARP for the whole.
//! - With the number of a conjunction it does not find flows that have the same match as one of the clauses.
//! - It remembers a label that was set in part as a whole, for other labels, too; and what is done with malformed frames for sound ones.

mod daemons;
mod fields;
mod flows;
mod packets;

use daemons::{OpenVSwitch, Sent, hexadecimal};
use fulmar_node::{Random, Time};
use fulmar_openflow::flow::FlowMod;
use fulmar_openflow::group::{Bucket, GroupCommand, GroupKind, GroupMod};
use fulmar_openflow::{Body, GroupNumber, Instruction, PortNumber, parse_actions};
use fulmar_packet::{Field, FlowKey, ethernet, ip};
use fulmar_port::{Frame, Offload};
use fulmar_vswitch::{Forwarder, Notice, Output, PortInfo, Settings, Switch};

const PORTS: u32 = 4;
const FRAMES: usize = 80;
/// Room before a frame for tags and labels.
const HEADROOM: usize = 64;

/// Where this switch's frames go.
#[derive(Default)]
struct Ports(Sent);

impl Output for Ports {
    fn send(&mut self, port: u32, frame: &Frame<'_>) {
        self.send_part(port, frame, frame.bytes().len());
    }

    fn send_part(&mut self, port: u32, frame: &Frame<'_>, length: usize) {
        self.0.entry(port).or_default().push(frame.bytes()[..length].to_vec());
    }

    fn tell(&mut self, _: &Notice, _: &[u8]) {}
}

/// This switch.
struct Fulmar {
    switch: Switch,
    forwarder: Forwarder,
}

impl Fulmar {
    fn new() -> Self {
        let switch = Switch::new(1, "tested", Settings::default());
        for number in 1..=PORTS + 1 {
            let address = [2, 0, 0, 0, 1, u8::try_from(number).expect("few")];
            switch.put_port(number, PortInfo::new(&format!("p{number}"), address), Time::ZERO);
        }
        let forwarder = switch.forwarder();
        Self { switch, forwarder }
    }

    /// One more flow or group; why not, if it is refused.
    fn add(&self, line: &str) -> Result<(), String> {
        let body = match line.split_once(" add ") {
            Some(("flow", flow)) => {
                Body::FlowMod(flow.parse::<FlowMod>().map_err(|error| error.to_string())?)
            }
            Some(("group", group)) => Body::GroupMod(self::group(group)),
            _ => panic!("{line} is neither"),
        };
        self.switch.request(body, Time::ZERO).map(drop).map_err(|code| code.to_string())
    }

    fn send(&mut self, port: u32, frames: &[Vec<u8>]) -> Sent {
        let mut ports = Ports::default();
        for frame in frames {
            let mut buffer = vec![0; HEADROOM];
            buffer.extend(frame);
            let frame = Frame::new(&mut buffer, HEADROOM, Offload::NONE);
            self.forwarder.forward(Time::ZERO, port, &FlowKey::EMPTY, frame, &mut ports);
        }
        ports.0
    }

    /// What would be done with a frame, and why.
    fn trace(&self, port: u32, frame: &[u8]) -> String {
        self.switch.trace(&key(port, frame), Time::ZERO)
    }

    /// Whether a frame has what Open vSwitch gets wrong, or may come to have more tags or labels than it knows: two, and three.
    fn is_beyond(&self, port: u32, frame: &[u8]) -> bool {
        let key = key(port, frame);
        let fragment = key.get(Field::IP_FRAGMENT);
        // It changes checksums where later fragments have none, and those that SCTP has over a whole packet in its first fragment.
        if fragment & u128::from(fulmar_packet::LATER) != 0 && key.get(Field::IP_PROTOCOL) != 44
            || fragment != 0 && key.get(Field::IP_PROTOCOL) == ip::SCTP.into()
        {
            return true;
        }
        // Of two tags it loses, or keeps, the one that says nothing.
        let says_nothing = |tag: Field| key.get(tag) & 0x0fff == 0;
        let is_double = key.get(Field::INNER_VLAN_TCI) != 0;
        if is_double && (says_nothing(Field::VLAN_TCI) || says_nothing(Field::INNER_VLAN_TCI)) {
            return true;
        }
        // It keeps the sum of a TCP header right whose length is impossible, so that nothing else of it is known.
        let has_transport = fulmar_packet::extract(frame, &mut key.clone()).transport.is_some();
        if key.get(Field::IP_PROTOCOL) == ip::TCP.into() && !has_transport {
            return true;
        }
        // Behind two tags it does not put a label where others look for it, if there is a third.
        let kind = key.get(Field::ETH_TYPE);
        let has_third = kind == ethernet::VLAN.into() || kind == ethernet::SERVICE_VLAN.into();
        let trace = self.trace(port, frame);
        let pushed = |what: &str| trace.matches(what).count();
        let has = |kinds: &[[u8; 2]]| kinds.iter().any(|kind| frame.windows(2).any(|two| two == kind));
        let tags = 2 * usize::from(has(&[[0x81, 0], [0x88, 0xa8]])) + pushed("push_vlan:");
        let labels = 2 * usize::from(has(&[[0x88, 0x47], [0x88, 0x48]])) + pushed("push_mpls:");
        // A label that is added and taken away again it never writes, and so not the type that comes then.
        if pushed("push_mpls:") > 0 && pushed("pop_mpls:") > 0 {
            return true;
        }
        let is_twice_empty = tags > 1 && pushed("push_vlan:") > 0 && pushed("NORMAL") > 0;
        tags > 2 && pushed("push_vlan:") > 0
            || is_twice_empty
            || labels > 3
            || has_third && pushed("push_mpls:") > 0
    }
}

/// Whether a frame says that it has a header of the network, but does not have it as it should be.
fn is_malformed(frame: &[u8]) -> bool {
    let key = key(0, frame);
    let kind = u16::try_from(key.get(Field::ETH_TYPE)).unwrap_or_default();
    matches!(kind, ethernet::IPV4 | ethernet::IPV6 | ethernet::ARP | ethernet::RARP)
        && key.get(Field::IP_PROTOCOL) == 0
}

fn key(port: u32, frame: &[u8]) -> FlowKey {
    let mut key = FlowKey::EMPTY;
    fulmar_packet::extract(frame, &mut key);
    key.set(Field::IN_PORT, port.into());
    key
}

/// A group as `ovs-ofctl` reads it, as far as there are any in `flows`.
fn group(text: &str) -> GroupMod {
    let (head, buckets) = text.split_once(",bucket=").expect("there is one");
    let (number, kind) = head.split_once(",type=").expect("it has a type");
    let number = number.strip_prefix("group_id=").and_then(|number| number.parse().ok());
    let kind = match kind {
        "all" => GroupKind::All,
        "indirect" => GroupKind::Indirect,
        _ => GroupKind::FastFailover,
    };
    let buckets = buckets.split(",bucket=").map(|bucket| {
        let (watch, actions) = bucket.split_once("actions=").expect("it has actions");
        let watch = watch.strip_prefix("watch_port:").and_then(|port| port.strip_suffix(',')?.parse().ok());
        let mut instructions = parse_actions(actions).expect(actions).0.into_iter();
        let Some(Instruction::ApplyActions(list)) = instructions.next() else { panic!("{actions}") };
        Bucket {
            weight: 0,
            watch_port: watch.map_or(PortNumber::ANY, PortNumber),
            watch_group: GroupNumber::ANY,
            actions: list.actions,
        }
    });
    GroupMod {
        command: GroupCommand::Add,
        kind,
        group: GroupNumber(number.expect("it has a number")),
        buckets: buckets.collect(),
    }
}

/// Both, with the same flows.
struct Pair {
    theirs: OpenVSwitch,
    ours: Fulmar,
}

impl Pair {
    fn replace(&mut self, lines: &[String]) -> Result<(), String> {
        self.ours = Fulmar::new();
        for line in lines {
            self.ours.add(line).map_err(|error| format!("{line}: {error}"))?;
        }
        self.theirs.replace(lines)
    }

    /// What both do with frames that come in at a port, if that is not the same.
    fn differ(&mut self, port: u32, frames: &[Vec<u8>]) -> Option<(Sent, Sent)> {
        let sorted = |mut sent: Sent| {
            sent.values_mut().for_each(|frames| frames.sort_unstable());
            sent
        };
        self.theirs.forget();
        let (theirs, ours) = (sorted(self.theirs.send(port, frames)), sorted(self.ours.send(port, frames)));
        (theirs != ours).then_some((theirs, ours))
    }

    /// Whether frames are treated otherwise when there are these flows.
    fn differ_with(&mut self, lines: &[String], port: u32, frames: &[Vec<u8>]) -> bool {
        self.replace(lines).is_ok() && self.differ(port, frames).is_some()
    }

    /// The fewest frames and flows with which there is a difference, and all that is known of it.
    fn explain(&mut self, lines: Vec<String>, port: u32, frames: Vec<Vec<u8>>) -> String {
        let frames = fewest(frames, |frames| self.differ_with(&lines, port, frames));
        let lines = fewest(lines, |lines| self.differ_with(lines, port, &frames));
        self.replace(&lines).expect("they were taken before");
        let (theirs, ours) = self.differ(port, &frames).unwrap_or_default();
        let list = |sent: &Sent| -> String {
            let lines = sent.iter().flat_map(|(port, frames)| {
                frames.iter().map(move |frame| format!("  {port}: {}\n", hexadecimal(frame)))
            });
            lines.collect()
        };
        let frame = frames.last().map(Vec::as_slice).unwrap_or_default();
        format!(
            "{}\n{} frames at port {port}, the last is {}\nOpen vSwitch sends\n{}and says\n{}\nthis switch sends\n{}and says\n{}",
            lines.join("\n"),
            frames.len(),
            hexadecimal(frame),
            list(&theirs),
            self.theirs.trace(port, frame),
            list(&ours),
            self.ours.trace(port, frame),
        )
    }
}

/// What is left when all is gone without which something is still so.
fn fewest<T: Clone>(mut all: Vec<T>, mut is_so: impl FnMut(&[T]) -> bool) -> Vec<T> {
    for index in (0..all.len()).rev() {
        let mut fewer = all.clone();
        fewer.remove(index);
        if is_so(&fewer) {
            all = fewer;
        }
    }
    all
}

/// One random table, and frames at each port.
fn run(pair: &mut Pair, seed: u64) -> Result<usize, String> {
    let mut random = Random::new(seed);
    let mut lines = flows::flows(&mut random, PORTS);
    pair.ours = Fulmar::new();
    // What one of them refuses, the other does, too.
    let (taken, refused): (Vec<String>, Vec<String>) =
        lines.into_iter().partition(|line| pair.ours.add(line).is_ok());
    lines = taken;
    for line in refused {
        let flow = line.strip_prefix("flow add ").expect("groups are sound");
        if pair.theirs.refuses(flow).is_none() {
            let error = pair.ours.add(&line).expect_err("it was refused before");
            return Err(format!("Open vSwitch takes\n{line}\nwhich is refused here: {error}"));
        }
    }
    pair.replace(&lines).map_err(|error| format!("Open vSwitch refuses what is taken here: {error}"))?;
    let (mut number, mut count) = (0, 0);
    for port in 1..=PORTS {
        let frames = (0..FRAMES).map(|_| {
            number += 1;
            packets::frame(&mut random, port, number)
        });
        let frames = frames.filter(|frame| !pair.ours.is_beyond(port, frame));
        // Open vSwitch remembers what it does with malformed frames for others as well.
        let (malformed, sound): (Vec<_>, Vec<_>) = frames.partition(|frame| is_malformed(frame));
        for frames in [sound, malformed] {
            count += frames.len();
            if pair.differ(port, &frames).is_some() {
                return Err(pair.explain(lines, port, frames));
            }
        }
    }
    Ok(count)
}

/// A number in the environment, for longer runs and for one alone.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
#[ignore = "it needs Debian's openvswitch-switch: `cargo xtask e2e` installs that, and runs it"]
fn open_vswitch_sends_the_same_frames_to_the_same_ports() {
    let mut pair = Pair { theirs: OpenVSwitch::begin(PORTS), ours: Fulmar::new() };
    let first = number("FULMAR_SEED", 0);
    let mut frames = 0;
    // Several at once tell more of what they have in common than the first.
    let mut differences = Vec::new();
    for seed in first..first + number("FULMAR_SEEDS", 380) {
        match run(&mut pair, seed) {
            Ok(count) => frames += count,
            Err(difference) => differences.push(format!("seed {seed} (of FULMAR_SEED):\n{difference}")),
        }
        if differences.len() >= 5 {
            break;
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    println!("{frames} frames were treated the same");
}
