//! Beside a list of connections that is walked for each packet: the same answers.

use super::{NETWORK, addresses, ends, error, identifier, is_sound, read, seconds, transport};
use crate::agenda::Timeout;
use crate::connection::Progress;
use crate::direction::{Direction, Followed};
use crate::packet::{Content, Packet};
use crate::state::{
    DESTINATION_TRANSLATED, ESTABLISHED, INVALID, NEW, RELATED, REPLY, SOURCE_TRANSLATED, TRACKED,
};
use crate::tcp::{ACK, FIN, RST, SYN};
use crate::{Endpoint, Limits, Request, Rewritten, Side, Tracked, Tracker, Translation, Tuple};
use fulmar_node::Random;
use fulmar_packet::{Field, FlowKey, build, ip};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What is wrong with the oracle, to see that it would be found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defect {
    Nothing,
    /// It forgets a second too early.
    Hasty,
    /// It takes one connection more.
    Greedy,
    /// It sees all zones as one.
    Flat,
    /// It sets marks without their masks.
    Unmasked,
    /// It takes ports that are taken.
    Sharing,
}

struct Known {
    tuples: [Tuple; 2],
    progress: Progress,
    expires: Duration,
    mark: u32,
    label: u128,
}

struct Oracle {
    known: Vec<Known>,
    limits: Limits,
    now: Duration,
    defect: Defect,
}

impl Oracle {
    fn is_free(&self, tuple: &Tuple) -> bool {
        self.defect == Defect::Sharing || !self.known.iter().any(|known| known.tuples.contains(tuple))
    }

    fn advance(&mut self, now: Duration) {
        self.now = now;
        let seen = if self.defect == Defect::Hasty { now + seconds(1) } else { now };
        self.known.retain(|known| known.expires > seen);
    }

    fn find(&self, tuple: &Tuple) -> Option<(usize, Direction)> {
        let is_it = |other: &Tuple| {
            let zone = if self.defect == Defect::Flat { tuple.zone } else { other.zone };
            Tuple { zone, ..*other } == *tuple
        };
        let place = self.known.iter().position(|known| known.tuples.iter().any(is_it))?;
        let direction =
            if is_it(&self.known[place].tuples[0]) { Direction::Original } else { Direction::Reply };
        Some((place, direction))
    }

    /// What is right to say of a packet that has become `after`; with what must have been rewritten.
    fn track(&mut self, packet: &Packet, request: &Request, after: Option<Tuple>) -> Result<Tracked, String> {
        let invalid = Tracked { state: TRACKED | INVALID, zone: request.zone, ..Tracked::default() };
        let is_error = matches!(packet.content, Content::Error(_));
        let mut found = self.find(&packet.tuple);
        if let Some((place, Direction::Reply)) = found
            && request.force
            && !is_error
        {
            self.known.remove(place);
            found = None;
        }
        if let Some((place, direction)) = found {
            let known = &mut self.known[place];
            match known.progress.follow(direction, &packet.content) {
                Followed::Invalid => return Ok(invalid),
                Followed::Valid(timeout) => {
                    known.expires = timeout.map_or(known.expires, |timeout| self.now + timeout.duration());
                    return Ok(self.known_packet(place, direction, is_error, request));
                }
                Followed::Anew => drop(self.known.remove(place)),
            }
        }
        let Some((progress, timeout)) = Progress::begin(&packet.content) else { return Ok(invalid) };
        if !request.commit {
            return Ok(Tracked { state: TRACKED | NEW, ..invalid });
        }
        let extra = u32::from(self.defect == Defect::Greedy);
        let in_zone = self.known.iter().filter(|known| known.tuples[0].zone == request.zone).count();
        if self.known.len() >= (self.limits.connections + extra) as usize
            || in_zone >= (self.limits.connections_in_zone + extra) as usize
        {
            return Ok(invalid);
        }
        let Some(reply) = self.choice(&packet.tuple, request, after)? else { return Ok(invalid) };
        self.remember([packet.tuple, reply], progress, timeout);
        Ok(self.known_packet(self.known.len() - 1, Direction::Original, false, request))
    }

    fn remember(&mut self, tuples: [Tuple; 2], progress: Progress, timeout: Timeout) {
        let expires = self.now + timeout.duration();
        self.known.push(Known { tuples, progress, expires, mark: 0, label: 0 });
    }

    /// The tuple of replies to what was committed, if that was good; nothing, if it was right not to commit it.
    fn choice(
        &self,
        tuple: &Tuple,
        request: &Request,
        after: Option<Tuple>,
    ) -> Result<Option<Tuple>, String> {
        let allowed = Allowed::new(tuple, request.translation.as_ref());
        let is_free = |leaves: &Tuple| self.is_free(&leaves.reversed());
        let Some(after) = after else {
            let free = allowed.all().find(is_free);
            return free.map_or(Ok(None), |free| Err(format!("it could have become {free:?}")));
        };
        if !allowed.has(&after) || !is_free(&after) {
            return Err(format!("it must not become {after:?}"));
        }
        let kept = Tuple {
            source: Endpoint { port: tuple.source.port, ..after.source },
            destination: Endpoint { port: tuple.destination.port, ..after.destination },
            ..after
        };
        if after != kept && allowed.has(&kept) && is_free(&kept) {
            return Err(format!("it became {after:?} and could have kept its port"));
        }
        Ok(Some(after.reversed()))
    }

    fn known_packet(
        &mut self,
        place: usize,
        direction: Direction,
        is_error: bool,
        request: &Request,
    ) -> Tracked {
        let known = &mut self.known[place];
        if request.commit {
            let whole = self.defect == Defect::Unmasked;
            if let Some((value, mask)) = request.mark {
                known.mark = if whole { value } else { known.mark & !mask | value & mask };
            }
            if let Some((value, mask)) = request.label {
                known.label = known.label & !mask | value & mask;
            }
        }
        let mut state = TRACKED | if direction == Direction::Reply { REPLY } else { 0 };
        state |= match known.progress.is_answered() {
            _ if is_error => RELATED,
            true => ESTABLISHED,
            false => NEW,
        };
        let (from, to) =
            (known.tuples[direction as usize], known.tuples[direction.other() as usize].reversed());
        let mut rewritten = Rewritten::default();
        if request.translation.is_some() {
            state |= if from.source == to.source { 0 } else { SOURCE_TRANSLATED };
            state |= if from.destination == to.destination { 0 } else { DESTINATION_TRANSLATED };
            rewritten = Rewritten {
                source: from.source.address != to.source.address,
                source_port: !is_error && from.source.port != to.source.port,
                destination: from.destination.address != to.destination.address,
                destination_port: !is_error && from.destination.port != to.destination.port,
            };
        }
        Tracked { state, zone: request.zone, mark: known.mark, label: known.label, rewritten }
    }
}

/// All that the first packet of a connection may become.
struct Allowed {
    tuple: Tuple,
    /// Of the side that is translated; both, if none is.
    side: Option<Side>,
    addresses: Vec<IpAddr>,
    ports: RangeInclusive<u16>,
}

impl Allowed {
    fn new(tuple: &Tuple, translation: Option<&Translation>) -> Self {
        let side = translation.and_then(|translation| translation.side);
        let end = if side == Some(Side::Destination) { tuple.destination } else { tuple.source };
        let is_query = matches!(tuple.protocol, ip::ICMP | ip::ICMPV6);
        let asked = translation.filter(|_| side.is_some());
        let ports = match (asked.and_then(|asked| asked.ports.clone()), side) {
            (_, Some(Side::Destination)) if is_query => end.port..=end.port,
            (Some(ports), _) => ports,
            (None, None | Some(Side::Destination)) => end.port..=end.port,
            (None, Some(Side::Source)) if is_query => 0..=u16::MAX,
            (None, Some(Side::Source)) => 1024..=u16::MAX,
        };
        let hosts = HOSTS.iter().map(|host| address(host));
        let addresses = match asked.and_then(|asked| asked.addresses.as_ref()) {
            Some(range) if range.start().is_ipv4() != end.address.is_ipv4() => Vec::new(),
            Some(range) => hosts.filter(|it| range.contains(it)).collect(),
            None => vec![end.address],
        };
        Self { tuple: *tuple, side, addresses, ports }
    }

    fn with(&self, end: Endpoint) -> Tuple {
        match self.side {
            Some(Side::Destination) => Tuple { destination: end, ..self.tuple },
            _ => Tuple { source: end, ..self.tuple },
        }
    }

    fn has(&self, tuple: &Tuple) -> bool {
        let end = if self.side == Some(Side::Destination) { tuple.destination } else { tuple.source };
        self.addresses.contains(&end.address) && self.ports.contains(&end.port) && self.with(end) == *tuple
    }

    fn all(&self) -> impl Iterator<Item = Tuple> {
        self.addresses.iter().flat_map(|address| {
            self.ports.clone().map(|port| self.with(Endpoint { address: *address, port }))
        })
    }
}

const HOSTS: [&str; 8] =
    ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fd00::1", "fd00::2", "fd00::3", "fd00::4"];

fn address(host: &str) -> IpAddr {
    host.parse().expect("an address")
}

/// From few hosts and ports, so that they meet.
fn any_tuple(random: &mut Random) -> Tuple {
    let first = 4 * random.index(2);
    let end = |random: &mut Random| Endpoint {
        address: address(HOSTS[first + random.index(4)]),
        port: u16::try_from(2_000 + random.below(3)).expect("small"),
    };
    let (source, destination) = (end(random), end(random));
    let icmp = if first == 0 { (ip::ICMP, 8) } else { (ip::ICMPV6, 128) };
    let (protocol, kind) = [(ip::TCP, 0), (ip::TCP, 0), (ip::UDP, 0), (ip::SCTP, 0), icmp][random.index(5)];
    let tuple = Tuple { source, destination, zone: 0, protocol, kind };
    if kind == 0 { tuple } else { Tuple { destination: Endpoint { port: 0, ..destination }, ..tuple } }
}

fn frame_of(random: &mut Random, tuple: &Tuple) -> Vec<u8> {
    let Tuple { source, destination, protocol, kind, .. } = *tuple;
    if matches!(protocol, ip::ICMP | ip::ICMPV6) {
        return super::echo(source, destination, matches!(kind, 8 | 128));
    }
    let mut key = super::key(source, destination, protocol);
    let flags = [SYN, SYN | ACK, ACK, ACK, ACK | FIN, ACK | RST];
    key.set(Field::TCP_FLAGS, u128::from(protocol == ip::TCP) * u128::from(flags[random.index(flags.len())]));
    build(&key, &vec![1; random.index(9)])
}

fn any_request(random: &mut Random) -> Request {
    let translation = random.one_in(2).then(|| {
        let first = 4 * random.index(2);
        let low = random.index(4);
        let high = low + random.index(4 - low);
        let range = || address(HOSTS[first + low])..=address(HOSTS[first + high]);
        let port = u16::try_from(2_000 + random.below(3)).expect("small");
        Translation {
            side: [None, Some(Side::Source), Some(Side::Destination)][random.index(3)],
            addresses: (!random.one_in(4)).then(range),
            ports: random.one_in(2).then_some(port..=port + 1),
        }
    });
    let (mark, mask) = (random.next(), random.next());
    let low = |number: u64| u32::try_from(number & 0xffff).expect("16 bits");
    Request {
        zone: u16::try_from(random.below(2)).expect("small"),
        commit: !random.one_in(3),
        force: random.one_in(8),
        mark: random.one_in(4).then(|| (low(mark), low(mask))),
        label: random.one_in(4).then(|| (mark.into(), u128::from(mask) << 7)),
        translation,
    }
}

/// The tuple of a frame, as it says itself: of an error, of an answer to what that is about.
fn tuple_of(frame: &[u8], zone: u16, like: &Tuple, is_error: bool) -> Tuple {
    let about = super::about(frame);
    let seen = if is_error { &about[..] } else { frame };
    let tuple = if matches!(like.protocol, ip::ICMP | ip::ICMPV6) {
        let (from, to) = addresses(seen);
        let (kind, port) = (seen[transport(seen)], identifier(seen));
        let ports = if matches!(kind, 8 | 128) { (port, 0) } else { (0, port) };
        let end = |address, port| Endpoint { address, port };
        Tuple { source: end(from, ports.0), destination: end(to, ports.1), zone, kind, ..*like }
    } else {
        let (source, destination) = ends(seen);
        Tuple { source, destination, zone, ..*like }
    };
    if is_error { tuple.reversed() } else { tuple }
}

/// Says which states there were.
fn run(seed: u64, defect: Defect) -> Result<BTreeSet<u32>, String> {
    let mut random = Random::new(seed);
    let limits =
        if random.one_in(2) { Limits { connections: 6, connections_in_zone: 4 } } else { Limits::default() };
    let tracker = Tracker::new(limits, seed);
    let mut oracle = Oracle { known: Vec::new(), limits, now: Duration::ZERO, defect };
    // What has left, and may be answered.
    let mut left: Vec<(Tuple, Vec<u8>)> = Vec::new();
    let mut states = BTreeSet::new();
    for step in 0..60 {
        let now = oracle.now + seconds(if random.one_in(3) { random.below(50) } else { 0 });
        oracle.advance(now);
        tracker.forget(now, usize::MAX);
        let past = (!left.is_empty() && !random.one_in(3)).then(|| left[random.index(left.len())].clone());
        let is_error = past.is_some() && random.one_in(5);
        let mut frame = match &past {
            Some((_, sent)) if is_error => {
                let reporters = if sent[NETWORK] >> 4 == 4 { &HOSTS[..4] } else { &HOSTS[4..] };
                error(reporters[random.index(4)], sent, usize::MAX)
            }
            Some((tuple, _)) if !random.one_in(4) => frame_of(&mut random, &tuple.reversed()),
            Some((_, sent)) => sent.clone(),
            None => {
                let tuple = any_tuple(&mut random);
                frame_of(&mut random, &tuple)
            }
        };
        let mut request = any_request(&mut random);
        if let Some((tuple, _)) = &past
            && !random.one_in(4)
        {
            request.zone = tuple.zone;
        }
        let (key, layers) = read(&frame);
        let packet = Packet::read(request.zone, &key, &frame, layers).ok_or("it is built to be tracked")?;
        let before = frame.clone();
        let tracked = tracker.track(now, &key, &mut frame, layers, &request);
        let after = tuple_of(&frame, request.zone, &packet.tuple, is_error);
        let valid = (tracked.state & INVALID == 0).then_some(after);
        let say = |what: &str| Err(format!("step {step}: {request:?} of {:?}: {what}", packet.tuple));
        let expected = match oracle.track(&packet, &request, valid) {
            Ok(expected) => expected,
            Err(what) => return say(&what),
        };
        if tracked != expected {
            return say(&format!("{tracked:?}, not {expected:?}"));
        }
        if tracked.rewritten == Rewritten::default() && !is_error && frame != before {
            return say("it was rewritten");
        }
        if !is_sound(&frame) {
            return say("a checksum is wrong");
        }
        // A packet of a connection leaves as the mirror image of what comes the other way.
        let found = oracle.find(&packet.tuple).filter(|_| valid.is_some() && request.translation.is_some());
        if let Some((place, direction)) = found
            && after != oracle.known[place].tuples[direction.other() as usize].reversed()
        {
            return say(&format!("it became {after:?}"));
        }
        if tracked.state & (SOURCE_TRANSLATED | DESTINATION_TRANSLATED) != 0 {
            again(&tracker, &mut oracle, (&packet, &frame), &tracked)?;
        }
        if valid.is_some() && !is_error {
            left.push((after, frame));
        }
        states.insert(tracked.state);
        compare(&tracker, &oracle)?;
    }
    Ok(states)
}

/// What was translated is known again, in the same direction, and stays as it is.
fn again(
    tracker: &Tracker,
    oracle: &mut Oracle,
    (packet, frame): (&Packet, &[u8]),
    tracked: &Tracked,
) -> Result<(), String> {
    let (mut key, layers): (FlowKey, _) = read(frame);
    key.set(Field::CT_STATE, tracked.state.into());
    key.set(Field::CT_ZONE, tracked.zone.into());
    let request =
        Request { zone: tracked.zone, translation: Some(Translation::default()), ..Request::default() };
    let mut same = frame.to_vec();
    let second = tracker.track(oracle.now, &key, &mut same, layers, &request);
    let expected = oracle.track(packet, &request, None)?;
    let expected = Tracked { rewritten: Rewritten::default(), ..expected };
    // The very packet may have ended its connection.
    if second != expected || same != frame {
        return Err(format!("again {second:?}, not {expected:?}"));
    }
    Ok(())
}

fn compare(tracker: &Tracker, oracle: &Oracle) -> Result<(), String> {
    let mut there: Vec<_> = tracker.connections().iter().map(|c| (c.tuples, c.mark, c.label)).collect();
    let mut known: Vec<_> =
        oracle.known.iter().map(|known| (known.tuples, known.mark, known.label)).collect();
    there.sort();
    known.sort();
    if there == known { Ok(()) } else { Err(format!("{there:?}, not {known:?}")) }
}

#[test]
fn it_answers_as_a_list_would() {
    let mut states = BTreeSet::new();
    for seed in 0..10_000 {
        match run(seed, Defect::Nothing) {
            Ok(seen) => states.extend(seen),
            Err(what) => panic!("seed {seed}: {what}"),
        }
    }
    // In both directions, translated on either side or not; and none that is new and goes back.
    let translated = [0, SOURCE_TRANSLATED, DESTINATION_TRANSLATED];
    for kind in [NEW, ESTABLISHED, RELATED, ESTABLISHED | REPLY, RELATED | REPLY] {
        for translated in translated {
            assert!(
                states.remove(&(TRACKED | kind | translated)),
                "{kind:#x} and {translated:#x} never came"
            );
        }
    }
    assert_eq!(states, BTreeSet::from([TRACKED | INVALID]));
}

/// The check above finds what is wrong with either.
#[test]
fn defects_are_found() {
    let defects = [Defect::Hasty, Defect::Greedy, Defect::Flat, Defect::Unmasked, Defect::Sharing];
    for defect in defects {
        assert!((0..200).any(|seed| run(seed, defect).is_err()));
    }
}
