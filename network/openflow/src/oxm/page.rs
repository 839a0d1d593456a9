//! The tables of `docs/openflow.md` say what is known here.

use super::OxmField;
use super::field::Needs;
use crate::parse_actions;
use fulmar_packet::ip;
use std::fmt::Write as _;

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openflow.md"));

/// The lines of a section's table, without its head.
fn rows(section: &str) -> impl Iterator<Item = &'static str> {
    let lines = PAGE.lines().skip_while(move |line| *line != section).skip(1);
    let rows = lines.take_while(|line| !line.starts_with("## ")).filter(|line| line.starts_with('|'));
    rows.skip(2)
}

fn needs(needs: Needs) -> String {
    let protocol = |number| match number {
        ip::TCP => "tcp",
        ip::UDP => "udp",
        ip::SCTP => "sctp",
        ip::ICMP => "icmp",
        _ => "icmp6",
    };
    let types = |types: &[u16]| {
        let name = |kind: &u16| match *kind {
            fulmar_packet::ethernet::IPV4 => "ip",
            fulmar_packet::ethernet::IPV6 => "ipv6",
            fulmar_packet::ethernet::ARP => "arp",
            fulmar_packet::ethernet::RARP => "rarp",
            fulmar_packet::ethernet::MPLS => "mpls",
            _ => "mplsm",
        };
        types.iter().map(name).collect::<Vec<_>>().join(", ")
    };
    match needs {
        Needs::Nothing => String::new(),
        Needs::Tag => "a VLAN tag".into(),
        Needs::Type(kinds) => types(kinds),
        Needs::Protocol(_, number) => protocol(number).into(),
        Needs::Kind(kinds) => {
            let kinds: Vec<_> = kinds.iter().map(|kind| format!("icmp6 of type {kind}")).collect();
            kinds.join(", ")
        }
    }
}

#[test]
fn the_page_has_all_matches() {
    let mut table = String::new();
    for row in OxmField::all().map(OxmField::row) {
        // There are 16 and 8 alike.
        let number = row.name.trim_start_matches(|c: char| !c.is_ascii_digit());
        if row.name.trim_start_matches('x').starts_with("reg") && number != "0" {
            continue;
        }
        let yes = |is: bool| if is { "yes" } else { "" };
        let names = if row.name == "reg0" {
            "`reg0` to `reg15`".into()
        } else if row.name == "xreg0" {
            "`xreg0` to `xreg7`".into()
        } else if row.short_name == row.name {
            format!("`{}`", row.name)
        } else {
            format!("`{}`; set as `{}`", row.short_name, row.name)
        };
        let (bits, long_name) = (row.bits, row.long_name);
        let (masked, set, needs) = (yes(row.is_maskable), yes(row.is_settable), needs(row.needs));
        writeln!(table, "| {names} | `{long_name}` | {bits} | {masked} | {set} | {needs} |").expect("room");
    }
    let there: String = rows("## Matches").flat_map(|row| [row, "\n"]).collect();
    assert_eq!(there, table, "docs/openflow.md should have\n{table}");
}

#[test]
fn the_actions_of_the_page_are_actions() {
    let mut count = 0;
    for row in rows("## Actions") {
        let forms = row.split('|').nth(1).expect("a cell").split('`').skip(1).step_by(2);
        for form in forms {
            assert!(parse_actions(form).is_ok(), "{form}: {:?}", parse_actions(form));
            count += 1;
        }
    }
    assert!(count > 30, "{count} actions");
}
