//! What is to be done with packets, once that has been decided: simple steps, in order.

use crate::group::{Group, Member};
use crate::mac::Station;
use crate::meter::Meter;
use crate::mirror::Mirroring;
use crate::queue::Queue;
use crate::table::Entry;
use crate::tunnel::Encapsulation;
use fulmar_conntrack::Request;
use fulmar_openflow::action::Action;
use fulmar_openflow::flow::FlowMod;
use fulmar_openflow::packet_in::PacketInReason;
use fulmar_openflow::{Instruction, PortNumber};
use fulmar_packet::{Field, FlowKey, Match};
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// One step.
#[derive(Clone, Debug)]
pub enum Step {
    /// Send it to a port.
    Output(u32),
    /// Send it by a tunnel.
    Encapsulate(Arc<Encapsulation>),
    /// Send it, if its queue lets it go.
    Enqueue(Arc<Enqueued>),
    /// Send so many bytes of it to a port.
    Truncated(u32, u32),
    /// Replace those bits of a field.
    Set(Box<Setting>),
    /// Add a VLAN tag of this type, with nothing in it.
    PushVlan(u16),
    /// Take the outer one away.
    PopVlan,
    /// Add an MPLS label of this type; it has the content of the field.
    PushMpls(u16),
    /// Take the outer one away: what comes after it is of this type.
    PopMpls(u16),
    /// Measure it, which may be its end.
    Meter(Arc<MeterStep>),
    /// Tell a controller.
    Controller(Arc<Notice>),
    /// It is of the spanning tree, which is told of it.
    Tree,
    /// Have its connection tracked.
    Track(Arc<Request>),
    /// Decide anew, by what it is now.
    Recirculate(Arc<Frozen>),
    /// Do this with a copy.
    Clone(Arc<[Self]>),
}

/// A way out, and the queue before it.
#[derive(Debug)]
pub struct Enqueued {
    pub(crate) queue: Arc<Queue>,
    pub(crate) way: Step,
}

/// A new value for bits of a field. Apart from the step, as most have none, and memory counts.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The field.
    pub field: Field,
    /// Its new value…
    pub value: u128,
    /// …in these bits.
    pub mask: u128,
}

/// A meter that measures packets.
#[derive(Debug)]
pub struct MeterStep(pub(crate) Arc<Meter>);

/// What a controller is told of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The number that the controller has given itself.
    pub controller: u16,
    /// Why.
    pub reason: PacketInReason,
    /// In which table it was looked up last.
    pub table: u8,
    /// The cookie of the flow that it met there.
    pub cookie: u64,
    /// What is known of it that is not in it.
    pub known: Match,
    /// What the action has to say.
    pub user_data: Vec<u8>,
}

/// What is left to do for a packet when it has been looked at again, and what is known of it then.
#[derive(Debug)]
pub struct Frozen {
    /// Its number among all: [`Field::RECIRCULATION`] of the packet then.
    pub(crate) number: u32,
    pub(crate) rest: Rest,
}

/// Where a decision goes on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rest {
    /// Metadata and registers.
    pub(crate) metadata: FlowKey,
    pub(crate) stack: Vec<(u128, u8)>,
    /// The queue that was chosen.
    pub(crate) queue: Option<u32>,
    /// Actions for the end.
    pub(crate) written: Vec<Action>,
    /// Mirrors that have got a copy.
    pub(crate) mirrored: SmallVec<[usize; 2]>,
    pub(crate) next: Vec<Pending>,
}

/// Something that is left to do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Pending {
    Actions(Vec<Action>, u8, u64),
    Instructions(Vec<Instruction>, u8, u64),
    Table(u8),
    /// What has been written is carried out.
    Written,
}

/// For what a packet counts, besides itself.
#[derive(Clone, Debug)]
pub(crate) enum Credit {
    Lookup(u8, Option<Entry>),
    Group(Arc<Group>),
    Member(Arc<Member>),
    /// A station is heard at a port.
    Heard(Station, u32),
    /// A flow is learned.
    Learned(Arc<FlowMod>),
    /// A connection that the flow is for has ended: no time-out of it is longer than these, idle and hard.
    Finished(Entry, u16, u16),
    /// A mirror has got a copy.
    Mirrored(Arc<Mirroring>),
}

/// What is done with a packet, and with all that agree with it in the bits that this depends on.
#[derive(Clone, Debug)]
pub struct Decision {
    /// What is done.
    pub steps: SmallVec<[Step; 2]>,
    /// When it was made: after so many changes of the tables, ports and stations that it depends on.
    pub(crate) generation: u64,
    pub(crate) credits: SmallVec<[Credit; 2]>,
}

impl Decision {
    /// How many things are remembered for it.
    pub(crate) fn length(&self) -> usize {
        self.steps.iter().map(Step::length).sum::<usize>() + self.credits.len()
    }
}

impl Step {
    fn length(&self) -> usize {
        match self {
            Self::Clone(steps) => 1 + steps.iter().map(Self::length).sum::<usize>(),
            Self::Recirculate(frozen) => 1 + frozen.rest.length(),
            _ => 1,
        }
    }
}

impl Rest {
    fn length(&self) -> usize {
        let pending = |pending: &Pending| match pending {
            Pending::Actions(actions, ..) => actions.len(),
            Pending::Instructions(instructions, ..) => {
                instructions.iter().map(Instruction::actions).map(<[_]>::len).sum()
            }
            Pending::Table(_) | Pending::Written => 0,
        };
        self.next.len() + self.stack.len() + self.written.len() + self.next.iter().map(pending).sum::<usize>()
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(port) => PortNumber(*port).fmt(f),
            Self::Truncated(port, length) => write!(f, "{}(max_len={length})", PortNumber(*port)),
            Self::Encapsulate(step) => step.fmt(f),
            Self::Enqueue(step) => write!(f, "queue({},{})", step.queue.number(), step.way),
            Self::Set(set) if set.mask == set.field.ones() => {
                write!(f, "set({:?}={:#x})", set.field, set.value)
            }
            Self::Set(set) => write!(f, "set({:?}={:#x}/{:#x})", set.field, set.value, set.mask),
            Self::PushVlan(kind) => write!(f, "push_vlan({kind:#06x})"),
            Self::PopVlan => f.write_str("pop_vlan"),
            Self::PushMpls(kind) => write!(f, "push_mpls({kind:#06x})"),
            Self::PopMpls(kind) => write!(f, "pop_mpls({kind:#06x})"),
            Self::Meter(meter) => write!(f, "meter({})", meter.0.number),
            Self::Controller(notice) => write!(f, "controller({})", notice.controller),
            Self::Tree => f.write_str("slow_path(stp)"),
            Self::Track(request) => {
                let commit = if request.commit { "commit," } else { "" };
                let nat = if request.translation.is_some() { ",nat" } else { "" };
                write!(f, "ct({commit}zone={}{nat})", request.zone)
            }
            Self::Recirculate(frozen) => write!(f, "recirc({:#x})", frozen.number),
            Self::Clone(steps) => write!(f, "clone({})", Steps(steps)),
        }
    }
}

/// Steps as text: `drop`, if there are none.
pub struct Steps<'a>(pub &'a [Step]);

impl fmt::Display for Steps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("drop");
        }
        for (index, step) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{step}")?;
        }
        Ok(())
    }
}
