//! What comes of each message that a client can send, in either of two states: `heard.txt` is written by this.

use super::*;

/// One that has asked for nothing yet, and one that has a monitor, a lock for which B waits, and a transaction that waits.
const STATES: [&str; 2] = ["new", "known"];
/// How a row is called, and how wide its name may be.
const WIDTH: usize = 32;

fn harbour(state: &str) -> Harbour {
    let mut harbour = Harbour::new();
    let watches = json!(["Sea", "theirs", {"Ship": {}}]);
    assert!(harbour.ask(B, "monitor", watches).is_ok());
    if state == "known" {
        assert!(harbour.ask(A, "monitor_cond", json!(["Sea", "mine", {"Ship": {}}])).is_ok());
        assert!([A, B].into_iter().all(|client| harbour.ask(client, "lock", json!(["pier"])).is_ok()));
        assert!(harbour.transact(A, 1, json!([wait("Fram", None)])).is_empty());
    }
    harbour
}

/// Each method, with what it takes.
fn methods() -> [(&'static str, Value); 16] {
    [
        ("list_dbs", json!([])),
        ("get_schema", json!(["Sea"])),
        ("get_server_id", json!([])),
        ("echo", json!(["ahoy"])),
        ("set_db_change_aware", json!([true])),
        ("transact", json!(["Sea", insert("Gjoa")])),
        ("cancel", json!([1])),
        ("monitor", json!(["Sea", "new", {"Ship": {}}])),
        ("monitor_cond", json!(["Sea", "new", {"Ship": {}}])),
        ("monitor_cond_since", json!(["Sea", "new", {"Ship": {}}, "00000000-0000-0000-0000-000000000000"])),
        ("monitor_cond_change", json!(["mine", "mine", {"Ship": [{"where": [true]}]}])),
        ("monitor_cancel", json!(["mine"])),
        ("lock", json!(["quay"])),
        ("steal", json!(["pier"])),
        ("unlock", json!(["pier"])),
        // What a server in a cluster, and nobody here, is asked for.
        ("convert", json!(["Sea", {}])),
    ]
}

/// All that can be said, with its name.
fn messages() -> Vec<(String, String)> {
    let mut messages = Vec::new();
    let mut add = |name: String, message: &Value| messages.push((name, message.to_string()));
    for (method, params) in methods() {
        add(method.into(), &json!({"method": method, "params": params, "id": "q"}));
        add(format!("{method}, wrong"), &json!({"method": method, "params": [{}, 7], "id": "q"}));
        add(format!("{method}, no id"), &json!({"method": method, "params": params, "id": null}));
    }
    add("result".into(), &json!({"id": "q", "result": [], "error": null}));
    add("error".into(), &json!({"id": "q", "result": null, "error": "no"}));
    add("neither".into(), &json!({"id": "q"}));
    add("method of no text".into(), &json!({"method": 7, "params": [], "id": "q"}));
    add("params of no list".into(), &json!({"method": "echo", "params": {}, "id": "q"}));
    add("list".into(), &json!([1, 2]));
    messages.push(("no JSON".into(), "ahoy".into()));
    messages
}

/// What is answered, whether others are told of it, and whether the connection ends.
fn told(state: &str, message: &str) -> String {
    let mut harbour = harbour(state);
    let mut out = Outbox::default();
    harbour.server.receive(harbour.now, A, message.as_bytes(), &mut out);
    if !out.closed.is_empty() {
        assert!(out.closed.iter().all(|(client, _)| *client == A), "others stay");
        return "closed".into();
    }
    let said = told_in(out);
    let reply = said.iter().find(|(to, said)| *to == A && said.get("method").is_none());
    let mut told = match reply {
        None => "-".to_owned(),
        Some((_, reply)) if reply["error"].is_null() => "result".into(),
        Some((_, reply)) => {
            let error = &reply["error"];
            error.as_str().or_else(|| error["error"].as_str()).expect("a text").to_owned()
        }
    };
    if said.iter().any(|(to, _)| *to == B) {
        told += ", others hear";
    }
    told
}

#[test]
fn what_is_heard_is_written_down() {
    let line = |name: &str, columns: [&str; 2]| format!("{name:WIDTH$}{:WIDTH$}{}\n", columns[0], columns[1]);
    let mut table = line("message", STATES);
    for (name, message) in messages() {
        let told = STATES.map(|state| told(state, &message));
        table += &line(&name, [&told[0], &told[1]]);
    }
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server/heard.txt");
    if std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &table).expect("written");
    }
    assert_eq!(table, std::fs::read_to_string(&golden).expect("readable"));
}
