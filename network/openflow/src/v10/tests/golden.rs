//! Bytes of a real peer: what it sends is read as it means it, and what we write means the same to us.

use crate::tests::blocks;
use crate::{Body, Dialect, Habits, Message};

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
