//! What a session has the switch do.

use crate::closed::Closed;
use crate::election::{Election, Standing};
use crate::switch::{Asker, SessionId, Switch};
use fulmar_openflow::bundle::BundleControl;
use fulmar_openflow::experimenter::{Experimenter, NiciraRole};
use fulmar_openflow::multipart::{MultipartRequest, RequestBody};
use fulmar_openflow::role::{Role, RoleMessage};
use fulmar_openflow::switch::SwitchConfig;
use fulmar_openflow::{Body, ErrorCode, HEADER, Message, Rejection};
use parking_lot::Mutex;
use std::sync::Arc;

/// The beginning of a message, which is enough to answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// As much of it as an error sends back, and its header at least.
    beginning: Vec<u8>,
}

/// So much of a message an error sends back.
const BEGINNING: usize = 64;

impl Origin {
    pub(crate) fn of(message: &[u8]) -> Self {
        debug_assert!(message.len() >= HEADER);
        Self { beginning: message[..message.len().min(BEGINNING)].to_vec() }
    }

    pub(crate) fn beginning(&self) -> &[u8] {
        &self.beginning
    }

    pub(crate) fn kind(&self) -> u8 {
        self.beginning[1]
    }

    pub(crate) fn length(&self) -> usize {
        u16::from_be_bytes([self.beginning[2], self.beginning[3]]).into()
    }

    pub(crate) fn xid(&self) -> u32 {
        let [_, _, _, _, a, b, c, d, ..] = self.beginning[..] else { return 0 };
        u32::from_be_bytes([a, b, c, d])
    }

    pub(crate) fn reject(&self, code: impl Into<ErrorCode>) -> Rejection {
        Rejection::of(&self.beginning, code)
    }
}

/// Something to be done before what has come after it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// What has asked for it.
    pub(crate) origin: Origin,
    pub(crate) work: Work,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub(crate) enum Work {
    /// A request for the switch.
    Request(Body),
    /// How the switch is set, and so many bytes of a packet this session wants.
    GetConfig(u16),
    /// The switch is to be set like this.
    SetConfig(SwitchConfig),
    /// A bundle for the switch, and what is answered when that is done.
    Commit(BundleControl, Vec<Message>),
    /// The other side wants a role.
    Role(RoleMessage),
    /// The same without an election.
    NiciraRole(NiciraRole),
}

impl Task {
    /// Whether its answer may be long: that of a question about flows, ports or tables.
    pub(crate) const fn may_be_long(&self) -> bool {
        matches!(self.work, Work::Request(Body::MultipartRequest(_)))
    }
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is done, and this is sent back.
    Done(Vec<Body>),
    /// It is: the switch is set, and the session gets so many bytes of a packet.
    Configured {
        /// As the request says.
        miss_length: u16,
    },
    /// It is not, for this reason.
    Refused(ErrorCode),
    /// It is not, as one message of several is wrong.
    Failed(Box<Message>, ErrorCode),
}

/// Whether a message changes the switch, which slaves may not (section 6.3.4).
pub(crate) fn is_write(body: &Body) -> bool {
    match body {
        Body::PacketOut(_)
        | Body::FlowMod(_)
        | Body::GroupMod(_)
        | Body::PortMod(_)
        | Body::TableMod(_)
        | Body::MeterMod(_)
        | Body::Experimenter(
            Experimenter::BundleControl(_) | Experimenter::BundleAdd(_) | Experimenter::Resume(_),
        ) => true,
        Body::MultipartRequest(MultipartRequest { body: RequestBody::TableFeatures(wanted), .. }) => {
            !wanted.is_empty()
        }
        _ => false,
    }
}

pub(crate) fn bundle_reply(control: BundleControl) -> Body {
    Body::Experimenter(Experimenter::BundleControl(control))
}

/// What a session is to do next, and what became of it.
pub(crate) fn carry_out(
    id: SessionId,
    standing: &Arc<Standing>,
    switch: &dyn Switch,
    election: &Mutex<Election>,
    next_task: impl FnOnce(Role) -> Result<Option<Task>, Closed>,
) -> Result<Option<(Origin, Outcome)>, Closed> {
    let held = standing.hold();
    let Some(Task { origin, work }) = next_task(standing.role())? else { return Ok(None) };
    let asker = Asker { session: id, xid: origin.xid() };
    let answer = match work {
        Work::Request(body) => match switch.request(&asker, body) {
            Ok(bodies) => Outcome::Done(bodies),
            Err(code) => Outcome::Refused(code),
        },
        Work::GetConfig(miss_length) => {
            let config = SwitchConfig { fragments: switch.fragments(), miss_length };
            Outcome::Done(vec![Body::GetConfigReply(config)])
        }
        Work::SetConfig(config) => match switch.set_fragments(config.fragments) {
            Ok(()) => Outcome::Configured { miss_length: config.miss_length },
            Err(code) => Outcome::Refused(code.into()),
        },
        Work::Commit(committed, mut messages) => match switch.commit(&asker, &messages) {
            Ok(()) => Outcome::Done(vec![bundle_reply(committed)]),
            Err((at, code)) => Outcome::Failed(Box::new(messages.swap_remove(at)), code),
        },
        Work::Role(asked) => {
            drop(held);
            match election.lock().request(standing, asked.role, Some(asked.generation)) {
                Ok(given) => Outcome::Done(vec![Body::RoleReply(given)]),
                Err(code) => Outcome::Refused(code.into()),
            }
        }
        Work::NiciraRole(asked) => {
            drop(held);
            let role = match asked {
                NiciraRole::Other => Role::Equal,
                NiciraRole::Master => Role::Master,
                NiciraRole::Slave => Role::Slave,
            };
            match election.lock().request(standing, role, None) {
                Ok(_) => Outcome::Done(vec![Body::Experimenter(Experimenter::RoleReply(asked))]),
                Err(code) => Outcome::Refused(code.into()),
            }
        }
    };
    Ok(Some((origin, answer)))
}
