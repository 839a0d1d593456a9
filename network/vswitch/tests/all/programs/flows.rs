//! Random flow tables, as text that both read.

use super::fields::{ASKS, FIELDS, Form, IP, IPV4, IPV6, MPLS, SCTP, Settable, TCP, TELLS, UDP, WHOLE};
use super::packets::{RECEIVER, SENDER};
use fulmar_node::Random;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// There are so many tables: flows send packets on to later ones only.
const TABLES: u64 = 4;
/// And so many groups: those send to later ones only, too.
pub(crate) const GROUPS: u64 = 3;

/// What flows match, besides tags and where packets are from.
const KINDS: &[&str] = &[
    "", "", "arp", "rarp", "ip", "ip", "tcp", "udp", "sctp", "icmp", "ipv6", "tcp6", "udp6", "sctp6",
    "icmp6", ASKS, TELLS, "mpls", "mplsm",
];

/// What is known of the packets that actions are for.
#[derive(Clone)]
struct Known {
    kind: &'static str,
    tags: u32,
    /// Of MPLS, that the label is the last.
    is_last: bool,
    /// Either there are clones, or labels are taken away: Open vSwitch ends at an assertion (in `recirc_alloc_id__`) when it looks
    /// again at a clone of a packet that has actions for the end.
    clones: bool,
}

impl Known {
    fn has(&self, field: &Settable) -> bool {
        field.kinds.is_empty()
            || field.kinds.contains(&self.kind)
            || self.tags > 0 && field.kinds == ["tagged"]
    }

    fn field<'a>(&self, random: &mut Random) -> &'a Settable {
        let fields: Vec<&Settable> = FIELDS.iter().filter(|field| self.has(field)).collect();
        // Of those that not all packets have, more often.
        let last = fields.len() - random.index(fields.len()).min(random.index(fields.len())) - 1;
        fields[last]
    }
}

fn value(random: &mut Random, field: &Settable) -> String {
    let few = random.below(4);
    match field.form {
        Form::Number if random.one_in(3) => {
            (random.next() & (u64::MAX >> (64 - field.bits.min(64)))).to_string()
        }
        Form::Number => few.min((1 << field.bits.min(8)) - 1).to_string(),
        Form::Sender => address(SENDER + few),
        Form::Receiver => address(RECEIVER + few),
        Form::Ipv4 => format!("10.{}.{}.{few}", random.below(2), random.below(2)),
        Form::Ipv6 => format!("2001:db8::{few:x}"),
        Form::Vlan => (0x1000 + few).to_string(),
    }
}

fn address(number: u64) -> String {
    let [_, _, bytes @ ..] = number.to_be_bytes();
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

/// Some bits of a field.
fn part(random: &mut Random, field: &Settable, most: u64) -> (String, u64) {
    let bits = 1 + random.below(field.bits.min(most));
    let start = random.below(field.bits - bits + 1);
    (format!("{}[{start}..{}]", field.long_name, start + bits - 1), bits)
}

/// A table of flows and the groups that they use, line by line as for `ovs-ofctl bundle`.
pub(crate) fn flows(random: &mut Random, ports: u32) -> Vec<String> {
    let mut lines: Vec<String> = (1..=GROUPS).rev().map(|number| group(random, number, ports)).collect();
    let clones = random.one_in(2);
    let mut others = random.clone();
    for table in 0..TABLES {
        let (mut taken, mut matches) = (BTreeSet::new(), BTreeSet::new());
        for index in 0..6 + random.below(12) {
            let (asked, known) = asked(random, ports, clones);
            // Of one importance there is one flow: which of several is met is not told.
            let priority = 1 + index * 7 + random.below(7);
            let actions = instructions(random, known, table, ports);
            lines.push(format!("flow add table={table},priority={priority}{asked} actions={actions}"));
            taken.insert(priority);
            matches.insert(asked);
        }
        let mut free: Vec<u64> = (1..130).filter(|priority| !taken.contains(priority)).collect();
        for number in 1..=others.below(4) {
            let mut priority = || free.swap_remove(others.index(free.len()));
            let (clauses, met) = (priority(), priority());
            let met = if others.one_in(4) { met } else { clauses };
            lines.extend(conjunction(&mut others, table, number, [clauses, met], &matches, ports));
        }
    }
    lines
}

/// A conjunction, at priorities that no other flow has: its clauses', and that of what is done when it is met.
fn conjunction(
    random: &mut Random,
    table: u64,
    number: u64,
    [priority, met]: [u64; 2],
    others: &BTreeSet<String>,
    ports: u32,
) -> Vec<String> {
    let clauses = 2 + random.below(2);
    let flow = |priority, asked: String, actions: String| {
        format!("flow add table={table},priority={priority}{asked} actions={actions}")
    };
    let mut lines = Vec::new();
    for clause in 1..=clauses {
        for _ in 0..1 + random.below(3) {
            let (asked, _) = asked(random, ports, false);
            // Behind a clause Open vSwitch does not see a flow of the same match.
            if others.contains(&asked) {
                continue;
            }
            let mut actions = format!("conjunction({number},{clause}/{clauses})");
            if random.one_in(6) {
                let other = 1 + clause % clauses;
                actions.push_str(&format!(",conjunction({},{other}/{clauses})", number + 10));
            }
            lines.push(flow(priority, asked, actions));
        }
    }
    lines.push(flow(met, format!(",conj_id={number}"), format!("output:{}", 1 + random.below(ports.into()))));
    lines
}

fn group(random: &mut Random, number: u64, ports: u32) -> String {
    let kind = ["all", "indirect", "ff"][random.index(3)];
    let mut text = format!("group add group_id={number},type={kind}");
    let known = Known { kind: "", tags: 0, is_last: false, clones: false };
    for _ in 0..if kind == "indirect" { 1 } else { 1 + random.below(3) } {
        let watch = if kind == "ff" {
            format!("watch_port:{},", 1 + random.below(ports.into()))
        } else {
            String::new()
        };
        let mut actions = Vec::new();
        if random.one_in(2) {
            actions.push(set(random, &known));
        }
        if random.one_in(4) {
            actions.push("push_vlan:0x8100".to_owned());
        }
        if number < GROUPS && random.one_in(4) {
            actions.push(format!("group:{}", number + 1));
        } else {
            actions.push(format!("output:{}", 1 + random.below(ports.into())));
        }
        write!(text, ",bucket={watch}actions={}", actions.join(",")).expect("it is memory");
    }
    text
}

/// What a flow asks, each part after a comma.
fn asked(random: &mut Random, ports: u32, clones: bool) -> (String, Known) {
    let kind = *random.choose(KINDS).expect("there are some");
    let mut parts: Vec<String> = Vec::new();
    let is_tagged = match random.below(12) {
        0 => {
            parts.push(format!("dl_vlan={}", random.below(4)));
            true
        }
        1 => {
            parts.push("vlan_tci=0x1000/0x1000".into());
            true
        }
        2 => {
            parts.push(format!("vlan_vid=0x1000/0x1000,dl_vlan_pcp={}", random.below(8)));
            true
        }
        3 => {
            parts.push("vlan_tci=0".into());
            false
        }
        4 => {
            parts.push(format!("vlan_tci={:#x}/0x1001", 0x1000 | random.below(2)));
            true
        }
        _ => false,
    };
    if !kind.is_empty() {
        parts.push(kind.into());
    }
    let is_last = MPLS.contains(&kind) && random.one_in(2);
    if is_last {
        parts.push("mpls_bos=1".into());
    }
    let known = Known { kind, tags: is_tagged.into(), is_last, clones };
    if random.one_in(4) {
        parts.push(format!("in_port={}", 1 + random.below(ports.into())));
    }
    if random.one_in(8) {
        parts.push(format!("dl_src={}", address(SENDER + random.below(4))));
    }
    if random.one_in(8) {
        parts.push(format!("dl_dst={}/ff:ff:00:00:00:03", address(RECEIVER + random.below(4))));
    }
    if IPV4.contains(&kind) && random.one_in(2) {
        let bits = [8, 16, 24, 30, 32][random.index(5)];
        let field = ["nw_dst", "nw_src"][random.index(2)];
        parts.push(format!("{field}=10.{}.{}.{}/{bits}", random.below(2), random.below(2), random.below(4)));
    }
    if IPV6.contains(&kind) && random.one_in(2) {
        let field = ["ipv6_dst", "ipv6_src"][random.index(2)];
        parts.push(format!("{field}=2001:db8::{:x}/{}", random.below(4), [64, 127, 128][random.index(3)]));
    }
    if IP.contains(&kind) && random.one_in(6) {
        parts.push(format!("nw_frag={}", ["yes", "no", "first", "later", "not_later"][random.index(5)]));
    }
    if IP.contains(&kind) && random.one_in(6) {
        parts.push(format!("nw_ttl={}", [0, 1, 2, 64][random.index(4)]));
    }
    if (TCP.contains(&kind) || UDP.contains(&kind) || SCTP.contains(&kind)) && random.one_in(2) {
        let mask = [0xffff, 0xfff0, 0xfffe, 1][random.index(4)];
        parts.push(format!("tp_dst={}/{mask:#x}", random.below(32) & mask));
    }
    if TCP.contains(&kind) && random.one_in(5) {
        parts.push(["tcp_flags=+syn-ack", "tcp_flags=+fin", "tcp_flags=-rst"][random.index(3)].into());
    }
    // What earlier flows have set.
    if random.one_in(6) {
        let field = &FIELDS[random.index(6)];
        let mask = [1, 3, 0xff][random.index(3)];
        parts.push(format!("{}={}/{mask:#x}", field.name, random.below(4) & mask));
    }
    // The kinds with a type of their own have it already.
    let own: Vec<&Settable> =
        FIELDS.iter().filter(|field| field.kinds.contains(&kind) && !field.name.starts_with("ip")).collect();
    if !IP.contains(&kind) && !own.is_empty() && random.one_in(2) {
        let field = own[random.index(own.len())];
        if field.name != "mpls_ttl" {
            parts.push(format!("{}={}", field.name, value(random, field)));
        }
    }
    (parts.into_iter().map(|part| format!(",{part}")).collect(), known)
}

fn instructions(random: &mut Random, mut known: Known, table: u64, ports: u32) -> String {
    let before = known.clone();
    let mut actions = actions(random, &mut known, table, ports, 0);
    if random.one_in(12) {
        actions.push("clear_actions".into());
    }
    if random.one_in(6) {
        let mut written = vec![format!("output:{}", 1 + random.below(ports.into()))];
        if random.one_in(2) {
            written.insert(0, set(random, &before));
        }
        if known.tags < 2 && random.one_in(6) {
            written.insert(0, "push_vlan:0x8100".into());
        }
        if random.one_in(6) {
            written.push(format!("group:{}", 1 + random.below(GROUPS)));
        }
        actions.push(format!("write_actions({})", written.join(",")));
    }
    if random.one_in(8) {
        actions.push(format!("write_metadata:{}/0x3", random.below(4)));
    }
    if table + 1 < TABLES && random.one_in(2) {
        actions.push(format!("goto_table:{}", table + 1));
    }
    if actions.is_empty() { "drop".into() } else { actions.join(",") }
}

/// A field set to a value, whole or in some bits.
fn set(random: &mut Random, known: &Known) -> String {
    let field = known.field(random);
    match random.below(3) {
        // Not of addresses that stations have: where those are is not compared.
        0 if !matches!(field.form, Form::Sender | Form::Receiver) => {
            let (part, bits) = part(random, field, 64);
            format!("load:{}->{part}", random.next() >> (64 - bits))
        }
        1 if matches!(field.form, Form::Number) && !WHOLE.contains(&field.name) => {
            let mask = 1 | random.next() & (u64::MAX >> (64 - field.bits.min(64)));
            format!("set_field:{}/{mask}->{}", random.next() & mask, field.name)
        }
        _ => format!("set_field:{}->{}", value(random, field), field.name),
    }
}

fn actions(random: &mut Random, known: &mut Known, table: u64, ports: u32, depth: u32) -> Vec<String> {
    let mut actions: Vec<String> = Vec::new();
    let mut on_stack: Vec<u64> = Vec::new();
    for _ in 0..random.below(5) {
        let port = 1 + random.below(ports.into());
        let action = match random.below(32) {
            0..10 => set(random, known),
            10..14 => format!("output:{port}"),
            14 => ["NORMAL", "FLOOD", "ALL", "IN_PORT", "CONTROLLER"][random.index(5)].into(),
            // Open vSwitch counts without tags and labels that were added just before.
            15 if table == 0 && depth == 0 && actions.is_empty() => {
                format!("output(port={port},max_len={})", 14 + random.below(60))
            }
            16 => format!("group:{}", 1 + random.below(GROUPS)),
            17 | 18 if known.tags < 2 => {
                known.tags += 1;
                format!("push_vlan:{}", ["0x8100", "0x88a8"][random.index(2)])
            }
            19 if known.tags > 0 => {
                known.tags -= 1;
                "pop_vlan".into()
            }
            // Open vSwitch ends a clone by taking its label away, and then writes a type where a length was.
            20 if !known.clones => {
                known.is_last = !MPLS.contains(&known.kind);
                known.kind = ["mpls", "mplsm"][random.index(2)];
                format!("push_mpls:{}", if known.kind == "mpls" { "0x8847" } else { "0x8848" })
            }
            21 if MPLS.contains(&known.kind) && !known.clones => {
                let others = [("mpls", "0x8847"), ("ip", "0x0800"), ("", "0x1234"), ("ipv6", "0x86dd")];
                let (kind, number) = others[if known.is_last { 1 + random.index(3) } else { 0 }];
                (known.kind, known.is_last) = (kind, false);
                format!("pop_mpls:{number}")
            }
            22 if IP.contains(&known.kind) => "dec_ttl".into(),
            22 if MPLS.contains(&known.kind) => {
                ["dec_mpls_ttl", "set_mpls_ttl:1", "set_mpls_ttl:9"][random.index(3)].into()
            }
            23 | 24 => {
                let (from, to) = (known.field(random), known.field(random));
                let moves_stations = |field: &Settable| matches!(field.form, Form::Sender | Form::Receiver);
                // Nor bits of a tag, of which Open vSwitch forgets those that were there.
                if moves_stations(to) || to.kinds == ["tagged"] {
                    continue;
                }
                let (part, bits) = part(random, from, to.bits);
                let start = random.below(to.bits - bits + 1);
                format!("move:{part}->{}[{start}..{}]", to.long_name, start + bits - 1)
            }
            25 => {
                let field = known.field(random);
                let (part, bits) = part(random, field, 128);
                on_stack.push(bits);
                format!("push:{part}")
            }
            26 if on_stack.pop().is_some() => {
                let to = known.field(random);
                if matches!(to.form, Form::Sender | Form::Receiver) {
                    continue;
                }
                format!("pop:{}", part(random, to, 128).0)
            }
            27 | 28 if table + 1 < TABLES => {
                let from = if random.one_in(3) { port.to_string() } else { String::new() };
                format!("resubmit({from},{})", table + 1 + random.below(TABLES - table - 1))
            }
            29 if depth < 2 && known.clones => {
                let inside = self::actions(random, &mut known.clone(), table, ports, depth + 1);
                if inside.is_empty() { continue } else { format!("clone({})", inside.join(",")) }
            }
            30 => "output:NXM_NX_REG0[0..2]".into(),
            31 if depth == 0 && random.one_in(4) => "exit".into(),
            _ => format!("output:{port}"),
        };
        actions.push(action);
    }
    actions
}
