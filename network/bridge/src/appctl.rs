//! Questions about switches that run, as `ovs-appctl` asks them: JSON-RPC 1.0 on a Unix socket, a method and its arguments as text.

mod listing;
mod pid_file;

use crate::bridge::Bridge;
use crate::switches::Bridges;
use fulmar_files::{NamedSocket, Threshold};
use fulmar_openflow::{MatchText, parse_match};
use listing::Form;
use pid_file::PidFile;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};
use std::io::{self, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::Duration;

/// A request may have so many bytes.
const LONGEST: u64 = 1 << 20;
/// So many ask at a time. When more come, who has asked for the longest has to go.
const ASKING: usize = 64;
/// How long until somebody is let in who could not be.
const PAUSE: Duration = Duration::from_millis(10);
/// How long who asks is waited for.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first argument of a request whose answer is to be JSON, one object a line.
const JSON: &str = "--json";

/// The socket, as long as this is there.
pub(crate) struct Appctl {
    socket: Arc<NamedSocket>,
    stops: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// None where it could not be written, or an `ovs-vswitchd` has its own: then `ovs-appctl` has to be told where the socket is.
    _pid_file: Option<PidFile>,
}

impl Appctl {
    pub(crate) fn start(path: &Path, bridges: Arc<Bridges>) -> io::Result<Self> {
        let socket = Arc::new(NamedSocket::bind(path)?);
        let listens = Arc::clone(&socket);
        let stops = Arc::new(AtomicBool::new(false));
        let ends = stops.clone();
        let serve = move || {
            let asking = Arc::new(Threshold::new(ASKING));
            for stream in listens.listener().incoming() {
                if ends.load(SeqCst) {
                    return;
                }
                let Ok((stream, same)) = stream.and_then(|stream| Ok((stream.try_clone()?, stream))) else {
                    // There are no descriptors left, say.
                    std::thread::sleep(PAUSE);
                    continue;
                };
                let (bridges, asks) = (bridges.clone(), asking.enter(same));
                // Who asks is one at a time or a few: each has a thread while it asks. If there is none, it is as if it had not come.
                let _ = std::thread::Builder::new().name("appctl".into()).spawn(move || {
                    let _asks = asks;
                    converse(stream, &bridges);
                });
            }
        };
        let thread = std::thread::Builder::new().name("appctl".into()).spawn(serve)?;
        Ok(Self { socket, stops, thread: Some(thread), _pid_file: PidFile::write(path).ok() })
    }
}

impl Drop for Appctl {
    fn drop(&mut self) {
        self.stops.store(true, SeqCst);
        // So that the thread sees it: nobody comes any more. It fails if nobody could before.
        let _ = rustix::net::shutdown(&*self.socket, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What is asked. It takes some times the memory of its text: any value of JSON may take a hundred times as much.
#[derive(Deserialize)]
struct Request {
    #[serde(default)]
    method: String,
    #[serde(default)]
    params: Vec<String>,
    #[serde(default)]
    id: Id,
}

/// By what an answer is told from others.
#[derive(Default, Deserialize, Serialize)]
#[serde(untagged)]
enum Id {
    Number(Number),
    Text(String),
    #[default]
    Nothing,
}

/// Answers requests until there are no more.
fn converse(mut stream: UnixStream, bridges: &Bridges) {
    let limits =
        stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    let (Ok(()), Ok(input)) = (limits, stream.try_clone()) else { return };
    let requests = serde_json::Deserializer::from_reader(input.take(LONGEST)).into_iter::<Request>();
    for request in requests {
        let Ok(Request { method, params, id }) = request else { return };
        let arguments: Vec<&str> = params.iter().map(String::as_str).collect();
        let answer = match answer(bridges, &method, &arguments) {
            Ok(text) => json!({"id": id, "result": text, "error": null}),
            Err(text) => json!({"id": id, "result": null, "error": text}),
        };
        if stream.write_all(answer.to_string().as_bytes()).is_err() {
            return;
        }
    }
}

/// Sends a request to such a socket.
///
/// # Errors
/// That nobody answers, or what the answer is if there is none.
pub fn ask(socket: &Path, method: &str, arguments: &[String]) -> Result<String, String> {
    let unreachable = |why: io::Error| format!("no switch answers at {}: {why}", socket.display());
    let mut stream = UnixStream::connect(socket).map_err(unreachable)?;
    let request = json!({"id": 0, "method": method, "params": arguments});
    stream.write_all(request.to_string().as_bytes()).map_err(unreachable)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(unreachable)?;
    let mut answers = serde_json::Deserializer::from_reader(stream).into_iter::<Value>();
    let Some(Ok(answer)) = answers.next() else {
        return Err(format!("no answer came from {}", socket.display()));
    };
    match (answer["result"].as_str(), answer["error"].as_str()) {
        (Some(result), _) => Ok(result.to_owned()),
        (None, error) => Err(error.unwrap_or("no reason is told").to_owned()),
    }
}

const COMMANDS: &str = "The available commands are:\n  dpctl/dump-conntrack [BRIDGE]\n  dpctl/dump-flows [--json] [BRIDGE]\n  dpctl/flush-conntrack [BRIDGE]\n  dpctl/show [--json] [BRIDGE]\n  fdb/flush [BRIDGE]\n  fdb/show [--json] BRIDGE\n  list-commands\n  ofproto/list\n  ofproto/trace BRIDGE FLOW\n  version\n";

fn answer(bridges: &Bridges, method: &str, arguments: &[&str]) -> Result<String, String> {
    let is_listing = matches!(method, "fdb/show" | "dpctl/show" | "dpctl/dump-flows");
    let (form, arguments) = match arguments {
        [JSON, rest @ ..] if is_listing => (Form::Json, rest),
        _ => (Form::Text, arguments),
    };
    let one = |name: &str| {
        let bridge = bridges.lock().get(name).cloned();
        bridge.ok_or_else(|| format!("no bridge is named {name:?}; there are: {}", names(bridges)))
    };
    let some = || -> Result<Vec<(String, Arc<Bridge>)>, String> {
        match arguments {
            [] => Ok(bridges.lock().iter().map(|(name, bridge)| (name.clone(), bridge.clone())).collect()),
            [name, ..] => Ok(vec![((*name).to_owned(), one(name)?)]),
        }
    };
    match (method, arguments) {
        ("list-commands", []) => Ok(COMMANDS.to_owned()),
        ("version", []) => Ok(format!("fulmar {}\n", env!("CARGO_PKG_VERSION"))),
        ("ofproto/list", []) => {
            Ok(bridges.lock().keys().fold(String::new(), |text, name| text + name + "\n"))
        }
        ("ofproto/trace", [name, flow]) => {
            let packet = parse_match(flow).map_err(|why| why.to_string())?;
            let bridge = one(name)?;
            Ok(format!("Flow: {}\n\n{}", MatchText(&packet), bridge.trace(&packet)))
        }
        ("fdb/flush", _) => {
            for (_, bridge) in some()? {
                let known: Vec<_> = bridge.stations().into_iter().map(|(station, ..)| station).collect();
                bridge.forget(&known);
            }
            Ok("table successfully flushed\n".to_owned())
        }
        ("fdb/show", [name]) => Ok(listing::stations(name, &*one(name)?, form)),
        ("dpctl/show", _) => {
            some()?.iter().map(|(name, bridge)| listing::stats(name, bridge, form)).collect()
        }
        ("dpctl/dump-flows", _) => {
            some()?.iter().map(|(name, bridge)| listing::megaflows(name, bridge, form)).collect()
        }
        ("dpctl/dump-conntrack", _) => {
            let lines = |bridge: &Arc<Bridge>| -> String {
                let connections = bridge.switch().tracker().connections();
                connections
                    .iter()
                    .fold(String::new(), |text, connection| text + &connection.to_string() + "\n")
            };
            Ok(some()?.iter().map(|(_, bridge)| lines(bridge)).collect())
        }
        ("dpctl/flush-conntrack", _) => {
            some()?.iter().for_each(|(_, bridge)| bridge.switch().tracker().flush(None));
            Ok(String::new())
        }
        _ => Err(format!("{method:?} with these arguments is not known; {COMMANDS}")),
    }
}

fn names(bridges: &Bridges) -> String {
    bridges.lock().keys().cloned().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_text_and_its_answer_has_its_id() {
        let read = |text: &str| serde_json::from_str::<Request>(text);
        for id in ["7", "\"a\"", "null"] {
            let asked =
                format!(r#"{{"method": "version", "params": ["br0"], "id": {id}, "jsonrpc": [{{}}]}}"#);
            let request = read(&asked).expect("a request");
            assert_eq!((&*request.method, &*request.params), ("version", &["br0".to_owned()][..]));
            assert_eq!(json!(request.id).to_string(), id);
        }
        assert!(read("{}").is_ok_and(|request| request.method.is_empty()));
        let no_texts = [r#"{"id": [1]}"#, r#"{"params": [{"": 0}]}"#, r#"{"method": {"": 0}}"#];
        no_texts.into_iter().for_each(|asked| assert!(read(asked).is_err(), "{asked}"));
    }
}
