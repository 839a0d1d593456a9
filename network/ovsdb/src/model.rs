//! Random transactions beside a model: a map of rows that is copied for each transaction, and rules that are checked on all of it.
//! What the database answers, and what it holds then, must be the same.

use crate::database::Defect;
use crate::{ConnectionId, Datum, Outbox, Schema, Server, Store, Uuid, record};
use fulmar_node::{Random, Time};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::panic;

const CLIENT: ConnectionId = ConnectionId(1);

/// Circles of strong references, weak ones that may not be lost, two indexes, a table that is soon full.
fn schema() -> Schema {
    let schema = json!({"name": "Model", "version": "1.0.0", "tables": {
        "Root": {"isRoot": true, "indexes": [["key"], ["a", "b"]], "columns": {
            "key": {"type": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 6}}},
            "a": {"type": "integer"},
            "b": {"type": "boolean"},
            "nodes": {"type": {"key": {"type": "uuid", "refTable": "Node"}, "min": 0, "max": 3}},
            "friends": {"type": {"key": {"type": "uuid", "refTable": "Root", "refType": "weak"}, "min": 0, "max": "unlimited"}}}},
        "Node": {"columns": {
            "a": {"type": "integer"},
            "next": {"type": {"key": {"type": "uuid", "refTable": "Node"}, "min": 0, "max": 1}},
            "pairs": {"type": {"key": {"type": "uuid", "refTable": "Root", "refType": "weak"},
                "value": {"type": "uuid", "refTable": "Node"}, "min": 0, "max": "unlimited"}}}},
        "Small": {"isRoot": true, "maxRows": 2, "columns": {
            "a": {"type": "integer"},
            "anchor": {"type": {"key": {"type": "uuid", "refTable": "Root", "refType": "weak"}}}}}}});
    Schema::from_json(&schema).expect("it keeps the rules")
}

/// A row's columns.
type Cells = BTreeMap<&'static str, Datum>;

/// Table by table the rows.
type Model = BTreeMap<(&'static str, Uuid), Cells>;

/// Columns with their defaults, and where their keys and values lead: weakly or strongly.
const COLUMNS: [(&str, &str, &str, &str); 10] = [
    ("Root", "key", "0", ""),
    ("Root", "a", "0", ""),
    ("Root", "b", "false", ""),
    ("Root", "nodes", "[]", "strong Node"),
    ("Root", "friends", "[]", "weak Root"),
    ("Node", "a", "0", ""),
    ("Node", "next", "[]", "strong Node"),
    ("Node", "pairs", "{}", "weak Root, strong Node"),
    ("Small", "a", "0", ""),
    ("Small", "anchor", "zero", "weak Root"),
];

fn columns(
    table: &str,
) -> impl Iterator<Item = &'static (&'static str, &'static str, &'static str, &'static str)> {
    COLUMNS.iter().filter(move |(of, ..)| *of == table)
}

fn defaults(table: &str) -> Cells {
    let default = |text: &str| match text {
        "0" => Datum::from(0),
        "false" => Datum::from(false),
        "zero" => Datum::from(Uuid::ZERO),
        "{}" => Datum::Map(Vec::new()),
        _ => Datum::Set(Vec::new()),
    };
    columns(table).map(|(_, column, text, _)| (*column, default(text))).collect()
}

/// The rows to which a row refers in this way.
fn leads<'m>(table: &'m str, cells: &'m Cells, strength: &'m str) -> Vec<(&'static str, Uuid)> {
    let mut found = Vec::new();
    for (_, column, _, leads) in columns(table) {
        let datum = &cells[column];
        let sides: Vec<&'static str> = leads.split(", ").collect();
        for (key, value) in datum.pairs() {
            for (side, atom) in sides.iter().zip([Some(key), value]) {
                if let (Some((how, to)), Some(crate::Atom::Uuid(uuid))) = (side.split_once(' '), atom)
                    && how == strength
                {
                    found.push((to, *uuid));
                }
            }
        }
    }
    found
}

/// What section 3.2 of RFC 7047 says, done until nothing changes any more and with no eye to speed; or the error's kind.
fn settle(model: &mut Model) -> Result<(), &'static str> {
    loop {
        let before = model.clone();
        // What no other row refers to.
        model.retain(|(table, uuid), _| {
            let refers = |(from, cells): (&(&'static str, Uuid), &Cells)| {
                *from != (*table, *uuid) && leads(from.0, cells, "strong").contains(&(*table, *uuid))
            };
            *table != "Node" || before.iter().any(refers)
        });
        let held = model.clone();
        for ((table, _), cells) in model.iter_mut() {
            for (_, column, _, lead) in columns(table).filter(|(.., lead)| lead.starts_with("weak")) {
                let datum = cells.get_mut(column).expect("all columns are there");
                let is_there = |atom: &crate::Atom| match atom {
                    crate::Atom::Uuid(uuid) => held.contains_key(&("Root", *uuid)),
                    _ => false,
                };
                assert!(lead.starts_with("weak Root"));
                *datum = datum.filtered(|key, _| is_there(key));
                if *column == "anchor" && datum.is_empty() {
                    return Err("constraint violation");
                }
            }
        }
        if *model == before {
            break;
        }
    }
    for ((table, _), cells) in model.iter() {
        if leads(table, cells, "strong").iter().any(|to| !model.contains_key(to)) {
            return Err("referential integrity violation");
        }
    }
    let count = |table: &str| model.keys().filter(|(of, _)| *of == table).count();
    let roots: Vec<&Cells> =
        model.iter().filter(|((of, _), _)| *of == "Root").map(|(_, cells)| cells).collect();
    let alike = |names: &[&str]| {
        let same = |a: &Cells, b: &Cells| names.iter().all(|name| a[name] == b[name]);
        (0..roots.len()).any(|at| roots[..at].iter().any(|other| same(roots[at], other)))
    };
    if count("Small") > 2 || alike(&["key"]) || alike(&["a", "b"]) {
        return Err("constraint violation");
    }
    Ok(())
}

/// What an operation does to the model, or the error's kind.
type Act = dyn Fn(&mut Model) -> Result<(), &'static str>;

/// An operation, as a client says it and as the model does it.
struct Step {
    operation: Value,
    act: Box<Act>,
}

struct Generator {
    chance: Random,
    /// All rows that ever were, and some that never were.
    rows: Vec<(&'static str, Uuid)>,
}

impl Generator {
    fn table(&mut self) -> &'static str {
        ["Root", "Node", "Small"][self.chance.weighted(&[3, 4, 2])]
    }

    fn some(&mut self, table: &str) -> Uuid {
        let rows: Vec<Uuid> =
            self.rows.iter().filter(|(of, _)| *of == table).map(|(_, uuid)| *uuid).collect();
        let recent = rows.len().saturating_sub(12);
        self.chance.choose(&rows[recent..]).copied().unwrap_or(Uuid::ZERO)
    }

    fn cell(&mut self, table: &'static str, column: &'static str) -> Datum {
        match column {
            "key" => Datum::from(self.chance.between(0, 6)),
            "a" => Datum::from(self.chance.between(0, 3)),
            "b" => Datum::from(self.chance.one_in(2)),
            "anchor" => Datum::from(self.some("Root")),
            "next" => Datum::from((!self.chance.one_in(3)).then(|| self.some("Node"))),
            "pairs" => {
                let pairs = self.chance.below(3);
                Datum::map((0..pairs).map(|_| (self.some("Root"), self.some("Node"))))
            }
            _ => {
                let (to, most) = if column == "nodes" { ("Node", 3) } else { ("Root", 4) };
                assert_eq!(table, "Root");
                let count = self.chance.below(most + 1);
                Datum::set((0..count).map(|_| self.some(to)))
            }
        }
    }

    fn cells(&mut self, table: &'static str) -> Cells {
        let mut cells = Cells::new();
        for (_, column, ..) in columns(table) {
            if self.chance.one_in(2) {
                cells.insert(column, self.cell(table, column));
            }
        }
        cells
    }

    fn step(&mut self) -> Step {
        let table = self.table();
        match self.chance.weighted(&[5, 4, 2, 1]) {
            0 => {
                let uuid = Uuid::random(&mut self.chance);
                self.rows.push((table, uuid));
                let cells = self.cells(table);
                Step {
                    operation: json!({"op": "insert", "table": table, "uuid": uuid.to_string(), "row": to_json(&cells)}),
                    act: Box::new(move |model| {
                        let mut row = defaults(table);
                        row.extend(cells.clone());
                        model.insert((table, uuid), row);
                        Ok(())
                    }),
                }
            }
            1 => {
                let (uuid, cells) = (self.some(table), self.cells(table));
                Step {
                    operation: json!({"op": "update", "table": table, "where": is(uuid), "row": to_json(&cells)}),
                    act: Box::new(move |model| {
                        let row = model.get_mut(&(table, uuid));
                        row.into_iter().for_each(|row| row.extend(cells.clone()));
                        Ok(())
                    }),
                }
            }
            2 => {
                let uuid = self.some(table);
                Step {
                    operation: json!({"op": "delete", "table": table, "where": is(uuid)}),
                    act: Box::new(move |model| {
                        model.remove(&(table, uuid));
                        Ok(())
                    }),
                }
            }
            _ => {
                let (value, least) = (self.chance.between(-2, 2), self.chance.between(0, 3));
                Step {
                    operation: json!({"op": "mutate", "table": "Root", "where": [["a", ">=", least]], "mutations": [["key", "+=", value]]}),
                    act: Box::new(move |model| {
                        for ((_, _), cells) in model.iter_mut().filter(|((of, _), _)| *of == "Root") {
                            if cells["a"].integer() >= Some(least) {
                                let key = cells["key"].integer().expect("one integer") + value;
                                if !(0..=6).contains(&key) {
                                    return Err("constraint violation");
                                }
                                cells.insert("key", Datum::from(key));
                            }
                        }
                        Ok(())
                    }),
                }
            }
        }
    }
}

fn is(uuid: Uuid) -> Value {
    json!([["_uuid", "==", ["uuid", uuid.to_string()]]])
}

fn to_json(cells: &Cells) -> Value {
    cells
        .iter()
        .map(|(column, datum)| ((*column).to_owned(), datum.to_json()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// What the database holds, as the model has it.
fn held(server: &Server) -> Model {
    let mut model = Model::new();
    for table in ["Root", "Node", "Small"] {
        for row in server.database().rows(table) {
            let cells = columns(table).map(|(_, column, ..)| (*column, row.get(column).clone()));
            model.insert((table, row.uuid()), cells.collect());
        }
    }
    model
}

/// What is found in a run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts(BTreeMap<String, u64>);

fn run(seed: u64, transactions: u64, defect: Option<Defect>) -> Counts {
    let mut store = Store::in_memory(schema());
    store.plant(defect);
    let mut server = Server::new(store, Random::new(seed));
    server.connect(CLIENT, 0);
    let mut generator = Generator { chance: Random::new(seed ^ 1), rows: Vec::new() };
    let mut model = Model::new();
    let mut counts = Counts::default();
    for number in 0..transactions {
        let steps: Vec<Step> = (0..=generator.chance.below(4)).map(|_| generator.step()).collect();
        let mut params = vec![json!("Model")];
        params.extend(steps.iter().map(|step| step.operation.clone()));
        let request = json!({"method": "transact", "params": params, "id": number});
        let mut out = Outbox::default();
        server.receive(Time::ZERO, CLIENT, request.to_string().as_bytes(), &mut out);
        let reply =
            out.messages.pop().and_then(|(_, message)| message.into_text()).expect("there is a reply");
        let reply: Value = reply.parse().expect("it is JSON");
        let results = reply["result"].as_array().expect("results");
        let said = results.iter().find_map(|result| result.get("error")).and_then(Value::as_str);

        let mut draft = model.clone();
        let done = steps.iter().try_for_each(|step| (step.act)(&mut draft)).and_then(|()| settle(&mut draft));
        assert_eq!(said, done.err(), "seed {seed}, transaction {number}: {request}\n{reply}");
        if done.is_ok() {
            model = draft;
        }
        assert_eq!(held(&server), model, "seed {seed}, transaction {number}: {request}");
        server.database().invariants();
        *counts.0.entry(said.unwrap_or("committed").into()).or_default() += 1;
    }
    // What is kept of it is all of it.
    let kept = record::of_database(server.database());
    let schema = server.database().schema();
    let again = record::replay(schema, [kept.to_string().as_bytes()].into_iter(), &mut Random::new(0));
    assert_eq!(record::of_database(&again.expect("it can be read")), kept);
    counts
}

#[test]
fn the_database_does_what_the_model_does() {
    let mut all = Counts::default();
    for seed in 0..40 {
        run(seed, 150, None).0.into_iter().for_each(|(what, count)| *all.0.entry(what).or_default() += count);
    }
    for (what, least) in
        [("committed", 1000), ("constraint violation", 500), ("referential integrity violation", 100)]
    {
        assert!(all.0.get(what).is_some_and(|count| *count >= least), "{what}: {all:?}");
    }
}

#[test]
fn the_model_finds_what_is_broken() {
    for defect in [Defect::LetsReferencesDangle, Defect::KeepsGarbage] {
        let finds = |seed| panic::catch_unwind(|| run(seed, 150, Some(defect))).is_err();
        assert!((0..5).all(finds), "{defect:?}");
    }
}
