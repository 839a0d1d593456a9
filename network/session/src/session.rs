//! One connection's side of the protocol: what is answered, what the switch is asked, and what the other side is told.

use crate::bundles::{Bundles, Control};
use crate::closed::Closed;
use crate::event::Event;
use crate::interest::{Interest, Kind};
use crate::liveness::{Due, Liveness};
use crate::outgoing::{Outgoing, Overflow, Why};
use crate::parts::Parts;
use crate::share::{Pools, Share};
use crate::switch::SessionId;
use crate::task::{Origin, Outcome, Task, Work, bundle_reply, is_write};
use fulmar_node::Time;
use fulmar_openflow::bundle::{BundleCommand, BundleControl};
use fulmar_openflow::error::{BadRequest, ErrorMessage, HelloFailed, Onf};
use fulmar_openflow::experimenter::{Experimenter, FlowFormat};
use fulmar_openflow::multipart::MultipartRequest;
use fulmar_openflow::role::Role;
use fulmar_openflow::{
    Body, Decoder, Dialect, ErrorCode, Habits, Hello, Message, Rejection, Unwritable, Version, negotiate,
};
use std::time::Duration;

/// A session: bytes come in, tasks for the switch and bytes to be sent come out. It has neither socket nor clock nor thread.
///
/// What comes in is [received](Self::receive); then [`Self::next_task`] is called until there is none, and each task is
/// [carried out](crate::task::carry_out) and [answered](Self::answer) before the next one. What is to be sent is [taken](Self::take).
#[derive(Debug)]
pub(crate) struct Session {
    /// The versions that are spoken here.
    versions: Vec<Version>,
    /// How both sides write, once they have agreed on a version.
    dialect: Option<Dialect>,
    decoder: Decoder,
    interest: Interest,
    bundles: Bundles,
    parts: Parts,
    liveness: Liveness,
    /// How long a silence is once both sides have said hello.
    inactivity: Option<Duration>,
    outgoing: Outgoing,
    /// A question whose answer may be long, and whose turn it is not yet.
    question: Option<Task>,
    /// What has come, while somebody listens in.
    overheard: Option<Vec<u8>>,
    /// Why it is to end.
    closed: Option<Closed>,
}

impl Session {
    /// A session that begins. The other side is asked whether it is there after so long a silence, and given up after another. What it keeps
    /// is its share of what all may.
    pub(crate) fn new(
        id: SessionId,
        kind: Kind,
        inactivity: Option<Duration>,
        versions: Vec<Version>,
        pools: &Pools,
        now: Time,
    ) -> Self {
        let mut session = Self {
            versions,
            dialect: None,
            decoder: Decoder::default(),
            interest: Interest::new(id, kind),
            bundles: Bundles::new(Share::new(pools.unfinished.clone())),
            parts: Parts::new(Share::new(pools.unfinished.clone())),
            liveness: Liveness::new(Some(GREETING), now),
            // Who listens in answers nothing.
            inactivity: inactivity.filter(|_| kind != Kind::Snoop),
            outgoing: Outgoing::new(Share::new(pools.unread.clone())),
            question: None,
            overheard: None,
            closed: None,
        };
        session.reply(0, Body::Hello(Hello::of(&session.versions)));
        session
    }

    /// Bytes that have come. They are kept until they are asked for: who reads asks [first](Self::next_task). A part of a greeting is none.
    pub(crate) fn receive(&mut self, now: Time, bytes: &[u8]) {
        self.heard(now);
        self.decoder.push(bytes);
    }

    /// The other side has read again, after it had not for a while.
    pub(crate) fn was_read(&mut self, now: Time) {
        self.heard(now);
    }

    /// The other side is there. Before it has said hello, that prolongs nothing.
    const fn heard(&mut self, now: Time) {
        if self.has_greeted() {
            self.liveness.heard(now);
        }
    }

    /// Whether the other side has said hello.
    pub(crate) const fn has_greeted(&self) -> bool {
        self.dialect.is_some()
    }

    /// What the switch is to do next, as the other side has this role. There is nothing to do while too much waits to be sent, or a question
    /// waits for the [turn](Self::wants_turn) that the session has or has not.
    ///
    /// # Errors
    /// Why the session ends; what there is to be sent tells the other side, if it can be told.
    pub(crate) fn next_task(&mut self, role: Role, has_turn: bool) -> Result<Option<Task>, Closed> {
        if let Some(closed) = &self.closed {
            return Err(closed.clone());
        }
        if self.question.is_some() {
            return Ok(if has_turn { self.question.take() } else { None });
        }
        while !self.outgoing.is_full() {
            let Some(frame) = self.decoder.next_frame()? else { return Ok(None) };
            // The first message is a hello, which is the same in all.
            let dialect = self.dialect.unwrap_or(Dialect::V13);
            let (origin, decoded) = (Origin::of(frame.bytes()), frame.decode_in(dialect));
            if let Some(overheard) = &mut self.overheard {
                overheard.extend_from_slice(frame.bytes());
            }
            if self.dialect.is_none() {
                self.greet(&origin, decoded)?;
                continue;
            }
            let handled = match decoded {
                Ok(message) => self.handle(&origin, message, role).map_err(|code| origin.reject(code)),
                Err(rejection) => Err(rejection),
            };
            match handled {
                Ok(Some(work)) => {
                    let task = Task { origin, work };
                    if has_turn || !task.may_be_long() {
                        return Ok(Some(task));
                    }
                    self.question = Some(task);
                    return Ok(None);
                }
                Ok(None) => {}
                Err(rejection) => self.reject(rejection),
            }
        }
        Ok(None)
    }

    /// The first message of the other side (section 6.3.1).
    fn greet(&mut self, origin: &Origin, first: Result<Message, Rejection>) -> Result<(), Closed> {
        match first {
            Ok(Message { body: Body::Hello(theirs), .. }) => {
                let agreed = negotiate(&Hello::of(&self.versions), &theirs);
                if let Some(version) = agreed.and_then(Version::numbered) {
                    self.dialect = Some(version.into());
                    self.liveness.interval = self.inactivity;
                    return Ok(());
                }
                let data = format!("only {} is spoken here", join(&self.versions)).into_bytes();
                let code = HelloFailed::Incompatible.into();
                self.reply(origin.xid(), Body::Error(ErrorMessage { code, data }));
                Err(Closed::Incompatible(theirs.version, join(&self.versions)))
            }
            Ok(Message { body: Body::Error(error), .. }) => Err(Closed::Refused(error.code)),
            Err(rejection) if origin.kind() == HELLO => {
                let code = rejection.code;
                self.reject(rejection);
                Err(Closed::BadHello(code))
            }
            Ok(_) | Err(_) => Err(Closed::NoHello(origin.kind())),
        }
    }

    /// Answers a message, or says what the switch is to do about it.
    fn handle(&mut self, origin: &Origin, message: Message, role: Role) -> Result<Option<Work>, ErrorCode> {
        let Message { xid, body } = message;
        if (role == Role::Slave || self.interest.kind == Kind::Snoop) && is_write(&body) {
            return Err(BadRequest::IsSlave.into());
        }
        match body {
            // Whatever came before it has been carried out.
            Body::BarrierRequest => self.reply(xid, Body::BarrierReply),
            Body::EchoRequest(data) => self.reply(xid, Body::EchoReply(data)),
            // That it has come is all it says; and nothing can be done about what is wrong here.
            Body::EchoReply(_) | Body::Error(_) | Body::Hello(_) => {}
            Body::GetConfigRequest => return Ok(Some(Work::GetConfig(self.interest.miss_length))),
            // What happens to fragments is all controllers', and a slave does not say it, as in Open vSwitch.
            Body::SetConfig(config) if role == Role::Slave || self.interest.kind == Kind::Snoop => {
                self.interest.miss_length = config.miss_length;
            }
            Body::SetConfig(config) => return Ok(Some(Work::SetConfig(config))),
            Body::GetAsynchronousRequest => {
                self.reply(xid, Body::GetAsynchronousReply(self.interest.asynchronous.clone()));
            }
            Body::SetAsynchronous(asynchronous)
            | Body::Experimenter(Experimenter::SetAsynchronous(asynchronous)) => {
                self.interest.asynchronous = asynchronous;
            }
            Body::Experimenter(Experimenter::SetPacketInFormat(format)) => self.interest.format = format,
            Body::Experimenter(Experimenter::SetController(number)) => {
                self.interest.controller = number.controller;
            }
            Body::Experimenter(Experimenter::FlowModTable(table)) => {
                self.choose(|habits| habits.names_tables = table.set != 0);
            }
            Body::Experimenter(Experimenter::SetFlowFormat(format)) => {
                self.choose(|habits| habits.tells_all = format == FlowFormat::Nicira);
            }
            Body::Experimenter(Experimenter::RoleRequest(role)) => return Ok(Some(Work::NiciraRole(role))),
            Body::Experimenter(Experimenter::BundleControl(control)) => {
                return self.control_bundle(xid, control);
            }
            Body::Experimenter(Experimenter::BundleAdd(add)) => self.bundles.add(add, origin.length())?,
            Body::MultipartRequest(part) => {
                let whole = self.parts.push(xid, part, origin.length())?;
                return Ok(whole.map(|request| {
                    Work::Request(Body::MultipartRequest(MultipartRequest { has_more: false, body: request }))
                }));
            }
            Body::RoleRequest(asked) => return Ok(Some(Work::Role(asked))),
            Body::FeaturesRequest
            | Body::PacketOut(_)
            | Body::FlowMod(_)
            | Body::GroupMod(_)
            | Body::PortMod(_)
            | Body::TableMod(_)
            | Body::MeterMod(_)
            | Body::QueueConfigRequest(_)
            | Body::Experimenter(Experimenter::Resume(_) | Experimenter::CancelMonitor(_)) => {
                return Ok(Some(Work::Request(body)));
            }
            // What only switches say.
            Body::FeaturesReply(_)
            | Body::GetConfigReply(_)
            | Body::PacketIn(_)
            | Body::FlowRemoved(_)
            | Body::PortStatus(_)
            | Body::MultipartReply(_)
            | Body::BarrierReply
            | Body::QueueConfigReply(_)
            | Body::RoleReply(_)
            | Body::GetAsynchronousReply(_)
            | Body::Experimenter(
                Experimenter::RoleReply(_)
                | Experimenter::PacketIn(_)
                | Experimenter::PacketIn2(_)
                | Experimenter::MonitorsPaused
                | Experimenter::MonitorsResumed,
            ) => return Err(BadRequest::BadType.into()),
        }
        Ok(None)
    }

    /// What OpenFlow 1.0 leaves to be chosen. In OpenFlow 1.3 there is nothing to choose.
    fn choose(&mut self, choice: impl FnOnce(&mut Habits)) {
        if let Some(Dialect::V10(habits)) = &mut self.dialect {
            choice(habits);
        }
    }

    fn control_bundle(&mut self, xid: u32, control: BundleControl) -> Result<Option<Work>, ErrorCode> {
        match self.bundles.control(&control)? {
            Control::Done(command) => {
                self.reply(xid, bundle_reply(BundleControl { command, ..control }));
                Ok(None)
            }
            Control::Commit(messages) => Ok(Some(Work::Commit(
                BundleControl { command: BundleCommand::Committed, ..control },
                messages,
            ))),
        }
    }

    /// Sends back what became of a task.
    pub(crate) fn answer(&mut self, origin: &Origin, answer: Outcome) {
        self.bundles.give_back();
        match answer {
            Outcome::Done(bodies) => {
                let dialect = self.writes().answering(origin.beginning());
                for body in bodies {
                    self.reply_in_parts(origin, body, dialect);
                }
            }
            Outcome::Configured { miss_length } => self.interest.miss_length = miss_length,
            Outcome::Refused(code) => self.reject(origin.reject(code)),
            Outcome::Failed(message, code) => {
                let mut bytes = Vec::new();
                // What has come in one message fits into one.
                if self.writes().encode(&message, &mut bytes).is_ok() {
                    self.reject(Rejection::of(&bytes, code));
                }
                self.reject(origin.reject(Onf::BundleMessageFailed));
            }
        }
    }

    fn reply_in_parts(&mut self, origin: &Origin, body: Body, dialect: Dialect) {
        let Body::MultipartReply(reply) = body else { return self.reply_or_reject(origin, body, dialect) };
        for part in reply.body.into_replies(dialect) {
            self.reply_or_reject(origin, Body::MultipartReply(part), dialect);
        }
    }

    /// What does not fit into a message is an error, so that nobody waits for it.
    fn reply_or_reject(&mut self, origin: &Origin, body: Body, dialect: Dialect) {
        if self.send_in(dialect, Why::Reply, origin.xid(), body).is_err() {
            self.reject(origin.reject(BadRequest::BadLength));
        }
    }

    /// Tells the other side of an event, if it wants that in this role. Whether there is now something to be sent that was not before,
    /// or the session is to end.
    pub(crate) fn tell(&mut self, event: &Event, role: Role) -> bool {
        let Some(dialect) = self.dialect else { return false };
        if self.closed.is_some() || !self.interest.wants(event, role, dialect.version()) {
            return false;
        }
        let was_empty = self.outgoing.is_empty();
        let why = if matches!(event, Event::PacketIn { .. }) { Why::Packet } else { Why::Notice };
        match (event, self.interest.body(event, dialect.version())) {
            (Event::Private { answers: Some(xid), .. }, Body::MultipartReply(reply)) => {
                for part in reply.body.into_replies(dialect) {
                    let _ = self.send(Why::Reply, *xid, Body::MultipartReply(part));
                }
            }
            // What is too long for a message is not told: no packet, port or flow is. Nor is what the version has no message for.
            (_, body) => drop(self.send(why, 0, body)),
        }
        was_empty && !self.outgoing.is_empty() || self.closed.is_some()
    }

    /// Somebody listens in on what comes from now on, until that is asked.
    pub(crate) fn overhear(&mut self) {
        self.overheard = Some(Vec::new());
    }

    /// The messages that have come since then.
    pub(crate) fn overheard(&mut self) -> Vec<u8> {
        self.overheard.take().unwrap_or_default()
    }

    /// Tells one who listens in what was said elsewhere: whole messages, all of which it misses if it does not read. Whether there is now
    /// something to be sent that was not before.
    pub(crate) fn copy(&mut self, messages: &[u8]) -> bool {
        let was_empty = self.outgoing.is_empty();
        self.dialect.is_some() && self.outgoing.push(Why::Packet, messages.to_vec()).is_ok() && was_empty
    }

    /// What the time brings: a probe, or the end.
    ///
    /// # Errors
    /// Why the session ends.
    pub(crate) fn expire(&mut self, now: Time) -> Result<(), Closed> {
        if self.wants_turn() {
            // What the other side says is not read meanwhile.
            self.heard(now);
        }
        match self.liveness.expire(now) {
            Due::Nothing => Ok(()),
            Due::Probe | Due::End if !self.has_greeted() => Err(Closed::NoGreeting(GREETING)),
            Due::Probe => {
                self.reply(0, Body::EchoRequest(Vec::new()));
                Ok(())
            }
            Due::End => Err(Closed::Silent(self.inactivity.unwrap_or_default())),
        }
    }

    /// When [`Self::expire`] is to be called, if it is.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.liveness.deadline()
    }

    /// Appends what is to be sent next, some 64 KiB of it at most.
    pub(crate) fn take(&mut self, out: &mut Vec<u8>) {
        self.outgoing.take(out);
    }

    /// The version that both sides have agreed on, if they have.
    pub(crate) fn version(&self) -> Option<Version> {
        self.dialect.map(Dialect::version)
    }

    /// Whether what is received now is looked at.
    pub(crate) const fn listens(&self) -> bool {
        !self.outgoing.is_full() && !self.wants_turn()
    }

    /// Whether there is a question whose answer may be long.
    pub(crate) const fn wants_turn(&self) -> bool {
        self.question.is_some()
    }

    /// How many bytes of answers wait to be read.
    pub(crate) const fn unread(&self) -> usize {
        self.outgoing.replies()
    }

    /// How many packets the other side was not told of, as it does not read as fast as they come.
    pub(crate) const fn dropped_packets(&self) -> u64 {
        self.outgoing.dropped
    }

    fn reject(&mut self, rejection: Rejection) {
        let Message { xid, body } = rejection.into_message();
        self.reply(xid, body);
    }

    /// Sends what cannot be too long: it repeats at most what has come.
    fn reply(&mut self, xid: u32, body: Body) {
        let _ = self.send(Why::Reply, xid, body);
    }

    /// How messages are written: before there is a version, as in the latest.
    fn writes(&self) -> Dialect {
        self.dialect.unwrap_or(Dialect::V13)
    }

    fn send(&mut self, why: Why, xid: u32, body: Body) -> Result<(), Unwritable> {
        self.send_in(self.writes(), why, xid, body)
    }

    fn send_in(&mut self, dialect: Dialect, why: Why, xid: u32, body: Body) -> Result<(), Unwritable> {
        let mut bytes = Vec::new();
        dialect.encode(&Message { xid, body }, &mut bytes)?;
        if let Err(Overflow(waiting)) = self.outgoing.push(why, bytes) {
            self.closed = Some(Closed::Deaf(waiting));
        }
        Ok(())
    }
}

/// Versions as people write them.
fn join(versions: &[Version]) -> String {
    versions.iter().map(Version::to_string).collect::<Vec<_>>().join(" or ")
}

/// The type of hellos.
const HELLO: u8 = 0;

/// So long does the other side have to say hello.
const GREETING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
