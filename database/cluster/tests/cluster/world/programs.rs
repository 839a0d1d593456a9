//! Programs on clients, and the database as they see it.

use super::{CLIENTS_BEGIN, MANAGER, Role, Wish};
use fulmar_cluster::{Ask, Call, Remote, Reply, Unreachable};
use fulmar_dbt::{Database, Transaction, Tree};
use fulmar_kv::Durability;
use fulmar_locks::Mutex;
use fulmar_node::NodeId;
use fulmar_sim::{Port, Sim};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A tree that the first client makes, with what is put into it.
pub(crate) fn plant(sim: &mut Sim<Role>, put: impl FnOnce(&mut Transaction, Tree) + Send + 'static) -> Tree {
    let made = Arc::new(Mutex::new(None));
    let tell = Arc::clone(&made);
    sim.host(NodeId(CLIENTS_BEGIN), move |port: Port<Role>| {
        let mut transaction = connect_to(port, MANAGER).begin().expect("servers");
        let tree = transaction.create_tree().expect("a tree");
        put(&mut transaction, tree);
        transaction.commit(Durability::Synced).expect("servers");
        *tell.lock() = Some(tree);
    });
    sim.run_until(Duration::from_secs(60), |_, _, _| {}, |sim| sim.programs_running() == 0);
    made.lock().take().expect("the servers answer")
}

/// The database, for a program.
pub(crate) fn connect(port: Port<Role>) -> Database {
    connect_to(port, MANAGER)
}

/// …by this server.
pub(crate) fn connect_to(port: Port<Role>, server: NodeId) -> Database {
    connect_by(&Arc::new(Mutex::new(port)), server)
}

/// …and by a port that the program has other uses for.
pub(crate) fn connect_by(port: &Arc<Mutex<Port<Role>>>, server: NodeId) -> Database {
    // A client that has crashed finds that out when it asks for something.
    let _ = port.lock().request(Wish::Ask(Ask::Server(server)));
    Database::remote(Arc::new(Remote::new(Path::new("server"), Caller(Arc::clone(port)))))
}

struct Caller(Arc<Mutex<Port<Role>>>);

impl Call for Caller {
    fn call(&mut self, ask: Ask) -> Result<Reply, Unreachable> {
        self.0.lock().call(Wish::Ask(ask)).map_err(|error| Unreachable(error.to_string()))
    }

    fn tell(&mut self, ask: Ask) {
        // A client that has crashed holds no snapshots.
        let _ = self.0.lock().request(Wish::Ask(ask));
    }
}
