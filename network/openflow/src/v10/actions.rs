//! What actions of OpenFlow 1.0 mean, and how later ones are said in it.

use super::step::{Early, Enqueue, LongNumber, Number, Output, Step, Steps, VendorStep, WriteMetadata};
use crate::action::{
    self, Action, CloneActions, Extension, LoadBits, Resubmit, SetField, SetMasked, Subfield, Track,
};
use crate::error::BadAction;
use crate::instruction;
use crate::wire::Result;
use crate::{GroupNumber, Instruction, Instructions, OxmField, PortNumber, ShortPort};
use fulmar_packet::{Field, Match, ethernet, ip};

fn named(name: &str) -> OxmField {
    OxmField::named(name).unwrap_or_else(|| unreachable!("there is a field {name}"))
}

fn set(name: &str, value: impl Into<u128>) -> Action {
    Action::SetField(SetField { field: named(name), value: value.into() })
}

/// Bits of a tag, which is there afterwards.
fn set_tag(start: u16, bits: u16, value: u16) -> Action {
    let destination = Subfield::new(named("vlan_tci"), start, bits);
    let destination = destination.unwrap_or_else(|| unreachable!("a tag has 16 bits"));
    Action::Extension(Extension::LoadBits(LoadBits { destination, value: value.into() }))
}

/// The fields that are ports, of each protocol.
const SOURCE_PORTS: [&str; 3] = ["tcp_src", "udp_src", "sctp_src"];
const DESTINATION_PORTS: [&str; 3] = ["tcp_dst", "udp_dst", "sctp_dst"];

fn address(bytes: [u8; 6]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// How actions are read: what is known of packets decides of which protocol a port is.
struct Meaning<'a>(&'a Match);

impl Meaning<'_> {
    /// A port of the protocol, or of whichever it may be.
    fn set_port(&self, fields: [&'static str; 3], port: u16) -> Vec<Action> {
        let is_known = self.0.mask().get(Field::IP_PROTOCOL) == Field::IP_PROTOCOL.ones();
        let protocol = self.0.key().get(Field::IP_PROTOCOL);
        let protocols = [ip::TCP, ip::UDP, ip::SCTP].map(u128::from);
        let it = protocols.iter().position(|known| is_known && *known == protocol);
        match it {
            Some(at) => vec![set(fields[at], port)],
            None => fields.map(|field| set(field, port)).into(),
        }
    }

    fn of(&self, step: Step) -> Result<Vec<Action>> {
        let only = |is_possible: bool, action: Action| {
            if is_possible { Ok(vec![action]) } else { Err(BadAction::BadArgument.into()) }
        };
        Ok(vec![match step {
            Step::Output(output) => {
                Action::Output(action::Output { port: output.port.into(), max_length: output.max_length })
            }
            Step::SetVlan(vlan) => return only(vlan <= 0xfff, set_tag(0, 13, vlan | ethernet::TAGGED)),
            Step::SetPriority(priority) => {
                return only(priority <= 7, set_tag(12, 4, u16::from(priority) << 1 | 1));
            }
            Step::StripVlan => Action::PopVlan,
            Step::SetEthSource(bytes) => set("eth_src", address(bytes)),
            Step::SetEthDestination(bytes) => set("eth_dst", address(bytes)),
            Step::SetSource(address) => set("ip_src", address),
            Step::SetDestination(address) => set("ip_dst", address),
            Step::SetTos(tos) => return only(tos & 3 == 0, set("ip_dscp", tos >> 2)),
            Step::SetSourcePort(port) => return Ok(self.set_port(SOURCE_PORTS, port)),
            Step::SetDestinationPort(port) => return Ok(self.set_port(DESTINATION_PORTS, port)),
            Step::Enqueue(Enqueue { port, queue }) => {
                let output = action::Output { port: port.into(), max_length: 0 };
                let no_queue = Action::Extension(Extension::PopQueue);
                return Ok(vec![Action::SetQueue(queue), Action::Output(output), no_queue]);
            }
            Step::Vendor(VendorStep::Other(Extension::Track(track))) => {
                Action::Extension(Extension::Track(with_extensions(track)))
            }
            Step::Vendor(VendorStep::Other(extension)) => Action::Extension(extension),
            Step::Vendor(VendorStep::Early(early)) => self.of_early(early)?,
        }])
    }

    fn of_early(&self, early: Early) -> Result<Action> {
        let in_field = |name, value: u128| {
            let is_possible = SetField::is_possible(named(name), value);
            if is_possible { Ok(set(name, value)) } else { Err(BadAction::BadArgument) }
        };
        Ok(match early {
            Early::SetTunnel(Number { number }) => set("tun_id", number),
            Early::SetQueue(Number { number }) => Action::SetQueue(number),
            Early::SetLongTunnel(LongNumber { number }) => set("tun_id", number),
            Early::DecrementTtl => Action::DecrementTtl,
            Early::WriteMetadata(write) => Action::Extension(set_metadata(write.value, write.mask)),
            Early::PushMpls(kind) => Action::PushMpls(kind),
            Early::PopMpls(kind) => Action::PopMpls(kind),
            Early::SetMplsTtl(ttl) => Action::SetMplsTtl(ttl),
            Early::DecrementMplsTtl => Action::DecrementMplsTtl,
            Early::SetMplsLabel(Number { number }) => in_field("mpls_label", number.into())?,
            Early::SetMplsClass(class) => in_field("mpls_tc", class.into())?,
            Early::SendToGroup(Number { number }) => Action::Group(GroupNumber(number)),
            Early::Clone(Steps(steps)) => Action::Extension(Extension::Clone(CloneActions(self.all(steps)?))),
        })
    }

    fn all(&self, steps: Vec<Step>) -> Result<Vec<Action>> {
        let mut actions = Vec::new();
        for step in steps {
            actions.extend(self.of(step)?);
        }
        Ok(actions)
    }
}

/// What actions do to packets that match.
pub(super) fn actions(steps: Vec<Step>, asked: &Match) -> Result<Vec<Action>> {
    Meaning(asked).all(steps)
}

/// The same as instructions: what is done at once, and metadata that are written after that.
pub(super) fn instructions(mut steps: Vec<Step>, asked: &Match) -> Result<Instructions> {
    let is_last = |step: &mut Step| matches!(step, Step::Vendor(VendorStep::Early(Early::WriteMetadata(_))));
    let last = steps.pop_if(is_last);
    let actions = actions(steps, asked)?;
    let mut instructions =
        if actions.is_empty() { Instructions::default() } else { Instructions::apply(actions) };
    if let Some(Step::Vendor(VendorStep::Early(Early::WriteMetadata(WriteMetadata { value, mask })))) = last {
        instructions.0.push(Instruction::WriteMetadata(instruction::WriteMetadata { value, mask }));
    }
    Ok(instructions)
}

/// Metadata that are changed before something else is done.
fn set_metadata(value: u64, mask: u64) -> Extension {
    let field = named("metadata");
    match mask {
        u64::MAX => set_by_extension(field, value.into()),
        _ => Extension::SetMasked(SetMasked { field, value: (value & mask).into(), mask: mask.into() }),
    }
}

const fn early(early: Early) -> Step {
    Step::Vendor(VendorStep::Early(early))
}

/// A field that OpenFlow 1.0 has no action for, by one of Nicira's.
fn set_by_extension(field: OxmField, value: u128) -> Extension {
    match u64::try_from(value) {
        Ok(value) if field.bits() <= 64 => {
            Extension::LoadBits(LoadBits { destination: Subfield::all(field), value })
        }
        _ => Extension::SetMasked(SetMasked { field, value, mask: field.ones() }),
    }
}

/// With those actions inside that OpenFlow 1.0 has.
fn with_extensions(mut track: Track) -> Track {
    for action in &mut track.actions {
        if let Action::SetField(SetField { field, value }) = *action {
            *action = Action::Extension(set_by_extension(field, value));
        }
    }
    track
}

fn step_that_sets(SetField { field, value }: SetField) -> Step {
    let bytes = value.to_be_bytes();
    let [.., a, b, c, d, e, f] = bytes;
    let (mac, word, half) =
        ([a, b, c, d, e, f], u32::from_be_bytes([c, d, e, f]), u16::from_be_bytes([e, f]));
    match field.name() {
        "eth_src" => Step::SetEthSource(mac),
        "eth_dst" => Step::SetEthDestination(mac),
        "ip_src" => Step::SetSource(word),
        "ip_dst" => Step::SetDestination(word),
        "ip_dscp" => Step::SetTos(f << 2),
        "nw_tos" => Step::SetTos(f),
        "vlan_vid" => Step::SetVlan(half & 0xfff),
        "vlan_pcp" => Step::SetPriority(f),
        name if SOURCE_PORTS.contains(&name) => Step::SetSourcePort(half),
        name if DESTINATION_PORTS.contains(&name) => Step::SetDestinationPort(half),
        "tun_id" => match (u32::try_from(value), u64::try_from(value)) {
            (Ok(number), _) => early(Early::SetTunnel(Number { number })),
            (_, number) => early(Early::SetLongTunnel(LongNumber { number: number.unwrap_or_default() })),
        },
        "mpls_label" => early(Early::SetMplsLabel(Number { number: word })),
        "mpls_tc" => early(Early::SetMplsClass(f)),
        _ => Step::Vendor(VendorStep::Other(set_by_extension(field, value))),
    }
}

fn step_of_extension(extension: &Extension) -> Step {
    match extension {
        Extension::LoadBits(load) if load.destination.field().name() == "vlan_tci" => {
            let value = u16::try_from(load.value).unwrap_or_default();
            match (load.destination.start(), load.destination.bits()) {
                (0, 13) if value & ethernet::TAGGED != 0 => Step::SetVlan(value & 0xfff),
                (12, 4) if value & 1 != 0 => Step::SetPriority((value >> 1).to_be_bytes()[1]),
                _ => Step::Vendor(VendorStep::Other(extension.clone())),
            }
        }
        Extension::Clone(inner) => early(Early::Clone(Steps(steps(&inner.0)))),
        Extension::Track(track) => {
            Step::Vendor(VendorStep::Other(Extension::Track(with_extensions(track.clone()))))
        }
        other => Step::Vendor(VendorStep::Other(other.clone())),
    }
}

/// An action, if it can be said.
fn step(action: &Action) -> Option<Step> {
    Some(match action {
        Action::Output(output) => {
            Step::Output(Output { port: output.port.try_into().ok()?, max_length: output.max_length })
        }
        Action::PopVlan => Step::StripVlan,
        Action::SetMplsTtl(ttl) => early(Early::SetMplsTtl(*ttl)),
        Action::DecrementMplsTtl => early(Early::DecrementMplsTtl),
        Action::PushMpls(kind) => early(Early::PushMpls(*kind)),
        Action::PopMpls(kind) => early(Early::PopMpls(*kind)),
        Action::SetQueue(queue) => early(Early::SetQueue(Number { number: *queue })),
        Action::SetTtl(ttl) => {
            Step::Vendor(VendorStep::Other(set_by_extension(named("nw_ttl"), (*ttl).into())))
        }
        Action::DecrementTtl => early(Early::DecrementTtl),
        Action::SetField(set) => step_that_sets(*set),
        Action::Extension(extension) => step_of_extension(extension),
        Action::Group(group) => early(Early::SendToGroup(Number { number: group.0 })),
        // A VLAN that is set comes with its tag.
        Action::PushVlan(_) | Action::CopyTtlOut | Action::CopyTtlIn => return None,
    })
}

/// The port that all three actions set, each in another protocol.
fn set_by_all(actions: [&Action; 3], fields: [&'static str; 3]) -> Option<u16> {
    let ports = std::array::from_fn(|at| match actions[at] {
        Action::SetField(set) if set.field.name() == fields[at] => u16::try_from(set.value).ok(),
        _ => None,
    });
    let [Some(one), Some(two), Some(three)] = ports else { return None };
    (one == two && two == three).then_some(one)
}

/// Actions as OpenFlow 1.0 has them: those that it cannot say are left out.
pub(super) fn steps(actions: &[Action]) -> Vec<Step> {
    let (mut steps, mut rest) = (Vec::new(), actions);
    while let [first, after @ ..] = rest {
        rest = after;
        if let [Action::Output(output), Action::Extension(Extension::PopQueue), after @ ..] = rest
            && let Action::SetQueue(queue) = first
            && let Ok(port) = ShortPort::try_from(output.port)
            && output.port != PortNumber::CONTROLLER
        {
            steps.push(Step::Enqueue(Enqueue { port, queue: *queue }));
            rest = after;
            continue;
        }
        if let [second, third, after @ ..] = rest {
            let set_by = |fields| set_by_all([first, second, third], fields);
            let set = set_by(SOURCE_PORTS).map(Step::SetSourcePort);
            if let Some(set) = set.or_else(|| set_by(DESTINATION_PORTS).map(Step::SetDestinationPort)) {
                steps.push(set);
                rest = after;
                continue;
            }
        }
        steps.extend(step(first));
    }
    steps
}

/// What instructions do at once, as Open vSwitch says it: going on in a table is looking up there.
pub(super) fn steps_of(instructions: &Instructions) -> Vec<Step> {
    let mut all = Vec::new();
    let mut ordered: Vec<&Instruction> = instructions.0.iter().collect();
    // In which they take place, whatever order they stand in.
    ordered.sort_by_key(|instruction| match instruction {
        Instruction::WriteMetadata(_) => 1,
        Instruction::GotoTable(_) => 2,
        _ => 0,
    });
    let goes_on = ordered.iter().any(|instruction| matches!(instruction, Instruction::GotoTable(_)));
    for instruction in ordered {
        match instruction {
            Instruction::ApplyActions(list) => all.extend(steps(&list.actions)),
            // Tools refuse actions after those that write metadata.
            Instruction::WriteMetadata(write) if goes_on => {
                all.push(Step::Vendor(VendorStep::Other(set_metadata(write.value, write.mask))));
            }
            Instruction::WriteMetadata(write) => {
                all.push(early(Early::WriteMetadata(WriteMetadata { value: write.value, mask: write.mask })));
            }
            Instruction::GotoTable(goto) => {
                let resubmit = Resubmit { port: ShortPort::IN_PORT, table: goto.table };
                all.push(Step::Vendor(VendorStep::Other(Extension::Resubmit(resubmit))));
            }
            Instruction::WriteActions(_) | Instruction::ClearActions | Instruction::Meter(_) => {}
        }
    }
    all
}
