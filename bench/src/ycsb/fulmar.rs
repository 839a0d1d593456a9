//! Fulmar on a server of its own: through SQL, and through the trees below.

use super::system::{Client, System, Values, require_one};
use crate::fault::{Fault, Wrong};
use crate::process::{Started, Temporary};
use fulmar_cluster::{Connection, Remote};
use fulmar_dbt::{Cursor, Database, Durability, Error, Seek, Tree};
use fulmar_node::Random;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Rows that one transaction loads.
const LOADED_AT_ONCE: u64 = 1_000;

/// A server in memory. It ends with this value.
pub(super) struct Server {
    _process: Started,
    /// `HOST:PORT`.
    address: String,
}

impl Server {
    /// Starts `program serve`.
    pub(super) fn start(program: &Path) -> Result<Self, Fault> {
        let mut command = Command::new(program);
        command.args(["serve", "--memory", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped());
        // It tells there of every connection that ends.
        command.stderr(Stdio::null());
        let mut process = Started::new(command, Temporary::new()?)?;
        let mut line = String::new();
        if let Some(output) = process.output() {
            BufReader::new(output).read_line(&mut line)?;
        }
        let address = line.trim().rsplit_once("fulmar://").map(|(_, address)| address.to_owned());
        let address = address.ok_or_else(|| Wrong(format!("{} serve: no address", program.display())))?;
        Ok(Self { _process: process, address })
    }
}

/// SQL on tables.
pub(super) struct Sql<'a>(pub(super) &'a Server);

impl Sql<'_> {
    fn open(&self) -> Result<rusqlite::Connection, Fault> {
        let connection = rusqlite::Connection::open(format!("fulmar://{}/ycsb", self.0.address))?;
        // In memory there is nothing to be synced.
        connection.execute_batch("PRAGMA synchronous = NORMAL")?;
        Ok(connection)
    }
}

impl System for Sql<'_> {
    fn name(&self) -> String {
        "fulmar sql".into()
    }

    fn load(&self, records: u64, logs: u32, values: &Values) -> Result<(), Fault> {
        let connection = self.open()?;
        connection.execute_batch(
            "DROP TABLE IF EXISTS item; CREATE TABLE item(id INTEGER PRIMARY KEY, value TEXT NOT NULL)",
        )?;
        for log in 0..logs {
            connection.execute_batch(&format!(
                "DROP TABLE IF EXISTS log{log};
                 CREATE TABLE log{log}(id INTEGER PRIMARY KEY, value TEXT NOT NULL)"
            ))?;
        }
        let mut insert = connection.prepare("INSERT INTO item(id, value) VALUES (?1, ?2)")?;
        let mut random = Random::new(records);
        for record in 0..records {
            if record.is_multiple_of(LOADED_AT_ONCE) {
                connection.execute_batch("BEGIN")?;
            }
            insert.execute((record.cast_signed(), values.any(&mut random)))?;
            if (record + 1).is_multiple_of(LOADED_AT_ONCE) || record + 1 == records {
                connection.execute_batch("COMMIT")?;
            }
        }
        Ok(())
    }

    fn connected(&self, work: &mut dyn FnMut(&mut dyn Client) -> Result<(), Fault>) -> Result<(), Fault> {
        let connection = self.open()?;
        let prepare = |sql| connection.prepare(sql);
        let mut client = SqlClient {
            read: prepare("SELECT value FROM item WHERE id = ?1")?,
            update: prepare("UPDATE item SET value = ?2 WHERE id = ?1")?,
            insert: prepare("INSERT INTO item(id, value) VALUES (?1, ?2)")?,
            scan: prepare("SELECT id, value FROM item WHERE id >= ?1 ORDER BY id LIMIT ?2")?,
            append: None,
            connection: &connection,
        };
        work(&mut client)
    }
}

struct SqlClient<'c> {
    connection: &'c rusqlite::Connection,
    read: rusqlite::Statement<'c>,
    update: rusqlite::Statement<'c>,
    insert: rusqlite::Statement<'c>,
    scan: rusqlite::Statement<'c>,
    /// For the log that was appended to.
    append: Option<(u32, rusqlite::Statement<'c>)>,
}

impl Client for SqlClient<'_> {
    fn read(&mut self, record: u64) -> Result<usize, Fault> {
        let mut rows = self.read.query([record.cast_signed()])?;
        let bytes = rows.next()?.map(|row| row.get_ref(0).map(|value| value.as_bytes().map(<[u8]>::len)));
        Ok(bytes.transpose()?.transpose()?.unwrap_or(0))
    }

    fn update(&mut self, record: u64, value: &str) -> Result<(), Fault> {
        require_one(self.update.execute((record.cast_signed(), value))? as u64, record)
    }

    fn insert(&mut self, record: u64, value: &str) -> Result<(), Fault> {
        require_one(self.insert.execute((record.cast_signed(), value))? as u64, record)
    }

    fn scan(&mut self, from: u64, count: u64) -> Result<u64, Fault> {
        let mut rows = self.scan.query([from.cast_signed(), count.cast_signed()])?;
        let mut found = 0;
        while let Some(row) = rows.next()? {
            found += u64::from(!row.get_ref(1)?.as_bytes()?.is_empty());
        }
        Ok(found)
    }

    fn append(&mut self, log: u32, value: &str) -> Result<(), Fault> {
        if self.append.as_ref().is_none_or(|(last, _)| *last != log) {
            let sql = format!("INSERT INTO log{log}(value) VALUES (?1)");
            self.append = Some((log, self.connection.prepare(&sql)?));
        }
        if let Some((_, append)) = &mut self.append {
            append.execute([value])?;
        }
        Ok(())
    }
}

/// The key-value interface: one tree.
pub(super) struct Kv<'a> {
    server: &'a Server,
    /// The number of the tree that holds the records, once they are loaded.
    tree: AtomicU32,
}

impl<'a> Kv<'a> {
    pub(super) fn new(server: &'a Server) -> Self {
        Self { server, tree: AtomicU32::new(0) }
    }

    fn open(&self) -> Result<Database, Fault> {
        let connection = Connection::connect(&self.server.address, "ycsb-kv", true)?;
        Ok(Database::remote(Arc::new(Remote::new(Path::new("ycsb-kv"), connection))))
    }
}

impl System for Kv<'_> {
    fn name(&self) -> String {
        "fulmar kv".into()
    }

    fn load(&self, records: u64, _logs: u32, values: &Values) -> Result<(), Fault> {
        let database = self.open()?;
        let mut random = Random::new(records);
        let mut first = database.begin()?;
        let tree = first.create_tree()?;
        let old = self.tree.swap(tree.0, Ordering::Relaxed);
        if old > 0 {
            first.drop_tree(Tree(old))?;
        }
        first.commit(Durability::Written)?;
        for from in (0..records).step_by(usize::try_from(LOADED_AT_ONCE)?) {
            let mut loader = database.begin()?;
            for record in from..records.min(from + LOADED_AT_ONCE) {
                loader.put(tree, &record.to_be_bytes(), values.any(&mut random).as_bytes())?;
            }
            loader.commit(Durability::Written)?;
        }
        Ok(())
    }

    fn connected(&self, work: &mut dyn FnMut(&mut dyn Client) -> Result<(), Fault>) -> Result<(), Fault> {
        let tree = Tree(self.tree.load(Ordering::Relaxed));
        work(&mut KvClient { database: self.open()?, tree, cursor: Cursor::new(tree) })
    }

    /// Keys are the client's to choose.
    fn appends(&self) -> bool {
        false
    }
}

struct KvClient {
    database: Database,
    tree: Tree,
    cursor: Cursor,
}

impl Client for KvClient {
    fn read(&mut self, record: u64) -> Result<usize, Fault> {
        let value = self.database.begin()?.get(self.tree, &record.to_be_bytes())?;
        Ok(value.map_or(0, |value| value.len()))
    }

    fn update(&mut self, record: u64, value: &str) -> Result<(), Fault> {
        loop {
            let mut writer = self.database.begin()?;
            writer.put(self.tree, &record.to_be_bytes(), value.as_bytes())?;
            match writer.commit(Durability::Written) {
                Ok(_) => return Ok(()),
                Err(Error::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn insert(&mut self, record: u64, value: &str) -> Result<(), Fault> {
        self.update(record, value)
    }

    fn scan(&mut self, from: u64, count: u64) -> Result<u64, Fault> {
        let reader = self.database.begin()?;
        let mut found = 0;
        let mut more = self.cursor.seek(&reader, &from.to_be_bytes(), Seek::AtOrAfter)?;
        while more && found < count {
            found += u64::from(!self.cursor.value().is_empty());
            more = self.cursor.next(&reader)?;
        }
        Ok(found)
    }

    fn append(&mut self, _log: u32, _value: &str) -> Result<(), Fault> {
        Err(Wrong("keys are the client's to choose".into()).into())
    }
}
