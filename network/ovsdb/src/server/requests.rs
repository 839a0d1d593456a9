//! What clients ask for, each a method (RFC 7047, section 4.1).

use super::{ConnectionId, Outbox, REMEMBERED, Server, Session};
use crate::fields::{is_id, wrong};
use crate::monitor::{Flavor, Monitor};
use crate::{Error, Tag};
use fulmar_node::Time;
use serde_json::{Value, json};

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
        out.messages.push((from, reply));
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
            "list_dbs" => Ok(Some(json!([self.database().schema().name()]))),
            "get_schema" => {
                self.named(method, params)?;
                Ok(Some(self.database().schema().to_json()))
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
            // The one database that is here neither comes nor goes.
            "set_db_change_aware" => match params {
                [Value::Bool(_)] => Ok(Some(json!({}))),
                _ => Err(wrong(method, "[true] or [false]", &params.into()).into()),
            },
            _ => Err(json!("unknown method")),
        }
    }

    /// The parameters after the name of the database (sections 4.1.2, 4.1.3 and 4.1.5).
    fn named<'p>(&self, method: &str, params: &'p [Value]) -> Result<&'p [Value], Error> {
        let Some((Value::String(name), rest)) = params.split_first() else {
            return Err(wrong(method, "the name of a database first", &params.into()));
        };
        let ours = self.database().schema().name();
        if name != ours {
            let details = format!("{method}: there is no database {name}: expected {ours}");
            return Err(Error::new(Tag::UnknownDatabase, details));
        }
        Ok(rest)
    }

    fn transaction(
        &mut self,
        now: Time,
        from: ConnectionId,
        id: &Value,
        params: &[Value],
        out: &mut Outbox,
    ) -> Reply {
        let operations = self.named("transact", params)?;
        self.may_remember(from)?;
        if self.waiting.values().any(|waiting| waiting.by == from && waiting.id == *id) {
            return Err(Error::syntax(format!("transact: the request {id} is not answered yet")).into());
        }
        self.begin(now, from, id, operations, out);
        Ok(None)
    }

    /// Section 4.1.5.
    fn monitor(&mut self, from: ConnectionId, flavor: Flavor, method: &str, params: &[Value]) -> Reply {
        let rest = self.named(method, params)?;
        // With the last transaction that the client knows, `monitor_cond_since` has one more.
        let [name, requests] = rest.get(..2).unwrap_or_default() else {
            return Err(wrong(method, "[database, name, tables]", &params.into()).into());
        };
        self.may_remember(from)?;
        let monitor = Monitor::from_json(flavor, self.database().schema(), requests)?;
        let rows = monitor.initial(self.database());
        let session = self.session(from)?;
        if session.monitors.contains_key(&name.to_string()) {
            return Err(Error::syntax(format!("{method}: there is a monitor {name} already")).into());
        }
        session.monitors.insert(name.to_string(), (name.clone(), monitor));
        Ok(Some(flavor.reply(rows)))
    }

    fn change_monitor(&mut self, from: ConnectionId, params: &[Value], out: &mut Outbox) -> Reply {
        let [name, new_name, requests] = params else {
            return Err(wrong("monitor_cond_change", "[name, new name, tables]", &params.into()).into());
        };
        let session = self.session(from)?;
        let is_taken = name != new_name && session.monitors.contains_key(&new_name.to_string());
        let found =
            session.monitors.get(&name.to_string()).filter(|(_, monitor)| monitor.flavor != Flavor::Plain);
        let Some((_, monitor)) = found.filter(|_| !is_taken) else { return Err(json!("unknown monitor")) };
        let mut monitor = monitor.clone();
        let rows = monitor.change(self.database(), requests)?;
        let told = rows.map(|rows| (from, monitor.flavor.notification(new_name, rows)));
        out.messages.extend(told);
        let session = self.session(from)?;
        session.monitors.remove(&name.to_string());
        session.monitors.insert(new_name.to_string(), (new_name.clone(), monitor));
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
            out.messages.push((victim, json!({"id": null, "method": "stolen", "params": [name]})));
        }
        Ok(Some(json!({"locked": claimed.locked})))
    }

    /// A client that has all remembered for it would take all memory.
    fn may_remember(&self, client: ConnectionId) -> Result<(), Error> {
        if self.remembered(client) < REMEMBERED {
            return Ok(());
        }
        let details = format!(
            "{REMEMBERED} monitors, locks and transactions that wait: expected no more of one client"
        );
        Err(Error::new(Tag::ResourcesExhausted, details))
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
