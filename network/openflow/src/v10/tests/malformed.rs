//! Wrong messages, and what their senders are told: errors with the numbers of OpenFlow 1.0, or Nicira's where it has none.

use crate::tests::bytes;
use crate::{Dialect, Habits};

/// The type and the code of the error that answers a message of this type and content.
fn told(kind: u8, content: &str) -> String {
    let content = bytes(content);
    let length = u16::try_from(8 + content.len()).expect("short").to_be_bytes();
    let message = [&[1, kind, length[0], length[1], 0, 0, 0, 9], &content[..]].concat();
    told_of(&message, Habits::default())
}

fn told_of(message: &[u8], habits: Habits) -> String {
    let dialect = Dialect::V10(habits);
    let rejection = dialect.decode(message).expect_err("it is wrong");
    let mut error = Vec::new();
    dialect.encode(&rejection.into_message(), &mut error).expect("short");
    assert_eq!(error[..2], [1, 1]);
    let numbers = &error[8..error.len() - message.len().min(64)];
    numbers.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A flow that matches anything, with this command, these flags and these actions.
fn flow(command: &str, flags: &str, actions: &str) -> String {
    let asked = format!("003820ff {}", "00".repeat(36));
    format!("{asked} 0000000000000000 {command} 0000 0000 8000 ffffffff ffff {flags} {actions}")
}

const NICIRA: &str = "b0c2000000002320";

#[test]
fn wrong_messages_are_told() {
    assert_eq!(told(22, ""), "00010001");
    assert_eq!(told(18, "00"), "00010006");
    assert_eq!(told(14, "00"), "00010006");
    assert_eq!(told(4, "00000001 00000000"), "00010003");
    assert_eq!(told(4, "00002320 00000063"), "00010004");
    assert_eq!(told(16, "0063 0000"), "00010002");
    assert_eq!(told(16, "ffff 0000 00000001"), "00010006");
    assert_eq!(told(16, "ffff 0000 00000001 00000000 00000000"), "00010003");
    assert_eq!(told(16, "ffff 0000 00002320 00000002 00000000"), "00010004");
    // A packet that the switch keeps, and has once more.
    assert_eq!(told(13, "00000001 0001 0000 ff"), "00010006");
    assert_eq!(told_of(&[4, 18, 0, 8, 0, 0, 0, 9], Habits::default()), "00010000");
}

#[test]
fn wrong_flows_are_told() {
    assert_eq!(told(14, &flow("0005", "0000", "")), "00030004");
    assert_eq!(told(14, &flow("0100", "0000", "")), "00030004", "no table was agreed on");
    assert_eq!(told(14, &flow("0000", "0004", "")), "00030000", "an emergency");
    let times_out = flow("0000", "0004", "").replace("0000 0000 0000 8000", "0000 0005 0000 8000");
    assert_eq!(told(14, &times_out), "00030003", "an emergency that ends");
    assert_eq!(told(14, &flow("0000", "0008", "")), format!("{NICIRA}00030102"));
}

#[test]
fn wrong_actions_are_told() {
    let cases = [
        // A type and lengths that there are not.
        ("000c 0008 00000000", "00020000"),
        ("0000 000c 0001 0000 00000000", "00020001"),
        ("0000 0000 0001 0000", "00020001"),
        ("0004 0008 01020304", "00020001"),
        // Values that are too large.
        ("0001 0008 1000 0000", "00020005"),
        ("0002 0008 08000000", "00020005"),
        ("0008 0008 03000000", "00020005"),
        // Vendors, and what they have not.
        ("ffff 0010 00000001 0000 000000000000", "00020002"),
        ("ffff 0010 00002320 00c8 000000000000", "00020003"),
        // A field that a flow without TCP has not: of Nicira's actions, which say so.
        ("ffff 0018 00002320 0007 000f 00001202 0000000000000050", "b0c20000000023200001020a"),
        ("ffff 0018 00002320 0007 000f 0001fe02 0000000000000050", "b0c20000000023200001020b"),
    ];
    for (actions, numbers) in cases {
        assert_eq!(told(14, &flow("0000", "0000", actions)), numbers, "{actions}");
    }
}

#[test]
fn wrong_matches_of_nicira_are_told() {
    let told = |fields: &str, command: &str| {
        let length = bytes(fields).len();
        let padding = "00".repeat(length.next_multiple_of(8) - length);
        let head = "00002320 0000000d 0000000000000001";
        let rest = "0000 0000 8000 ffffffff ffff 0000";
        told(4, &format!("{head} {command} {rest} {length:04x} 000000000000 {fields} {padding}"))
    };
    let nicira = |numbers: &str| format!("{NICIRA}{numbers}");
    assert_eq!(told("00000602 08", "0000"), nicira("00010100"));
    assert_eq!(told("0001fe02 0800", "0000"), nicira("00000107"));
    assert_eq!(told("00000c01 06", "0000"), nicira("00010104"));
    assert_eq!(told("00000602 0800 00000602 0800", "0000"), nicira("00010105"));
    assert_eq!(told("00000704 0800 ff00", "0000"), nicira("00010103"));
    assert_eq!(
        told("00013c08 0000000000000001", "0000"),
        nicira("00010100"),
        "a new flow has its cookie elsewhere"
    );
    assert_eq!(told("00013c08 0000000000000001 00013c08 0000000000000001", "0001"), nicira("00010105"));
}

#[test]
fn wrong_groups_are_told() {
    let told = |head: &str, buckets: &str, rest: &str| {
        let length = bytes(buckets).len();
        told(4, &format!("00002320 0000001f {head} 00000009 {length:04x} 0000 ffffffff {buckets} {rest}"))
    };
    let output = "0018 0008 00000000 0000000800010000";
    for (head, buckets, rest, numbers) in [
        // Buckets that are inserted among others, and a type that there is not.
        ("0003 00 00", "", "", "0006000b"),
        ("0000 09 00", "", "", "0006000a"),
        // A way of selecting.
        ("0000 01 00", "", "ffff 0010 0000154d 00000001 00000000", "00060001"),
        // One bucket too many.
        ("0000 02 00", "0008 0000 00000000 0008 0000 00000001", "", "00060001"),
        // What no bucket has.
        ("0000 00 00", &format!("{output} 0009 0008 00000000"), "", "0006000c"),
    ] {
        assert_eq!(told(head, buckets, rest), format!("{NICIRA}{numbers}"), "{head} {buckets} {rest}");
    }
    // Lengths of a bucket, of its actions, and of a weight.
    assert_eq!(told("0000 00 00", "0020 0000 00000000", ""), format!("{NICIRA}0006000c"));
    assert_eq!(told("0000 00 00", "0008 0008 00000000", ""), format!("{NICIRA}0006000c"));
    assert_eq!(told("0000 00 00", &format!("{output} 0000 0006 0001 0000"), ""), format!("{NICIRA}0006000c"));
}
