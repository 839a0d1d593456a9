//! Several servers that are one cluster, as they are run.

use crate::replicas::Cluster;
use crate::server::{Server, sql};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

pub(crate) fn status(server: &str) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_fulmar")).args(["status", server]).output();
    let output = output.expect("the program runs");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// A server that is just back may not have heard yet where the cluster's clock is. What was begun before it has is begun again, as the
/// error says: it has changed nothing.
fn sql_again(name: &str, statements: &[&str]) -> String {
    let mut tries = std::iter::repeat_with(|| sql(name, statements)).take(100);
    tries.find(|told| !told.contains("the snapshot of this transaction is gone")).expect("it is back at last")
}

#[test]
fn a_transaction_spans_servers_that_are_killed_and_come_back() {
    let data = tempfile::tempdir().expect("a directory");
    let folder = |name: &str| data.path().join(name);
    let first = Server::start(&folder("a"), "127.0.0.1:0");
    let port = first.port().to_owned();
    let join = ["--join", &port];
    let mut others: Vec<_> =
        ["b", "c"].iter().map(|name| Server::start_with(&folder(name), "127.0.0.1:0", &join)).collect();
    first.await_servers(3);
    let name = format!("{}/birds", others[0].address);
    for n in 0..6 {
        sql(&name, &[&format!("CREATE TABLE t{n}(a INTEGER PRIMARY KEY, b); INSERT INTO t{n} VALUES(1, 0)")]);
    }
    // Each server holds some of the tables.
    let shards =
        sql(&name, &["SELECT count(DISTINCT rootpage >> 22) FROM sqlite_schema WHERE type = 'table'"]);
    assert_eq!(shards, "3");
    let transfer = "BEGIN; UPDATE t0 SET b = b - 3; UPDATE t1 SET b = b + 1; UPDATE t2 SET b = b + 1; \
                    UPDATE t5 SET b = b + 1; COMMIT;";
    let rows = "SELECT t0.b, t1.b, t2.b, t5.b FROM t0, t1, t2, t5";
    assert_eq!(sql(&name, &[transfer, rows]), "-3|1|1|1");
    let killed = others.pop().expect("two of them");
    let place = killed.port().to_owned();
    drop(killed);
    let _back = Server::start_with(&folder("c"), &place, &join);
    assert_eq!(sql_again(&name, &[transfer, rows]), "-6|2|2|2");
    drop(first);
    let _first = Server::start(&folder("a"), &port);
    assert_eq!(sql_again(&name, &[transfer, rows, "PRAGMA integrity_check"]), "-9|3|3|3\nok");
    let told = status(&port);
    assert!(told.contains("birds") && !told.contains("does not answer"), "{told}");
}

/// It seemed to be well, as it did not know yet what it holds; or it gave no answer.
#[test]
fn a_server_that_has_just_begun_says_what_it_waits_for() {
    let folder = tempfile::tempdir().expect("a directory");
    let mut cluster = Cluster::start(folder.path(), "viewstamped");
    sql(&cluster.database("birds"), &["CREATE TABLE t(a)"]);
    for server in &mut cluster.servers {
        server.signal("KILL");
    }
    cluster.restart(1);
    let told = status(cluster.servers[1].port());
    assert!(told.contains("has not heard yet of the cluster's clock, which is kept by "), "{told}");
    assert!(cluster.servers.iter().all(|manager| told.contains(manager.port())), "{told}");
}

/// A server at `real`, as far as it greets; what it is asked then it does not hear. As if it was killed in between.
fn greets_only(real: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let real = real.to_owned();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().expect("a client");
        let mut server = TcpStream::connect(real).expect("a server");
        let pass_on = |from: &mut TcpStream, to: &mut TcpStream| {
            let mut length = [0; 4];
            from.read_exact(&mut length).expect("a greeting");
            let mut body = vec![0; usize::try_from(u32::from_le_bytes(length)).expect("a greeting is short")];
            from.read_exact(&mut body).expect("a greeting");
            to.write_all(&[&length[..], &body].concat()).expect("the other end");
        };
        pass_on(&mut client, &mut server);
        pass_on(&mut server, &mut client);
        // Nobody listens any more, either.
        drop(listener);
        client.read_exact(&mut [0]).expect("a question");
    });
    address
}

/// Its clients waited for as long as it was away, up to a minute, whatever other servers they could have asked.
#[test]
fn a_server_that_is_killed_when_it_has_greeted_is_passed_over() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(data.path(), "127.0.0.1:0");
    sql(&format!("{}/birds", server.address), &["CREATE TABLE t(a); INSERT INTO t VALUES(7)"]);
    // Whoever waits for the first as long as it may does not end.
    let name = format!("fulmar://{},{}/birds?timeout=60m", greets_only(server.port()), server.port());
    assert_eq!(sql(&name, &["SELECT a FROM t"]), "7");
}

#[test]
fn a_server_of_another_cluster_is_passed_over() {
    let data = tempfile::tempdir().expect("a directory");
    let one = Server::start(&data.path().join("one"), "127.0.0.1:0");
    let other = Server::start(&data.path().join("other"), "127.0.0.1:0");
    let third = data.path().join("third");
    drop(Server::start_with(&third, "127.0.0.1:0", &["--join", one.port()]));
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--join", other.port(), "--data"]).arg(&third);
    let mut wrong = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program starts");
    let lines = BufReader::new(wrong.stderr.take().expect("a pipe")).lines();
    let told = lines.map(|line| line.expect("a line")).find(|line| line.contains("passed over"));
    let told = told.expect("it says so");
    assert!(told.contains(&format!("{}: a server of another cluster", other.port())), "{told}");
    one.await_servers(2);
    wrong.kill().expect("it runs");
    wrong.wait().expect("it ends");
    assert!(status(other.port()).contains("1 servers"));
    assert!(status("127.0.0.1:1").contains("cannot reach a server at 127.0.0.1:1"));
}

#[test]
fn a_demo_shows_a_cluster() {
    let query = "SELECT species, birds FROM most_seen LIMIT 1; SELECT count(*) FROM sighting";
    let output = Command::new(env!("CARGO_BIN_EXE_fulmar")).args(["demo", query]).output();
    let output = output.expect("the program runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && told.trim().ends_with("2000"), "{told}");
}

#[test]
fn a_server_joins_and_takes_part_and_another_is_drained() {
    let data = tempfile::tempdir().expect("a directory");
    let folder = |name: &str| data.path().join(name);
    let first = Server::start(&folder("a"), "127.0.0.1:0");
    let port = first.port().to_owned();
    let join = ["--join", &port];
    let second = Server::start_with(&folder("b"), "127.0.0.1:0", &join);
    while !status(&port).contains("2 servers") {
        std::thread::yield_now();
    }
    let name = format!("{}/birds", first.address);
    let rows = "WITH n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000) ";
    let fill = format!(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b); {rows} INSERT INTO t SELECT n, printf('%0400d', n) FROM n"
    );
    assert_eq!(sql(&name, &[&fill]), "");
    let third = Server::start_with(&folder("c"), "127.0.0.1:0", &join);
    let nodes = |server: &Server| {
        let told = status(&port);
        let of = |line: &str| {
            line.starts_with("birds").then(|| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        };
        let lines = told.lines().filter_map(of).filter(|fields| fields[2] == server.port());
        lines.filter_map(|fields| fields[3].parse::<u64>().ok()).sum::<u64>()
    };
    // Of about 170.
    while nodes(&third) < 30 {
        std::thread::yield_now();
    }
    let check = "SELECT count(*), sum(a), min(length(b)) FROM t; PRAGMA integrity_check";
    assert_eq!(sql(&name, &[check]), "3000|4501500|400\nok");
    let drain = |server: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_fulmar")).args(["drain", server]).output();
        let output = output.expect("the program runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let complaint = drain(&port);
    assert!(complaint.contains("is the cluster's first server"), "{complaint}");
    let told = drain(second.port());
    assert!(told.contains("holds nothing any more"), "{told}");
    drop(second);
    let again = Command::new(env!("CARGO_BIN_EXE_fulmar"))
        .args(["serve", "--listen", "127.0.0.1:0", "--join", &port, "--data"])
        .arg(folder("b"))
        .output()
        .expect("the program runs");
    let complaint = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(complaint.contains("this server was drained"), "{complaint}");
    assert_eq!(sql(&name, &[check]), "3000|4501500|400\nok");
    assert!(status(&port).contains("2 servers"));
    drop(third);
    let _third = Server::start_with(&folder("c"), "127.0.0.1:0", &join);
    assert_eq!(sql(&name, &["UPDATE t SET b = ''", "SELECT count(*), max(length(b)) FROM t"]), "3000|0");
}

#[test]
fn a_demo_shows_that_the_others_go_on() {
    let output = Command::new(env!("CARGO_BIN_EXE_fulmar")).args(["demo", "--fail-over"]).output();
    let output = output.expect("the program runs");
    let told = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && told.contains("leads the table now"), "{told}");
}

/// A statement that has to be prepared anew, as the schema has changed, is begun again. The snapshot that it had begun with stayed open on its
/// server for as long as the connection, and nothing that it saw could be forgotten.
#[test]
fn a_statement_that_begins_again_leaves_no_snapshot() {
    let data = tempfile::tempdir().expect("a directory");
    let server = Server::start(&data.path().join("a"), "127.0.0.1:0");
    let name = format!("{}/birds", server.address);
    let open = || rusqlite::Connection::open(&name).expect("it is there");
    let (stays, changes) = (open(), open());
    stays.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)").expect("nobody else writes");
    let mut count = stays.prepare("SELECT count(*) FROM t WHERE a > 0").expect("it is right");
    for n in 0..5 {
        changes.execute_batch(&format!("CREATE TABLE t{n}(a)")).expect("nobody else writes");
        assert_eq!(count.query_row([], |row| row.get::<_, i64>(0)), Ok(2));
    }
    let told = status(server.port());
    let snapshots = told.lines().find(|line| line.starts_with(&server.address.replace("fulmar://", "")));
    let snapshots = snapshots.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    // Each connection says that it has closed the last one when it says something next.
    assert!(snapshots.is_some_and(|snapshots| snapshots <= 2), "{told}");
}
