//! Processes that share a database in a directory.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::{Connection, ErrorCode};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::thread;

const FULMAR: &str = env!("CARGO_BIN_EXE_fulmar");
const END: &str = "that was all";

/// A shell that is talked to.
struct Shell {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Shell {
    fn start(database: &Path) -> Self {
        Self::start_with(database, |command| command)
    }

    fn start_with(database: &Path, change: impl Fn(&mut Command) -> &mut Command) -> Self {
        // What it complains about comes in its place among what it answers.
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" sql \"$1\" 2>&1", FULMAR]).arg(name(database));
        let mut process =
            change(command.stdin(Stdio::piped()).stdout(Stdio::piped())).spawn().expect("it starts");
        let input = process.stdin.take().expect("a pipe");
        let output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Self { process, input, output }
    }

    /// Has statements run, and does not wait for what comes of it.
    fn tell(&mut self, statements: &str) {
        writeln!(self.input, "{statements}\nSELECT '{END}';").expect("the shell reads");
    }

    /// What the shell says; `None` if it has ended before it was done.
    fn hear(&mut self) -> Option<String> {
        let mut answer = Vec::new();
        loop {
            match self.output.next() {
                Some(Ok(line)) if line == END => return Some(answer.join("\n")),
                Some(Ok(line)) => answer.push(line),
                _ => {
                    eprintln!("the shell's last words: {}", answer.join("\n"));
                    return None;
                }
            }
        }
    }

    fn ask(&mut self, statements: &str) -> String {
        self.tell(statements);
        self.hear().expect("the shell goes on")
    }

    fn kill(&mut self) {
        self.process.kill().expect("it may be killed");
        self.process.wait().expect("it ends");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn name(database: &Path) -> String {
    format!("fulmar:{}", database.display())
}

/// The process that holds a database.
fn holder(database: &Path) -> String {
    let text = fs::read_to_string(database.join("LOCK")).expect("a lock");
    text.split(' ').nth(1).expect("`process N`").to_owned()
}

/// Waits until nobody holds the database.
fn wait_until_closed(database: &Path) {
    File::open(database.join("LOCK")).expect("a lock").lock().expect("it comes free");
}

fn is_served(database: &Path) -> bool {
    database.join("server").exists()
}

/// A directory for databases.
fn folder() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().canonicalize().expect("a path").join("birds");
    (directory, path)
}

#[test]
fn transactions_go_on_when_their_database_moves_to_a_server() {
    let (_directory, path) = folder();
    let mut first = Shell::start(&path);
    first.ask("CREATE TABLE t(a INTEGER PRIMARY KEY, b); INSERT INTO t(b) VALUES ('one');");
    assert_eq!(first.ask("BEGIN; SELECT count(*) FROM t; INSERT INTO t(b) VALUES ('two');"), "1");
    assert!(!is_served(&path) && path.join("holder").exists());

    let mut second = Shell::start(&path);
    assert_eq!(second.ask("UPDATE t SET b = 'ONE' RETURNING a, b;"), "1|ONE");
    assert!(is_served(&path) && !path.join("holder").exists());
    assert_eq!(first.ask("SELECT group_concat(b) FROM t;"), "one,two", "its snapshot and its changes");
    first.ask("COMMIT;");
    assert_eq!(second.ask("SELECT group_concat(b) FROM t;"), "ONE,two");
    assert_eq!(second.ask("PRAGMA integrity_check;"), "ok");

    // A third finds the server at once; whoever has read an old state loses against a newer one.
    let mut third = Shell::start(&path);
    assert_eq!(third.ask("BEGIN; SELECT b FROM t WHERE a = 1;"), "ONE");
    first.ask("UPDATE t SET b = 'eins' WHERE a = 1;");
    assert!(third.ask("UPDATE t SET b = 'uno' WHERE a = 1; COMMIT;").contains("conflict"));
}

/// It waited for as long as a server may take to answer, a minute.
#[test]
fn who_was_moved_to_a_server_can_be_interrupted() {
    let (_directory, path) = folder();
    let first = Connection::open(name(&path)).expect("a new one");
    first.execute_batch("CREATE TABLE t(a); CREATE TABLE u(a); INSERT INTO u VALUES (7)").expect("they run");
    let interrupts = first.get_interrupt_handle();
    let interrupt = move |_: &Context<'_>| {
        interrupts.interrupt();
        Ok(1)
    };
    first.create_scalar_function("interrupt", 0, FunctionFlags::SQLITE_UTF8, interrupt).expect("it is new");
    let mut second = Shell::start(&path);
    second.ask("SELECT 1;");
    assert!(is_served(&path));
    first.execute_batch("BEGIN; SELECT count(*) FROM t").expect("they run");
    let server = holder(&path);
    let signal = |signal: &str| Command::new("kill").args([signal, &server]).status().expect("it runs");
    assert!(signal("-STOP").success());
    let read = first.query_row("SELECT a FROM u WHERE rowid = interrupt()", [], |_| Ok(()));
    assert!(signal("-CONT").success());
    let error = read.expect_err("nobody answers");
    assert_eq!(error.sqlite_error_code(), Some(ErrorCode::OperationInterrupted), "{error}");
}

#[test]
fn a_long_read_and_an_exclusive_transaction_are_respected_by_the_server() {
    let (_directory, path) = folder();
    let mut first = Shell::start(&path);
    first.ask("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2), (3); BEGIN; SELECT 1 FROM t;");
    let mut second = Shell::start(&path);
    for _ in 0..40 {
        second.ask(
            "UPDATE t SET a = a + 1; INSERT INTO t SELECT a FROM t LIMIT 1; DELETE FROM t WHERE rowid > 3;",
        );
    }
    assert_eq!(first.ask("SELECT sum(a) FROM t; COMMIT; SELECT sum(a) FROM t;"), "6\n126");

    drop((first, second));
    wait_until_closed(&path);
    let mut first = Shell::start(&path);
    first.ask("BEGIN EXCLUSIVE; UPDATE t SET a = 0;");
    let mut second = Shell::start(&path);
    assert!(second.ask("UPDATE t SET a = 7;").contains("database is locked"));
    assert!(second.ask("BEGIN EXCLUSIVE;").contains("database is locked"));
    assert_eq!(second.ask("SELECT sum(a) FROM t;"), "126");
    first.ask("COMMIT;");
    assert_eq!(second.ask("BEGIN EXCLUSIVE; UPDATE t SET a = a + 1; COMMIT; SELECT sum(a) FROM t;"), "3");
    first.ask("BEGIN EXCLUSIVE;");
    first.kill();
    assert_eq!(second.ask(".timeout 60000\nUPDATE t SET a = 7; SELECT sum(a) FROM t;"), "21");
}

#[test]
fn others_are_noticed_and_rows_are_numbered_apart() {
    let (_directory, path) = folder();
    let mut first = Shell::start(&path);
    first.ask(
        "CREATE TABLE t(a INTEGER PRIMARY KEY, b); CREATE TABLE n(a INTEGER PRIMARY KEY AUTOINCREMENT, b);",
    );
    let mut second = Shell::start(&path);
    let version = second.ask("PRAGMA data_version;");
    assert_eq!(second.ask("PRAGMA data_version;"), version);
    second.ask("INSERT INTO t(b) VALUES ('own');");
    assert_eq!(second.ask("PRAGMA data_version;"), version);
    first.ask("INSERT INTO t(b) VALUES ('other');");
    assert_ne!(second.ask("PRAGMA data_version;"), version);

    // Both have begun, and neither sees what the other adds.
    for shell in [&mut first, &mut second] {
        shell.ask("BEGIN; INSERT INTO t(b) VALUES (1), (2), (3); INSERT INTO n(b) VALUES (1), (2);");
    }
    assert_eq!(first.ask("COMMIT;"), "");
    assert_eq!(second.ask("COMMIT;"), "");
    assert_eq!(
        second.ask("SELECT count(*), max(a) FROM t; SELECT count(*), count(DISTINCT a) FROM n;"),
        "8|8\n4|4"
    );
}

#[test]
fn two_databases_of_one_connection_are_shared() {
    let (directory, path) = folder();
    let other = directory.path().canonicalize().expect("a path").join("nests");
    let attach = format!("ATTACH '{}' AS other;", name(&other));
    let mut first = Shell::start(&path);
    first.ask(&attach);
    first.ask(
        "CREATE TABLE t(a); CREATE TABLE other.u(a); INSERT INTO t VALUES (1); INSERT INTO u VALUES (2);",
    );
    let mut second = Shell::start(&path);
    second.ask(&attach);
    second.ask("BEGIN; INSERT INTO t VALUES (3); INSERT INTO u VALUES (4); COMMIT;");
    assert_eq!(first.ask("SELECT sum(a) FROM t; SELECT sum(a) FROM u;"), "4\n6");
    assert!(is_served(&path) && is_served(&other));
}

#[test]
fn the_server_ends_when_nobody_is_left() {
    let (_directory, path) = folder();
    let mut first = Shell::start(&path);
    first.ask("CREATE TABLE t(a);");
    let mut second = Shell::start(&path);
    second.ask("INSERT INTO t VALUES (1);");
    // Killed or not, both have gone.
    first.kill();
    drop(second);
    wait_until_closed(&path);
    assert!(!is_served(&path));
    let mut third = Shell::start(&path);
    assert_eq!(third.ask("SELECT count(*) FROM t;"), "1");
    assert_eq!(holder(&path), third.process.id().to_string());
}

#[test]
fn what_a_killed_holder_leaves_is_in_nobodys_way() {
    let (_directory, path) = folder();
    let mut first = Shell::start(&path);
    first.ask("CREATE TABLE t(a);");
    first.kill();
    assert!(path.join("holder").exists());
    let mut second = Shell::start(&path);
    second.ask("INSERT INTO t VALUES (1);");
    assert_eq!(holder(&path), second.process.id().to_string());
    let mut third = Shell::start(&path);
    assert_eq!(third.ask("SELECT count(*) FROM t;"), "1");
}

#[test]
fn who_cannot_share_says_how_it_could() {
    let (_directory, path) = folder();
    let mut first = Shell::start_with(&path, |command| command.env("FULMAR_PROGRAM", "/nowhere/fulmar"));
    first.ask("CREATE TABLE t(a);");
    let refused = Command::new(FULMAR).args(["sql", &name(&path), "SELECT 1"]).output().expect("it runs");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    let process = format!("already open in another process: process {} (", first.process.id());
    assert!(
        message.contains(&process) && message.contains("FULMAR_PROGRAM names /nowhere/fulmar"),
        "{message}"
    );
    assert_eq!(first.ask("INSERT INTO t VALUES (1); SELECT count(*) FROM t;"), "1");
}

/// The database has been closed already when it turns out that no server will open it.
#[test]
fn transactions_go_on_when_no_server_starts() {
    let (_directory, path) = folder();
    let mut first = Shell::start_with(&path, |command| command.env("FULMAR_PROGRAM", "/bin/true"));
    first.ask(
        "CREATE TABLE t(a); INSERT INTO t VALUES (1); BEGIN; SELECT 1 FROM t; INSERT INTO t VALUES (2);",
    );
    let refused = Command::new(FULMAR).args(["sql", &name(&path), "SELECT 1"]).output().expect("it runs");
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("/bin/true ended without a word"),
        "{refused:?}"
    );
    assert_eq!(first.ask("SELECT count(*) FROM t; COMMIT; SELECT count(*) FROM t;"), "2\n2");
    assert!(path.join("holder").exists());
}

const ACCOUNTS: u64 = 8;

/// Four processes transfer amounts; now and then one is killed in the middle. No amount appears or vanishes.
#[test]
fn clients_may_be_killed_in_the_middle() {
    let (_directory, path) = folder();
    let mut first = Shell::start(&path);
    first.ask(&format!(
        "CREATE TABLE account(id INTEGER PRIMARY KEY, balance); WITH RECURSIVE n(i) AS (SELECT 1 UNION \
         ALL SELECT i + 1 FROM n WHERE i < {ACCOUNTS}) INSERT INTO account SELECT i, 100 FROM n;"
    ));
    thread::scope(|scope| {
        for worker in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut shell = Shell::start(path);
                for round in 0..60 {
                    let (from, to) = ((worker * 3 + round) % ACCOUNTS + 1, (worker + round * 5) % ACCOUNTS + 1);
                    let read = format!("BEGIN; SELECT sum(balance) FROM account; UPDATE account SET balance = balance - 1 WHERE id = {from};");
                    let write = format!("UPDATE account SET balance = balance + 1 WHERE id = {to}; COMMIT;");
                    if round % 10 == worker {
                        shell.tell(&format!("{read} {write}"));
                        shell.kill();
                        shell = Shell::start(path);
                        continue;
                    }
                    loop {
                        assert_eq!(shell.ask(&read), (ACCOUNTS * 100).to_string());
                        let answer = shell.ask(&write);
                        if answer.is_empty() {
                            break;
                        }
                        assert!(answer.contains("conflict") || answer.contains("retry"), "{answer}");
                    }
                }
            });
        }
    });
    assert_eq!(
        first.ask("SELECT sum(balance) FROM account; PRAGMA integrity_check;"),
        format!("{}\nok", ACCOUNTS * 100)
    );
}

/// The server is killed again and again. Somebody starts another, and what was acknowledged is there.
#[test]
fn the_server_may_be_killed() {
    const ROWS: u64 = 40;
    let (_directory, path) = folder();
    let mut first = Shell::start(&path);
    first.ask("CREATE TABLE t(worker, n, PRIMARY KEY(worker, n));");
    let mut second = Shell::start(&path);
    second.ask("SELECT 1;");
    let killed = Mutex::new(BTreeSet::new());
    thread::scope(|scope| {
        for (worker, shell) in [&mut first, &mut second].into_iter().enumerate() {
            let (path, killed) = (&path, &killed);
            scope.spawn(move || {
                for n in 0..ROWS {
                    let insert = format!("INSERT INTO t VALUES ({worker}, {n});");
                    shell.tell(&insert);
                    if worker == 0 && n % 10 == 5 {
                        let server = holder(path);
                        let status = Command::new("kill").args(["-KILL", &server]).status();
                        assert!(status.expect("it runs").success());
                        killed.lock().expect("no panic").insert(server);
                    }
                    let mut answer = shell.hear().expect("the shell goes on");
                    while !answer.is_empty() {
                        assert!(answer.contains("unknown") || answer.contains("connection"), "{answer}");
                        let there = format!("SELECT count(*) FROM t WHERE worker = {worker} AND n = {n};");
                        match shell.ask(&there).as_str() {
                            "1" => break,
                            "0" => answer = shell.ask(&insert),
                            other => answer = other.to_owned(),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(killed.lock().expect("no panic").len(), 4);
    let count = "SELECT count(*), count(DISTINCT n) FROM t; PRAGMA integrity_check;";
    assert_eq!(first.ask(count), format!("{}|{ROWS}\nok", 2 * ROWS));
    // A transaction that was open goes on, if the new server can still tell what it has seen; or it is over, and says so.
    assert_eq!(second.ask("BEGIN; SELECT max(n) FROM t; DELETE FROM t;"), (ROWS - 1).to_string());
    assert!(Command::new("kill").args(["-KILL", &holder(&path)]).status().expect("it runs").success());
    first.ask("INSERT INTO t VALUES (9, 9);");
    let left = if second.ask("COMMIT;").is_empty() { 1 } else { 2 * ROWS + 1 };
    assert_eq!(second.ask("SELECT count(*) FROM t;"), left.to_string());
}

/// The first column of the first row; the statement is only reset then, and what that says is ignored, as many drivers do.
fn first(connection: &Connection, sql: &str) -> Option<i64> {
    let mut statement = connection.prepare(sql).expect("a statement");
    let mut rows = statement.query([]).expect("a query");
    rows.next().expect("no error before the row").map(|row| row.get(0).expect("a number"))
}

/// In several processes, which are this test again. A claim was lost when the statement was reset, and nobody heard of it.
#[test]
fn each_job_is_claimed_once_by_several_processes() {
    const OF: &str = "FULMAR_TEST_CLAIMS";
    const THIS: &str = "sharing::each_job_is_claimed_once_by_several_processes";
    const JOBS: usize = 200;
    if let Ok(name) = std::env::var(OF) {
        let connection = Connection::open(name).expect("shared");
        let claim = "UPDATE job SET owner = 1
                     WHERE id = (SELECT id FROM job WHERE owner IS NULL ORDER BY id LIMIT 1) RETURNING id";
        while let Some(job) = first(&connection, claim) {
            println!("\nclaimed {job}");
        }
        return;
    }
    let (_directory, path) = folder();
    let connection = Connection::open(name(&path)).expect("a database");
    let jobs = format!(
        "CREATE TABLE job(id INTEGER PRIMARY KEY, owner);
         WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < {JOBS})
         INSERT INTO job(id) SELECT i FROM n"
    );
    connection.execute_batch(&jobs).expect("jobs");
    let workers: Vec<Child> = (0..4)
        .map(|_| {
            let mut command = Command::new(std::env::current_exe().expect("this test"));
            command.args(["--exact", THIS, "--nocapture"]).env(OF, name(&path));
            command.stdout(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    let mut claims = Vec::new();
    for worker in workers {
        let output = worker.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        claims.extend(text.lines().filter_map(|line| Some(line.strip_prefix("claimed ")?.to_owned())));
    }
    let once: BTreeSet<_> = claims.iter().collect();
    assert_eq!((claims.len(), once.len()), (JOBS, JOBS));
}
