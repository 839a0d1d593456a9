//! Counts of one snapshot while leaves are joined under it.

use fulmar_dbt::{Database, Durability, Error, Options, Tree};
use fulmar_kv::ObjectId;
use fulmar_kv::engine::{Batch, Engine, Memory};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const TREE: Tree = Tree(1);
const KEYS: u64 = 1000;

/// What happens between two reads of somebody else.
type Interruption = Box<dyn FnOnce() + Send>;

/// An engine that lets something happen during one of its loads.
#[derive(Clone, Default)]
struct Interrupted(Arc<Interruptible>);

#[derive(Default)]
struct Interruptible {
    memory: Memory,
    loads: AtomicU64,
    at: AtomicU64,
    interruption: Mutex<Option<Interruption>>,
}

impl Interrupted {
    /// Interrupts the load number `loads` from now on.
    fn after(&self, loads: u64, interruption: Interruption) {
        *self.0.interruption.lock().unwrap() = Some(interruption);
        self.0.at.store(self.0.loads.load(SeqCst) + loads, SeqCst);
    }
}

impl Engine for Interrupted {
    fn write(&self, batch: Batch) -> Result<(), Error> {
        self.0.memory.write(batch)
    }

    fn sync(&self) -> Result<(), Error> {
        self.0.memory.sync()
    }

    fn load(&self, object: ObjectId, visit: &mut dyn FnMut(u64, &[u8])) -> Result<(), Error> {
        if self.0.loads.fetch_add(1, SeqCst) + 1 == self.0.at.load(SeqCst) {
            let interruption = self.0.interruption.lock().unwrap().take();
            if let Some(interruption) = interruption {
                interruption();
            }
        }
        self.0.memory.load(object, visit)
    }

    fn next(&self, from: ObjectId) -> Result<Option<ObjectId>, Error> {
        self.0.memory.next(from)
    }

    fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.0.memory.fact(name)
    }
}

/// Counts a snapshot of sparse leaves, which are joined during one load; says whether that load came.
fn counts_right(loads: u64) -> bool {
    let engine = Interrupted::default();
    let options = Options { cache_bytes: 0, ..Options::default() };
    let kv = fulmar_kv::Database::with_engine(Path::new("test"), Box::new(engine.clone()), &options).unwrap();
    let database = Database::on(kv).unwrap();
    let mut filler = database.begin().unwrap();
    for n in 0..KEYS {
        filler.put(TREE, &n.to_be_bytes(), &[0; 2000]).unwrap();
    }
    filler.commit(Durability::Written).unwrap();
    // For as long as it is open, nothing is stale.
    let holder = database.begin().unwrap();
    let mut thinner = database.begin().unwrap();
    for n in (0..KEYS).filter(|n| !n.is_multiple_of(10)) {
        thinner.delete(TREE, &n.to_be_bytes()).unwrap();
    }
    thinner.commit(Durability::Written).unwrap();
    let reader = database.begin().unwrap();
    let others = database.clone();
    engine.after(
        loads,
        Box::new(move || {
            drop(holder);
            for _ in 0..40 {
                let mut writer = others.begin().unwrap();
                writer.put(Tree(0), b"key", b"value").unwrap();
                writer.commit(Durability::Written).unwrap();
            }
        }),
    );
    assert_eq!(reader.count(TREE).unwrap(), KEYS / 10, "interrupted at load {loads}");
    engine.0.interruption.lock().unwrap().is_none()
}

#[test]
fn no_key_is_counted_twice_when_leaves_are_joined() {
    let interrupted = (1..400).step_by(13).filter(|loads| counts_right(*loads)).count();
    assert!(interrupted > 10, "only {interrupted} counts were interrupted");
}
