//! A switch that has two ports and the same flows whatever it is asked, and remembers what that was.

use fulmar_openflow::error::{BadRequest, FlowModFailed};
use fulmar_openflow::flow::{FlowFilter, FlowFlags, FlowMod, FlowRemoved, FlowRemovedReason, FlowStats};
use fulmar_openflow::multipart::{MultipartReply, MultipartRequest, ReplyBody, RequestBody};
use fulmar_openflow::ports::{Port, PortConfig, PortFeatures, PortState};
use fulmar_openflow::switch::{Capabilities, Description, Features};
use fulmar_openflow::{Body, ErrorCode, GroupNumber, Instructions, Message, PortNumber, action};
use fulmar_packet::{Field, Match, ethernet};
use fulmar_session::{Asker, Event, SessionId, Sessions, Settings, Status, Switch, Target};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

/// What the switch is asked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// What was carried out.
    Request(SessionId, Box<Body>),
    /// A flow that waits for another one.
    Waits,
    Bundle(usize),
    Gone(SessionId),
}

pub(crate) struct Toy {
    heard: Mutex<Sender<Asked>>,
    meeting: Barrier,
}

/// In this table there are 20,000 flows.
const MANY: u8 = 9;
/// Flows of this priority wait for one of another session.
pub(crate) const MEETS: u16 = 99;

pub(crate) fn flow_mod(priority: u16) -> Body {
    let mut flow = FlowMod::add(Match::ANY, Instructions::default());
    flow.priority = priority;
    Body::FlowMod(flow)
}

/// Asks for more flows than may wait to be told.
pub(crate) fn many_flows() -> Body {
    let filter = FlowFilter {
        table: MANY,
        out_port: PortNumber::ANY,
        out_group: GroupNumber::ANY,
        cookie: 0,
        cookie_mask: 0,
        asked: Match::ANY,
    };
    Body::MultipartRequest(MultipartRequest { has_more: false, body: RequestBody::Flows(filter) })
}

pub(crate) fn flow_removed() -> Event {
    Event::FlowRemoved(Box::new(FlowRemoved {
        cookie: 1,
        priority: 1,
        reason: FlowRemovedReason::Delete,
        table: 0,
        seconds: 0,
        nanoseconds: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        packets: 0,
        bytes: 0,
        asked: Match::ANY,
    }))
}

impl Toy {
    fn note(&self, asked: Asked) {
        // At the end of a test nobody listens.
        let _ = self.heard.lock().expect("no panic").send(asked);
    }
}

fn port(number: u32, name: &str) -> Port {
    let none = PortFeatures::NONE;
    Port {
        number: PortNumber(number),
        address: [2, 0, 0, 0, 0, u8::try_from(number).expect("a small number")],
        name: name.into(),
        config: PortConfig::NONE,
        state: PortState::LIVE,
        current: none,
        advertised: none,
        supported: none,
        peer: none,
        current_speed: 0,
        max_speed: 0,
    }
}

fn flow() -> FlowStats {
    let output = action::Output { port: PortNumber(2), max_length: 0 };
    FlowStats {
        table: 0,
        seconds: 1,
        nanoseconds: 0,
        priority: 7,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: FlowFlags::NONE,
        cookie: 0xf00d,
        packets: 3,
        bytes: 180,
        asked: Match::ANY.with(Field::ETH_TYPE, ethernet::ARP.into()),
        instructions: Instructions::apply(vec![action::Action::Output(output)]),
    }
}

impl Switch for Toy {
    fn request(&self, asker: &Asker, body: Body) -> Result<Vec<Body>, ErrorCode> {
        let answer = match &body {
            Body::FeaturesRequest => vec![Body::FeaturesReply(Features {
                datapath: 0x42,
                buffers: 0,
                tables: 254,
                auxiliary: 0,
                capabilities: Capabilities::FLOW_STATS,
                ports: Vec::new(),
            })],
            Body::MultipartRequest(MultipartRequest { body: request, .. }) => {
                let answer = match request {
                    RequestBody::Ports => ReplyBody::Ports(vec![port(1, "p1"), port(2, "p2")]),
                    RequestBody::Flows(FlowFilter { table: MANY, .. }) => {
                        ReplyBody::Flows(vec![flow(); 20_000])
                    }
                    RequestBody::Flows(_) => ReplyBody::Flows(vec![flow()]),
                    RequestBody::Description => ReplyBody::Description(Box::new(Description {
                        manufacturer: "Fulmar".into(),
                        hardware: "none".into(),
                        software: "a toy".into(),
                        serial: "1".into(),
                        datapath: "toy".into(),
                    })),
                    _ => return Err(BadRequest::BadMultipart.into()),
                };
                vec![Body::MultipartReply(MultipartReply { has_more: false, body: answer })]
            }
            Body::FlowMod(flow) if flow.priority == 13 => return Err(FlowModFailed::TableFull.into()),
            Body::FlowMod(flow) if flow.priority == MEETS => {
                self.note(Asked::Waits);
                self.meeting.wait();
                Vec::new()
            }
            _ => Vec::new(),
        };
        self.note(Asked::Request(asker.session, Box::new(body)));
        Ok(answer)
    }

    fn commit(&self, _: &Asker, messages: &[Message]) -> Result<(), (usize, ErrorCode)> {
        let is_wrong =
            |message: &Message| matches!(&message.body, Body::FlowMod(flow) if flow.priority == 13);
        if let Some(at) = messages.iter().position(is_wrong) {
            return Err((at, FlowModFailed::TableFull.into()));
        }
        self.note(Asked::Bundle(messages.len()));
        Ok(())
    }

    fn gone(&self, session: SessionId) {
        self.note(Asked::Gone(session));
    }
}

/// Nobody is let go because the machine is slow.
pub(crate) fn patient() -> Settings {
    Settings { inactivity: None, ..Settings::default() }
}

/// Sessions of such a switch.
pub(crate) struct Served {
    pub(crate) sessions: Sessions,
    pub(crate) asked: Receiver<Asked>,
    /// What was reported.
    pub(crate) reports: Receiver<String>,
    directory: tempfile::TempDir,
}

impl Served {
    /// With a socket for tools.
    pub(crate) fn begin() -> Self {
        let (sender, asked) = channel();
        let (reporter, reports) = channel();
        let directory = tempfile::tempdir().expect("a directory");
        let sessions = Sessions::new(
            Arc::new(Toy { heard: Mutex::new(sender), meeting: Barrier::new(2) }),
            move |report| {
                let _ = reporter.send(report.to_owned());
            },
        );
        let served = Self { sessions, asked, reports, directory };
        served.sessions.set_services(vec![(served.service(), patient())]).expect("a socket");
        served
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn service(&self) -> Target {
        Target::PassiveUnix(self.path("br0.mgmt"))
    }

    /// From now on these are the controllers.
    pub(crate) fn control(&self, targets: &[&str], settings: &Settings) {
        let targets = targets.iter().map(|target| (target.parse().expect("a target"), settings.clone()));
        self.sessions.set_controllers(targets.collect()).expect("there are threads");
    }

    pub(crate) fn status(&self) -> Status {
        self.sessions.status().into_iter().next().expect("a controller")
    }

    /// Waits until something is reported that has this in it; fails when nothing at all is for so long that nothing will be.
    pub(crate) fn until_reported(&self, part: &str) -> String {
        let mut others = Vec::new();
        loop {
            match self.reports.recv_timeout(Duration::from_secs(60)) {
                Ok(report) if report.contains(part) => return report,
                Ok(report) => others.push(report),
                Err(why) => panic!("{part:?} is not reported ({why}), but {others:?}"),
            }
        }
    }
}
