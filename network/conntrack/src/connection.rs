//! What is remembered of a connection.

use crate::agenda::Timeout;
use crate::direction::{Direction, Followed};
use crate::packet::Content;
use crate::tcp::{Phase, Tcp};
use crate::tuple::{Query, Tuple};
use fulmar_packet::ip;
use std::fmt;

/// How far it is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    Tcp(Tcp),
    /// Whether there was an answer to datagrams.
    Datagrams(bool),
    /// Whether there was one to a query of ICMP.
    Queries(bool),
}

impl Progress {
    /// From a packet that can be a connection's first, and how long that is remembered.
    pub(crate) fn begin(content: &Content) -> Option<(Self, Timeout)> {
        match content {
            Content::Segment(segment) => {
                segment.can_begin().then(|| (Self::Tcp(Tcp::new(segment)), Timeout::SynSent))
            }
            Content::Datagram => Some((Self::Datagrams(false), Timeout::DatagramSingle)),
            Content::Query(Query::Request) => Some((Self::Queries(false), Timeout::QueryFirst)),
            Content::Query(Query::Reply) | Content::Error(_) => None,
        }
    }

    /// One more packet. An error of ICMP is about a connection and no part of it.
    pub(crate) fn follow(&mut self, direction: Direction, content: &Content) -> Followed {
        match (self, content) {
            (Self::Tcp(tcp), Content::Segment(segment)) => tcp.follow(direction, segment),
            (Self::Datagrams(is_answered), Content::Datagram) => {
                *is_answered |= direction == Direction::Reply;
                let timeout = if *is_answered { Timeout::DatagramMultiple } else { Timeout::DatagramSingle };
                Followed::Valid(Some(timeout))
            }
            (Self::Queries(is_answered), Content::Query(_)) => {
                *is_answered |= direction == Direction::Reply;
                Followed::Valid(Some(if *is_answered { Timeout::QueryReply } else { Timeout::QueryFirst }))
            }
            (_, Content::Error(_)) => Followed::Valid(None),
            _ => Followed::Invalid,
        }
    }

    /// Whether packets have been seen in both directions.
    pub(crate) fn is_answered(&self) -> bool {
        match self {
            Self::Tcp(tcp) => tcp.is_answered(),
            Self::Datagrams(is_answered) | Self::Queries(is_answered) => *is_answered,
        }
    }
}

/// A connection that was committed.
#[derive(Clone, Debug)]
pub struct Connection {
    /// By the direction of the packets that have them.
    pub(crate) tuples: [Tuple; 2],
    pub(crate) progress: Progress,
    pub(crate) mark: u32,
    pub(crate) label: u128,
}

impl Connection {
    /// What its first packet had.
    pub fn original(&self) -> &Tuple {
        &self.tuples[0]
    }

    /// What replies have, before they are translated back.
    pub fn reply(&self) -> &Tuple {
        &self.tuples[1]
    }

    /// Its mark.
    pub fn mark(&self) -> u32 {
        self.mark
    }

    /// Its label.
    pub fn label(&self) -> u128 {
        self.label
    }

    /// Whether packets have been seen in both directions.
    pub fn is_answered(&self) -> bool {
        self.progress.is_answered()
    }

    /// What a packet in this direction has once it is translated.
    pub(crate) fn translated(&self, direction: Direction) -> Tuple {
        self.tuples[direction.other() as usize].reversed()
    }
}

fn name(protocol: u8) -> &'static str {
    match protocol {
        ip::TCP => "tcp",
        ip::UDP => "udp",
        ip::SCTP => "sctp",
        ip::ICMP => "icmp",
        _ => "icmpv6",
    }
}

/// As `ovs-appctl dpctl/dump-conntrack` writes it.
impl fmt::Display for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [original, reply] = &self.tuples;
        write!(f, "{},orig=({original}),reply=({reply})", name(original.protocol))?;
        if original.zone != 0 {
            write!(f, ",zone={}", original.zone)?;
        }
        if self.mark != 0 {
            write!(f, ",mark={}", self.mark)?;
        }
        if self.label != 0 {
            write!(f, ",labels={:#x}", self.label)?;
        }
        if let Progress::Tcp(tcp) = &self.progress {
            let state = match tcp.phase() {
                Phase::Closed => "CLOSED",
                Phase::SynSent => "SYN_SENT",
                Phase::Established => "ESTABLISHED",
                Phase::Closing => "CLOSING",
                Phase::FinWait2 => "FIN_WAIT_2",
                Phase::TimeWait => "TIME_WAIT",
            };
            write!(f, ",protoinfo=(state={state})")?;
        }
        Ok(())
    }
}
