mod bounds;
mod heard;

use super::*;
use crate::{Base, Column, Datum, Journal, Schema, Table, Type};
use std::io;
use std::sync::Mutex;
use std::time::Duration;

const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);

fn schema() -> Schema {
    let columns = [
        Column::new("name", Type::one(Base::string())),
        Column::new("size", Type::optional(Base::integer())),
        Column::new("tags", Type::map(Base::string(), Base::string())),
        Column::new("seen", Type::set(Base::integer())).ephemeral(),
    ];
    Schema::new("Sea", "1.0.0", [Table::new("Ship", columns).indexed_by(&["name"])])
        .expect("it keeps the rules")
}

/// A server to which A and B are connected, and the time.
struct Harbour {
    server: Server,
    now: Time,
}

impl Harbour {
    fn new() -> Self {
        Self::of(Store::in_memory(schema()))
    }

    fn of(store: Store) -> Self {
        let mut server = Server::new(store, Random::new(5));
        [A, B].into_iter().for_each(|client| server.connect(client, 0));
        Self { server, now: Time::ZERO }
    }

    /// What is said to whom when this is heard.
    fn hear(&mut self, from: ConnectionId, message: &Value) -> Vec<(ConnectionId, Value)> {
        let mut out = Outbox::default();
        self.server.receive(self.now, from, message.to_string().as_bytes(), &mut out);
        assert!(out.closed.is_empty(), "{:?}", out.closed);
        told_in(out)
    }

    /// The only reply to a request, which nobody else hears of.
    fn ask(&mut self, from: ConnectionId, method: &str, params: Value) -> Result<Value, Value> {
        let mut said = self.hear(from, &json!({"method": method, "params": params, "id": "q"}));
        let (to, reply) = said.pop().expect("a reply");
        assert!(said.is_empty() && to == from && reply["id"] == "q", "{said:?} {reply}");
        if reply["error"].is_null() { Ok(reply["result"].clone()) } else { Err(reply["error"].clone()) }
    }

    fn transact(&mut self, from: ConnectionId, id: u64, operations: Value) -> Vec<(ConnectionId, Value)> {
        let mut params = vec![json!("Sea")];
        params.extend(operations.as_array().expect("an array").clone());
        self.hear(from, &json!({"method": "transact", "params": params, "id": id}))
    }

    fn pass(&mut self, milliseconds: u64) -> Vec<(ConnectionId, Value)> {
        self.now = self.now + Duration::from_millis(milliseconds);
        let mut out = Outbox::default();
        self.server.expire(self.now, &mut out);
        self.server.retry(self.now, &mut out);
        told_in(out)
    }
}

/// What is said, and to whom.
fn told_in(out: Outbox) -> Vec<(ConnectionId, Value)> {
    let said = out.messages.into_iter().filter_map(|(to, message)| Some((to, message.into_text()?)));
    said.map(|(to, text)| (to, text.parse().expect("it is JSON"))).collect()
}

fn insert(name: &str) -> Value {
    json!({"op": "insert", "table": "Ship", "row": {"name": name}})
}

fn notification(method: &str, params: Value) -> Value {
    json!({"id": null, "method": method, "params": params})
}

/// What the first message says of the only row, without its name.
fn told(said: &[(ConnectionId, Value)], at: usize) -> Value {
    let rows = said[0].1["params"][at]["Ship"].as_object().expect("rows");
    rows.values().next().expect("a row").clone()
}

#[test]
fn requests_that_ask_for_nothing_of_the_rows() {
    let mut harbour = Harbour::new();
    assert_eq!(harbour.ask(A, "list_dbs", json!([])), Ok(json!(["Sea", "_Server"])));
    assert_eq!(harbour.ask(A, "get_schema", json!(["Sea"])), Ok(schema().to_json()));
    assert_eq!(harbour.ask(A, "echo", json!([1, {"a": null}])), Ok(json!([1, {"a": null}])));
    assert_eq!(harbour.ask(A, "set_db_change_aware", json!([true])), Ok(json!({})));
    assert_eq!(harbour.ask(A, "sail", json!([])), Err(json!("unknown method")));
    let name = harbour.ask(A, "get_server_id", Value::Null).expect("a name");
    assert!(name.as_str().is_some_and(|name| name.parse::<Uuid>().is_ok()));
    let why = harbour.ask(A, "get_schema", json!(["Land"])).expect_err("there is none");
    assert_eq!(why["error"], "unknown database");
    assert!(harbour.ask(A, "transact", json!([])).is_err());
}

#[test]
fn a_server_tells_of_itself_and_is_not_told() {
    let mut harbour = Harbour::new();
    let schema =
        harbour.ask(A, "get_schema", json!(["_Server"])).and_then(|json| Ok(Schema::from_json(&json)?));
    assert_eq!(schema.expect("it keeps the rules").name(), "_Server");
    let columns = json!({"Database": {"columns": ["name", "model", "connected"]}});
    let rows = harbour.ask(A, "monitor_cond", json!(["_Server", 1, columns])).expect("rows");
    let row = rows["Database"].as_object().and_then(|rows| rows.values().next()).expect("a row");
    assert_eq!(*row, json!({"initial": {"name": "Sea", "model": "standalone", "connected": true}}));
    assert_eq!(harbour.transact(B, 2, json!([insert("Fram")])).len(), 1, "nothing of that is told");
    let delete = json!(["_Server", {"op": "delete", "table": "Database", "where": []}]);
    let results = harbour.ask(A, "transact", delete).expect("results");
    assert_eq!((&results[0], &results[1]["error"]), (&json!({"count": 1}), &json!("not allowed")));
}

#[test]
fn garbage_ends_a_connection() {
    let garbage = [
        "hello",
        "[]",
        "{\"id\": 1}",
        "{\"method\": \"echo\", \"id\": 1}",
        "{\"method\": 1, \"params\": [], \"id\": 1}",
        "{]",
    ];
    for garbage in garbage {
        let mut harbour = Harbour::new();
        let mut out = Outbox::default();
        let after = format!("{garbage} {{\"method\": \"echo\", \"params\": [], \"id\": 1}}");
        harbour.server.receive(Time::ZERO, A, after.as_bytes(), &mut out);
        harbour.server.receive(Time::ZERO, A, after.as_bytes(), &mut out);
        assert_eq!(out.closed.len(), 1, "{garbage}");
        let said = told_in(out);
        assert_eq!(said.len(), 1, "it is not heard any more: {garbage}");
        assert_eq!(said[0].1["error"]["error"], "syntax error");
        assert!(harbour.ask(B, "echo", json!([])).is_ok());
    }
}

/// Section 4.1.6, and the extensions of `ovsdb-server`.
#[test]
fn monitors_are_told_what_changes_before_the_reply() {
    let mut harbour = Harbour::new();
    let all = json!({"Ship": {"columns": ["name", "size", "tags"]}});
    assert_eq!(harbour.ask(A, "monitor", json!(["Sea", "m", all])), Ok(json!({})));
    assert_eq!(harbour.ask(A, "monitor_cond", json!(["Sea", 2, all])), Ok(json!({})));
    let zero = Uuid::ZERO.to_string();
    assert_eq!(
        harbour.ask(B, "monitor_cond_since", json!(["Sea", [3], all, zero])),
        Ok(json!([false, zero, {}]))
    );

    let said = harbour.transact(A, 1, json!([insert("Fram")]));
    let uuid = said[3].1["result"][0]["uuid"][1].as_str().expect("a name").to_owned();
    let new = json!({"name": "Fram", "size": ["set", []], "tags": ["map", []]});
    let row = |update: Value| json!({"Ship": {uuid.as_str(): update}});
    assert_eq!(said[0], (A, notification("update", json!(["m", row(json!({"new": new}))]))).clone());
    assert_eq!(said[0].1["params"][0], "m");
    assert_eq!(said[1], (A, notification("update2", json!([2, row(json!({"insert": {"name": "Fram"}}))]))));
    assert_eq!(
        said[2],
        (B, notification("update3", json!([[3], zero, row(json!({"insert": {"name": "Fram"}}))])))
    );
    assert_eq!(said[3].0, A);

    let change = json!([{"op": "mutate", "table": "Ship", "where": [], "mutations": [["tags", "insert", ["map", [["a", "b"]]]]]},
        {"op": "update", "table": "Ship", "where": [], "row": {"size": 4}}]);
    let said = harbour.transact(B, 2, change);
    let modified = json!({"size": 4, "tags": ["map", [["a", "b"]]]});
    assert_eq!(
        told(&said, 1),
        json!({"old": {"size": ["set", []], "tags": ["map", []]},
        "new": {"name": "Fram", "size": 4, "tags": ["map", [["a", "b"]]]}})
    );
    assert_eq!(told(&said[1..], 1), json!({"modify": modified}));
    assert_eq!(told(&said[2..], 2), json!({"modify": modified}));

    // Nobody watches what is seen, and a transaction that changes nothing is not told.
    let unseen = json!([{"op": "update", "table": "Ship", "where": [], "row": {"seen": 1}}]);
    assert_eq!(harbour.transact(A, 3, unseen).len(), 1);
    let same = json!([{"op": "update", "table": "Ship", "where": [], "row": {"size": 4}}]);
    assert_eq!(harbour.transact(A, 4, same).len(), 1);
    assert_eq!(harbour.transact(A, 5, json!([insert("Gauss"), {"op": "abort"}])).len(), 1);

    let said = harbour.transact(A, 6, json!([{"op": "delete", "table": "Ship", "where": []}]));
    assert_eq!(told(&said, 1)["old"]["name"], "Fram");
    assert_eq!(told(&said[1..], 1), json!({"delete": null}));

    assert_eq!(harbour.ask(A, "monitor_cancel", json!(["m"])), Ok(json!({})));
    assert_eq!(harbour.ask(A, "monitor_cancel", json!(["m"])), Err(json!("unknown monitor")));
    assert_eq!(harbour.ask(A, "monitor_cancel", json!([2])), Ok(json!({})));
    let mut out = Outbox::default();
    harbour.server.disconnect(B, &mut out);
    assert_eq!(harbour.transact(A, 7, json!([insert("Fram")])).len(), 1);
}

#[test]
fn monitors_say_what_they_want_to_be_told() {
    let mut harbour = Harbour::new();
    harbour.transact(A, 1, json!([insert("Fram")]));
    let some = json!({"Ship": [{"columns": ["name"], "select": {"initial": false, "delete": false}},
        {"columns": ["size"], "select": {"initial": true, "insert": false, "modify": false, "delete": false}}]});
    let rows = harbour.ask(A, "monitor", json!(["Sea", null, some])).expect("rows");
    let row = rows["Ship"].as_object().and_then(|rows| rows.values().next()).expect("a row");
    assert_eq!(*row, json!({"new": {"size": ["set", []]}}));
    let resize = json!([{"op": "update", "table": "Ship", "where": [], "row": {"size": 4}}]);
    assert_eq!(harbour.transact(A, 2, resize).len(), 1);
    let said = harbour.transact(A, 3, json!([insert("Gauss")]));
    assert_eq!(told(&said, 1), json!({"new": {"name": "Gauss"}}));
    assert_eq!(harbour.transact(A, 4, json!([{"op": "delete", "table": "Ship", "where": []}])).len(), 1);

    for (wrong, expected) in [
        (json!({"Boat": {}}), "no table Boat"),
        (json!({"Ship": {"columns": ["sail"]}}), "no column sail"),
        (json!({"Ship": [{"columns": ["name"]}, {}]}), "named more than once"),
        (json!({"Ship": {"where": []}}), "no member `where`"),
        (json!([]), "expected an object"),
    ] {
        let why = harbour.ask(A, "monitor", json!(["Sea", "m", wrong])).expect_err("it is wrong");
        assert!(why["details"].as_str().is_some_and(|why| why.contains(expected)), "{why}");
    }
    let why = harbour.ask(A, "monitor", json!(["Sea", null, {}])).expect_err("there is one");
    assert!(why["details"].as_str().is_some_and(|why| why.contains("already")));
}

/// `monitor_cond`: rows come and go as conditions begin and cease to hold.
#[test]
fn conditions_decide_what_is_seen() {
    let mut harbour = Harbour::new();
    harbour.transact(A, 1, json!([insert("Fram"), insert("Gauss")]));
    let large = json!({"Ship": {"columns": ["name"], "where": [["size", ">", 5], ["name", "==", "Gauss"]]}});
    let rows = harbour.ask(A, "monitor_cond", json!(["Sea", "m", large])).expect("rows");
    let names: Vec<&Value> = rows["Ship"].as_object().expect("rows").values().collect();
    assert_eq!(names, [&json!({"initial": {"name": "Gauss"}})]);
    let size = |size: u64| json!([{"op": "update", "table": "Ship", "where": [["name", "==", "Fram"]], "row": {"size": size}}]);
    assert_eq!(told(&harbour.transact(B, 2, size(6)), 1), json!({"insert": {"name": "Fram"}}));
    assert_eq!(harbour.transact(B, 3, size(7)).len(), 1);
    assert_eq!(told(&harbour.transact(B, 4, size(1)), 1), json!({"delete": null}));

    let change = |from: &str, to: &str, conditions: Value| json!({"method": "monitor_cond_change", "params": [from, to, {"Ship": [{"where": conditions}]}], "id": 9});
    let said = harbour.hear(A, &change("m", "n", json!([["name", "==", "Fram"]])));
    let rows = said[0].1["params"][1]["Ship"].as_object().expect("rows").values().collect::<Vec<_>>();
    assert_eq!((&said[0].1["params"][0], rows.len()), (&json!("n"), 2));
    assert!(rows.contains(&&json!({"delete": null})) && rows.contains(&&json!({"insert": {"name": "Fram"}})));
    assert_eq!(said[1].1["result"], json!({}));
    assert_eq!(harbour.hear(A, &change("m", "m", json!([])))[0].1["error"], "unknown monitor");
    let none = harbour.hear(A, &change("n", "n", json!([false])));
    assert_eq!(told(&none, 1), json!({"delete": null}));
    assert!(harbour.hear(A, &change("n", "n", json!([7])))[0].1["error"].is_object());
}

/// Sections 4.1.8 to 4.1.10, and 5.2.10.
#[test]
fn locks_are_given_in_turn_and_stolen() {
    let mut harbour = Harbour::new();
    let owns = |harbour: &mut Harbour, client| {
        let said = harbour.transact(client, 1, json!([{"op": "assert", "lock": "chart"}]));
        said[0].1["result"] == json!([{}])
    };
    assert_eq!(harbour.ask(A, "lock", json!(["chart"])), Ok(json!({"locked": true})));
    assert_eq!(harbour.ask(B, "lock", json!(["chart"])), Ok(json!({"locked": false})));
    assert!(owns(&mut harbour, A) && !owns(&mut harbour, B));
    assert!(harbour.ask(B, "lock", json!(["chart"])).is_err(), "it waits already");
    let said = harbour.hear(A, &json!({"method": "unlock", "params": ["chart"], "id": 2}));
    assert_eq!(said[0], (B, notification("locked", json!(["chart"]))));
    assert_eq!(said[1].1["result"], json!({}));
    assert!(owns(&mut harbour, B) && !owns(&mut harbour, A));

    // B has asked for it, and gets it back; A has stolen it, and does not.
    let said = harbour.hear(A, &json!({"method": "steal", "params": ["chart"], "id": 3}));
    assert_eq!(said[0], (B, notification("stolen", json!(["chart"]))));
    assert_eq!(said[1].1["result"], json!({"locked": true}));
    assert!(owns(&mut harbour, A) && !owns(&mut harbour, B));
    let mut out = Outbox::default();
    harbour.server.disconnect(A, &mut out);
    assert_eq!(told_in(out), [(B, notification("locked", json!(["chart"])))]);
    assert!(owns(&mut harbour, B));

    harbour.server.connect(A, 0);
    harbour.ask(B, "unlock", json!(["chart"])).expect("it has it");
    harbour.ask(B, "steal", json!(["chart"])).expect("nobody has it");
    harbour.hear(A, &json!({"method": "steal", "params": ["chart"], "id": 4}));
    harbour.ask(A, "unlock", json!(["chart"])).expect("it has it");
    assert!(!owns(&mut harbour, B));
    assert!(harbour.ask(B, "lock", json!(["chart"])).is_err(), "it is to be unlocked first");
    harbour.ask(B, "unlock", json!(["chart"])).expect("it has claimed it");
    assert!(harbour.ask(B, "unlock", json!(["chart"])).is_err());
    assert!(harbour.ask(B, "lock", json!(["a chart"])).is_err());
}

fn wait(name: &str, timeout: Option<u64>) -> Value {
    let mut wait = json!({"op": "wait", "table": "Ship", "where": [["name", "==", name]], "columns": ["name"], "until": "==", "rows": [{"name": name}]});
    if let Some(timeout) = timeout {
        wait["timeout"] = json!(timeout);
    }
    wait
}

/// Section 5.2.6.
#[test]
fn who_waits_is_answered_when_it_is_time() {
    let mut harbour = Harbour::new();
    assert!(harbour.transact(B, 1, json!([insert("Discovery"), wait("Fram", Some(100))])).is_empty());
    assert!(harbour.transact(B, 2, json!([wait("Discovery", None), {"op": "delete", "table": "Ship", "where": [["name", "==", "Discovery"]]}])).is_empty());
    assert!(harbour.pass(60).is_empty());
    // One is done as A inserts, and another as that one is done.
    let ids = |said: Vec<(ConnectionId, Value)>| {
        said.iter().map(|(to, reply)| (*to, reply["id"].clone())).collect::<Vec<_>>()
    };
    let said = harbour.transact(A, 3, json!([insert("Fram")]));
    assert_eq!(ids(said), [(A, json!(3)), (B, json!(1)), (B, json!(2))]);
    assert_eq!(harbour.server.database().rows("Ship").count(), 1);
    assert_eq!(harbour.server.deadline(), None);

    assert!(harbour.transact(B, 4, json!([insert("Nimrod"), wait("Endurance", Some(100))])).is_empty());
    assert_eq!(harbour.server.deadline(), Some(harbour.now + Duration::from_millis(100)));
    assert!(harbour.pass(99).is_empty());
    let said = harbour.pass(1);
    assert_eq!(said[0].1["result"][1]["error"], "timed out");
    assert_eq!(harbour.server.database().rows("Ship").count(), 1, "what it has inserted is not there");
    assert!(harbour.pass(100).is_empty());
}

/// Section 4.1.4.
#[test]
fn who_waits_may_give_up() {
    let mut harbour = Harbour::new();
    assert!(harbour.transact(A, 1, json!([wait("Fram", None)])).is_empty());
    assert!(harbour.transact(A, 1, json!([]))[0].1["error"].is_object(), "it is not answered yet");
    assert!(harbour.hear(B, &notification("cancel", json!([1]))).is_empty());
    let said = harbour.hear(A, &notification("cancel", json!([1])));
    assert_eq!((&said[0].1["id"], &said[0].1["error"]["error"]), (&json!(1), &json!("canceled")));
    assert!(harbour.hear(A, &notification("cancel", json!([1]))).is_empty());
    assert!(harbour.transact(A, 2, json!([wait("Fram", None)])).is_empty());
    harbour.server.disconnect(A, &mut Outbox::default());
    assert_eq!(harbour.transact(B, 3, json!([insert("Fram")])).len(), 1);
}

#[test]
fn this_process_takes_part() {
    let mut harbour = Harbour::new();
    harbour.ask(A, "monitor", json!(["Sea", "m", {"Ship": {"columns": ["name", "size"]}}])).expect("rows");
    assert!(harbour.transact(B, 1, json!([wait("Fram", None)])).is_empty());
    let mut out = Outbox::default();
    let made = harbour.server.transact(
        harbour.now,
        |draft, chance| {
            let ship = draft.insert("Ship", chance);
            draft.set("Ship", ship, "name", "Fram")?;
            draft.set("Ship", ship, "size", 39)?;
            Ok(ship)
        },
        &mut out,
    );
    let ship = made.expect("it is right");
    let commits = std::mem::take(&mut out.commits);
    let told = told_in(std::mem::take(&mut out)).into_iter().map(|(to, _)| to);
    assert_eq!(told.collect::<Vec<_>>(), [A, B]);
    let changes: Vec<_> = commits[0].of("Ship").collect();
    assert_eq!((changes.len(), changes[0].uuid, changes[0].old.is_none()), (1, ship, true));
    assert!(changes[0].touches("size"));

    let mut set = |column: &str, value: Datum| {
        harbour.server.transact(harbour.now, |draft, _| draft.set("Ship", ship, column, value), &mut out)
    };
    assert!(
        set("size", Datum::from("large")).expect_err("it is a number").details.contains("of another type")
    );
    assert!(
        set("name", Datum::from(None::<&str>)).expect_err("it has one").details.contains("expected 1 to 1")
    );
    assert_eq!(set("size", Datum::from(40)), Ok(()));
    let twice = harbour.server.transact(
        harbour.now,
        |draft, chance| {
            (0..2).try_for_each(|_| {
                let ship = draft.insert("Ship", chance);
                draft.set("Ship", ship, "name", "Gauss")
            })
        },
        &mut out,
    );
    assert_eq!(twice.expect_err("they have one name").tag, Tag::ConstraintViolation);
    let refused = harbour.server.transact(
        harbour.now,
        |draft, _| {
            draft.delete("Ship", ship);
            Err::<(), _>(Error::syntax("on second thoughts"))
        },
        &mut out,
    );
    assert!(refused.is_err());
    let row = harbour.server.database().row("Ship", ship).expect("it is there");
    assert_eq!(
        (row.get("name").string(), row.get("size").integer(), row.uuid()),
        (Some("Fram"), Some(40), ship)
    );
}

/// What a disk has, which fails when it is told to.
#[derive(Clone, Default)]
struct Disk(Arc<Mutex<(Vec<Vec<u8>>, bool)>>);

impl Journal for Disk {
    fn append(&mut self, record: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock().expect("one thread");
        if disk.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.0.push(record.into());
        Ok(())
    }

    fn is_long(&self) -> bool {
        self.0.lock().expect("one thread").0.len() > 4
    }

    fn restart(&mut self, snapshot: &[u8]) -> io::Result<()> {
        self.0.lock().expect("one thread").0.clear();
        self.append(snapshot)
    }
}

impl Disk {
    fn open(&self) -> Result<Store, Error> {
        let records = self.0.lock().expect("one thread").0.clone();
        Store::replayed(schema(), &records, Box::new(self.clone()), &mut Random::new(8))
    }
}

#[test]
fn what_is_replayed_is_what_was_committed() {
    let disk = Disk::default();
    let mut harbour = Harbour::of(disk.open().expect("a new one"));
    let kept = |server: &Server| crate::record::of_database(server.database());
    for (id, name) in (0..).zip(["Fram", "Gauss", "Nimrod", "Discovery", "Scotia", "Terra Nova"]) {
        harbour.transact(A, id, json!([insert(name), {"op": "update", "table": "Ship", "where": [["name", "==", name]], "row": {"tags": ["map", [["n", name]]], "seen": 1}}]));
        let again = Harbour::of(disk.open().expect("it is whole"));
        assert_eq!(kept(&again.server), kept(&harbour.server));
        harbour.transact(
            A,
            100 + id,
            json!([{"op": "delete", "table": "Ship", "where": [["name", "==", "Gauss"]]}]),
        );
    }
    let records = disk.0.lock().expect("one thread").0.len();
    assert!(records <= 5, "it is begun anew now and then");
    // What is ephemeral is not written, and is gone.
    harbour.transact(A, 200, json!([{"op": "update", "table": "Ship", "where": [], "row": {"seen": 7}}]));
    assert_eq!(disk.0.lock().expect("one thread").0.len(), records);
    let again = Harbour::of(disk.open().expect("it is whole"));
    assert!(again.server.database().rows("Ship").all(|row| row.get("seen").is_empty()));
}

#[test]
fn a_disk_that_fails_is_not_trusted_again() {
    let disk = Disk::default();
    let mut harbour = Harbour::of(disk.open().expect("a new one"));
    harbour.ask(B, "monitor", json!(["Sea", "m", {"Ship": {}}])).expect("rows");
    assert_eq!(harbour.transact(A, 1, json!([insert("Fram")])).len(), 2);
    disk.0.lock().expect("one thread").1 = true;
    let said = harbour.transact(A, 2, json!([insert("Gauss")]));
    assert_eq!(said[0].1["result"][1]["error"], "resources exhausted");
    disk.0.lock().expect("one thread").1 = false;
    let said = harbour.transact(A, 3, json!([insert("Nimrod")]));
    assert!(
        said[0].1["result"][1]["details"].as_str().is_some_and(|why| why.contains("failed before")),
        "{said:?}"
    );
    assert_eq!(harbour.server.database().rows("Ship").count(), 1);
    assert_eq!(disk.open().expect("it is whole").database().rows("Ship").count(), 1);
}

#[test]
fn records_that_do_not_fit_the_schema_are_named() {
    let open = |records: &[&str]| {
        let records: Vec<Vec<u8>> = records.iter().map(|record| (*record).into()).collect();
        let store = Store::replayed(schema(), &records, Box::new(Disk::default()), &mut Random::new(8));
        store.map(drop).map_err(|why| why.to_string())
    };
    let first = r#"{"database": "Sea", "rows": {}}"#;
    assert_eq!(open(&[first]), Ok(()));
    let row = |table: &str, row: &str| {
        format!(r#"{{"rows": {{"{table}": {{"550e8400-e29b-41d4-a716-446655440000": {row}}}}}}}"#)
    };
    for (record, expected) in [
        (row("Boat", "{}"), "record 2: there is no table Boat"),
        (
            row("Ship", r#"{"sail": 1}"#),
            "record 2: table Ship, row 550e8400-e29b-41d4-a716-446655440000: there is no column sail",
        ),
        (row("Ship", r#"{"size": "large"}"#), "column size: value: expected integer"),
        ("no JSON".into(), "record 2: expected ident"),
        (first.into(), "record 2: record: no member `database` is expected"),
    ] {
        let why = open(&[first, &record]).expect_err("it does not fit");
        assert!(why.contains(expected), "{why}");
    }
    assert!(
        open(&[r#"{"database": "Land", "rows": {}}"#])
            .is_err_and(|why| why.contains("this is the database Land"))
    );
}

/// Whatever is heard, in whatever pieces, the server goes on.
#[test]
fn noise_does_no_harm() {
    let requests = [
        r#"{"method":"transact","params":["Sea",{"op":"insert","table":"Ship","row":{"name":"Fram","size":3}}],"id":1}"#,
        r#"{"method":"transact","params":["Sea",{"op":"wait","timeout":5,"table":"Ship","where":[["size",">",2]],"columns":["name"],"until":"==","rows":[]}],"id":2}"#,
        r#"{"method":"transact","params":["Sea",{"op":"mutate","table":"Ship","where":[],"mutations":[["size","*=",-3],["tags","insert",["map",[["a","b"]]]]]}],"id":3}"#,
        r#"{"method":"monitor_cond","params":["Sea",4,{"Ship":[{"columns":["name"],"where":[["tags","includes",["map",[]]]]}]}],"id":4}"#,
        r#"{"method":"monitor_cond_change","params":[4,5,{"Ship":[{"where":[true]}]}],"id":5}"#,
        r#"{"method":"steal","params":["chart"],"id":6}"#,
        r#"{"method":"cancel","params":[2],"id":null}"#,
    ];
    let mut chance = Random::new(11);
    let mut harbour = Harbour::new();
    for round in 0..3_000 {
        let mut bytes = requests[chance.index(requests.len())].as_bytes().to_vec();
        for _ in 0..chance.below(3) {
            let at = chance.index(bytes.len());
            match chance.below(3) {
                0 => bytes[at] = b"{}[]\",:0a-"[chance.index(10)],
                1 => drop(bytes.remove(at)),
                _ => bytes.truncate(at.max(1)),
            }
        }
        let mut out = Outbox::default();
        let cut = chance.index(bytes.len());
        let from = [A, B][chance.index(2)];
        for part in [&bytes[..cut], &bytes[cut..]] {
            harbour.server.receive(Time::from_nanos(round * 1_000_000), from, part, &mut out);
        }
        harbour.server.database().invariants();
        for (closed, _) in out.closed {
            harbour.server.connect(closed, 0);
        }
    }
}
