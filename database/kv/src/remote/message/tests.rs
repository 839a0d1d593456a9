use super::Message;
use crate::random::Random;
use fulmar_transport::Wire;

/// The kinds of messages, by their first bytes: questions, answers, and what servers tell each other.
fn kinds() -> impl Iterator<Item = u8> {
    (0..=10).chain(16..=27).chain(32..=56)
}

/// Mostly small numbers, as lengths and counts are.
fn bytes(kind: u8, random: &mut Random) -> Vec<u8> {
    let length = random.index(30);
    let byte = |_| {
        let small = random.below(4);
        if random.chance(10) { random.next().to_be_bytes()[0] } else { small.to_be_bytes()[7] }
    };
    std::iter::once(kind).chain((0..length).map(byte)).collect()
}

fn written(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

/// Whatever bytes come, they are refused or are a message, which is written so that it is read as the same.
#[test]
fn what_is_read_is_what_was_written() {
    let mut random = Random(7);
    for kind in kinds() {
        let mut read = 0;
        for _ in 0..400_000 {
            let Ok(message) = Message::decode(&bytes(kind, &mut random)) else { continue };
            let again = written(&message);
            assert_eq!(again[0], kind, "{message:?}");
            let reread =
                Message::decode(&again).unwrap_or_else(|_| panic!("cannot be read again: {message:?}"));
            assert_eq!(written(&reread), again, "{message:?}");
            assert_eq!(format!("{reread:?}"), format!("{message:?}"));
            read += 1;
            if read == 200 {
                break;
            }
        }
        assert!(read > 0, "no message of kind {kind} was read");
    }
}
