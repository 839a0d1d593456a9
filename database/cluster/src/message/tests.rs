use super::{Message, Speaker};
use fulmar_node::Random;
use fulmar_transport::Wire;

/// The kinds of messages, by their first bytes: questions, answers, and what servers tell each other.
fn kinds() -> impl Iterator<Item = u8> {
    (0..=12).chain(16..=30).chain(32..=57)
}

/// Mostly small numbers, as lengths and counts are.
fn bytes(kind: u8, random: &mut Random) -> Vec<u8> {
    let length = random.index(30);
    let byte = |_| {
        let small = random.below(4);
        if random.one_in(10) { random.next().to_be_bytes()[0] } else { small.to_be_bytes()[7] }
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
    let mut random = Random::new(7);
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

/// Who may say what, as a table; see `speaker`.
#[test]
fn who_may_say_what_is_written_down() {
    const SPEAKERS: [Speaker; 4] = [Speaker::Client, Speaker::Stranger, Speaker::Member, Speaker::Manager];
    let mut random = Random::new(7);
    let mut told = format!(
        "{:4}  {:24}{}\n",
        "kind",
        "message",
        SPEAKERS.map(|speaker| format!("{speaker:?}")).join("  ")
    );
    for kind in kinds() {
        let any = || Message::decode(&bytes(kind, &mut random)).ok();
        let message = std::iter::repeat_with(any).flatten().next().expect("endless");
        let written = format!("{message:?}");
        let is_end = |c: char| !c.is_alphanumeric();
        let mut words = written.split(is_end).filter(|word| !word.is_empty());
        let mut name = words.next().unwrap_or_default().to_owned();
        // What is asked or answered is named, too.
        let inner = match &message {
            Message::Question { .. } => words.skip_while(|word| *word != "question").nth(1),
            Message::Answer { .. } => words.skip_while(|word| *word != "answer").nth(1),
            Message::Ask(_) => words.next(),
            _ => None,
        };
        inner.iter().for_each(|inner| name = format!("{name} {inner}"));
        let may = SPEAKERS.map(|speaker| {
            let width = format!("{speaker:?}").len();
            format!("{:width$}", if message.may_come_from(speaker) { "yes" } else { "-" })
        });
        told += format!("{kind:4}  {name:24}{}", may.join("  ")).trim_end();
        told.push('\n');
    }
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/message/speakers.txt");
    if std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &told).expect("written");
    }
    assert_eq!(told, std::fs::read_to_string(&golden).expect("readable"));
}
