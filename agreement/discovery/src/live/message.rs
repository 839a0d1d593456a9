//! The one kind of message, which fits a datagram, and its bytes.
//!
//! ```text
//! kind:u8 flags:u8 sender called:address stamp pause [life stamp have] digest:u64 base upto end [age digest:u64] members
//! member   address life refutations standing:u8 name
//! address  4 or 6:u8, the IP address, port:u16
//! ```
//!
//! Numbers without a width are varints, those with one are big-endian; brackets are there if a flag says so.

use super::member::{Incarnation, Member, Standing, put_address};
use super::name::Name;
use super::roster::Digest;
use fulmar_coding::{Reader, number, put_bytes, put_varint};
use fulmar_transport::{Malformed, Wire};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Bytes of a message: with its greeting it fits a datagram that no Ethernet has to cut.
pub const LARGEST_MESSAGE: usize = 1_400;
/// Bytes that everything but `members` takes at most, with IPv6 and the longest name.
const LARGEST_HEAD: usize = 260;
/// Bytes that `members` may take.
pub(super) const ROOM: usize = LARGEST_MESSAGE - LARGEST_HEAD;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Wants an answer: the paper's PUSH and PULL at once.
    Ask,
    /// Answers.
    Answer,
}

/// What the sender has of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    /// In which life of the receiver's.
    pub(super) life: u64,
    /// Of an answer: the stamp of what it answers; else the newest stamp that has come.
    pub(super) stamp: u64,
    /// The receiver's journal, up to this revision.
    pub(super) have: u64,
}

/// A part of the sender's journal, that is: all that it has learned by revisions in `base + 1..=upto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) base: u64,
    pub(super) upto: u64,
    /// The last revision there is.
    pub(super) end: u64,
}

/// A centre's word that a view is stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) digest: Digest,
    /// Each member has held this view at some moment within this time before the verdict was sent. In microseconds.
    pub(super) age: Duration,
}

/// What nodes say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub(super) kind: Kind,
    /// The sender, as it knows itself.
    pub(super) sender: Member,
    /// By which address the receiver was called; of an answer, that by which its sender was.
    pub(super) called: SocketAddr,
    /// The sender's clock, in microseconds, and more than in any message that it sent before.
    pub(super) stamp: u64,
    /// How long the sender will be silent at most, if it is a follower of the receiver's. In milliseconds.
    pub(super) pause: Duration,
    pub(super) heard: Option<Heard>,
    /// Of the view that the sender has.
    pub(super) digest: Digest,
    /// Nothing that the sender waits for is still to come: it would have the view stable.
    pub(super) content: bool,
    /// The sender cannot reach whom the receiver would refer it to.
    pub(super) insists: bool,
    /// Of an answer: `members` and those before lead up to the sender's whole knowledge. Else it is a referral.
    pub(super) whole: bool,
    pub(super) span: Span,
    pub(super) verdict: Option<Verdict>,
    pub(super) members: Vec<Member>,
}

const CONTENT: u8 = 1;
const INSISTS: u8 = 2;
const WHOLE: u8 = 4;
const HEARD: u8 = 8;
const VERDICT: u8 = 16;

fn array<const N: usize>(input: &mut Reader<'_>) -> Option<[u8; N]> {
    input.take(N)?.try_into().ok()
}

fn address(input: &mut Reader<'_>) -> Option<SocketAddr> {
    let ip = match input.byte()? {
        4 => IpAddr::from(array::<4>(input)?),
        6 => IpAddr::from(array::<16>(input)?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(array(input)?)))
}

pub(super) fn put_member(out: &mut Vec<u8>, member: &Member) {
    put_address(out, member.address);
    put_varint(out, member.incarnation.life);
    put_varint(out, member.incarnation.refutations.into());
    out.push(member.standing as u8);
    put_bytes(out, member.name.as_str().as_bytes());
}

/// Whether one node can be reached there. The address of none would be the smallest, and all would follow it.
fn is_of_one(address: SocketAddr) -> bool {
    let ip = address.ip();
    address.port() != 0 && !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

fn member(input: &mut Reader<'_>) -> Option<Member> {
    Some(Member {
        address: address(input).filter(|address| is_of_one(*address))?,
        incarnation: Incarnation { life: input.varint()?, refutations: number(input)? },
        standing: *Standing::ALL.get(usize::from(input.byte()?))?,
        name: name(input)?,
    })
}

fn name(input: &mut Reader<'_>) -> Option<Name> {
    std::str::from_utf8(input.bytes()?).ok()?.parse().ok()
}

fn digest(input: &mut Reader<'_>) -> Option<Digest> {
    Some(Digest(u64::from_be_bytes(array(input)?)))
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Message {
    fn flags(&self) -> u8 {
        let flag = |is: bool, bit| if is { bit } else { 0 };
        flag(self.content, CONTENT)
            | flag(self.insists, INSISTS)
            | flag(self.whole, WHOLE)
            | flag(self.heard.is_some(), HEARD)
            | flag(self.verdict.is_some(), VERDICT)
    }

    fn read(input: &mut Reader<'_>) -> Option<Self> {
        let kind = match input.byte()? {
            0 => Kind::Ask,
            1 => Kind::Answer,
            _ => return None,
        };
        let flags = input.byte().filter(|flags| *flags < 32)?;
        let (sender, called, stamp) = (member(input)?, address(input)?, input.varint()?);
        let pause = Duration::from_millis(number(input)?.into());
        let heard = if flags & HEARD != 0 {
            Some(Heard { life: input.varint()?, stamp: input.varint()?, have: input.varint()? })
        } else {
            None
        };
        let digest_of_view = digest(input)?;
        let span = Span { base: input.varint()?, upto: input.varint()?, end: input.varint()? };
        let verdict = if flags & VERDICT != 0 {
            Some(Verdict { age: Duration::from_micros(input.varint()?), digest: digest(input)? })
        } else {
            None
        };
        // To the end, so that no number promises more than there is.
        let mut members = Vec::new();
        while !input.is_empty() {
            members.push(member(input)?);
        }
        Some(Self {
            kind,
            sender,
            called,
            stamp,
            pause,
            heard,
            digest: digest_of_view,
            content: flags & CONTENT != 0,
            insists: flags & INSISTS != 0,
            whole: flags & WHOLE != 0,
            span,
            verdict,
            members,
        })
    }
}

impl Wire for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend([self.kind as u8, self.flags()]);
        put_member(out, &self.sender);
        put_address(out, self.called);
        put_varint(out, self.stamp);
        put_varint(out, u32::try_from(self.pause.as_millis()).unwrap_or(u32::MAX).into());
        if let Some(Heard { life, stamp, have }) = self.heard {
            [life, stamp, have].into_iter().for_each(|number| put_varint(out, number));
        }
        out.extend(self.digest.0.to_be_bytes());
        let Span { base, upto, end } = self.span;
        [base, upto, end].into_iter().for_each(|number| put_varint(out, number));
        if let Some(Verdict { digest, age }) = self.verdict {
            put_varint(out, micros(age));
            out.extend(digest.0.to_be_bytes());
        }
        self.members.iter().for_each(|member| put_member(out, member));
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        if bytes.len() > LARGEST_MESSAGE {
            let (length, limit) = (bytes.len(), LARGEST_MESSAGE);
            return Err(Malformed::new(format!("{length} bytes, of which a message has {limit} at most")));
        }
        Self::read(&mut Reader::new(bytes)).ok_or_else(|| Malformed::new("no message of discovery"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Random;

    fn some_member(random: &mut Random, longest: bool) -> Member {
        let bits = |random: &mut Random, width: u64| if longest { 1 } else { 1 + random.below(width) };
        let six = longest || random.one_in(2);
        let ip = if six { IpAddr::from([0xfe; 16]) } else { IpAddr::from([10, 0, 0, 1]) };
        let length = if longest { Name::LONGEST } else { random.index(20) };
        Member {
            address: SocketAddr::new(ip, 7000),
            incarnation: Incarnation {
                life: (u64::MAX >> bits(random, 63)) | 1,
                refutations: u32::MAX >> bits(random, 31),
            },
            standing: Standing::ALL[random.index(4)],
            name: "n".repeat(length).parse().expect("a name"),
        }
    }

    fn some(random: &mut Random, longest: bool) -> Message {
        let mut maybe = || longest || random.one_in(2);
        let (one, two, three, four, five) = (maybe(), maybe(), maybe(), maybe(), maybe());
        let large = u64::MAX >> if longest { 0 } else { random.below(63) };
        let sender = some_member(random, longest);
        Message {
            kind: if one { Kind::Ask } else { Kind::Answer },
            called: sender.address,
            sender,
            stamp: large,
            pause: Duration::from_millis(u32::MAX.into()),
            heard: two.then_some(Heard { life: large, stamp: large, have: large }),
            digest: Digest(random.next()),
            content: three,
            insists: four,
            whole: five,
            span: Span { base: large, upto: large, end: large },
            verdict: one.then_some(Verdict { digest: Digest(large), age: Duration::from_micros(large) }),
            members: if longest {
                Vec::new()
            } else {
                (0..random.below(5)).map(|_| some_member(random, false)).collect()
            },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut random = Random::new(1);
        for _ in 0..2_000 {
            let message = some(&mut random, false);
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert_eq!(Message::decode(&bytes), Ok(message));
        }
    }

    #[test]
    fn a_member_has_an_address_of_its_own() {
        let message = some(&mut Random::new(1), false);
        let is_read = |address: &str| {
            let address = address.parse().expect("an address");
            let sender = Member { address, ..message.sender.clone() };
            let mut bytes = Vec::new();
            Message { sender, ..message.clone() }.encode(&mut bytes);
            Message::decode(&bytes).is_ok()
        };
        assert!(is_read("10.0.0.1:7000") && is_read("[fe80::1]:7000"));
        for none in ["10.0.0.1:0", "0.0.0.0:7000", "[::]:7000", "224.0.0.1:7000", "[ff02::1]:7000"] {
            assert!(!is_read(none), "{none}");
        }
        assert!(!is_read("255.255.255.255:7000"));
    }

    #[test]
    fn a_head_is_no_longer_than_it_may_be() {
        let mut bytes = Vec::new();
        some(&mut Random::new(1), true).encode(&mut bytes);
        assert!(bytes.len() <= LARGEST_HEAD, "{}", bytes.len());
    }

    /// Random bytes, and messages with some bytes changed, cut off or repeated.
    #[test]
    fn no_bytes_make_it_panic_or_take_more_than_they_are() {
        let mut random = Random::new(2);
        let smallest = 7 + 4;
        for _ in 0..50_000 {
            let mut bytes = Vec::new();
            if random.one_in(4) {
                bytes.extend((0..random.below(200)).map(|_| random.next().to_be_bytes()[0]));
            } else {
                some(&mut random, false).encode(&mut bytes);
            }
            for _ in 0..random.below(4) {
                let at = random.index(bytes.len());
                match random.below(3) {
                    0 => bytes.truncate(at),
                    1 => bytes.extend_from_within(at..),
                    _ => bytes
                        .iter_mut()
                        .skip(at)
                        .take(1)
                        .for_each(|byte| *byte = random.next().to_be_bytes()[0]),
                }
            }
            if let Ok(message) = Message::decode(&bytes) {
                assert!(message.members.len() * smallest <= bytes.len());
                let mut again = Vec::new();
                message.encode(&mut again);
                assert_eq!(Message::decode(&again), Ok(message));
            }
        }
        assert!(Message::decode(&vec![0; LARGEST_MESSAGE + 1]).is_err());
    }
}
