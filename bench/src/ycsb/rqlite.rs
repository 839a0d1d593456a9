//! An rqlite that the user runs, by its HTTP interface.

use super::system::{Client, System, Values, require_one};
use crate::fault::{Fault, Wrong};
use fulmar_node::Random;
use serde_json::{Value, json};

const LOADED_AT_ONCE: u64 = 1_000;

pub(super) struct Rqlite {
    /// `http://HOST:PORT`.
    url: String,
    version: String,
}

impl Rqlite {
    pub(super) fn at(url: &str) -> Result<Self, Fault> {
        let url = url.trim_end_matches('/').to_owned();
        let answer = ureq::get(format!("{url}/status")).call();
        let answer = answer.map_err(|why| Wrong(format!("no rqlite at {url}: {why}")))?;
        let status: Value = serde_json::from_str(&answer.into_body().read_to_string()?)?;
        let version = status["build"]["version"].as_str().unwrap_or("of unknown version").into();
        Ok(Self { url, version })
    }

    fn client(&self) -> RqliteClient<'_> {
        RqliteClient { url: &self.url, agent: ureq::Agent::new_with_defaults() }
    }
}

impl System for Rqlite {
    fn name(&self) -> String {
        format!("rqlite {}", self.version)
    }

    fn load(&self, records: u64, logs: u32, values: &Values) -> Result<(), Fault> {
        let client = self.client();
        let table = |name: &str| {
            [
                json!([format!("DROP TABLE IF EXISTS {name}")]),
                json!([format!("CREATE TABLE {name}(id INTEGER PRIMARY KEY, value TEXT NOT NULL)")]),
            ]
        };
        client.execute(&json!(table("ycsb_item")))?;
        for log in 0..logs {
            client.execute(&json!(table(&format!("ycsb_log{log}"))))?;
        }
        let mut random = Random::new(records);
        for from in (0..records).step_by(usize::try_from(LOADED_AT_ONCE)?) {
            let rows = from..records.min(from + LOADED_AT_ONCE);
            let inserts: Vec<_> =
                rows.map(|record| json!([INSERT, record, values.any(&mut random)])).collect();
            client.execute(&json!(inserts))?;
        }
        Ok(())
    }

    fn connected(&self, work: &mut dyn FnMut(&mut dyn Client) -> Result<(), Fault>) -> Result<(), Fault> {
        work(&mut self.client())
    }
}

const INSERT: &str = "INSERT INTO ycsb_item(id, value) VALUES (?, ?)";

/// Its connection is kept open between requests.
struct RqliteClient<'a> {
    url: &'a str,
    agent: ureq::Agent,
}

impl RqliteClient<'_> {
    fn post(&self, path: &str, statements: &Value) -> Result<Value, Fault> {
        let request = self.agent.post(format!("{}{path}", self.url)).content_type("application/json");
        let mut answer = request.send(statements.to_string())?;
        let answer: Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
        let results = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
        match results.iter().find_map(|result| result["error"].as_str()).or_else(|| answer["error"].as_str())
        {
            Some(why) => Err(Wrong(why.into()).into()),
            None => Ok(answer),
        }
    }

    fn execute(&self, statements: &Value) -> Result<u64, Fault> {
        let answer = self.post("/db/execute?transaction", statements)?;
        Ok(answer["results"][0]["rows_affected"].as_u64().unwrap_or(0))
    }

    /// At rqlite's own default consistency, `weak`.
    fn query(&self, statement: &Value) -> Result<Vec<Value>, Fault> {
        let mut answer = self.post("/db/query", &json!([statement]))?;
        match answer["results"][0]["values"].take() {
            Value::Array(rows) => Ok(rows),
            _ => Ok(Vec::new()),
        }
    }
}

impl Client for RqliteClient<'_> {
    fn read(&mut self, record: u64) -> Result<usize, Fault> {
        let rows = self.query(&json!(["SELECT value FROM ycsb_item WHERE id = ?", record]))?;
        Ok(rows.first().and_then(|row| row[0].as_str()).map_or(0, str::len))
    }

    fn update(&mut self, record: u64, value: &str) -> Result<(), Fault> {
        let update = json!([["UPDATE ycsb_item SET value = ? WHERE id = ?", value, record]]);
        require_one(self.execute(&update)?, record)
    }

    fn insert(&mut self, record: u64, value: &str) -> Result<(), Fault> {
        require_one(self.execute(&json!([[INSERT, record, value]]))?, record)
    }

    fn scan(&mut self, from: u64, count: u64) -> Result<u64, Fault> {
        let sql = "SELECT id, value FROM ycsb_item WHERE id >= ? ORDER BY id LIMIT ?";
        Ok(self.query(&json!([sql, from, count]))?.len() as u64)
    }

    fn append(&mut self, log: u32, value: &str) -> Result<(), Fault> {
        self.execute(&json!([[format!("INSERT INTO ycsb_log{log}(value) VALUES (?)"), value]]))?;
        Ok(())
    }
}
