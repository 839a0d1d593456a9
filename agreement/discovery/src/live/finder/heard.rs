//! What comes of a message from whoever may send one, in each state of the node: `heard.txt` is written by this.

use super::super::member::CENTURY;
use super::strangers::{address, member, question};
use super::*;
use fulmar_node::Outbox;

/// Ours.
const ME: u32 = 5;
const LIFE: u64 = 1_000_000;
const NOW: Time = Time::from_nanos(2_000_000_000);

#[derive(Clone, Copy, Debug)]
enum State {
    Running,
    Leaving,
    Departed,
}

const STATES: [State; 3] = [State::Running, State::Leaving, State::Departed];

/// Who may have sent it: the address, the life, and whether it has said farewell.
fn senders() -> [(&'static str, Member); 9] {
    let one = |number: u32, life: u64, standing: Standing| {
        let mut member = member(number, standing);
        member.incarnation.life = life;
        member
    };
    [
        ("stranger", one(9, LIFE, Standing::Alive)),
        ("live", one(1, LIFE, Standing::Alive)),
        ("live, earlier life", one(1, LIFE - 1, Standing::Alive)),
        ("live, farewell", one(1, LIFE, Standing::Left)),
        ("dead", one(2, LIFE, Standing::Alive)),
        ("dead, later life", one(2, LIFE + 1, Standing::Alive)),
        ("left", one(3, LIFE, Standing::Alive)),
        ("itself", one(ME, LIFE + 7, Standing::Alive)),
        ("beyond all clocks", one(9, 2 * CENTURY, Standing::Alive)),
    ]
}

/// A node that knows of one that is live, one that is dead and one that has left.
fn node(state: State) -> Finder {
    let mut finder = Finder::new(address(ME), Name::default(), []);
    finder.start(Time::ZERO + Duration::from_micros(LIFE), &mut Outbox::default());
    let known = [(1, Standing::Alive), (2, Standing::Dead), (3, Standing::Left)].map(|(number, standing)| {
        let mut member = member(number, standing);
        member.incarnation.life = LIFE;
        member
    });
    let mut told = question(1, known.to_vec());
    told.sender.incarnation.life = LIFE;
    finder.receive(NOW, NodeId(0), told, &mut Outbox::default());
    if !matches!(state, State::Running) {
        finder.request(NOW, Request::Leave, &mut Outbox::default());
    }
    if matches!(state, State::Departed) {
        let mut now = NOW;
        while let Some(due) = finder.next_due(now) {
            now = due;
            finder.expire(now, Due, &mut Outbox::default());
        }
        assert!(finder.departed);
    }
    finder
}

/// What is said to the sender, and what is believed of it then.
fn outcome(state: State, kind: Kind, sender: &Member) -> String {
    let mut finder = node(state);
    let message = Message { kind, ..question(1, Vec::new()) };
    let mut out = Outbox::default();
    finder.receive(NOW, NodeId(0), Message { sender: sender.clone(), ..message }, &mut out);
    finder.invariants().expect("all is well");
    let said = match out.sends.first().map(|(_, message)| message.kind) {
        Some(Kind::Answer) => "answers",
        Some(Kind::Ask) => "asks",
        None => "-",
    };
    let believed = match finder.roster.get(sender.address) {
        Some(found) if found.incarnation.life == sender.incarnation.life => found.standing.to_string(),
        Some(found) => format!("other life {}", found.standing),
        None => "unknown".into(),
    };
    format!("{said}, {believed}")
}

#[test]
fn what_is_heard_is_written_down() {
    let line = |name: &str, columns: [String; 3]| {
        let columns: String = columns.iter().map(|column| format!("{column:26}")).collect();
        format!("{}\n", format!("{name:28}{columns}").trim_end())
    };
    let mut table = line("message", STATES.map(|state| format!("{state:?}").to_lowercase()));
    for kind in [Kind::Ask, Kind::Answer] {
        for (name, sender) in senders() {
            let outcomes = STATES.map(|state| outcome(state, kind, &sender));
            table += &line(&format!("{kind:?}, {name}"), outcomes);
        }
    }
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/live/finder/heard.txt");
    if std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &table).expect("written");
    }
    assert_eq!(table, std::fs::read_to_string(&golden).expect("readable"));
}
