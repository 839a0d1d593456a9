//! What clients ask for, each a method (RFC 7047, section 4.1).

use super::kept::MONITORS;
use super::{ConnectionId, Outbox, Server, Session, Subject, Waiting, Watching};
use crate::fields::{is_id, wrong};
use crate::monitor::{Flavor, Monitor};
use crate::{Error, Tag};
use fulmar_node::Time;
use serde_json::{Value, json};
use std::sync::Arc;

/// Bytes of the longest name of a lock.
const LONGEST_NAME: usize = 255;

/// All databases that there are.
const SUBJECTS: [Subject; 2] = [Subject::Kept, Subject::Itself];

/// What comes of a request: a result, an error, or a reply that comes later.
type Reply = Result<Option<Value>, Value>;

impl From<Error> for Value {
    fn from(why: Error) -> Self {
        why.to_json()
    }
}

impl Server {
    /// A message that is none is an error, and ends the connection.
    pub(super) fn hear(
        &mut self,
        now: Time,
        from: ConnectionId,
        mut message: Value,
        out: &mut Outbox,
    ) -> Result<(), Error> {
        let is_reply = message.get("method").is_none() && message.get("id").is_some();
        if is_reply && (message.get("result").is_some() || message.get("error").is_some()) {
            // Nothing is asked of clients, so this answers nothing.
            return Ok(());
        }
        let is_request = message.get("method").is_some_and(Value::is_string)
            && message.get("params").is_some_and(|params| params.is_array() || params.is_null());
        if !is_request {
            return Err(wrong("message", "a JSON-RPC request, with `method`, `params` and `id`", &message));
        }
        let mut member = |name: &str| message.get_mut(name).map(Value::take);
        let (method, id) = (member("method"), member("id").filter(|id| !id.is_null()));
        let method = method.as_ref().and_then(Value::as_str).unwrap_or_default();
        let params = match member("params") {
            Some(Value::Array(params)) => params,
            _ => Vec::new(),
        };
        let Some(id) = id else {
            if let ("cancel", [transaction]) = (method, params.as_slice()) {
                self.cancel(from, transaction, out);
            }
            return Ok(());
        };
        let reply = match self.request(now, from, &id, method, params, out) {
            Ok(None) => return Ok(()),
            Ok(Some(result)) => json!({"id": id, "result": result, "error": null}),
            Err(why) => json!({"id": id, "result": null, "error": why}),
        };
        out.say(from, &reply);
        Ok(())
    }

    fn request(
        &mut self,
        now: Time,
        from: ConnectionId,
        id: &Value,
        method: &str,
        params: Vec<Value>,
        out: &mut Outbox,
    ) -> Reply {
        if method == "transact" {
            return self.transaction(now, from, id, params, out);
        }
        let params = params.as_slice();
        match method {
            "list_dbs" => {
                Ok(Some(json!(SUBJECTS.map(|subject| self.databases.about(subject).schema().name()))))
            }
            "get_schema" => {
                let (subject, _) = self.named(method, params)?;
                Ok(Some(self.databases.about(subject).schema().to_json()))
            }
            "monitor" => self.monitor(from, Flavor::Plain, method, params),
            "monitor_cond" => self.monitor(from, Flavor::Conditional, method, params),
            "monitor_cond_since" => self.monitor(from, Flavor::Since, method, params),
            "monitor_cond_change" => self.change_monitor(from, params, out),
            "monitor_cancel" => self.cancel_monitor(from, params),
            "lock" => self.lock(from, method, params, false, out),
            "steal" => self.lock(from, method, params, true, out),
            "unlock" => {
                self.unlock(lock_name(method, params)?, from, out)?;
                Ok(Some(json!({})))
            }
            "echo" => Ok(Some(params.into())),
            "get_server_id" => Ok(Some(json!(self.name.to_string()))),
            // What is here neither comes nor goes.
            "set_db_change_aware" => match params {
                [Value::Bool(_)] => Ok(Some(json!({}))),
                _ => Err(wrong(method, "[true] or [false]", &params.into()).into()),
            },
            _ => Err(json!("unknown method")),
        }
    }

    /// The database that is named first, and the other parameters (sections 4.1.2, 4.1.3 and 4.1.5).
    fn named<'p>(&self, method: &str, params: &'p [Value]) -> Result<(Subject, &'p [Value]), Error> {
        let Some((Value::String(name), rest)) = params.split_first() else {
            return Err(wrong(method, "the name of a database first", &params.into()));
        };
        let subject =
            SUBJECTS.into_iter().find(|subject| self.databases.about(*subject).schema().name() == name);
        let subject = subject.ok_or_else(|| {
            let ours = self.database().schema().name();
            let details = format!("{method}: there is no database {name}: expected {ours}");
            Error::new(Tag::UnknownDatabase, details)
        })?;
        Ok((subject, rest))
    }

    fn transaction(
        &mut self,
        now: Time,
        from: ConnectionId,
        id: &Value,
        params: Vec<Value>,
        out: &mut Outbox,
    ) -> Reply {
        let (subject, _) = self.named("transact", &params)?;
        if self.waiting.values().any(|waiting| waiting.by == from && waiting.id == *id) {
            return Err(Error::syntax(format!("transact: the request {id} is not answered yet")).into());
        }
        let operations = params.into_iter().skip(1).collect();
        let waiting =
            Waiting { by: from, id: id.clone(), subject, operations, since: now, deadline: None, kept: None };
        self.begin(now, waiting, out);
        Ok(None)
    }

    /// Section 4.1.5.
    fn monitor(&mut self, from: ConnectionId, flavor: Flavor, method: &str, params: &[Value]) -> Reply {
        let (subject, rest) = self.named(method, params)?;
        // With the last transaction that the client knows, `monitor_cond_since` has one more.
        let [name, requests] = rest.get(..2).unwrap_or_default() else {
            return Err(wrong(method, "[database, name, tables]", &params.into()).into());
        };
        let monitor = Monitor::from_json(flavor, self.databases.about(subject).schema(), requests)?;
        let watching = Watching { name: name.clone(), subject, monitor };
        let bytes = watching.bytes();
        self.may_keep(from, bytes, 0)?;
        let session = self.session(from)?;
        if session.monitors.len() >= MONITORS {
            let details =
                format!("{method}: there are {MONITORS} monitors already, as many as one client has at most");
            return Err(Error::new(Tag::ResourcesExhausted, details).into());
        }
        if session.monitors.contains_key(&name.to_string()) {
            return Err(Error::syntax(format!("{method}: there is a monitor {name} already")).into());
        }
        let watching = Arc::new(watching);
        session.bytes += bytes;
        session.monitors.insert(name.to_string(), watching.clone());
        Ok(Some(flavor.reply(watching.monitor.initial(self.databases.about(subject)))))
    }

    fn change_monitor(&mut self, from: ConnectionId, params: &[Value], out: &mut Outbox) -> Reply {
        let [name, new_name, requests] = params else {
            return Err(wrong("monitor_cond_change", "[name, new name, tables]", &params.into()).into());
        };
        let session = self.session(from)?;
        let is_taken = name != new_name && session.monitors.contains_key(&new_name.to_string());
        let found = session.monitors.get(&name.to_string());
        let found = found.filter(|found| found.monitor.flavor != Flavor::Plain && !is_taken);
        let mut watching = Watching::clone(found.ok_or_else(|| json!("unknown monitor"))?);
        let before = watching.bytes();
        watching.name = new_name.clone();
        let rows = watching.monitor.change(self.databases.about(watching.subject), requests)?;
        let bytes = watching.bytes();
        self.may_keep(from, bytes, before)?;
        if let Some(rows) = rows {
            out.say(from, &watching.monitor.flavor.notification(new_name, rows));
        }
        let session = self.session(from)?;
        session.bytes = session.bytes + bytes - before;
        session.monitors.remove(&name.to_string());
        session.monitors.insert(new_name.to_string(), Arc::new(watching));
        Ok(Some(json!({})))
    }

    /// Section 4.1.7.
    fn cancel_monitor(&mut self, from: ConnectionId, params: &[Value]) -> Reply {
        let [name] = params else { return Err(wrong("monitor_cancel", "[name]", &params.into()).into()) };
        let session = self.session(from)?;
        let removed = session.monitors.remove(&name.to_string()).ok_or_else(|| json!("unknown monitor"))?;
        session.bytes -= removed.bytes();
        Ok(Some(json!({})))
    }

    /// Sections 4.1.8 and 4.1.9.
    fn lock(
        &mut self,
        from: ConnectionId,
        method: &str,
        params: &[Value],
        steal: bool,
        out: &mut Outbox,
    ) -> Reply {
        let name = lock_name(method, params)?;
        self.may_keep(from, name.len(), 0)?;
        let claimed = self.locks.claim(name, from, steal)?;
        self.session(from)?.bytes += name.len();
        if let Some(victim) = claimed.victim {
            out.say(victim, &json!({"id": null, "method": "stolen", "params": [name]}));
        }
        Ok(Some(json!({"locked": claimed.locked})))
    }

    fn session(&mut self, client: ConnectionId) -> Result<&mut Session, Error> {
        self.sessions.get_mut(&client).ok_or_else(|| Error::syntax("the connection is closed"))
    }
}

fn lock_name<'p>(method: &str, params: &'p [Value]) -> Result<&'p str, Error> {
    match params {
        [Value::String(name)] if is_id(name) && name.len() <= LONGEST_NAME => Ok(name),
        _ => Err(wrong(method, "[name of a lock, of 255 bytes at most]", &params.into())),
    }
}
