//! The checks of the model, by machines that break it.

use fulmar_discovery::baselines::Flooding;
use fulmar_discovery::{Bits, Content, Counts, Error, Machine, Round, Setting, Shape, Topology, network};
use fulmar_node::NodeId;

/// A machine that floods but for one defect.
struct Defective {
    sound: Flooding,
    defect: Defect,
    me: NodeId,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Defect {
    None,
    /// Calls the machine after it, known or not.
    Guesses,
    /// Says that it knows more than it does.
    Boasts,
    /// Hears nothing.
    Deaf,
}

const MACHINES: usize = 8;

impl Machine for Defective {
    type Message = Bits;

    fn act(&mut self, round: &mut Round<'_, Bits>) {
        if self.defect == Defect::Guesses && round.number == 0 {
            round.pull(NodeId((self.me.0 + 1) % 8));
        } else {
            self.sound.act(round);
        }
    }

    fn answer(&self) -> Bits {
        self.sound.answer()
    }

    fn hear(&mut self, message: Bits) {
        if self.defect != Defect::Deaf {
            self.sound.hear(message);
        }
    }

    fn known(&self) -> usize {
        if self.defect == Defect::Boasts { MACHINES } else { self.sound.known() }
    }
}

/// A path in the order of addresses, in which machine 7 has a defect: it knows 6 only.
fn run(defect: Defect) -> Result<Counts, Error> {
    let edges = (1..MACHINES).flat_map(|at| [(at - 1, at), (at, at - 1)]).collect();
    let topology = Topology::from_edges(MACHINES, edges);
    let one = |me| {
        let sound = Flooding::new(me, MACHINES, topology.neighbours(me));
        Defective { sound, defect: if me.0 == 7 { defect } else { Defect::None }, me }
    };
    let mut machines: Vec<Defective> = topology.nodes().map(one).collect();
    network::run(&mut machines, &topology, 20, |_| {})
}

#[test]
fn machines_that_break_the_model_are_found() {
    assert!(run(Defect::None).is_ok());
    let unknown = Error::Unknown { round: 0, from: NodeId(7), to: NodeId(0) };
    assert_eq!(run(Defect::Guesses), Err(unknown));
    let boasts = Error::Miscounted { round: 0, who: NodeId(7), claimed: 8, told: 3 };
    assert_eq!(run(Defect::Boasts), Err(boasts));
    assert_eq!(run(Defect::Deaf), Err(Error::Unfinished { rounds: 20, lacking: 1 }));
}

/// Flooding on a star, by hand: one round, in which the centre tells n − 1 leaves n addresses each, and they tell it 2 each.
#[test]
fn messages_addresses_and_bits_are_counted_right() {
    let counts =
        Setting::new(Shape::Star, 16, 0).run(fulmar_discovery::Algorithm::Flooding).expect("all know all");
    assert_eq!((counts.rounds, counts.messages, counts.most_messages), (1, 30, 15));
    assert_eq!((counts.addresses, counts.bits), (15 * 16 + 15 * 2, (15 * 16 + 15 * 2) * 4));
}

/// What a message counts is what it hands out.
#[test]
fn messages_say_as_many_addresses_as_they_count() {
    for seed in 0..4 {
        let setting = Setting::new(Shape::RandomOut, 200, seed);
        let mut machines = setting.sublogarithmic(&Default::default());
        let mut pushes = 0;
        let counts = network::run(&mut machines, &setting.topology, 1_000, |acted| {
            for (_, call) in acted.calls {
                if let fulmar_discovery::Call::Push(_, message) = call {
                    let mut said = 0;
                    message.each_address(&mut |_| said += 1);
                    assert_eq!(message.addresses(), said);
                    pushes += 1;
                }
            }
            for machine in acted.machines {
                let mut said = 0;
                machine.answer().each_address(&mut |_| said += 1);
                assert_eq!(machine.answer().addresses(), said);
            }
        });
        let messages = counts.expect("all come to know all").messages;
        assert!(pushes > 200 && pushes < messages, "{pushes} of {messages}");
    }
}
