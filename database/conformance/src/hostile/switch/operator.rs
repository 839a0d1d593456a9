//! What clients of the configuration database that mean no good ask: requests of RFC 7047, right by the schema, or nearly so.

use super::Attacker;
use fulmar_node::Random;
use serde_json::{Value, json};
use std::collections::VecDeque;

const DATABASE: &str = "Open_vSwitch";
/// So many rows are remembered, of those that were heard of last.
const REMEMBERED: usize = 100;
/// What begins the name of a row.
const UUID: &[u8] = b"\"uuid\",\"";
const UUID_LENGTH: usize = 36;

/// The columns of each table, with their types, as the schema has them.
pub(super) struct Tables(Vec<(String, Vec<(String, Value)>)>);

impl Tables {
    pub(super) fn new(schema: &Value) -> Self {
        let object = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let columns = |table: &Value| {
            object(&table["columns"])
                .into_iter()
                .map(|(name, column)| (name, column["type"].clone()))
                .collect()
        };
        Self(object(&schema["tables"]).iter().map(|(name, table)| (name.clone(), columns(table))).collect())
    }

    pub(super) fn columns(&self, table: &str) -> impl Iterator<Item = &str> {
        let columns = self.0.iter().filter(move |(name, _)| name == table).flat_map(|(_, columns)| columns);
        columns.map(|(name, _)| name.as_str())
    }
}

/// One that is connected.
pub(super) struct Operator<'t> {
    tables: &'t Tables,
    /// Rows that it has heard of.
    rows: VecDeque<String>,
}

impl<'t> Operator<'t> {
    pub(super) const fn new(tables: &'t Tables) -> Self {
        Self { tables, rows: VecDeque::new() }
    }

    /// Remembers the rows that are named in what was answered.
    fn remember(&mut self, heard: &[u8]) {
        let places = heard.windows(UUID.len()).enumerate().filter(|(_, window)| *window == UUID);
        for (at, _) in places {
            let name = heard[at + UUID.len()..].get(..UUID_LENGTH).map(String::from_utf8_lossy);
            self.rows.extend(name.map(String::from));
        }
        self.rows.drain(..self.rows.len().saturating_sub(REMEMBERED));
    }

    fn request(&mut self, random: &mut Random) -> Vec<u8> {
        let (database, name) = (one(random, [DATABASE, DATABASE, DATABASE, "_Server", "eggs"]), name(random));
        let (method, params) = match random.below(24) {
            0 => ("list_dbs", json!([])),
            1 => ("get_schema", json!([database])),
            2 => ("echo", json!(["e".repeat(random.index(10_000)), name])),
            3 => ("monitor", json!([database, name, self.watched(random)])),
            4 => ("monitor_cond", json!([database, name, self.watched(random)])),
            5 => {
                let last = one(random, ["00000000-0000-0000-0000-000000000000", "eggs"]);
                ("monitor_cond_since", json!([database, name, self.watched(random), last]))
            }
            6 => ("monitor_cond_change", json!([name, self::name(random), self.watched(random)])),
            7 => ("monitor_cancel", json!([name])),
            8 => {
                (one(random, ["lock", "steal", "unlock"]), json!([one(random, ["a", "b", "", "\u{1b}[2J"])]))
            }
            9 => ("cancel", json!([name])),
            10 => (one(random, ["set_db_change_aware", "get_server_id", "eggs"]), json!([random.one_in(2)])),
            _ => {
                let count = 1 + random.below(5);
                let operations = (0..count).map(|_| self.operation(random));
                let transaction: Vec<Value> = [json!(database)].into_iter().chain(operations).collect();
                ("transact", json!(transaction))
            }
        };
        let id = one(random, [json!(1), json!(2), name, json!(null)]);
        let mut text = json!({"method": method, "params": params, "id": id}).to_string().into_bytes();
        if random.one_in(100) {
            let at = random.index(text.len());
            text[at] = one(random, [b'[', b'}', b'"', b'\\', 0, 0xff]);
        }
        text
    }

    fn table(&self, random: &mut Random) -> (&'t str, &'t [(String, Value)]) {
        let (name, columns) = &self.tables.0[random.index(self.tables.0.len())];
        (name, columns)
    }

    /// What is watched of some tables.
    fn watched(&mut self, random: &mut Random) -> Value {
        let mut watched = json!({});
        for _ in 0..random.below(4) {
            let (table, columns) = self.table(random);
            let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
            let select = json!({"initial": random.one_in(2), "modify": random.one_in(2)});
            let mut request = json!({"columns": names[..random.index(names.len() + 1)], "select": select});
            if random.one_in(2) {
                request["where"] = self.conditions(random, columns);
            }
            watched[table] = if random.one_in(2) { json!([request]) } else { request };
        }
        watched
    }

    fn operation(&mut self, random: &mut Random) -> Value {
        let (table, columns) = self.table(random);
        let choice = random.below(20);
        let found = self.conditions(random, columns);
        match choice {
            0..6 => {
                let named = one(random, ["a", "b", "c", "\u{1b}"]);
                json!({"op": "insert", "table": table, "row": self.row(random, columns), "uuid-name": named})
            }
            6 => json!({"op": "select", "table": table, "where": found}),
            7..10 => {
                json!({"op": "update", "table": table, "where": found, "row": self.row(random, columns)})
            }
            10..13 => {
                let (column, kind) = &columns[random.index(columns.len())];
                let mutator = one(random, ["+=", "-=", "*=", "/=", "%=", "insert", "delete", "eggs"]);
                let mutation = json!([column, mutator, self.value(random, kind)]);
                json!({"op": "mutate", "table": table, "where": found, "mutations": [mutation]})
            }
            13 => json!({"op": "delete", "table": table, "where": found}),
            // What has no owner would become more and more.
            14 | 15 => json!({"op": "delete", "table": table, "where": []}),
            16 => {
                let (until, wait) = (
                    one(random, ["==", "!="]),
                    one(random, [json!(0), json!(50), json!(i64::MAX), json!(-1)]),
                );
                let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).take(2).collect();
                let rows = json!([self.row(random, columns)]);
                json!({"op": "wait", "table": table, "where": found, "columns": names, "until": until, "rows": rows, "timeout": wait})
            }
            17 => json!({"op": "commit", "durable": random.one_in(2)}),
            18 => json!({"op": "assert", "lock": one(random, ["a", "b"])}),
            _ => one(
                random,
                [
                    json!({"op": "abort"}),
                    json!({"op": "comment", "comment": "\u{1b}[2J\n"}),
                    json!({"op": "eggs"}),
                ],
            ),
        }
    }

    fn conditions(&mut self, random: &mut Random, columns: &[(String, Value)]) -> Value {
        let condition = |operator: &mut Self, random: &mut Random| {
            let function = one(random, ["==", "==", "!=", "includes", "excludes", "<", ">=", "eggs"]);
            if random.one_in(3) {
                return json!(["_uuid", function, operator.atom(random, "uuid")]);
            }
            let (column, kind) = &columns[random.index(columns.len())];
            json!([column, function, operator.value(random, kind)])
        };
        let count = one(random, [0, 0, 1, 1, 2]);
        (0..count).map(|_| condition(self, random)).collect()
    }

    fn row(&mut self, random: &mut Random, columns: &[(String, Value)]) -> Value {
        let mut row = json!({});
        for _ in 0..random.below(5) {
            let (column, kind) = &columns[random.index(columns.len())];
            row[column] = self.value(random, kind);
        }
        row
    }

    /// A value of a type, or of another.
    fn value(&mut self, random: &mut Random, kind: &Value) -> Value {
        let base = |base: &Value| match base {
            Value::String(name) => name.clone(),
            _ => base["type"].as_str().unwrap_or("string").to_owned(),
        };
        let key = base(if kind.is_object() { &kind["key"] } else { kind });
        let key = if random.one_in(30) { "integer" } else { &key };
        let count = one(random, [0, 1, 1, 1, 2, 5]);
        if kind["value"].is_null() {
            let atoms: Vec<Value> = (0..count).map(|_| self.atom(random, key)).collect();
            return if atoms.len() == 1 { atoms[0].clone() } else { json!(["set", atoms]) };
        }
        let value = base(&kind["value"]);
        let pairs: Vec<Value> =
            (0..count).map(|_| json!([self.atom(random, key), self.atom(random, &value)])).collect();
        json!(["map", pairs])
    }

    fn atom(&mut self, random: &mut Random, kind: &str) -> Value {
        let near = random.below(100);
        match kind {
            "integer" => one(
                random,
                [json!(0), json!(1), json!(near), json!(-1), json!(i64::MAX), json!(i64::MIN), json!(1e300)],
            ),
            "real" => one(random, [json!(0), json!(0.5), json!(-1e308), json!(i64::MAX)]),
            "boolean" => one(random, [json!(true), json!(false)]),
            "uuid" => match random.below(4) {
                0 => json!(["named-uuid", one(random, ["a", "b", "c"])]),
                1 => json!(["uuid", "00000000-0000-0000-0000-000000000000"]),
                _ if self.rows.is_empty() => json!(["uuid", "eggs"]),
                _ => json!(["uuid", self.rows[random.index(self.rows.len())]]),
            },
            _ => name(random),
        }
    }
}

impl Attacker for Operator<'_> {
    fn say(&mut self, random: &mut Random) -> Vec<u8> {
        self.request(random)
    }

    fn hear(&mut self, heard: &[u8]) {
        self.remember(heard);
    }
}

/// A text: what a switch heeds, or what nobody should.
fn name(random: &mut Random) -> Value {
    let names = [
        "br0",
        "br0",
        "br1",
        "p0",
        "p1",
        "p2",
        "internal",
        "tap",
        "system",
        "patch",
        "vxlan",
        "afxdp",
        "peer",
        "remote_ip",
        "127.0.0.1",
        "key",
        "flow",
        "secure",
        "standalone",
        "OpenFlow13",
        "OpenFlow10",
        "out-of-band",
        "punix:x",
        "punix:/etc/passwd",
        "ptcp:0",
        "tcp:127.0.0.1:1",
        "linux-htb",
        "max-rate",
        "datapath-id",
        "hwaddr",
        "ffffffffffffffff",
        "0",
        "18446744073709551616",
        "-1",
        "",
        "../x",
        "a/b",
        "\u{1b}[2J",
        "\n",
        "\0",
        "a-name-that-is-longer-than-the-fifteen-bytes-of-an-interface",
    ];
    if random.one_in(50) {
        json!("n".repeat(random.index(100_000)))
    } else {
        json!(names[random.index(names.len())])
    }
}

fn one<T: Clone, const N: usize>(random: &mut Random, of: [T; N]) -> T {
    of[random.index(N)].clone()
}
