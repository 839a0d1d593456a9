//! Wrong messages, and what their senders are told.

use super::golden::bytes;
use crate::error::{
    BadAction, BadInstruction, BadMatch, BadRequest, ErrorCode, FlowModFailed, GroupModFailed,
    MeterModFailed, Nicira, Onf, RoleRequestFailed, SwitchConfigFailed,
};
use crate::{Message, Rejection};

/// A header, and what follows.
fn message(version: u8, kind: u8, content: &str) -> Vec<u8> {
    let content = bytes(content);
    let length = u16::try_from(8 + content.len()).expect("short").to_be_bytes();
    [&[version, kind, length[0], length[1], 0, 0, 0, 9], &content[..]].concat()
}

/// A flow for table 1 with these fields and instructions.
fn flow(fields: &str, instructions: &str) -> Vec<u8> {
    flow_with("00", "0000", fields, instructions)
}

fn flow_with(command: &str, flags: &str, fields: &str, instructions: &str) -> Vec<u8> {
    let (cookies, times, any) = ("00".repeat(16), "0000 0000 8000", "ff".repeat(12));
    let length = 4 + bytes(fields).len();
    let padding = "00".repeat(length.next_multiple_of(8) - length);
    let content = format!(
        "{cookies} 01 {command} {times} {any} {flags} 0000 0001 {length:04x} {fields} {padding} {instructions}"
    );
    message(4, 14, &content)
}

/// A flow of IPv4 that does this at once.
fn doing(actions: &str) -> Vec<u8> {
    let length = 8 + bytes(actions).len();
    flow(IPV4, &format!("0004 {length:04x} 00000000 {actions}"))
}

const IPV4: &str = "80000a02 0800";
const TCP: &str = "80000a02 0800 80001401 06";

#[track_caller]
fn is_told(bytes: &[u8], code: impl Into<ErrorCode>) {
    let told = Message::decode(bytes).map_err(|rejection| rejection.code);
    assert_eq!(told, Err(code.into()), "{bytes:02x?}");
}

#[test]
fn wrong_messages_are_told() {
    is_told(&message(1, 20, ""), BadRequest::BadVersion);
    is_told(&message(5, 14, ""), BadRequest::BadVersion);
    is_told(&message(4, 30, ""), BadRequest::BadType);
    is_told(&message(4, 20, "00"), BadRequest::BadLength);
    is_told(&message(4, 14, "00"), BadRequest::BadLength);
    is_told(&message(4, 4, "00000001 00000000"), BadRequest::BadExperimenter);
    is_told(&message(4, 4, "00002320 00000063"), BadRequest::BadExperimenterType);
    is_told(&message(4, 18, "0063 0000 00000000"), BadRequest::BadMultipart);
    is_told(&message(4, 18, "ffff 0000 00000000 00000001 00000000"), BadRequest::BadExperimenter);
    is_told(&message(4, 18, "0000 0000 00000000 00"), BadRequest::BadLength);
    is_told(&message(4, 9, "0004 0000"), SwitchConfigFailed::BadFlags);
    is_told(&message(4, 24, "00000004 00000000 0000000000000000"), RoleRequestFailed::BadRole);
    // A packet that the switch keeps, and has once more.
    is_told(&message(4, 13, "00000001 00000001 0000 000000000000 ff"), BadRequest::BadLength);
}

/// Sections 7.2.3.2 to 7.2.3.8.
#[test]
fn wrong_matches_are_told() {
    let cases: &[(&str, BadMatch)] = &[
        // A class, and numbers, that are not known; fields that are no part of a key.
        ("12340a02 0800", BadMatch::BadField),
        ("8000fe00", BadMatch::BadField),
        ("80000204 00000001", BadMatch::BadField),
        ("80004e02 0001", BadMatch::BadField),
        ("ffff5406 00000001 0001", BadMatch::BadField),
        // Lengths: one byte less and more; cut off; no room for an experimenter; a mask that is half there.
        ("80000a01 08", BadMatch::BadLength),
        ("80000a03 080000", BadMatch::BadLength),
        ("80000a02 08", BadMatch::BadLength),
        ("80000a", BadMatch::BadLength),
        ("ffff5402 0001", BadMatch::BadLength),
        ("80000707 01020304050600", BadMatch::BadLength),
        // A field that cannot be masked.
        ("80000b04 0800 ffff", BadMatch::BadMask),
        ("80000108 00000001 ffffffff", BadMatch::BadMask),
        // Bits that are not meant.
        ("8000070c 010000000000 000000000000", BadMatch::BadWildcards),
        ("80000a02 0800 80001708 0a000001 ff000000", BadMatch::BadWildcards),
        // Values that are too large: a DSCP, a VLAN, a label, an operation of ARP, a ToS with other bits.
        ("80000a02 0800 80001001 40", BadMatch::BadValue),
        ("80000c02 2000", BadMatch::BadValue),
        ("80000a02 8847 80004404 00100000", BadMatch::BadValue),
        ("80000a02 0806 80002a02 0100", BadMatch::BadValue),
        ("80000a02 0800 00000a01 01", BadMatch::BadValue),
        // What is needed is not there, or another, or comes later, or is only in part.
        ("80001401 06", BadMatch::BadPrerequisite),
        ("80000a02 86dd 80001604 0a000001", BadMatch::BadPrerequisite),
        ("80000a02 0800 80001a02 0050 80001401 06", BadMatch::BadPrerequisite),
        ("80000a02 0800 80001401 11 80001a02 0050", BadMatch::BadPrerequisite),
        ("80000e01 03", BadMatch::BadPrerequisite),
        ("80000c02 0000 80000e01 03", BadMatch::BadPrerequisite),
        ("80000a02 86dd 80001401 3a 80003e10 00000000000000000000000000000001", BadMatch::BadPrerequisite),
        // Twice: under one name, and under two.
        ("80000a02 0800 80000a02 0800", BadMatch::DuplicateField),
        ("80000a02 0800 00000602 0800", BadMatch::DuplicateField),
        ("00010004 00000001 80010008 0000000000000001", BadMatch::DuplicateField),
    ];
    for (fields, code) in cases {
        is_told(&flow(fields, ""), *code);
    }
    // A match of OpenFlow 1.1, and one that says it is shorter than its own header.
    let mut old = flow(IPV4, "");
    old[49] = 0;
    is_told(&old, BadMatch::BadType);
    let mut short = flow(IPV4, "");
    short[50..52].copy_from_slice(&[0, 3]);
    is_told(&short, BadMatch::BadLength);
}

/// Section 7.2.5.
#[test]
fn wrong_actions_are_told() {
    let cases: &[(&str, BadAction)] = &[
        ("0063 0008 00000000", BadAction::BadType),
        ("0000 0008 00000001", BadAction::BadLength),
        ("0000 0018 00000001 0000 000000000000 0000000000000000", BadAction::BadLength),
        ("0018 0004 00000000", BadAction::BadLength),
        ("0018 000c 000000000000000000000000", BadAction::BadLength),
        ("ffff 0008 12345678", BadAction::BadLength),
        ("ffff 0010 12345678 0000000000000000", BadAction::BadExperimenter),
        ("ffff 0010 00002320 03e7 000000000000", BadAction::BadExperimenterType),
        // Fields that are not known, cannot be set, or have another length or value.
        ("0019 0010 12340002 0001 000000000000", BadAction::BadSetType),
        ("0019 0010 80000a02 0800 000000000000", BadAction::BadSetType),
        ("0019 0010 80001001 40 00000000000000", BadAction::BadSetArgument),
        ("0019 0010 80001002 0001 000000000000", BadAction::BadSetLength),
        // A VLAN without its bit, behind a tag that makes it possible.
        ("0011 0008 8100 0000 0019 0010 80000c02 0005 000000000000", BadAction::BadSetArgument),
        // What the flow does not match.
        ("0019 0010 80001a02 0050 000000000000", BadAction::MatchInconsistent),
        ("0012 0008 00000000", BadAction::MatchInconsistent),
        ("0010 0008 00000000", BadAction::MatchInconsistent),
        ("0013 0008 8847 0000 0018 0008 00000000", BadAction::MatchInconsistent),
        ("0011 0008 0800 0000", BadAction::BadArgument),
        ("0000 0010 ffffffff 0000 000000000000", BadAction::BadOutPort),
        ("0013 0008 0800 0000", BadAction::BadArgument),
        // Bits beyond the end of a field; a value of more bits than it goes to.
        ("ffff 0018 00002320 0007 07c1 00010004 0000000000000001", BadAction::BadSetLength),
        ("ffff 0018 00002320 0007 0000 00010004 0000000000000002", BadAction::BadSetArgument),
        // What belongs into tracking, outside of it.
        ("0019 0010 0001d604 00000001 00000000", BadAction::BadSetArgument),
        ("ffff 0010 00002320 0024 0000 0000 0000", BadAction::BadSetArgument),
        // Tracking: force without commit; an action that is none of a connection; a protocol that is not known.
        ("ffff 0018 00002320 0023 0002 00000000 0000 ff 000000 0000", BadAction::BadArgument),
        (
            "ffff 0020 00002320 0023 0001 00000000 0000 ff 000000 0000 0018 0008 00000000",
            BadAction::BadArgument,
        ),
        ("ffff 0018 00002320 0023 0001 00000000 0000 ff 000000 0050", BadAction::BadArgument),
        // Learning something that is neither matched nor done.
        (
            "ffff 0030 00002320 0010 0000 0000 8000 0000000000000000 0000 01 00 0000 0000 3810 0000 00000002 0000 000000000000",
            BadAction::BadArgument,
        ),
    ];
    for (actions, code) in cases {
        is_told(&doing(actions), *code);
    }
    is_told(&doing("0019 0018 8000170c 0a000001 ffffff00 00000000 00000000"), BadAction::BadSetLength);
}

/// Actions inside of actions: a few are, many are refused before the stack ends.
#[test]
fn nesting_has_an_end() {
    let nested = |levels: usize| {
        (0..levels).fold(Vec::new(), |inner: Vec<u8>, _| {
            let length = u16::try_from(16 + inner.len()).expect("short").to_be_bytes();
            let head = [0xff, 0xff, length[0], length[1], 0, 0, 0x23, 0x20, 0, 42, 0, 0, 0, 0, 0, 0];
            [&head[..], &inner].concat()
        })
    };
    let digits = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert!(Message::decode(&doing(&digits(nested(16)))).is_ok());
    is_told(&doing(&digits(nested(17))), BadAction::TooMany);
    is_told(&doing(&digits(nested(4_000))), BadAction::TooMany);
}

/// Section 7.2.4.
#[test]
fn wrong_instructions_are_told() {
    let cases: &[(&str, ErrorCode)] = &[
        ("0063 0008 00000000", BadInstruction::Unknown.into()),
        ("ffff 0008 00002320", BadInstruction::BadExperimenter.into()),
        ("0001 0004", BadInstruction::BadLength.into()),
        ("0001 0010 05000000 0000000000000000", BadInstruction::BadLength.into()),
        ("0001 0008 05", BadInstruction::BadLength.into()),
        ("0002 0010 00000000 0000000000000000", BadInstruction::BadLength.into()),
        ("0001 0008 05000000 0001 0008 06000000", Onf::DuplicateInstruction.into()),
        // Tables are passed forwards.
        ("0001 0008 01000000", BadInstruction::BadTable.into()),
        ("0001 0008 ff000000", BadInstruction::BadTable.into()),
    ];
    for (instructions, code) in cases {
        is_told(&flow(TCP, instructions), *code);
    }
}

#[test]
fn wrong_changes_are_told() {
    is_told(&flow_with("05", "0000", IPV4, ""), FlowModFailed::BadCommand);
    is_told(&flow_with("00", "0020", IPV4, ""), FlowModFailed::BadFlags);
    is_told(&message(4, 15, "0003 00 00 00000001"), GroupModFailed::BadCommand);
    is_told(&message(4, 15, "0000 04 00 00000001"), GroupModFailed::BadType);
    is_told(&message(4, 15, "0000 00 00 ffffff01"), GroupModFailed::InvalidGroup);
    is_told(&message(4, 15, "0000 02 00 00000001"), GroupModFailed::InvalidGroup);
    // Buckets of groups of all kinds: with a weight, watching a port, and neither.
    let [weighs, watches, neither] = ["0001 ffffffff", "0000 00000001", "0000 ffffffff"]
        .map(|bucket| format!("0010 {bucket} ffffffff 00000000"));
    for kind in ["00", "02", "03"] {
        let weighs = format!("0000 {kind} 00 00000001 {weighs}");
        is_told(&message(4, 15, &weighs), GroupModFailed::InvalidGroup);
    }
    for kind in ["00", "02"] {
        let watches = format!("0000 {kind} 00 00000001 {watches}");
        is_told(&message(4, 15, &watches), GroupModFailed::WatchUnsupported);
    }
    let alive = format!("0000 03 00 00000001 {neither}");
    is_told(&message(4, 15, &alive), GroupModFailed::InvalidGroup);
    is_told(&message(4, 29, "0003 0001 00000001"), MeterModFailed::BadCommand);
    is_told(&message(4, 29, "0000 0003 00000001"), MeterModFailed::BadFlags);
    is_told(&message(4, 29, "0000 0010 00000001"), MeterModFailed::BadFlags);
    is_told(&message(4, 29, "0000 0001 00000000"), MeterModFailed::InvalidMeter);
    let band = "0003 0010 00000001 00000001 00000000";
    is_told(&message(4, 29, &format!("0000 0001 00000001 {band}")), MeterModFailed::BadBand);
}

#[test]
fn wrong_extensions_are_told() {
    let add = |inner: &str| message(4, 4, &format!("4f4e4600 000008fd 00000001 0000 0003 {inner}"));
    is_told(&message(4, 4, "4f4e4600 000008fc 00000001 0008 0000"), Onf::BundleBadType);
    is_told(&message(4, 4, "4f4e4600 000008fc 00000001 0000 0004"), Onf::BundleBadFlags);
    is_told(&add("0414 0008 00000009"), Onf::BundleUnsupported);
    is_told(&add("0404 0010 00000009 4f4e4600 000008fd"), Onf::BundleUnsupported);
    is_told(&add("040f 0010 00000008 0002 00 00 00000001"), Onf::BundleBadXid);
    is_told(&add("040f 0018 00000009 0002 00 00 00000001"), Onf::BundleBadLength);
    let monitor = "ffff 0000 00000000 4f4e4600 0000074e 00000001";
    let rest = "0004 ffffffff ff000000 0001 0004 00000000";
    is_told(&message(4, 18, &format!("{monitor} 0001 {rest}")), Nicira::BadMonitorFlags);
    is_told(&message(4, 18, &format!("{monitor} 0042 {rest}")), Nicira::BadMonitorFlags);
}

/// Section 7.4.4: at least 64 bytes of the offender, if it has so many, and its number.
#[test]
fn the_offender_is_sent_back() {
    let long = flow("12340a02 0800", "");
    let told = Message::decode(&long).expect_err("there is no such class");
    assert_eq!(told, Rejection { xid: 9, code: BadMatch::BadField.into(), data: long[..64].to_vec() });
    let short = message(4, 30, "");
    assert_eq!(Message::decode(&short).expect_err("no such type").data, short);
}
