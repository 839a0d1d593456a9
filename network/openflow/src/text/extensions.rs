//! Actions that are not OpenFlow's own.

use super::{Commas, Inner, Value};
use crate::action::{
    Addresses, Bundle, BundleAlgorithm, ControllerAction, CtFlags, Extension, HashFields, Learn, LearnFlags,
    LearnSource, LearnSpec, LearnedFlow, LimitedLearn, Multipath, MultipathAlgorithm, Nat, NatFlags,
    PausableController, Resubmit, SetMasked, Track, Zone,
};
use crate::flow::FlowMod;
use crate::packet_in::PacketInReason;
use crate::{ALL_TABLES, Action, ShortPort, WHOLE_PACKET};
use std::fmt;
use std::net::IpAddr;

/// Bytes with points between them.
struct Bytes<'a>(&'a [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<String> = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        f.write_str(&bytes.join("."))
    }
}

/// What is said in parentheses.
fn write_call(f: &mut fmt::Formatter<'_>, name: &str, parts: &[String]) -> fmt::Result {
    if parts.is_empty() { f.write_str(name) } else { write!(f, "{name}({})", parts.join(",")) }
}

/// `name=value`, if there is something to say.
fn said<T: fmt::Display + PartialEq>(name: &str, value: T, usual: T) -> Option<String> {
    (value != usual).then(|| format!("{name}={value}"))
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ResubmitPort(port) => write!(f, "resubmit:{port}"),
            Self::PopQueue => f.write_str("pop_queue"),
            Self::CopyBits(copy) | Self::CopyField(crate::action::CopyField(copy)) => {
                write!(f, "move:{}->{}", copy.source, copy.destination)
            }
            Self::LoadBits(load) => write!(f, "load:{:#x}->{}", load.value, load.destination),
            Self::Note(note) => write!(f, "note:{}", Bytes(&note.0)),
            Self::Multipath(multipath) => multipath.fmt(f),
            Self::Bundle(bundle) => {
                write!(f, "bundle({},members:{})", Spread(bundle), Commas(&bundle.members))
            }
            Self::BundleLoad(load) => {
                let (spread, to, members) =
                    (Spread(&load.bundle), load.destination, Commas(&load.bundle.members));
                write!(f, "bundle_load({spread},{to},members:{members})")
            }
            Self::Resubmit(resubmit) => write_resubmit(f, resubmit, ""),
            Self::ResubmitOriginal(resubmit) => write_resubmit(f, resubmit, ",ct"),
            Self::OutputBits(output) => write!(f, "output:{}", output.port),
            Self::OutputBitsLong(output) => write!(f, "output:{}", output.port),
            Self::Learn(Learn { flow, specs }) => write_learn(f, flow, &[], specs),
            Self::LimitedLearn(learn) => write_limited_learn(f, learn),
            Self::Exit => f.write_str("exit"),
            Self::FinTimeout(timeout) => {
                let idle = said("idle_timeout", timeout.idle_timeout, 0);
                let hard = said("hard_timeout", timeout.hard_timeout, 0);
                write!(f, "fin_timeout({})", [idle, hard].into_iter().flatten().collect::<Vec<_>>().join(","))
            }
            Self::Controller(controller) => controller.fmt(f),
            Self::PausableController(controller) => controller.fmt(f),
            Self::DecrementTtl(decrement) => write!(f, "dec_ttl({})", Commas(&decrement.controllers)),
            Self::Push(bits) => write!(f, "push:{}", bits.0),
            Self::Pop(bits) => write!(f, "pop:{}", bits.0),
            Self::Sample(sample) => {
                write!(
                    f,
                    "sample(probability={},collector_set_id={},",
                    sample.probability, sample.collectors
                )?;
                write!(f, "obs_domain_id={},obs_point_id={})", sample.domain, sample.point)
            }
            Self::SetMasked(SetMasked { field, value, mask }) => {
                let value = Value { field: *field, value: *value, mask: *mask };
                write!(f, "set_field:{value}->{}", field.name())
            }
            Self::Conjunction(part) => {
                write!(f, "conjunction({},{}/{})", part.id, u16::from(part.clause) + 1, part.clauses)
            }
            Self::Track(track) => track.fmt(f),
            Self::Nat(nat) => nat.fmt(f),
            Self::Truncate(truncate) => {
                write!(f, "output(port={},max_len={})", truncate.port, truncate.max_length)
            }
            Self::Clone(actions) => write!(f, "clone({})", Inner(&actions.0)),
            Self::ForgetConnection => f.write_str("ct_clear"),
        }
    }
}

fn write_resubmit(f: &mut fmt::Formatter<'_>, resubmit: &Resubmit, end: &str) -> fmt::Result {
    let has_port = resubmit.port != ShortPort::IN_PORT;
    let port = if has_port { resubmit.port.to_string() } else { String::new() };
    match resubmit.table {
        ALL_TABLES if has_port && end.is_empty() => write!(f, "resubmit:{port}"),
        ALL_TABLES => write!(f, "resubmit({port},{end})"),
        table => write!(f, "resubmit({port},{table}{end})"),
    }
}

impl fmt::Display for HashFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::EthernetSource => "eth_src",
            Self::SymmetricL4 => "symmetric_l4",
            Self::SymmetricL3L4 => "symmetric_l3l4",
            Self::SymmetricL3L4Udp => "symmetric_l3l4+udp",
            Self::NetworkSource => "nw_src",
            Self::NetworkDestination => "nw_dst",
            Self::SymmetricL3 => "symmetric_l3",
        })
    }
}

impl fmt::Display for Multipath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = match self.algorithm {
            MultipathAlgorithm::Modulo => "modulo_n",
            MultipathAlgorithm::Threshold => "hash_threshold",
            MultipathAlgorithm::HighestRandomWeight => "hrw",
            MultipathAlgorithm::Iterative => "iter_hash",
        };
        let (fields, basis, links) = (self.fields, self.basis, u32::from(self.last_link) + 1);
        write!(f, "multipath({fields},{basis},{algorithm},{links},{},{})", self.argument, self.destination)
    }
}

/// How a port is chosen.
struct Spread<'a>(&'a Bundle);

impl fmt::Display for Spread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let algorithm = match self.0.algorithm {
            BundleAlgorithm::ActiveBackup => "active_backup",
            BundleAlgorithm::HighestRandomWeight => "hrw",
        };
        write!(f, "{},{},{algorithm},ofport", self.0.fields, self.0.basis)
    }
}

impl fmt::Display for PacketInReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoMatch => "no_match",
            Self::Action => "action",
            Self::InvalidTtl => "invalid_ttl",
            Self::ActionSet => "action_set",
            Self::Group => "group",
            Self::PacketOut => "packet_out",
        })
    }
}

impl fmt::Display for ControllerAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (max_length, controller, reason) = (self.max_length, self.controller, self.reason);
        PausableController { max_length, controller, reason, ..Default::default() }.fmt(f)
    }
}

impl fmt::Display for PausableController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = [
            said("reason", self.reason, PacketInReason::Action),
            said("max_len", self.max_length, WHOLE_PACKET),
            said("id", self.controller, 0),
            (!self.user_data.is_empty()).then(|| format!("userdata={}", Bytes(&self.user_data))),
            self.pauses.then(|| "pause".into()),
            self.meter.map(|meter| format!("meter_id={meter}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        let is_plain = parts.is_empty() || matches!(&parts[..], [only] if only.starts_with("max_len"));
        if is_plain {
            write!(f, "CONTROLLER:{}", self.max_length)
        } else {
            write_call(f, "controller", &parts)
        }
    }
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let flags = [(CtFlags::COMMIT, "commit"), (CtFlags::FORCE, "force")];
        parts.extend(
            flags.iter().filter(|(flag, _)| self.flags.contains(*flag)).map(|(_, name)| (*name).into()),
        );
        parts.extend(self.table.map(|table| format!("table={table}")));
        parts.extend(match self.zone {
            Zone::Number(number) => said("zone", number, 0),
            Zone::Bits(bits) => Some(format!("zone={bits}")),
        });
        let rest = match &self.actions[..] {
            [Action::Extension(Extension::Nat(nat)), rest @ ..] => {
                parts.push(nat.to_string());
                rest
            }
            all => all,
        };
        if !rest.is_empty() {
            parts.push(format!("exec({})", Commas(rest)));
        }
        match self.gateway {
            0 => {}
            21 => parts.push("alg=ftp".into()),
            69 => parts.push("alg=tftp".into()),
            other => parts.push(format!("alg={other}")),
        }
        write_call(f, "ct", &parts)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.first.fmt(f)?;
        if self.first == self.last { Ok(()) } else { write!(f, "-{}", self.last) }
    }
}

impl fmt::Display for Nat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.flags.contains(NatFlags::SOURCE) { "src" } else { "dst" };
        if self.flags == NatFlags::NONE {
            return f.write_str("nat");
        }
        let addresses = match self.addresses {
            None => String::new(),
            // Where a port follows, it must be seen where the address ends.
            Some(Addresses { first: first @ IpAddr::V6(_), last }) if self.ports.is_some() => {
                if first == last { format!("[{first}]") } else { format!("[{first}]-[{last}]") }
            }
            Some(addresses) => addresses.to_string(),
        };
        let ports = match self.ports {
            None => String::new(),
            Some((first, last)) if first == last => format!(":{first}"),
            Some((first, last)) => format!(":{first}-{last}"),
        };
        let equals = if addresses.is_empty() && ports.is_empty() { "" } else { "=" };
        let mut parts = vec![format!("{side}{equals}{addresses}{ports}")];
        let ways =
            [(NatFlags::PERSISTENT, "persistent"), (NatFlags::HASH, "hash"), (NatFlags::RANDOM, "random")];
        parts.extend(
            ways.iter().filter(|(flag, _)| self.flags.contains(*flag)).map(|(_, name)| (*name).into()),
        );
        write_call(f, "nat", &parts)
    }
}

fn write_limited_learn(f: &mut fmt::Formatter<'_>, learn: &LimitedLearn) -> fmt::Result {
    let result = learn.result.map(|result| format!("result_dst={}", result.0));
    let limit = said("limit", learn.limit, 0);
    write_learn(f, &learn.flow, &[limit, result], &learn.specs)
}

fn write_learn(
    f: &mut fmt::Formatter<'_>,
    flow: &LearnedFlow,
    more: &[Option<String>],
    specs: &[LearnSpec],
) -> fmt::Result {
    let mut parts = vec![format!("table={}", flow.table)];
    let has = |flag, name: &str| flow.flags.contains(flag).then(|| name.to_owned());
    let said = [
        said("idle_timeout", flow.idle_timeout, 0),
        said("hard_timeout", flow.hard_timeout, 0),
        said("fin_idle_timeout", flow.fin_idle_timeout, 0),
        said("fin_hard_timeout", flow.fin_hard_timeout, 0),
        said("priority", flow.priority, FlowMod::DEFAULT_PRIORITY),
        has(LearnFlags::SEND_REMOVED, "send_flow_rem"),
        has(LearnFlags::DELETE_LEARNED, "delete_learned"),
        (flow.cookie != 0).then(|| format!("cookie={:#x}", flow.cookie)),
    ];
    parts.extend(said.into_iter().flatten());
    parts.extend(more.iter().flatten().cloned());
    parts.extend(specs.iter().map(LearnSpec::to_string));
    write_call(f, "learn", &parts)
}

impl fmt::Display for LearnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Match(LearnSource::Value(value), to) if to.bits() == to.field().bits() => {
                let (field, mask) = (to.field(), to.field().ones());
                let name = if field.name() == "in_port_oxm" { "in_port" } else { field.name() };
                write!(f, "{name}={}", Value { field, value, mask })
            }
            Self::Match(LearnSource::Value(value), to) => write!(f, "{to}={value:#x}"),
            Self::Match(LearnSource::Bits(from), to) if from == to => write!(f, "{to}"),
            Self::Match(LearnSource::Bits(from), to) => write!(f, "{to}={from}"),
            Self::Load(LearnSource::Value(value), to) => write!(f, "load:{value:#x}->{to}"),
            Self::Load(LearnSource::Bits(from), to) => write!(f, "load:{from}->{to}"),
            Self::Output(from) => write!(f, "output:{from}"),
        }
    }
}
