//! Bytes and text of a real peer: what it sends is read, and written as it writes it.

use super::encoded;
use crate::{Body, Message};

/// Pairs of lines: bytes, and text.
fn pairs(file: &str) -> impl Iterator<Item = (Vec<u8>, &str)> {
    let lines: Vec<&str> = file.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = move |pair: &[u8]| digit(pair[0]).zip(digit(pair[1])).map(|(high, low)| high << 4 | low);
    let bytes = move |line: &str| line.as_bytes().chunks(2).map(|pair| byte(pair).expect("digits")).collect();
    let pairs: Vec<(Vec<u8>, &str)> = lines.chunks(2).map(|pair| (bytes(pair[0]), pair[1])).collect();
    pairs.into_iter()
}

#[test]
fn flows_are_read_and_written_as_ovs_ofctl_does() {
    let mut wrong = Vec::new();
    for (bytes, text) in pairs(include_str!("../../testdata/flows.txt")) {
        let message = match Message::decode(&bytes) {
            Ok(message) => message,
            Err(error) => {
                wrong.push(format!("{text}\n  {error}"));
                continue;
            }
        };
        assert_eq!(Message::decode(&encoded(&message)).as_ref(), Ok(&message), "{text}");
        let Body::FlowMod(flow) = message.body else { panic!("{text} is a flow") };
        let written = flow.to_string();
        let (_, written) = written.split_once(", ").expect("a table comes first");
        if written != text {
            wrong.push(format!("{text}\n{written}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
