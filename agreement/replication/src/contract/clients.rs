//! What clients are answered.

use super::{LEADER, ME, at, group};
use crate::applications::Timestamps;
use crate::{ClientId, Group, Member, Message, Options, Protocol, Replica, SequenceNumber, StateMachine};
use fulmar_node::{NodeId, Outbox, Process, Time};

/// One whose queries tell how much was executed, and that nobody may execute.
#[derive(Default)]
struct Counter(u64);

impl StateMachine for Counter {
    fn execute(&mut self, _number: SequenceNumber, operation: &[u8]) -> Vec<u8> {
        assert_eq!(operation, b"add", "not a query");
        self.0 += 1;
        vec![]
    }
    fn rollback(&mut self, _from: SequenceNumber) {
        self.0 = 0;
    }
    fn commit(&mut self, _upto: SequenceNumber) {}
    fn query(&self, _operation: &[u8]) -> Vec<u8> {
        self.0.to_be_bytes().into()
    }
    fn snapshot(&self) -> Vec<u8> {
        Vec::new()
    }
    fn restore(&mut self, _at: SequenceNumber, _snapshot: &[u8]) -> bool {
        true
    }
}

#[test]
fn a_query_is_not_executed_under_speculation() {
    let me = Member { node: ME, incarnation: 0 };
    let group = group(Protocol::Speculative);
    let options = Options { is_durable: false, ..Options::default() };
    let mut replica = Replica::new(me, group, options, Counter::default(), &[]);
    let mut out = Outbox::default();
    replica.start(Time::ZERO, &mut out);
    let request = |client, operation: &[u8], is_query| Message::Request {
        client: ClientId(client),
        epoch: 0,
        session: at(0),
        number: 1,
        operation: operation.into(),
        is_query,
    };
    replica.receive(Time::ZERO, NodeId(7), request(1, b"add", false), &mut out);
    out.clear();
    replica.receive(Time::ZERO, NodeId(7), request(2, b"how many", true), &mut out);
    let told = out.sends.iter().find_map(|(_, message)| match message {
        Message::SpeculativeReply { result, at, .. } => Some((result.clone(), *at)),
        _ => None,
    });
    assert_eq!(told, Some((1_u64.to_be_bytes().into(), at(2))));
    assert_eq!(replica.state_machine().0, 1);
}

/// A client is told that it is forgotten after all when it has been let in and asked again: it did not hear of that.
#[test]
fn who_asks_to_be_let_in_again_is_told_what_it_has() {
    let me = Member { node: LEADER, incarnation: 0 };
    let alone = Group::new([LEADER], Protocol::Viewstamped).expect("one");
    let options = Options { is_durable: false, ..Options::default() };
    let mut replica = Replica::new(me, alone, options, Timestamps::default(), &[]);
    let mut out = Outbox::default();
    replica.start(Time::ZERO, &mut out);
    let mut ask = |session: u64, number: u64| {
        let operation = if number == 0 { Vec::new() } else { Timestamps::take(1) };
        let (client, session, operation) = (ClientId(9), at(session), operation.into());
        let request = Message::Request { client, epoch: 0, session, number, operation, is_query: false };
        replica.receive(Time::ZERO, NodeId(7), request, &mut out);
        let replies = out.sends.iter().filter_map(|(_, message)| match message {
            Message::Reply { number, result, .. } => Some((*number, result.to_vec())),
            _ => None,
        });
        let replies: Vec<_> = replies.collect();
        out.clear();
        replies
    };
    let let_in = ask(0, 0);
    let [(0, session)] = &let_in[..] else { panic!("{let_in:?}") };
    let session = u64::from_be_bytes(session[..].try_into().expect("a place"));
    assert_eq!(ask(session, 4).len(), 1);
    assert_eq!(ask(0, 0), let_in);
}
