//! Each operation and each error of RFC 7047, section 5.2, as golden text: `golden/transactions.txt`.
//! `FULMAR_UPDATE_GOLDEN=1 cargo test -p fulmar-ovsdb` writes the replies anew.
//!
//! ```text
//! == title         a new database begins
//! > operations     a transaction, on this line and those below that are indented
//! + 20             so many milliseconds pass
//! < result         what comes of each operation, or an error of the whole
//! ```
//!
//! In these, `#1`, `#2` … are UUIDs in the order in which they have first appeared.

use fulmar_node::{Random, Time};
use fulmar_ovsdb::{ConnectionId, Outbox, Schema, Server, Store};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

const CLIENT: ConnectionId = ConnectionId(1);

/// A database, and the names of UUIDs.
struct Play {
    server: Server,
    now: Time,
    uuids: Vec<String>,
    /// Counts transactions.
    count: u64,
}

impl Play {
    fn begin(schema: &Schema) -> Self {
        let mut server = Server::new(Store::in_memory(schema.clone()), Random::new(7));
        server.connect(CLIENT, 0);
        Self { server, now: Time::ZERO, uuids: Vec::new(), count: 0 }
    }

    fn transact(&mut self, operations: &str) -> String {
        let operations = self.with_uuids(operations);
        let operations: Value =
            serde_json::from_str(&operations).unwrap_or_else(|why| panic!("{operations}: {why}"));
        let mut params = operations.as_array().expect("an array").clone();
        params.insert(0, json!("Sea"));
        self.count += 1;
        let request = json!({"method": "transact", "params": params, "id": self.count}).to_string();
        let mut out = Outbox::default();
        self.server.receive(self.now, CLIENT, request.as_bytes(), &mut out);
        self.server.database().invariants();
        self.replies(out)
    }

    fn pass(&mut self, time: Duration) -> String {
        self.now = self.now + time;
        let mut out = Outbox::default();
        self.server.expire(self.now, &mut out);
        self.server.retry(self.now, &mut out);
        self.replies(out)
    }

    fn replies(&mut self, out: Outbox) -> String {
        let mut text = String::new();
        for message in out.messages.into_iter().filter_map(|(_, message)| message.into_text()) {
            let message: Value = message.parse().expect("it is JSON");
            let all = [message["error"].clone()];
            let results = message["result"].as_array().map_or(all.as_slice(), Vec::as_slice);
            for result in results {
                writeln!(text, "< {}", self.without_uuids(&result.to_string())).expect("a string grows");
            }
        }
        if text.is_empty() { "<\n".into() } else { text }
    }

    fn with_uuids(&self, text: &str) -> String {
        let numbered = self.uuids.iter().enumerate().rev();
        numbered.fold(text.into(), |text: String, (at, uuid)| text.replace(&format!("#{}", at + 1), uuid))
    }

    fn without_uuids(&mut self, text: &str) -> String {
        let mut text = text.to_owned();
        let is_uuid = |part: &&str| part.parse::<fulmar_ovsdb::Uuid>().is_ok();
        let separators = |c: char| !(c.is_ascii_hexdigit() || c == '-');
        for uuid in text.clone().split(separators).filter(is_uuid) {
            if !self.uuids.iter().any(|known| known == uuid) {
                self.uuids.push(uuid.into());
            }
        }
        for (at, uuid) in self.uuids.iter().enumerate() {
            text = text.replace(uuid, &format!("#{}", at + 1));
        }
        text
    }
}

#[test]
fn transactions_are_answered_as_written_down() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let schema = serde_json::from_str(include_str!("../golden/schema.json")).expect("it is JSON");
    let schema = Schema::from_json(&schema).expect("it is a schema");
    let path = folder.join("transactions.txt");
    let golden = std::fs::read_to_string(&path).expect("it is there");
    let mut play = Play::begin(&schema);
    let mut played = String::new();
    let mut lines = golden.lines().filter(|line| !line.starts_with('<')).peekable();
    while let Some(line) = lines.next() {
        writeln!(played, "{line}").expect("a string grows");
        if line.starts_with("==") {
            play = Play::begin(&schema);
        } else if let Some(milliseconds) = line.strip_prefix("+ ") {
            let milliseconds = milliseconds.parse().expect("a number");
            played += &play.pass(Duration::from_millis(milliseconds));
        } else if let Some(operations) = line.strip_prefix("> ") {
            let mut operations = operations.to_owned();
            while let Some(line) = lines.next_if(|line| line.starts_with(' ')) {
                writeln!(played, "{line}").expect("a string grows");
                operations += line;
            }
            played += &play.transact(&operations);
        }
    }
    if std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &played).expect("it can be written");
    }
    assert!(
        played == golden || std::env::var_os("FULMAR_UPDATE_GOLDEN").is_some(),
        "other replies:\n{played}"
    );
}
