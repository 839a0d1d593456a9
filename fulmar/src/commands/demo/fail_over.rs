//! A server is killed while rows are written to the table that it leads.

use super::{DATABASE, Server};
use fulmar_cluster::Cluster;
use rusqlite::Connection;
use std::error::Error;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// For so long rows are written before the kill, and after they are written again.
const LOAD: Duration = Duration::from_secs(2);
/// It should take much less until they are written again.
const LIMIT: Duration = Duration::from_secs(60);
/// Each in another shard, whose leaders are different servers.
const TABLES: u32 = 3;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// What is written, and what is known of it.
#[derive(Default)]
struct Load {
    acknowledged: AtomicU64,
    is_over: AtomicBool,
}

impl Load {
    /// Writes rows one after the other; answers the longest time from one to the next. An attempt of which nobody knows what
    /// became, as its server was killed, is made again.
    fn write(&self, name: &str, table: &str) -> Outcome<Duration> {
        let mut longest = Duration::ZERO;
        let (insert, mut begun) = (format!("INSERT OR IGNORE INTO {table} VALUES(?1)"), Instant::now());
        while !self.is_over.load(SeqCst) {
            let connection = Connection::open(name)?;
            while !self.is_over.load(SeqCst)
                && connection.execute(&insert, [self.acknowledged.load(SeqCst) + 1]).is_ok()
            {
                self.acknowledged.fetch_add(1, SeqCst);
                longest = longest.max(begun.elapsed());
                begun = Instant::now();
            }
        }
        Ok(longest)
    }

    fn await_more(&self) -> Outcome<()> {
        let (before, since) = (self.acknowledged.load(SeqCst), Instant::now());
        while self.acknowledged.load(SeqCst) == before {
            if since.elapsed() > LIMIT {
                return Err("nothing was written any more for a minute".into());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// Where the table's shard is led.
fn leader(server: &str, connection: &Connection, table: &str) -> Outcome<String> {
    let query = "SELECT rootpage >> 22 FROM sqlite_schema WHERE name = ?1";
    let shard: usize = connection.query_row(query, [table], |row| row.get(0))?;
    let layout = Cluster::meet(server)?.map.layout(&DATABASE.try_into()?).ok_or("the database is gone")?;
    let leader = layout.shards.get(shard).and_then(|server| layout.servers.get(server));
    leader.cloned().ok_or_else(|| "nobody leads the table's shard".into())
}

/// Kills the server that keeps the clock and the map, which leads a table, too.
pub(super) fn run(name: &str, servers: [Server; 3]) -> Outcome<()> {
    let mut servers = Vec::from(servers);
    let map = Cluster::meet(&servers[0].address)?.map;
    let victim = map.servers.get(&map.manager).ok_or("nobody keeps the map")?;
    let survives = servers.iter().find(|server| server.address != *victim);
    let survivor = survives.ok_or("there is one server only")?.address.clone();
    let connection = Connection::open(name)?;
    let mut led = Vec::new();
    for table in (0..TABLES).map(|number| format!("written{number}")) {
        connection.execute(&format!("CREATE TABLE {table}(n INTEGER PRIMARY KEY)"), [])?;
        led.push((leader(&survivor, &connection, &table)?, table));
    }
    let by_victim = led.into_iter().find(|(leader, _)| leader == victim);
    let (_, table) = by_victim.ok_or("others lead all tables")?;
    println!(
        "{victim} leads a table, and keeps the cluster's clock and map. Writing to the table, row by row …"
    );
    let load = Load::default();
    let longest = thread::scope(|scope| {
        let writer = scope.spawn(|| load.write(name, &table));
        let killed = kill(victim, &mut servers, &load);
        load.is_over.store(true, SeqCst);
        let written = writer.join().unwrap_or_else(|_| Err("the writer has a defect".into()));
        killed.and(written)
    })?;
    let now = leader(&survivor, &connection, &table)?;
    println!("Nobody waited longer than {} ms. {now} leads the table now.", longest.as_millis());
    let rows: u64 = connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
    let acknowledged = load.acknowledged.load(SeqCst);
    println!("{acknowledged} rows were acknowledged, and {rows} are there.");
    if rows < acknowledged { Err("rows are lost".into()) } else { Ok(()) }
}

/// Kills a server in the middle of the load.
fn kill(victim: &str, servers: &mut Vec<Server>, load: &Load) -> Outcome<()> {
    thread::sleep(LOAD);
    println!("{} rows are acknowledged. Killing {victim} …", load.acknowledged.load(SeqCst));
    servers.retain(|server| server.address != victim);
    load.await_more()?;
    thread::sleep(LOAD);
    Ok(())
}
