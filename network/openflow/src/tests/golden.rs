//! Bytes and text of a real peer: what it sends is read, and written as it writes it.

use super::encoded;
use crate::flow::FlowMod;
use crate::{Body, Message};

/// The lines of a file, in blocks of `N`, the first of which are bytes.
pub(crate) fn blocks<const N: usize>(file: &str) -> Vec<(Vec<u8>, [&str; N])> {
    let lines: Vec<&str> = file.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let blocks = lines.chunks(N).map(|block| <[&str; N]>::try_from(block).expect("whole blocks"));
    blocks.map(|block| (bytes(block[0]), block)).collect()
}

/// The bytes that are written as two digits each, with spaces anywhere.
pub(crate) fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits.chars().filter_map(|digit| digit.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).expect("two digits")).collect()
}

#[test]
fn flows_are_read_and_written_as_ovs_ofctl_does() {
    for (bytes, [_, text]) in blocks(include_str!("../../testdata/flows.txt")) {
        let message = Message::decode(&bytes).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(Message::decode(&encoded(&message)).as_ref(), Ok(&message), "{text}");
        let Body::FlowMod(flow) = message.body else { panic!("{text} is a flow") };
        let written = flow.to_string();
        let (_, rule) = written.split_once(", ").expect("a table comes first");
        assert_eq!(rule, text);
    }
}

/// What is written is read as what it was written of: but for the actions that are not read.
#[test]
fn flows_are_read_from_text() {
    let unread = ["bundle", "multipath(", "sample("];
    let mut read = 0;
    for (bytes, [_, text]) in blocks(include_str!("../../testdata/flows.txt")) {
        if unread.iter().any(|name| text.contains(name)) {
            assert!(text.parse::<FlowMod>().is_err(), "{text}");
            continue;
        }
        let Ok(Message { body: Body::FlowMod(flow), .. }) = Message::decode(&bytes) else { panic!("{text}") };
        // Two forms of one action may be written alike.
        let again: FlowMod = flow.to_string().parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((&again.asked, again.to_string()), (&flow.asked, flow.to_string()), "{text}");
        read += 1;
    }
    assert!(read > 40, "{read}");
}

#[test]
fn a_text_that_is_wrong_is_told_where() {
    let told = |text: &str| text.parse::<FlowMod>().expect_err("wrong").to_string();
    for (text, error) in [
        ("tcp", "`tcp`: `actions=` and what the flow does is expected"),
        ("tcp,tp_dst=80 actions=fly", "`fly`: an action is expected"),
        ("tcp,wings=2 actions=drop", "`wings=2`: a field is expected"),
        ("tcpp actions=drop", "`tcpp`: a protocol, or a field and its value is expected"),
        ("tcp,tp_dst=65536 actions=drop", "`tp_dst=65536`: a value of this field is expected"),
        ("priority=65536 actions=drop", "`65536`: a priority is expected"),
        ("actions=load:16->reg0[0..3]", "`load:16->reg0[0..3]`: a number that fits is expected"),
        ("actions=output:ct_label[]", "`output:ct_label[]`: a port, or bits of a field is expected"),
        (
            "vlan_vid=0x1005 actions=set_field:5->vlan_vid",
            "`set_field:5->vlan_vid`: a value that the field can be set to is expected",
        ),
        (
            "ip,tp_dst=80 actions=drop",
            "`tp_dst=80`: A match that cannot be understood: The match does not say before what the field needs",
        ),
        (
            "ip actions=set_field:80->tcp_dst",
            "`ip actions=set_field:80->tcp_dst`: An action that cannot be carried out: It needs what the flow does not match",
        ),
    ] {
        assert_eq!(told(text), error);
    }
}

#[test]
fn messages_are_read_and_written_as_ovs_ofctl_understands_them() {
    for (bytes, [_, theirs, ours]) in blocks(include_str!("../../testdata/messages.txt")) {
        let message = Message::decode(&bytes).unwrap_or_else(|error| panic!("{theirs}: {error}"));
        assert_eq!(format!("{:?}", message.body), ours, "{theirs}");
        assert_eq!(encoded(&message), bytes, "{theirs}");
    }
}
