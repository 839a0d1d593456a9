//! Messages of all kinds are read as they were written, and nothing that is read makes anything panic.

mod any;
mod golden;
mod malformed;

pub(crate) use golden::{blocks, bytes};

pub(crate) use any::Any;

use crate::error::ErrorMessage;
use crate::flow::FlowMod;
use crate::{Body, Decoder, MatchText, Message, parse_match, read_and_write};
use fulmar_node::Random;
use fulmar_packet::Match;

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes).expect("short");
    bytes
}

#[test]
fn what_is_written_is_read() {
    let mut random = Random::new(1);
    for _ in 0..30_000 {
        let message = Message::any(&mut random);
        let bytes = encoded(&message);
        assert_eq!(Message::decode(&bytes), Ok(message), "{bytes:02x?}");
    }
}

#[test]
fn all_kinds_are_made() {
    let mut random = Random::new(2);
    let mut seen = [false; 30];
    (0..3_000).for_each(|_| seen[usize::from(Body::any(&mut random).number())] = true);
    assert!(seen.iter().all(|seen| *seen), "{seen:?}");
}

/// With the length in the header made right, so that what is inside is looked at.
fn with_length(mut bytes: Vec<u8>) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("short");
    bytes[2..4].copy_from_slice(&length.to_be_bytes());
    bytes
}

#[test]
fn what_is_cut_off_is_an_error_or_another_message() {
    let mut random = Random::new(3);
    for _ in 0..600 {
        let bytes = encoded(&Message::any(&mut random));
        for length in 0..bytes.len().min(600) {
            assert!(Message::decode(&bytes[..length]).is_err());
            if length >= 8 {
                read_and_write(&with_length(bytes[..length].to_vec()));
            }
        }
    }
}

#[test]
fn whatever_bytes_come_there_is_a_message_or_an_error() {
    let mut random = Random::new(4);
    for _ in 0..60_000 {
        let mut bytes = encoded(&Message::any(&mut random));
        for _ in 0..1 + random.below(4) {
            let at = random.index(bytes.len());
            bytes[at] = match random.below(3) {
                0 => 0,
                1 => bytes[at] ^ 1 << random.below(8),
                _ => random.next().to_be_bytes()[0],
            };
        }
        if random.one_in(8) {
            bytes.truncate(8 + random.index(bytes.len() - 7));
        }
        read_and_write(&with_length(bytes));
    }
}

#[test]
fn messages_come_in_pieces_of_any_size() {
    let mut random = Random::new(5);
    let messages: Vec<Message> = (0..300).map(|_| Message::any(&mut random)).collect();
    let bytes: Vec<u8> = messages.iter().flat_map(encoded).collect();
    let (mut decoder, mut found, mut rest) = (Decoder::default(), Vec::new(), &bytes[..]);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(1 + random.index(rest.len().min(900)));
        rest = after;
        decoder.push(piece);
        while let Some(frame) = decoder.next_frame().expect("no length is wrong") {
            found.push(frame.decode().expect("it was written"));
        }
    }
    assert_eq!(found, messages);
}

#[test]
fn a_wrong_message_is_told_and_the_next_one_is_read() {
    let mut decoder = Decoder::default();
    let mut wrong = vec![4, 99, 0, 100, 0, 0, 0, 7];
    wrong.resize(100, 0xaa);
    decoder.push(&wrong);
    decoder.push(&[4, 20, 0, 8, 0, 0, 0, 8]);
    let frame = decoder.next_frame().expect("long enough").expect("whole");
    let told = frame.decode().expect_err("there is no such type").into_message();
    let code = crate::error::BadRequest::BadType.into();
    let data = wrong[..64].to_vec();
    assert_eq!(told, Message { xid: 7, body: Body::Error(ErrorMessage { code, data }) });
    let frame = decoder.next_frame().expect("long enough").expect("whole");
    assert_eq!(frame.decode(), Ok(Message { xid: 8, body: Body::BarrierRequest }));
    assert_eq!(decoder.next_frame(), Ok(None));
}

/// Section 7.1: no message is shorter than its header, so that nobody knows where the next one begins.
#[test]
fn a_length_that_cannot_be_ends_the_connection() {
    let mut decoder = Decoder::default();
    decoder.push(&[4, 0, 0, 7, 0, 0, 0, 0]);
    let broken = decoder.next_frame().expect_err("too short");
    assert_eq!((broken.version, broken.length), (4, 7));
    decoder.push(&[4, 20, 0, 8, 0, 0, 0, 8]);
    assert_eq!(decoder.next_frame(), Err(broken));
}

#[test]
fn a_match_is_read_from_its_text() {
    let mut random = Random::new(6);
    for _ in 0..20_000 {
        let asked = Match::any(&mut random);
        let text = MatchText(&asked).to_string();
        assert_eq!(parse_match(&text).as_ref(), Ok(&asked), "{text}");
    }
}

/// Bytes of text anywhere in text make a flow or an error.
#[test]
fn whatever_text_comes_there_is_a_flow_or_an_error() {
    let flow = "table=1, priority=5,tcp,nw_dst=10.0.0.0/8,ct_state=+trk-new,tp_dst=0x8/0xff8 \
                actions=resubmit(,3),load:0x5->NXM_NX_REG0[0..3],clone(output:1),note:01.02,\
                learn(table=2,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],reg1[0..3]=5,output:in_port[]),ct(commit,zone=3,nat(src=1.2.3.4-1.2.3.5:5-6))";
    let mut random = Random::new(7);
    let letters = b"0123456789abcxf.,:/()[]=+-|>\xc3\xa9 ";
    for _ in 0..50_000 {
        let mut text = flow.as_bytes().to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.index(text.len());
            text[at] = *random.choose(letters).expect("some");
        }
        let text = String::from_utf8_lossy(&text);
        if let Ok(flow) = text.parse::<FlowMod>() {
            let message = Message { xid: 1, body: Body::FlowMod(flow) };
            assert!(Message::decode(&encoded(&message)).is_ok(), "{text}");
        }
    }
}

#[test]
fn nesting_in_text_has_an_end() {
    let nested = |levels| format!("actions={}output:1{}", "clone(".repeat(levels), ")".repeat(levels));
    assert!(nested(16).parse::<FlowMod>().is_ok());
    assert!(nested(17).parse::<FlowMod>().is_err());
    assert!(nested(1_000_000).parse::<FlowMod>().is_err());
}
