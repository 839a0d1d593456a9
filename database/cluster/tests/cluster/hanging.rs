//! Three servers on sockets, of which one has its thread stand still, as with a sync that does not end.

use fulmar_cluster::{
    Cluster, Connection, DatabaseNumber, Map, Protocol, Remote, Replication, Service, ShardOptions,
    Transient, new_cluster, new_server,
};
use fulmar_dbt::{Database, Durability, Tree};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Longer than a replica waits for a leader of which it hears nothing.
const HANGING: Duration = Duration::from_millis(2_500);

struct Running {
    /// Has it do nothing for a while.
    hang: Box<dyn Fn()>,
    stop: Box<dyn Fn()>,
    address: String,
    thread: JoinHandle<()>,
}

impl Running {
    /// A server of this cluster, or the first of one.
    fn start(cluster: Option<Cluster>, replication: Replication) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let databases = Box::new(Transient::new(ShardOptions::default()));
        let service = match cluster {
            None => Service::first(new_cluster().unwrap(), databases, &address, replication),
            Some(cluster) => Service::other(cluster, new_server().unwrap(), databases, &address),
        };
        let mut service = service.unwrap();
        service.listen(listener).unwrap();
        let (hangs, ends) = (service.handle(), service.handle());
        #[expect(clippy::disallowed_methods, reason = "servers run beside their client")]
        let thread = thread::spawn(move || service.run(|_| {}).unwrap());
        let hang = move || {
            let (let_go, waits) = channel::<()>();
            hangs.run(move |_, _, _| {
                waits.recv_timeout(HANGING).expect_err("nobody lets it go");
                drop(let_go);
            });
        };
        Self { hang: Box::new(hang), stop: Box::new(move || ends.stop()), address, thread }
    }

    fn map(&self) -> Map {
        Cluster::meet(&self.address).unwrap().map
    }
}

/// Waits until each of them knows all, and all hold the clock and the map.
#[expect(clippy::disallowed_methods, reason = "a server does not tell when it knows the others")]
fn await_all(servers: &[Running]) {
    let knows_all = |map: &Map| map.servers.len() == servers.len() && map.managers().len() == servers.len();
    while !servers.iter().all(|server| knows_all(&server.map())) {
        thread::yield_now();
    }
}

fn connect(server: &Running) -> Database {
    let connection = Connection::open(server.address.parse().unwrap(), "trees", true).unwrap();
    Database::remote(Arc::new(Remote::new(Path::new("server"), connection)))
}

fn put(database: &Database, tree: Tree, value: &[u8]) {
    let mut transaction = database.begin().unwrap();
    transaction.put(tree, b"bird", value).unwrap();
    transaction.commit(Durability::Synced).unwrap();
}

/// A leader says by another thread that it is there: the others bear with it, and its clients wait.
#[test]
fn a_leader_that_hangs_leads_on() {
    for protocol in [Protocol::Viewstamped, Protocol::Fast, Protocol::Speculative] {
        let replication = Replication { replicas: 3, protocol };
        let first = Running::start(None, replication);
        let mut servers = vec![first];
        for _ in 1..3 {
            let cluster = Cluster::meet(&servers[0].address).unwrap();
            servers.push(Running::start(Some(cluster), replication));
        }
        await_all(&servers);
        let database = connect(&servers[0]);
        let mut transaction = database.begin().unwrap();
        let tree = transaction.create_tree().unwrap();
        transaction.commit(Durability::Synced).unwrap();
        put(&database, tree, b"petrel");
        let shard = tree.root().shard();
        let leads = |map: &Map| (map.manager, map.server(DatabaseNumber(0), shard));
        let (manager, leader) = leads(&servers[0].map());
        for hangs in [Some(manager), leader] {
            let address = &servers[0].map().servers[&hangs.expect("it is led")];
            let server = servers.iter().find(|server| server.address == *address).expect("it is one of them");
            (server.hang)();
            put(&database, tree, b"fulmar");
            servers
                .iter()
                .for_each(|server| assert_eq!(leads(&server.map()), (manager, leader), "{protocol:?}"));
        }
        drop(database);
        for server in servers {
            (server.stop)();
            server.thread.join().unwrap();
        }
    }
}
