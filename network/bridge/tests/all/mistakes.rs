//! What is wrong is said, and nothing else happens.

use crate::client::Client;
use crate::network::{Network, address};
use crate::served::{Served, bridge};
use fulmar_bridge::BridgeConfig;
use fulmar_openflow::error::{
    BadAction, BadInstruction, BadMatch, BadRequest, ErrorMessage, FlowModFailed, GroupModFailed,
    PortModFailed,
};
use fulmar_openflow::flow::FlowMod;
use fulmar_openflow::{Body, ErrorCode, Message};
use std::io::Write as _;
use std::net::UdpSocket;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

/// A sound flow-mod, to be spoilt: 48 bytes up to the match, 8 of that, an instruction of 8 bytes, and an action of 16.
fn flow_mod() -> Vec<u8> {
    let flow: FlowMod = "actions=output:2".parse().expect("it can be read");
    let mut bytes = Vec::new();
    Message { xid: 77, body: Body::FlowMod(flow) }.encode(&mut bytes).expect("it is short");
    assert_eq!(bytes.len(), 80);
    bytes
}

fn spoilt(at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = flow_mod();
    bytes[at..at + with.len()].copy_from_slice(with);
    bytes
}

#[test]
fn a_malformed_message_is_told_its_error_and_the_connection_lives_on() {
    let served = Served::secure("malformed", 2);
    let mut client = served.client();
    let cases: [(&str, Vec<u8>, ErrorCode); 11] = [
        ("version", spoilt(0, &[9]), BadRequest::BadVersion.into()),
        ("type", spoilt(1, &[99]), BadRequest::BadType.into()),
        ("length", vec![4, 14, 0, 16, 0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0], BadRequest::BadLength.into()),
        (
            "multipart",
            vec![4, 18, 0, 16, 0, 0, 0, 77, 0, 99, 0, 0, 0, 0, 0, 0],
            BadRequest::BadMultipart.into(),
        ),
        ("command", spoilt(25, &[9]), FlowModFailed::BadCommand.into()),
        ("table", spoilt(24, &[255]), FlowModFailed::BadTable.into()),
        ("match", spoilt(48, &[0, 9]), BadMatch::BadType.into()),
        ("instruction", spoilt(56, &[0, 99]), BadInstruction::Unknown.into()),
        ("action", spoilt(64, &[0, 99]), BadAction::BadType.into()),
        ("action's length", spoilt(66, &[0, 8]), BadAction::BadLength.into()),
        ("port", spoilt(68, &[0, 0, 0, 0]), BadAction::BadOutPort.into()),
    ];
    for (what, bytes, code) in cases {
        let told = client.refusal(&bytes).unwrap_or_else(|| panic!("{what}: it was accepted"));
        assert_eq!(told, ErrorMessage { code, data: bytes[..bytes.len().min(64)].to_vec() }, "{what}");
    }
    for (request, code) in [
        (group("3"), ErrorCode::from(GroupModFailed::UnknownGroup)),
        (port(99), PortModFailed::BadPort.into()),
    ] {
        let told = client.ask(request);
        assert!(matches!(&told[..], [Body::Error(error)] if error.code == code), "{told:?}");
    }
    assert_eq!(flows(&served), 0);
    client.add_flow("actions=output:2");
    assert_eq!(flows(&served), 1);
}

/// A change of a group that is not there.
fn group(number: &str) -> Body {
    use fulmar_openflow::group::{GroupCommand, GroupKind, GroupMod};
    let group = fulmar_openflow::GroupNumber(number.parse().expect("a number"));
    Body::GroupMod(GroupMod {
        command: GroupCommand::Modify,
        kind: GroupKind::All,
        group,
        buckets: Vec::new(),
    })
}

fn port(number: u32) -> Body {
    use fulmar_openflow::ports::{PortConfig, PortFeatures, PortMod};
    Body::PortMod(PortMod {
        port: fulmar_openflow::PortNumber(number),
        address: [2, 0, 0, 0, 0, 1],
        config: PortConfig(0),
        mask: PortConfig(0),
        advertise: PortFeatures(0),
    })
}

/// How many flows there are: as many as are told.
fn flows(served: &Served) -> u32 {
    use fulmar_openflow::multipart::{MultipartReply, MultipartRequest, ReplyBody, RequestBody};
    let request = RequestBody::Tables;
    let told =
        served.client().ask(Body::MultipartRequest(MultipartRequest { has_more: false, body: request }));
    match &told[..] {
        [Body::MultipartReply(MultipartReply { body: ReplyBody::Tables(tables), .. })] => {
            tables.iter().map(|table| table.flows).sum()
        }
        _ => panic!("{told:?}"),
    }
}

/// All of a transaction is done or nothing, and what follows it is.
#[test]
fn a_bad_transaction_changes_nothing() {
    let served = Served::secure("transaction", 2);
    let mut stream = UnixStream::connect(served.path("db.sock")).expect("it listens");
    let mut transact = |operations: &str| {
        let request = format!(r#"{{"id":1,"method":"transact","params":["Open_vSwitch",{operations}]}}"#);
        stream.write_all(request.as_bytes()).expect("it is heard");
        let mut answer = serde_json::Deserializer::from_reader(&stream).into_iter::<serde_json::Value>();
        answer.next().expect("it answers").expect("it is JSON")
    };
    let good = r#"{"op":"update","table":"Bridge","where":[],"row":{"fail_mode":"standalone"}}"#;
    for (bad, error) in [
        (r#"{"op":"update","table":"Bridge","where":[],"row":{"fail_mode":"open"}}"#, "constraint violation"),
        (r#"{"op":"delete","table":"Bridges","where":[]}"#, "syntax error"),
        (r#"{"op":"update","table":"Port","where":[],"row":{"tag":9999}}"#, "constraint violation"),
        (
            r#"{"op":"update","table":"Interface","where":[],"row":{"ofport_request":0}}"#,
            "constraint violation",
        ),
        (r#"{"op":"abort"}"#, "aborted"),
    ] {
        let answer = transact(&format!("{good},{bad}"));
        assert!(answer.to_string().contains(error), "{bad}: {answer}");
        let answer =
            transact(r#"{"op":"select","table":"Bridge","where":[],"columns":["name","fail_mode"]}"#);
        assert_eq!(answer["result"][0]["rows"].to_string(), r#"[{"fail_mode":"secure","name":"br0"}]"#);
    }
    assert_eq!(served.daemon.bridges(), ["br0"]);
    assert!(transact(good)["error"].is_null());
}

/// Whoever may write to the database chooses no place where a socket is made, or takes the name of something else.
#[test]
fn a_controllers_socket_is_in_the_switchs_directory_only() {
    let elsewhere = tempfile::tempdir().expect("a directory");
    let file = elsewhere.path().join("file");
    std::fs::write(&file, "kept").expect("written");
    let at = |name: &str| format!("punix:{}", elsewhere.path().join(name).display());
    let draft = "punix:conf.db.new".into();
    let controllers = vec![at("file"), at("new"), "punix:../up".into(), draft, "punix:own".into()];
    let bridges = vec![BridgeConfig { controllers, ..bridge(2) }];
    let served = Served::new(Network::new("sockets", 2), bridges);
    let refusals = |database: &fulmar_ovsdb::Database| {
        let told = database.rows("Controller").map(|row| format!("{:?}", row.get("status")));
        told.filter(|status| status.contains("a controller's socket is in")).count()
    };
    served.until(|database| refusals(database) == 3);
    let is_the_databases = |row: fulmar_ovsdb::RowRef<'_>| {
        format!("{:?}", row.get("status")).contains("conf.db.new is the configuration database's")
    };
    served.until(|database| database.rows("Controller").any(is_the_databases));
    UnixStream::connect(served.path("own")).expect("it listens");
    assert_eq!(std::fs::read_to_string(&file).expect("it is there"), "kept");
    assert!(!elsewhere.path().join("new").exists() && !served.path("../up").exists());
}

/// A controller that connects as soon as it can was told of no port, and of each of them later.
#[test]
fn a_controller_finds_a_bridge_as_the_transaction_has_made_it() {
    use fulmar_openflow::multipart::{MultipartReply, MultipartRequest, ReplyBody, RequestBody};
    use fulmar_ovsdb::Datum;
    let hosts = 20;
    let served = Served::new(Network::new("whole", hosts), Vec::new());
    let made = served.daemon.database().transact(|draft, chance| {
        let mut ports = Vec::new();
        for host in 1..=hosts {
            let [interface, port] = ["Interface", "Port"].map(|table| draft.insert(table, chance));
            let name = format!("port{host}");
            draft.set("Interface", interface, "name", name.as_str())?;
            draft.set("Port", port, "name", name.as_str())?;
            draft.set("Port", port, "interfaces", Datum::set([interface]))?;
            ports.push(port);
        }
        let [controller, bridge] = ["Controller", "Bridge"].map(|table| draft.insert(table, chance));
        draft.set("Controller", controller, "target", "punix:c")?;
        draft.set("Bridge", bridge, "name", "br0")?;
        draft.set("Bridge", bridge, "controller", Datum::set([controller]))?;
        draft.set("Bridge", bridge, "ports", Datum::set(ports))?;
        let root = draft.rows("Open_vSwitch").next().expect("there is one").uuid();
        draft.set("Open_vSwitch", root, "bridges", Datum::set([bridge]))
    });
    made.expect("it is right");
    let stream = loop {
        match UnixStream::connect(served.path("c")) {
            Ok(stream) => break stream,
            Err(_) => thread::yield_now(),
        }
    };
    let mut controller = Client::greet(stream);
    let request = RequestBody::Ports;
    controller.send(Body::MultipartRequest(MultipartRequest { has_more: false, body: request }));
    let heard = controller.settle();
    let [Message { body: Body::MultipartReply(MultipartReply { body: ReplyBody::Ports(ports), .. }), .. }] =
        &heard[..]
    else {
        panic!("{heard:?}")
    };
    assert_eq!(ports.len(), usize::from(hosts));
}

/// The file's bridge is gone, and its interface another's: what the database says counts, and the switch starts.
#[test]
fn names_that_are_taken_are_left_to_who_has_them() {
    let served = Served::secure("taken", 2);
    let moved = served.daemon.database().transact(|draft, chance| {
        let rows: Vec<fulmar_ovsdb::Uuid> = draft.rows("Bridge").map(|row| row.uuid()).collect();
        rows.into_iter().for_each(|row| draft.delete("Bridge", row));
        let [interface, port, bridge] =
            ["Interface", "Port", "Bridge"].map(|table| draft.insert(table, chance));
        draft.set("Interface", interface, "name", "port1")?;
        draft.set("Port", port, "name", "port1")?;
        draft.set("Port", port, "interfaces", fulmar_ovsdb::Datum::set([interface]))?;
        draft.set("Bridge", bridge, "name", "other")?;
        draft.set("Bridge", bridge, "ports", fulmar_ovsdb::Datum::set([port]))?;
        let root = draft.rows("Open_vSwitch").next().expect("there is one").uuid();
        draft.set("Open_vSwitch", root, "bridges", fulmar_ovsdb::Datum::set([bridge]))
    });
    moved.expect("it is right");
    let served = served.again();
    let runs = |row: fulmar_ovsdb::RowRef<'_>| row.get("datapath_id").string().is_some();
    served.until(|database| database.rows("Bridge").filter(|row| runs(*row)).count() == 2);
    assert_eq!(served.daemon.bridges(), ["br0", "other"]);
    let ports = served.daemon.database().read(|database| {
        let bridge = database.rows("Bridge").find(|row| row.get("name").string() == Some("br0"));
        bridge.expect("it is made again").get("ports").uuids().count()
    });
    assert_eq!(ports, 2, "its own, and the one that is free");
}

/// An interface that goes while packets come at it is an error of that interface; it joins again, under its number.
#[test]
fn an_interface_goes_under_traffic_and_comes_back() {
    let served = Served::secure("gone", 3);
    served.client().add_flow("actions=normal");
    let (network, stops) = (&served.network, AtomicBool::new(false));
    let socket = |host| network.host(host).within(|| UdpSocket::bind((address(host), 9)).expect("a port"));
    thread::scope(|scope| {
        let (sender, stops) = (socket(2), &stops);
        scope.spawn(move || {
            while !stops.load(SeqCst) {
                // Whether it arrives is not the question.
                let _ = sender.send_to(&[7; 1000], (address(1), 9));
            }
        });
        let mut byte = [0; 2000];
        socket(1).recv(&mut byte).expect("it arrives");
        network.switch.ip(&["link", "delete", "port1"]).expect("root may");
        served.until_interface("port1", "ofport", |number| number.integer() == Some(-1));
        network.link(1);
        served.until_interface("port1", "ofport", |number| number.integer() == Some(1));
        socket(1).recv(&mut byte).expect("it arrives again");
        stops.store(true, SeqCst);
    });
}
