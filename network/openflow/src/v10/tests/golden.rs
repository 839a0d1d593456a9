//! Bytes of a real peer: what it sends is read as it means it, and what we write means the same to us.

use crate::action::Output;
use crate::group::{Bucket, GroupCommand, GroupKind, GroupMod};
use crate::tests::{blocks, bytes};
use crate::{Action, Body, Dialect, GroupNumber, Habits, Message, PortNumber};

#[test]
fn changes_of_flows_are_read_as_ovs_ofctl_means_them() {
    let dialect = Dialect::V10(Habits { names_tables: true, tells_all: false });
    let mut read = 0;
    for (bytes, [_, theirs, ours]) in blocks(include_str!("../../../testdata/old.txt")) {
        let message = dialect.decode(&bytes).unwrap_or_else(|error| panic!("{theirs}: {error}"));
        let Body::FlowMod(flow) = &message.body else { panic!("{theirs} is a change of flows") };
        assert_eq!(format!("{:?} {flow}", flow.command), ours, "{theirs}");
        let mut again = Vec::new();
        dialect.encode(&message, &mut again).expect("short");
        assert_eq!(dialect.decode(&again).as_ref(), Ok(&message), "{theirs}");
        read += 1;
    }
    assert_eq!(read, 25);
}

#[test]
fn what_we_write_is_what_ovs_ofctl_writes() {
    let dialect = Dialect::V10(Habits { names_tables: true, tells_all: false });
    let mut same = 0;
    for (bytes, _) in blocks::<3>(include_str!("../../../testdata/old.txt")) {
        let Ok(Message { xid, body }) = dialect.decode(&bytes) else { panic!("{bytes:02x?}") };
        let mut again = Vec::new();
        dialect.encode(&Message { xid, body }, &mut again).expect("short");
        same += usize::from(again == bytes);
    }
    assert!(same >= 12, "fields of Nicira's form may come in another order: {same}");
}

/// Groups, as Open vSwitch 3.1.0 and its tools say them.
const GROUPS: [&str; 10] = [
    // One that selects by weight is changed, and one is added whose bucket watches a port.
    "0104003800000006 000023200000001f 0001010000000009 00180000ffffffff 0018000800000000 0000000800010000 0000000800030000",
    "0104003800000006 000023200000001f 000003000000000b 00180000ffffffff 0018000800000000 0000000800010000 0001000800000001",
    // All are removed.
    "0104002000000006 000023200000001f 00020000fffffffc 00000000ffffffff",
    // A flow sends to one.
    "010e005800000006 003820cf00000000 0000000000000000 0000000000000800 0006000000000000 0000000000000000 0000000000000000
     0000000000008000 ffffffffffff0000 ffff001000002320 0028000000000005",
    // What groups are, what they have done, and what they can do.
    "0110002000000002 ffff000000002320 0000000800000000 fffffffc00000000",
    "0111003800000002 ffff000000002320 0000000800000000 0020000000000005 0010000000000000 0010000800000000 0000000800010000",
    "0110002000000006 ffff000000002320 0000000700000000 fffffffc00000000",
    "0111004000000006 ffff000000002320 0000000700000000 0028000000000009 0000000000000000 0000000000000000 0000000000000000
     0000000002349340",
    "0110001800000002 ffff000000002320 0000000900000000",
    "0111004000000002 ffff000000002320 0000000900000000 0000000f00000007 ffffff00ffffff00 ffffff00ffffff00 00000fff00000fff
     00000fff00000fff",
];

#[test]
fn groups_are_said_as_open_vswitch_says_them() {
    let dialect = Dialect::V10(Habits::default());
    let read = GROUPS.map(bytes).map(|bytes| {
        let message = dialect.decode(&bytes).unwrap_or_else(|error| panic!("{error}: {bytes:02x?}"));
        let mut again = Vec::new();
        dialect.encode(&message, &mut again).expect("short");
        assert_eq!(again, bytes, "{message:?}");
        message.body
    });
    let bucket = |weight, watch_port| Bucket {
        weight,
        watch_port,
        watch_group: GroupNumber::ANY,
        actions: vec![Action::Output(Output { port: PortNumber(1), max_length: 0 })],
    };
    let group_mod =
        |command, kind, group, buckets| Body::GroupMod(GroupMod { command, kind, group, buckets });
    assert_eq!(
        read[..3],
        [
            group_mod(
                GroupCommand::Modify,
                GroupKind::Select,
                GroupNumber(9),
                vec![bucket(3, PortNumber::ANY)]
            ),
            group_mod(
                GroupCommand::Add,
                GroupKind::FastFailover,
                GroupNumber(11),
                vec![bucket(0, PortNumber(1))]
            ),
            group_mod(GroupCommand::Delete, GroupKind::All, GroupNumber::ALL, Vec::new()),
        ]
    );
    let Body::FlowMod(flow) = &read[3] else { panic!("{:?} is a flow", read[3]) };
    assert_eq!(flow.instructions.to_string(), "group:5");
}
