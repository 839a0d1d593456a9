//! The same replicas and clients on sockets, with files for disks: what holds in the simulator holds here.

use crate::simulation::{KEYS, Registers, decode_output, invocation};
use crate::{Client, ClientId, Group, Member, Options, Outcome, Protocol, Record, Replica};
use fulmar_history::linearizability::{self, Call, CallOf, KeyValue, KeyValueOperation, RegisterOperation};
use fulmar_node::{Lsn, NodeId, Random};
use fulmar_transport::{ClusterId, Handle, Limits, Log, Server, Wire};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

const CLIENTS: u64 = 4;
const OPERATIONS: u64 = 300;
/// So many are answered before the next replica ends.
const BETWEEN: usize = 48;

/// Records behind one another in a file, each after its length.
struct Journal(File);

impl Journal {
    fn open(path: &Path) -> (Self, Vec<Record>) {
        let mut file = File::options().read(true).append(true).create(true).open(path).expect("a file");
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).expect("what was written");
        let mut records = Vec::new();
        let mut rest = &bytes[..];
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let (record, after) = after.split_at(u32::from_be_bytes(*length) as usize);
            records.push(Record::decode(record).expect("a record"));
            rest = after;
        }
        (Self(file), records)
    }
}

impl Log<Record> for Journal {
    fn append(&mut self, records: &[Record]) -> io::Result<()> {
        for record in records {
            let mut bytes = vec![0; 4];
            record.encode(&mut bytes);
            let length = u32::try_from(bytes.len() - 4).expect("a small one");
            bytes[..4].copy_from_slice(&length.to_be_bytes());
            self.0.write_all(&bytes)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

const PROTOCOL: fulmar_transport::Protocol = fulmar_transport::Protocol { cluster: ClusterId(7), version: 1 };

/// Where the replicas are, and their files.
struct Place {
    group: Group,
    addresses: Vec<SocketAddr>,
    directory: PathBuf,
}

type Running<'s> = (Handle<Replica<Registers>>, ScopedJoinHandle<'s, ()>);

impl Place {
    fn serve<'s>(&'s self, scope: &'s Scope<'s, '_>, member: Member, listener: TcpListener) -> Running<'s> {
        let me = member.node;
        let (mut journal, records) = Journal::open(&self.journal(me));
        let replica =
            Replica::new(member, self.group.clone(), Options::default(), Registers::default(), &records);
        let logged = Lsn(records.len() as u64);
        let mut server = Server::new(me, PROTOCOL, Limits::default(), replica, logged).expect("a server");
        for (other, address) in self.group.nodes().zip(&self.addresses) {
            server.address(other, (*address).into());
        }
        server.listen(listener).expect("it listens");
        let handle = server.handle();
        let run = move || drop(server.run(&mut journal, &mut ()).expect("its disk works"));
        (handle, scope.spawn(run))
    }

    fn journal(&self, node: NodeId) -> PathBuf {
        self.directory.join(node.to_string())
    }

    /// What a client asks and is answered, by a clock that all share.
    fn ask(&self, name: u64, clock: &AtomicU64, answered: &Sender<()>) -> Vec<CallOf<KeyValue>> {
        let process = Client::new(ClientId(name), self.group.clone(), Duration::from_millis(200));
        let mut client = fulmar_transport::Client::new(PROTOCOL, Limits::default(), process);
        for (member, address) in self.group.nodes().zip(&self.addresses) {
            client.address(member, (*address).into());
        }
        let mut random = Random::new(name);
        let mut history = Vec::new();
        for number in 0..OPERATIONS {
            let operation = match random.below(3) {
                0 => RegisterOperation::Write(Some(name * 1_000 + number)),
                _ => RegisterOperation::Read,
            };
            let operation = KeyValueOperation { key: random.below(KEYS), operation };
            let is_query = operation.operation == RegisterOperation::Read && random.one_in(2);
            let invoked = clock.fetch_add(1, SeqCst);
            let mut events = client.request(invocation(operation, is_query));
            let outcome = events.as_mut().map(|events| events.remove(0)).expect("somebody answers");
            let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
            let response = Some((clock.fetch_add(1, SeqCst), decode_output(&result)));
            history.push(Call { process: name, invoked, operation, response });
            let _ = answered.send(());
        }
        history
    }
}

fn is_in_view(replica: &Handle<Replica<Registers>>) -> bool {
    replica.ask(|replica, _| replica.view().is_some()).expect("it runs")
}

/// While clients ask, one replica after the other ends and comes back, the second without its file, on which the others depend
/// when the third is away.
fn run(protocol: Protocol) {
    let directory = tempfile::tempdir().expect("a directory");
    let listeners: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    let place = Place {
        group: Group::new((1..=3).map(NodeId), protocol).expect("three"),
        addresses: listeners.iter().map(|listener| listener.local_addr().expect("bound")).collect(),
        directory: directory.path().into(),
    };
    let clock = AtomicU64::new(1);
    let history = std::thread::scope(|scope| {
        let place = &place;
        let clock = &clock;
        let again: Vec<_> = listeners.iter().map(|listener| listener.try_clone().expect("a copy")).collect();
        let members = place.group.members().iter().copied();
        let mut running: Vec<_> =
            members.zip(listeners).map(|(member, listener)| place.serve(scope, member, listener)).collect();
        let (answered, answers) = channel();
        let ask = |name| {
            let answered = answered.clone();
            scope.spawn(move || place.ask(name, clock, &answered))
        };
        let clients: Vec<_> = (1..=CLIENTS).map(ask).collect();
        let wait = |many| assert_eq!(answers.iter().take(many).count(), many, "some are not answered");
        for (place_of, listener) in again.into_iter().enumerate() {
            wait(BETWEEN);
            let (handle, thread) = running.remove(place_of);
            handle.stop();
            thread.join().expect("it ends well");
            let former = place.group.members()[place_of];
            let incarnation = u64::from(place_of == 1);
            match place_of {
                1 => std::fs::remove_file(place.journal(former.node)).expect("it had a file"),
                2 => wait(BETWEEN),
                _ => {}
            }
            let member = Member { incarnation, ..former };
            running.insert(place_of, place.serve(scope, member, listener));
            while !is_in_view(&running[place_of].0) {
                wait(1);
            }
        }
        let history = clients.into_iter().flat_map(|client| client.join().expect("it is answered")).collect();
        for (handle, thread) in running {
            handle.stop();
            thread.join().expect("it ends well");
        }
        history
    });
    let history: Vec<_> = history;
    assert_eq!(history.len() as u64, CLIENTS * OPERATIONS);
    if let Err(found) = linearizability::check(&KeyValue::default(), &history) {
        panic!("{protocol:?}: {found}");
    }
}

#[test]
fn viewstamped_replicas_end_and_come_back() {
    run(Protocol::Viewstamped);
}

#[test]
fn fast_paxos_replicas_end_and_come_back() {
    run(Protocol::Fast);
}

#[test]
fn speculative_paxos_replicas_end_and_come_back() {
    run(Protocol::Speculative);
}
