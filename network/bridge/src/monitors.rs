//! Flow monitors: sessions that are told how flows change.

use fulmar_openflow::error::{BadRequest, Nicira};
use fulmar_openflow::monitor::{MonitorFlags, MonitorRequest, MonitorUpdate};
use fulmar_openflow::multipart::{MultipartReply, ReplyBody};
use fulmar_openflow::{Body, ErrorCode};
use fulmar_session::{Asker, Event, SessionId};
use fulmar_vswitch::FlowChange;
use std::collections::BTreeMap;

/// A session can have so many.
const MOST: usize = 1024;

/// By their sessions, and by the numbers that these have given them.
#[derive(Clone, Default)]
pub(crate) struct Monitors(BTreeMap<(SessionId, u32), MonitorRequest>);

impl Monitors {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// These begin.
    ///
    /// # Errors
    /// That the session has one of such a number already, or too many; then some of them may have begun.
    pub(crate) fn begin(&mut self, session: SessionId, asked: &[MonitorRequest]) -> Result<(), ErrorCode> {
        for monitor in asked {
            if self.0.insert((session, monitor.monitor), monitor.clone()).is_some() {
                return Err(Nicira::MonitorExists.into());
            }
        }
        let all = self.0.range((session, 0)..=(session, u32::MAX)).count();
        if all > MOST { Err(BadRequest::TooManyParts.into()) } else { Ok(()) }
    }

    /// One ends.
    ///
    /// # Errors
    /// That there is none of this number.
    pub(crate) fn end(&mut self, session: SessionId, number: u32) -> Result<(), ErrorCode> {
        self.0.remove(&(session, number)).map(drop).ok_or_else(|| Nicira::UnknownMonitor.into())
    }

    /// All of a session end.
    pub(crate) fn end_all(&mut self, session: SessionId) {
        self.0.retain(|(other, _), _| *other != session);
    }

    /// What sessions are told of changes, in their order: of each once, whatever number of monitors tell it. Of all of its own that no monitor
    /// tells otherwise, a session is told that they have been made.
    pub(crate) fn tell(&self, changes: &[FlowChange], asker: Option<&Asker>) -> Vec<Event> {
        let (mut told, mut has_own) = (Vec::new(), false);
        for change in changes {
            let mut flags: BTreeMap<SessionId, MonitorFlags> = BTreeMap::new();
            for ((session, _), monitor) in self.0.iter().filter(|(_, monitor)| change.is_told_by(monitor)) {
                let all = flags.entry(*session).or_default();
                *all = *all | monitor.flags;
            }
            for (session, flags) in flags {
                let own =
                    asker.filter(|asker| asker.session == session && !flags.contains(MonitorFlags::OWN));
                let update = match own {
                    None => change.told(flags),
                    Some(_) if has_own => continue,
                    Some(asker) => {
                        has_own = true;
                        MonitorUpdate::Own(asker.xid)
                    }
                };
                // Several in one message may be too long.
                told.push(Event::Private { session, answers: None, body: Box::new(reply(vec![update])) });
            }
        }
        told
    }
}

/// What a session is told that monitors tell of at first.
pub(crate) fn first(asker: &Asker, there: Vec<MonitorUpdate>) -> Event {
    Event::Private { session: asker.session, answers: Some(asker.xid), body: Box::new(reply(there)) }
}

fn reply(updates: Vec<MonitorUpdate>) -> Body {
    Body::MultipartReply(MultipartReply { has_more: false, body: ReplyBody::Monitor(updates) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_node::Time;
    use fulmar_openflow::{ALL_TABLES, PortNumber};
    use fulmar_packet::Match;
    use fulmar_vswitch::{Settings, Switch};

    const ONE: SessionId = SessionId(1);
    const TWO: SessionId = SessionId(2);

    fn monitor(number: u32, but: MonitorFlags) -> MonitorRequest {
        let flags = MonitorFlags(MonitorFlags::ALL.0 & !but.0);
        let (out_port, table, asked) = (PortNumber::ANY, ALL_TABLES, Match::ANY);
        MonitorRequest { monitor: number, flags, out_port, table, asked }
    }

    /// What comes of a request, as somebody watches.
    fn changes(switch: &Switch, flow: &str) -> Vec<FlowChange> {
        let request = Body::FlowMod(flow.parse().expect(flow));
        let done = switch.request(request, Time::ZERO).expect(flow);
        let changes = done.events.into_iter().map(|event| match event {
            fulmar_vswitch::Event::FlowChanged(change) => *change,
            other => panic!("{other:?}"),
        });
        changes.collect()
    }

    /// Who is told how much, and whether that it was its own.
    fn told(events: Vec<Event>) -> Vec<(u64, Option<u32>)> {
        let told = events.into_iter().map(|event| match event {
            Event::Private { session, answers: None, body } => match *body {
                Body::MultipartReply(MultipartReply { body: ReplyBody::Monitor(updates), .. }) => {
                    match updates.as_slice() {
                        [MonitorUpdate::Own(xid)] => (session.0, Some(*xid)),
                        [_] => (session.0, None),
                        _ => panic!("{updates:?}"),
                    }
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        });
        told.collect()
    }

    #[test]
    fn own_changes_are_told_in_short_where_a_monitor_says_so() {
        let switch = Switch::new(1, "tested", Settings::default());
        let mut monitors = Monitors::default();
        monitors.begin(ONE, &[monitor(1, MonitorFlags::OWN)]).expect("it is the first");
        monitors
            .begin(TWO, &[monitor(1, MonitorFlags::NONE), monitor(2, MonitorFlags::NONE)])
            .expect("another's");
        switch.watch(&[]);
        let asker = |session| Some(Asker { session, xid: 7 });
        let two = [changes(&switch, "ip actions=drop"), changes(&switch, "arp actions=drop")].concat();
        assert_eq!(told(monitors.tell(&two, None)), [(1, None), (2, None), (1, None), (2, None)]);
        let by_one = monitors.tell(&two, asker(ONE).as_ref());
        assert_eq!(told(by_one), [(1, Some(7)), (2, None), (2, None)], "once for all that was asked");
        monitors.begin(ONE, &[monitor(2, MonitorFlags::NONE)]).expect("it is free");
        let by_one = monitors.tell(&two, asker(ONE).as_ref());
        assert_eq!(told(by_one), [(1, None), (2, None), (1, None), (2, None)], "another monitor tells them");
        let by_two = monitors.tell(&two, asker(TWO).as_ref());
        assert_eq!(told(by_two), [(1, None), (2, None), (1, None), (2, None)]);
    }

    #[test]
    fn monitors_have_numbers_of_their_own() {
        let mut monitors = Monitors::default();
        let one = monitor(1, MonitorFlags::NONE);
        monitors.begin(ONE, std::slice::from_ref(&one)).expect("it is the first");
        let both = [one, monitor(2, MonitorFlags::NONE)];
        assert_eq!(monitors.begin(ONE, &both), Err(Nicira::MonitorExists.into()));
        assert_eq!(monitors.end(ONE, 2), Err(Nicira::UnknownMonitor.into()));
        assert_eq!(monitors.end(TWO, 1), Err(Nicira::UnknownMonitor.into()));
        assert_eq!(monitors.end(ONE, 1), Ok(()));
        assert!(monitors.is_empty());
        monitors.begin(ONE, &both).expect("they are free");
        let many: Vec<_> = (3..1100).map(|number| monitor(number, MonitorFlags::NONE)).collect();
        assert_eq!(monitors.begin(ONE, &many), Err(BadRequest::TooManyParts.into()));
        monitors.end_all(ONE);
        assert!(monitors.is_empty());
    }
}
