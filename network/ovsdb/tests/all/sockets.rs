//! The service on real sockets.

use crate::served::Served;
use fulmar_ovsdb::{Datum, Service, Store, chance, open_vswitch};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Deserializer, Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

/// A client on a stream that blocks.
struct Client<S: Read> {
    stream: S,
    heard: serde_json::StreamDeserializer<'static, serde_json::de::IoRead<S>, Value>,
}

impl<S: Read + Write> Client<S> {
    fn new(stream: S, same: S) -> Self {
        Self { stream, heard: Deserializer::from_reader(same).into_iter() }
    }

    fn say(&mut self, message: &Value) {
        self.stream.write_all(message.to_string().as_bytes()).expect("it is sent");
    }

    /// The next message; nothing when the connection is closed.
    fn hear(&mut self) -> Option<Value> {
        self.heard.next().and_then(Result::ok)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.say(&json!({"method": method, "params": params, "id": 1}));
        self.hear().expect("a reply")["result"].clone()
    }
}

fn unix(served: &Served) -> Client<UnixStream> {
    let stream = UnixStream::connect(served.socket()).expect("it listens");
    Client::new(stream.try_clone().expect("a second one"), stream)
}

fn tcp(served: &Served) -> Client<TcpStream> {
    let stream = TcpStream::connect(served.address).expect("it listens");
    Client::new(stream.try_clone().expect("a second one"), stream)
}

fn queue(dscp: i64) -> Value {
    json!(["Open_vSwitch", {"op": "insert", "table": "Queue", "row": {"dscp": dscp}}])
}

#[test]
fn a_client_on_a_unix_socket_is_told_what_one_on_tcp_does() {
    let mut served = Served::begin();
    let (mut watcher, mut writer) = (unix(&served), tcp(&served));
    assert_eq!(
        watcher.ask("monitor", &json!(["Open_vSwitch", "m", {"Queue": {"columns": ["dscp"]}}])),
        json!({})
    );
    let result = writer.ask("transact", &queue(7));
    let uuid = result[0]["uuid"][1].as_str().expect("a name");
    let update = watcher.hear().expect("an update");
    assert_eq!(update["params"], json!(["m", {"Queue": {uuid: {"new": {"dscp": 7}}}}]));

    // This process takes part, and hears of what others do.
    let (count, changes) = served.handle.subscribe(|database| database.rows("Queue").count());
    assert_eq!(count, 1);
    let set = served.handle.transact(|draft, _| {
        let queue = draft.rows("Queue").next().expect("there is one").uuid();
        draft.set("Queue", queue, "dscp", Datum::from(None::<i64>))
    });
    set.expect("it is right");
    assert_eq!(watcher.hear().expect("an update")["params"][1]["Queue"][uuid]["old"], json!({"dscp": 7}));
    assert!(changes.recv().expect("its own").of("Queue").all(|change| change.touches("dscp")));
    writer.ask("transact", &queue(8));
    assert_eq!(changes.recv().expect("another's").of("Queue").count(), 1);

    // A wait ends by the clock.
    let wait = json!(["Open_vSwitch", {"op": "wait", "timeout": 5, "table": "Queue", "where": [], "until": "==", "rows": []}]);
    assert_eq!(writer.ask("transact", &wait)[0]["error"], "timed out");
    assert!(served.stop().is_empty());
    assert_eq!(writer.hear(), None);
}

#[test]
fn garbage_is_answered_and_the_connection_closed() {
    let mut served = Served::begin();
    let (mut stranger, mut other) = (tcp(&served), unix(&served));
    stranger.stream.write_all(b"GET / HTTP/1.1\r\n\r\n").expect("it is sent");
    assert_eq!(stranger.hear().expect("an answer")["error"]["error"], "syntax error");
    assert_eq!(stranger.hear(), None);
    assert_eq!(other.ask("echo", &json!([1])), json!([1]));
    // Who is gone leaves its locks to others.
    let mut holder = tcp(&served);
    assert_eq!(holder.ask("lock", &json!(["l"])), json!({"locked": true}));
    assert_eq!(other.ask("lock", &json!(["l"])), json!({"locked": false}));
    drop(holder);
    assert_eq!(other.hear().expect("it is told")["method"], "locked");
    let told = served.stop();
    assert!(told.len() == 1 && told[0].contains("no JSON object"), "{told:?}");
}

#[test]
fn who_does_not_read_is_let_go() {
    let mut served = Served::begin();
    let (mut deaf, mut other) = (unix(&served), unix(&served));
    assert_eq!(
        deaf.ask("monitor", &json!(["Open_vSwitch", 1, {"Queue": {"columns": ["external_ids"]}}])),
        json!({})
    );
    // Each transaction tells it a megabyte.
    let large = "x".repeat(1 << 20);
    let write = |round: usize| {
        served.handle.transact(|draft, chance| {
            let queue = draft.insert("Queue", chance);
            draft.set("Queue", queue, "external_ids", Datum::map([(round.to_string(), large.clone())]))
        })
    };
    for round in 0..80 {
        write(round).expect("it is written");
        // So that the service does not hear of them all at once.
        assert_eq!(other.ask("echo", &json!([round])), json!([round]));
    }
    while deaf.hear().is_some() {}
    let told = served.stop();
    assert!(told.len() == 1 && told[0].contains("it has not read"), "{told:?}");
}

#[test]
fn a_socket_that_was_left_behind_is_taken_over_and_one_in_use_is_not() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    let mut first =
        Service::new(Store::in_memory(open_vswitch()), chance().expect("chance")).expect("a service");
    first.listen_unix(&path).expect("nobody listens there");
    let mut second =
        Service::new(Store::in_memory(open_vswitch()), chance().expect("chance")).expect("a service");
    let why = second.listen_unix(&path).expect_err("the first listens there");
    assert!(why.to_string().contains("db.sock"), "{why}");
    drop(first);
    assert!(!path.exists());
}

/// Silent clients make room when others come, and those that have never said anything do so first.
#[test]
fn silent_clients_keep_nobody_out() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).expect("it may be higher");
    let served = Served::begin();
    let mut watcher = tcp(&served);
    assert_eq!(watcher.ask("echo", &json!(["first"])), json!(["first"]));
    let by_tcp: Vec<_> = (0..500).map(|_| TcpStream::connect(served.address).expect("it listens")).collect();
    // Who comes by the other door does not meet them.
    let mut local = unix(&served);
    assert_eq!(local.ask("echo", &json!([1])), json!([1]));
    let by_name: Vec<_> =
        (0..500).map(|_| UnixStream::connect(served.socket()).expect("it listens")).collect();
    let is_let_in = |mut client: Client<UnixStream>| {
        let question = json!({"method": "echo", "params": [2], "id": 1}).to_string();
        client.stream.write_all(question.as_bytes()).is_ok() && client.hear().is_some()
    };
    // As soon as one of them has been silent for a second.
    assert!((0..1_000_000).any(|_| is_let_in(unix(&served))));
    assert_eq!(watcher.ask("echo", &json!(["last"])), json!(["last"]));
    assert_eq!(local.ask("echo", &json!([3])), json!([3]));
    drop((by_tcp, by_name));
}

/// Each of many may ask for much and read nothing: what nobody reads is bounded, and who reads is answered.
#[test]
fn who_does_not_keep_up_makes_room() {
    let mut served = Served::begin();
    let large = "x".repeat(4 << 20);
    let made = served.handle.transact(|draft, chance| {
        let queue = draft.insert("Queue", chance);
        draft.set("Queue", queue, "external_ids", Datum::map([("large".to_owned(), large.clone())]))
    });
    made.expect("it is right");
    let select = json!({"op": "select", "table": "Queue", "where": [], "columns": ["external_ids"]});
    let question = json!({"method": "transact", "params": ["Open_vSwitch", select], "id": 1}).to_string();
    let mut watcher = tcp(&served);
    watcher.ask("monitor", &json!(["Open_vSwitch", 1, {"Queue": {"columns": ["dscp"]}}]));
    // What 40 of them have asked for is 800 MB.
    let mut deaf: Vec<_> = (0..40).map(|_| tcp(&served)).collect();
    for client in &mut deaf {
        client.stream.write_all(question.repeat(5).as_bytes()).expect("it is sent");
    }
    let mut reader = tcp(&served);
    for round in 0..5 {
        assert_eq!(reader.ask("echo", &json!([round])), json!([round]));
        let made = served.handle.transact(|draft, chance| {
            let queue = draft.insert("Queue", chance);
            draft.set("Queue", queue, "dscp", round)
        });
        made.expect("it is right");
        assert!(watcher.hear().expect("an update").to_string().contains(&format!("\"dscp\":{round}")));
    }
    let told = served.stop();
    assert!(!told.is_empty() && told.iter().all(|why| why.contains("and others wait")), "{told:?}");
}

/// A request of each of them was done before anybody who came by another door was heard.
#[test]
fn many_who_ask_by_one_door_keep_nobody_waiting_at_another() {
    const MANY: usize = 300;
    let served = Served::begin();
    let made = served.handle.transact(|draft, chance| {
        (0..3_000).try_for_each(|_| {
            let row = draft.insert("QoS", chance);
            draft.set("QoS", row, "type", "x".to_owned())
        })
    });
    made.expect("it is right");
    let select = json!({"op": "select", "table": "QoS", "where": [["type", "==", "y"]], "columns": ["type"]});
    let mut slow = vec![json!("Open_vSwitch"), json!({"op": "insert", "table": "Queue", "row": {"dscp": 1}})];
    slow.extend(std::iter::repeat_n(select, 20));
    let slow = json!({"method": "transact", "params": slow, "id": 1}).to_string();
    let mut many: Vec<_> = (0..MANY).map(|_| tcp(&served)).collect();
    let mut local = unix(&served);
    let mut count = || {
        let rows =
            json!(["Open_vSwitch", {"op": "select", "table": "Queue", "where": [], "columns": ["_uuid"]}]);
        local.ask("transact", &rows)[0]["rows"].as_array().expect("rows").len()
    };
    assert_eq!(count(), 0);
    for client in &mut many {
        client.stream.write_all(slow.as_bytes()).expect("it is sent");
    }
    let (mut before, mut most) = (count(), 0);
    for _ in 0..MANY {
        let now = count();
        most = most.max(now - before);
        before = now;
    }
    for client in &mut many {
        let answer = client.hear().expect("an answer");
        assert_eq!(answer["result"][1], json!({"rows": []}));
    }
    assert_eq!(count(), MANY);
    assert!(most < MANY / 2, "{most} requests are done while one waits");
}

/// All that was asked for at once is done in turn, however much it is, as it is read.
#[test]
fn answers_wait_for_who_reads_them() {
    let mut served = Served::begin();
    let (mut asks, mut other) = (unix(&served), unix(&served));
    let question = json!({"method": "get_schema", "params": ["Open_vSwitch"], "id": 1}).to_string();
    let last = json!({"method": "echo", "params": ["last"], "id": 2}).to_string();
    asks.stream.write_all([question.repeat(200), last].concat().as_bytes()).expect("it is sent");
    assert_eq!(other.ask("echo", &json!([1])), json!([1]));
    for _ in 0..200 {
        assert_eq!(asks.hear().expect("an answer")["result"]["name"], "Open_vSwitch");
    }
    assert_eq!(asks.hear().expect("an answer")["result"], json!(["last"]));
    // Who ends what it says is answered before it is let go.
    let question = json!({"method": "echo", "params": [3], "id": 3}).to_string();
    asks.stream.write_all(question.as_bytes()).expect("it is sent");
    asks.stream.shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(asks.hear().expect("an answer")["result"], json!([3]));
    assert_eq!(asks.hear(), None);
    assert!(served.stop().is_empty());
}
