//! What clients ask for, each a method (RFC 7047, section 4.1).

use super::{
    ConnectionId, MONITORS, Outbox, REMEMBERED, SAID, SAID_BY_ALL, SAID_FREELY, Server, Session, Subject,
    Waiting, Watching,
};
use crate::fields::{is_id, wrong};
use crate::monitor::{Flavor, Monitor};
use crate::{Error, Tag};
use fulmar_node::Time;
use serde_json::{Value, json};
use std::sync::Arc;

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
        message: &Value,
        out: &mut Outbox,
    ) -> Result<(), Error> {
        let is_reply = message.get("method").is_none() && message.get("id").is_some();
        if is_reply && (message.get("result").is_some() || message.get("error").is_some()) {
            // Nothing is asked of clients, so this answers nothing.
            return Ok(());
        }
        let method = message.get("method").and_then(Value::as_str);
        let params = message.get("params").filter(|params| params.is_array() || params.is_null());
        let (Some(method), Some(params)) = (method, params) else {
            return Err(wrong("message", "a JSON-RPC request, with `method`, `params` and `id`", message));
        };
        let params = params.as_array().map(Vec::as_slice).unwrap_or_default();
        let id = message.get("id").filter(|id| !id.is_null());
        let Some(id) = id else {
            if let ("cancel", [transaction]) = (method, params) {
                self.cancel(from, transaction, out);
            }
            return Ok(());
        };
        let reply = match self.request(now, from, id, method, params, out) {
            Ok(None) => return Ok(()),
            Ok(Some(result)) => json!({"id": id, "result": result, "error": null}),
            Err(why) => json!({"id": id, "result": null, "error": why}),
        };
        out.say(from, reply);
        Ok(())
    }

    fn request(
        &mut self,
        now: Time,
        from: ConnectionId,
        id: &Value,
        method: &str,
        params: &[Value],
        out: &mut Outbox,
    ) -> Reply {
        match method {
            "list_dbs" => {
                Ok(Some(json!(SUBJECTS.map(|subject| self.databases.about(subject).schema().name()))))
            }
            "get_schema" => {
                let (subject, _) = self.named(method, params)?;
                Ok(Some(self.databases.about(subject).schema().to_json()))
            }
            "transact" => self.transaction(now, from, id, params, out),
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
        params: &[Value],
        out: &mut Outbox,
    ) -> Reply {
        let (subject, operations) = self.named("transact", params)?;
        let said = self.may_remember(from)?;
        if self.waiting.values().any(|waiting| waiting.by == from && waiting.id == *id) {
            return Err(Error::syntax(format!("transact: the request {id} is not answered yet")).into());
        }
        let (id, operations) = (id.clone(), operations.into());
        let waiting = Waiting {
            by: from,
            id,
            subject,
            operations,
            said,
            since: now,
            deadline: None,
            has_waited: false,
            looked_at: 0,
        };
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
        let said = self.may_remember(from)?;
        let database = self.databases.about(subject);
        let monitor = Monitor::from_json(flavor, database.schema(), requests)?;
        let rows = monitor.initial(database);
        let session = self.session(from)?;
        if session.monitors.len() >= MONITORS {
            let details =
                format!("{method}: there are {MONITORS} monitors already, as many as one client has at most");
            return Err(Error::new(Tag::ResourcesExhausted, details).into());
        }
        if session.monitors.contains_key(&name.to_string()) {
            return Err(Error::syntax(format!("{method}: there is a monitor {name} already")).into());
        }
        let watching = Watching { name: name.clone(), subject, monitor, said };
        session.monitors.insert(name.to_string(), Arc::new(watching));
        Ok(Some(flavor.reply(rows)))
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
        watching.name = new_name.clone();
        let rows = watching.monitor.change(self.databases.about(watching.subject), requests)?;
        if let Some(rows) = rows {
            out.say(from, watching.monitor.flavor.notification(new_name, rows));
        }
        let session = self.session(from)?;
        session.monitors.remove(&name.to_string());
        session.monitors.insert(new_name.to_string(), Arc::new(watching));
        Ok(Some(json!({})))
    }

    /// Section 4.1.7.
    fn cancel_monitor(&mut self, from: ConnectionId, params: &[Value]) -> Reply {
        let [name] = params else { return Err(wrong("monitor_cancel", "[name]", &params.into()).into()) };
        let removed = self.session(from)?.monitors.remove(&name.to_string());
        removed.map(|_| Some(json!({}))).ok_or_else(|| json!("unknown monitor"))
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
        self.may_remember(from)?;
        let claimed = self.locks.claim(name, from, steal)?;
        if let Some(victim) = claimed.victim {
            out.say(victim, json!({"id": null, "method": "stolen", "params": [name]}));
        }
        Ok(Some(json!({"locked": claimed.locked})))
    }

    /// Whether something more is remembered for a client, which has said so many bytes of it. One that has all remembered would take
    /// all memory.
    fn may_remember(&mut self, client: ConnectionId) -> Result<usize, Error> {
        let said = self.session(client)?.framing.taken;
        let (count, bytes) = self.remembered(client);
        let is_free = bytes + said <= SAID_FREELY;
        if count >= REMEMBERED || bytes + said > SAID {
            let details = format!(
                "{count} monitors, locks and transactions that wait, of {bytes} bytes: expected no more than {REMEMBERED} \
                 and {SAID} of one client"
            );
            return Err(Error::new(Tag::ResourcesExhausted, details));
        }
        if !is_free && self.remembered_of_all() + said > SAID_BY_ALL {
            let details = format!(
                "{bytes} bytes of monitors, locks and transactions that wait: expected no more than {SAID_FREELY} of one \
                 client while those of all have {SAID_BY_ALL}"
            );
            return Err(Error::new(Tag::ResourcesExhausted, details));
        }
        Ok(said)
    }

    fn session(&mut self, client: ConnectionId) -> Result<&mut Session, Error> {
        self.sessions.get_mut(&client).ok_or_else(|| Error::syntax("the connection is closed"))
    }
}

fn lock_name<'p>(method: &str, params: &'p [Value]) -> Result<&'p str, Error> {
    match params {
        [Value::String(name)] if is_id(name) => Ok(name),
        _ => Err(wrong(method, "[name of a lock]", &params.into())),
    }
}
