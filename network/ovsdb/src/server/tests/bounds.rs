//! What one client may ask for, and what all may, so that others go on.

use super::*;
use crate::framing::LARGEST;
use crate::server::kept::{BYTES, BYTES_FREELY, MONITORS, THINGS};

/// As many monitors as one client may have.
fn watch_often(harbour: &mut Harbour, client: ConnectionId) {
    for number in 0..MONITORS {
        let watched = json!({"Ship": {"columns": ["name"]}});
        harbour.ask(client, "monitor_cond", json!(["Sea", number, watched])).expect("rows");
    }
}

#[test]
fn what_is_remembered_for_a_client_is_bounded() {
    let mut harbour = Harbour::new();
    for id in 0..THINGS as u64 {
        assert!(harbour.transact(A, id, json!([wait("Fram", None)])).is_empty());
    }
    let said = harbour.transact(A, 5_000, json!([wait("Fram", None)]));
    assert_eq!(said[0].1["error"]["error"], "resources exhausted");
    assert!(harbour.ask(A, "lock", json!(["chart"])).is_err());
    assert!(harbour.transact(B, 1, json!([wait("Fram", None)])).is_empty());

    let large = json!([{"op": "comment", "comment": "x".repeat(BYTES / 4)}, wait("Fram", None)]);
    let done = (2..).find(|id| !harbour.transact(B, *id, large.clone()).is_empty());
    assert_eq!(done, Some(5), "three are less than is remembered, four are more");
}

#[test]
fn monitors_are_few_and_ask_for_little() {
    let mut harbour = Harbour::new();
    let watched = json!({"Ship": {"columns": ["name"]}});
    watch_often(&mut harbour, A);
    let why = harbour.ask(A, "monitor", json!(["Sea", "one more", watched])).expect_err("too many");
    assert_eq!(why["error"], "resources exhausted");
    harbour.ask(B, "monitor", json!(["Sea", "one more", watched])).expect("another client's");
    let conditions = vec![json!(["name", "!=", "none"]); 20_000];
    let much = json!({"Ship": {"columns": ["name"], "where": conditions}});
    assert_eq!(
        harbour.ask(B, "monitor_cond", json!(["Sea", "m", much])).expect_err("too much")["error"],
        "resources exhausted"
    );
    harbour.ask(B, "monitor_cond", json!(["Sea", "m", watched])).expect("rows");
    let more = json!({"Ship": {"where": much["Ship"]["where"]}});
    assert!(harbour.ask(B, "monitor_cond_change", json!(["m", "m", more])).is_err());
}

/// A short message may ask for much.
#[test]
fn a_transaction_has_bounds_and_others_go_on() {
    let mut harbour = Harbour::new();
    let ships: Vec<Value> = (0..1000).map(|number| insert(&format!("ship {number}"))).collect();
    harbour.transact(A, 1, ships.into());
    let all = json!({"op": "select", "table": "Ship", "where": []});
    let none = json!({"op": "select", "table": "Ship", "where": [["name", "==", "none"]]});
    let change = json!({"op": "mutate", "table": "Ship", "where": [], "mutations": [["size", "+=", 1]]});
    let unmet = json!({"op": "wait", "table": "Ship", "where": [["name", "==", "none"]], "until": "!=", "rows": [], "columns": ["name"], "timeout": 0});
    assert!(
        harbour.transact(A, 2, vec![unmet.clone(); 1].into())[0].1["result"]
            .to_string()
            .contains("timed out")
    );
    let waits = harbour.transact(A, 2, [vec![none.clone(); 50], vec![json!({"op": "wait", "table": "Ship", "where": [], "until": "==", "rows": [], "columns": ["name"]})]].concat().into());
    assert!(waits[0].1["result"].to_string().contains("resources exhausted"));
    for (operation, few, many) in [(all, 10, 200), (none, 500, 5000), (change, 10, 500)] {
        let mut ask =
            |count| harbour.transact(A, 2, vec![operation.clone(); count].into())[0].1["result"].to_string();
        assert!(!ask(few).contains("error"), "{operation}");
        assert!(ask(many).contains("resources exhausted"), "{operation}");
    }
    // What is asked of each row, what it holds and what it is changed by counts, too, also where one row is named.
    let conditions = vec![json!(["name", "!=", "none"]); 10_000];
    let much = json!([{"op": "select", "table": "Ship", "where": conditions}]);
    assert!(harbour.transact(A, 2, much)[0].1["result"].to_string().contains("resources exhausted"));
    let pairs: Vec<Value> = (0..50_000).map(|number| json!([format!("tag {number}"), ""])).collect();
    let named = json!([["name", "==", "ship 7"]]);
    let fill = json!([{"op": "update", "table": "Ship", "where": named, "row": {"tags": ["map", pairs]}}]);
    assert_eq!(harbour.transact(A, 2, fill)[0].1["result"], json!([{"count": 1}]));
    let mutations = vec![json!(["tags", "delete", ["set", []]]); 1_000];
    let much = json!([{"op": "mutate", "table": "Ship", "where": named, "mutations": mutations}]);
    assert!(harbour.transact(A, 2, much)[0].1["result"].to_string().contains("resources exhausted"));
    let text = "x".repeat(1 << 20);
    let much =
        json!([{"op": "update", "table": "Ship", "where": [], "row": {"tags": ["map", [["text", text]]]}}]);
    assert!(harbour.transact(A, 2, much)[0].1["result"].to_string().contains("resources exhausted"));
    // Those of a client that wait look at so many together.
    let wait =
        json!({"op": "wait", "table": "Ship", "where": [], "until": "==", "rows": [], "columns": ["name"]});
    let waits = (100..).take_while(|id| harbour.transact(A, *id, json!([wait.clone()])).is_empty()).count();
    assert!((10..=20).contains(&waits), "{waits}");
    let first =
        json!([{"op": "select", "table": "Ship", "where": [["name", "==", "ship 0"]], "columns": ["size"]}]);
    assert_eq!(harbour.transact(B, 3, first)[0].1["result"], json!([{"rows": [{"size": ["set", []]}]}]));
}

/// Of messages that have begun and do not end, that which has taken longest is given up.
#[test]
fn messages_that_do_not_end_are_bounded() {
    let mut harbour = Harbour::new();
    let mut out = Outbox::default();
    let part = ["{\"method\": \"", &"x".repeat(LARGEST - 100)].concat();
    let clients = (3..6).map(ConnectionId).collect::<Vec<_>>();
    for client in &clients {
        harbour.server.connect(*client, 0);
        harbour.now = harbour.now + Duration::from_millis(1);
        assert!(out.closed.is_empty());
        harbour.server.take(harbour.now, *client, part.as_bytes());
        assert!(!harbour.server.answer(harbour.now, *client, &mut out));
    }
    let [(closed, why)] = out.closed.as_slice() else { panic!("{:?}", out.closed) };
    assert!(*closed == clients[0] && why.details.contains("has not ended"), "{why}");
    assert!(harbour.ask(A, "echo", json!([1])).is_ok());
    // The others may end theirs.
    let mut out = Outbox::default();
    harbour.server.receive(harbour.now, clients[2], b"\", \"params\": [], \"id\": 1}", &mut out);
    assert!(out.closed.is_empty());
    assert_eq!(told_in(out)[0].1["error"], "unknown method");
}

/// Many clients may have a little kept each, and few much; by each door.
#[test]
fn what_is_kept_for_all_is_bounded() {
    let mut harbour = Harbour::new();
    let waits = |bytes: usize| json!([{"op": "comment", "comment": "x".repeat(bytes)}, wait("Fram", None)]);
    let clients = (3..13).map(ConnectionId).collect::<Vec<_>>();
    clients.iter().for_each(|client| harbour.server.connect(*client, 0));
    let large = waits(LARGEST / 2);
    let kept =
        clients.iter().filter(|client| harbour.transact(**client, 1, large.clone()).is_empty()).count();
    assert_eq!(kept, 8);
    assert!(harbour.transact(B, 1, waits(400_000)).is_empty());
    let refused = harbour.transact(A, 1, waits(4 * BYTES_FREELY));
    assert_eq!(refused[0].1["error"]["error"], "resources exhausted");
    assert!(harbour.transact(A, 2, waits(BYTES_FREELY / 2)).is_empty(), "a little is always kept");
    assert!(harbour.ask(B, "lock", json!(["chart"])).is_ok());
    let large_at_once = json!([{"op": "comment", "comment": "x".repeat(LARGEST / 2)}]);
    assert_eq!(harbour.transact(A, 3, large_at_once)[0].1["result"], json!([{}]), "it does not wait");
    let other = ConnectionId(99);
    harbour.server.connect(other, 1);
    assert!(harbour.transact(other, 1, large.clone()).is_empty(), "it has come by another door");
    harbour.server.disconnect(clients[0], &mut Outbox::default());
    assert!(harbour.transact(B, 3, large).is_empty());
    // What has ended is not kept.
    harbour.ask(B, "unlock", json!(["chart"])).expect("it has it");
    harbour.transact(A, 4, json!([insert("Fram")]));
    assert!(harbour.server.sessions.values().all(|session| (
        session.waits,
        session.bytes,
        session.looked_at
    ) == (0, 0, 0)));
    assert!(harbour.server.looked_at.values().all(|rows| *rows == 0));
}

/// A monitor that is changed is kept as it is then.
#[test]
fn a_changed_monitor_is_kept_within_the_bounds() {
    let mut harbour = Harbour::new();
    let watched = json!({"Ship": {"columns": ["name"]}});
    for name in ["a", "b"] {
        harbour.ask(A, "monitor_cond", json!(["Sea", name, watched])).expect("rows");
    }
    let large = "x".repeat(LARGEST / 2);
    assert_eq!(harbour.ask(A, "monitor_cond_change", json!(["a", large, {}])), Ok(json!({})));
    let why = harbour.ask(A, "monitor_cond_change", json!(["b", [large], {}])).expect_err("too much");
    assert_eq!(why["error"], "resources exhausted");
    assert_eq!(harbour.ask(A, "monitor_cond_change", json!([large, "a", {}])), Ok(json!({})));
    assert_eq!(harbour.ask(A, "monitor_cond_change", json!(["b", [large], {}])), Ok(json!({})));
    for name in [json!("a"), json!([large])] {
        assert_eq!(harbour.ask(A, "monitor_cancel", json!([name])), Ok(json!({})));
    }
    assert_eq!(harbour.server.sessions[&A].bytes, 0);
    assert!(harbour.ask(A, "lock", json!(["l".repeat(256)])).is_err());
}

/// Many transactions may wait for one change: the answers are made bit by bit.
#[test]
fn many_that_waited_are_answered_bit_by_bit() {
    let mut harbour = Harbour::new();
    let tags = json!(["map", [["text", "x".repeat(60_000)]]]);
    harbour.transact(
        A,
        1,
        json!([{"op": "insert", "table": "Ship", "row": {"name": "Gauss", "tags": tags}}]),
    );
    let asks = json!([wait("Fram", None), {"op": "select", "table": "Ship", "where": [["name", "==", "Gauss"]], "columns": ["tags"]}]);
    for id in 0..100 {
        assert!(harbour.transact(B, id, asks.clone()).is_empty());
    }
    let mut counts = vec![harbour.transact(A, 2, json!([insert("Fram")])).len() - 1];
    while harbour.server.is_behind() {
        counts.push(harbour.pass(0).len());
    }
    assert_eq!(counts.iter().sum::<usize>(), 100);
    assert!(counts.iter().all(|count| (1..20).contains(count)), "{counts:?}");
}

/// One change may end the waiting of many, whose answers are there at once.
#[test]
fn who_has_waited_is_told_little() {
    let mut harbour = Harbour::new();
    let ships: Vec<Value> = (0..1_000).map(|number| insert(&format!("ship {number}"))).collect();
    harbour.transact(A, 1, ships.into());
    let select = json!({"op": "select", "table": "Ship", "where": [], "columns": ["name"]});
    let asks = |name: &str| json!([wait(name, None), select]);
    assert!(
        !harbour.transact(A, 2, asks("ship 1"))[0].1.to_string().contains("exhausted"),
        "it need not wait"
    );
    assert!(harbour.transact(B, 3, asks("Fram")).is_empty());
    let said = harbour.transact(A, 4, json!([insert("Fram")]));
    assert!(said[1].0 == B && said[1].1.to_string().contains("resources exhausted"), "{said:?}");
}

/// What was committed is kept once, however many are to be told of it, and it is told as it was asked for then.
#[test]
fn what_is_told_is_made_when_there_is_room() {
    let mut harbour = Harbour::new();
    watch_often(&mut harbour, B);
    let mut out = Outbox::default();
    let name = "x".repeat(1 << 20);
    let request = json!({"method": "transact", "params": ["Sea", insert(&name)], "id": 1}).to_string();
    harbour.server.receive(harbour.now, A, request.as_bytes(), &mut out);
    assert_eq!((out.messages.len(), Arc::strong_count(&out.commits[0])), (MONITORS + 1, MONITORS + 1));
    let updates = &out.messages[..MONITORS];
    assert!(updates.iter().all(|(_, update)| update.bytes().0 < 1_000 && update.bytes().1 > 1 << 20));
    assert!(updates.windows(2).all(|two| two[0].1.shares_with(&two[1].1)));
    // It has another monitor by now, and is told what the one that it had said.
    harbour.ask(B, "monitor_cancel", json!([7])).expect("there is one");
    let told = told_in(out);
    assert_eq!(told.len(), MONITORS + 1);
    assert!(told.iter().any(|(_, message)| message["params"][0] == 7));
}
