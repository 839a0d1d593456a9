//! A bridge's share in the spanning tree: the state machines of clauses 17.23 to 17.31, each as a function that takes one step of one port, if one
//! is due. They run until none is.

use crate::bpdu::{Bpdu, Flags, SaidRole};
use crate::port::{Change, HOLD_COUNT, Info, MIGRATE_TIME, Port, Role, State};
use crate::vector::{BridgeId, PortId, Times, Vector};
use std::collections::BTreeMap;

/// What a tree wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// This frame goes out at a port, whatever its state.
    Send(u16, Vec<u8>),
    /// A port is in another state.
    State(u16, State),
    /// What was learned at a port is forgotten.
    Flush(u16),
}

/// How a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// What it is for the tree.
    pub role: Role,
    /// What it does with frames.
    pub state: State,
    /// It leads to a host, as far as that is known.
    pub is_edge: bool,
}

/// A bridge's share in the tree.
#[derive(Clone, Debug)]
pub struct Tree {
    id: BridgeId,
    own_times: Times,
    ports: BTreeMap<u16, Port>,
    root: Vector,
    root_port: Option<u16>,
    root_times: Times,
    effects: Vec<Effect>,
}

/// A machine that does not come to rest is wrong: so many steps a port takes at once at most.
const MOST_STEPS: usize = 1_000;

impl Tree {
    /// Of a bridge, which is the root for as long as it knows no other.
    #[must_use]
    pub fn new(id: BridgeId, times: Times) -> Self {
        let root = Vector::of_root(id);
        Self {
            id,
            own_times: times,
            ports: BTreeMap::new(),
            root,
            root_port: None,
            root_times: times,
            effects: Vec::new(),
        }
    }

    /// A port joins, without a link. Its number is from 1 to 4,095; ways by it cost so much (clause 17.14: 20,000,000,000,000 by its bits a second).
    pub fn put_port(&mut self, number: u16, priority: u8, address: [u8; 6], cost: u32) {
        let id = PortId::new(priority, number);
        let own = Vector { bridge: self.id, port: id, ..Vector::of_root(self.id) };
        self.ports.insert(number, Port::new(id, address, cost, own, self.own_times));
        self.run();
    }

    /// A port leaves.
    pub fn remove_port(&mut self, number: u16) {
        self.set_link(number, false);
        self.ports.remove(&number);
        self.ports.values_mut().for_each(|port| port.reselect = true);
        self.run();
    }

    /// A port has a link, or none.
    pub fn set_link(&mut self, number: u16, is_up: bool) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        if port.enabled != is_up {
            port.enabled = is_up;
            port.oper_edge = is_up && port.admin_edge;
            (port.received, port.send_rstp, port.mdelay_while) = (None, true, MIGRATE_TIME);
            port.edge_delay_while = port.edge_delay();
            self.run();
        }
    }

    /// A port leads to a host, its user says: it forwards at once.
    pub fn set_edge(&mut self, number: u16, is_edge: bool) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.admin_edge = is_edge;
            port.oper_edge |= is_edge && port.enabled;
            self.run();
        }
    }

    /// A frame to [`GROUP`](crate::GROUP) has come in at a port. What is no message of bridges, or nobody's, is ignored.
    pub fn receive(&mut self, number: u16, frame: &[u8]) {
        let Some(port) = self.ports.get_mut(&number).filter(|port| port.enabled) else { return };
        let Some(message) = Bpdu::of_frame(frame) else { return };
        if let Bpdu::Rapid(_, vector, _) | Bpdu::Configuration(_, vector, _) = &message
            && (vector.bridge, vector.port) == (self.id, port.id)
        {
            // It comes back to where it was sent.
            return;
        }
        // Port protocol migration (17.24): who speaks STP is spoken to so, until somebody speaks RSTP.
        let is_rapid = matches!(message, Bpdu::Rapid(..));
        if port.send_rstp != is_rapid && port.mdelay_while == 0 {
            (port.send_rstp, port.mdelay_while) = (is_rapid, MIGRATE_TIME);
        }
        // Port receive (17.23).
        port.oper_edge = false;
        port.edge_delay_while = MIGRATE_TIME;
        port.received = Some(message);
        self.run();
    }

    /// A second has passed.
    pub fn tick(&mut self) {
        self.ports.values_mut().for_each(Port::tick);
        self.run();
    }

    /// What is to be done since this was asked last, in this order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// The bridge to which all ways lead, as far as this one knows.
    #[must_use]
    pub const fn root(&self) -> BridgeId {
        self.root.root
    }

    /// The port that leads there, and what the way costs; nothing, if this bridge is the root.
    #[must_use]
    pub fn way(&self) -> Option<(u16, u32)> {
        self.root_port.map(|port| (port, self.root.cost))
    }

    /// How a port is, if there is one of this number.
    #[must_use]
    pub fn status(&self, number: u16) -> Option<PortStatus> {
        let port = self.ports.get(&number)?;
        Some(PortStatus { role: port.role, state: port.state, is_edge: port.oper_edge })
    }

    fn run(&mut self) {
        let numbers: Vec<u16> = self.ports.keys().copied().collect();
        for _ in 0..MOST_STEPS {
            let mut has_changed = false;
            for &number in &numbers {
                has_changed |= self.detect_bridge(number);
                has_changed |= self.inform(number);
            }
            has_changed |= self.select_roles();
            for &number in &numbers {
                has_changed |= self.change_role(number);
                has_changed |= self.change_state(number);
                has_changed |= self.change_topology(number);
            }
            if !has_changed {
                break;
            }
        }
        numbers.into_iter().for_each(|number| self.transmit(number));
    }

    fn port(&mut self, number: u16) -> &mut Port {
        self.ports.get_mut(&number).expect("it is one of these")
    }

    /// Bridge detection (17.25): who does not answer proposals is a host.
    fn detect_bridge(&mut self, number: u16) -> bool {
        let port = self.port(number);
        let is_host = port.enabled
            && !port.oper_edge
            && port.auto_edge
            && port.edge_delay_while == 0
            && port.send_rstp
            && port.proposing;
        port.oper_edge |= is_host;
        is_host
    }

    /// Port information (17.27).
    fn inform(&mut self, number: u16) -> bool {
        let port = self.port(number);
        if !port.enabled {
            port.received = None;
            if port.info == Info::Disabled {
                return false;
            }
            (port.proposing, port.proposed, port.agree, port.agreed) = (false, false, false, false);
            (port.rcvd_info_while, port.info) = (0, Info::Disabled);
            (port.reselect, port.selected) = (true, false);
            return true;
        }
        if port.info == Info::Disabled {
            port.info = Info::Aged;
            (port.reselect, port.selected) = (true, false);
            return true;
        }
        if port.selected && port.updt_info {
            (port.proposing, port.proposed) = (false, false);
            port.agreed &= port.is_better_or_same(Info::Mine, &port.designated);
            port.synced &= port.agreed;
            (port.vector, port.times) = (port.designated, port.designated_times);
            (port.updt_info, port.info, port.new_info) = (false, Info::Mine, true);
            return true;
        }
        if port.info == Info::Aged || port.updt_info {
            return false;
        }
        if let Some(message) = port.received.take() {
            Self::hear(port, &message);
            return true;
        }
        if port.info == Info::Received && port.rcvd_info_while == 0 {
            port.info = Info::Aged;
            (port.reselect, port.selected) = (true, false);
            return true;
        }
        false
    }

    /// What a message means (17.21.8, and the states of 17.27 that follow from it).
    fn hear(port: &mut Port, message: &Bpdu) {
        let (flags, vector, times) = match message {
            Bpdu::Rapid(flags, vector, times) | Bpdu::Configuration(flags, vector, times) => {
                (*flags, *vector, *times)
            }
            Bpdu::TopologyChange => return port.set_tc_flags(message),
        };
        let is_same_sender = vector.bridge.address() == port.vector.bridge.address()
            && vector.port.0 & 0x0fff == port.vector.port.0 & 0x0fff;
        let is_news = vector != port.vector || times != port.times;
        match flags.role {
            SaidRole::Designated if is_news && (vector < port.vector || is_same_sender) => {
                (port.agreed, port.proposing) = (false, false);
                port.record_proposal(flags);
                port.set_tc_flags(message);
                port.agree &= port.is_better_or_same(Info::Received, &vector);
                (port.vector, port.times) = (vector, times);
                port.update_rcvd_info_while();
                port.info = Info::Received;
                (port.reselect, port.selected) = (true, false);
            }
            SaidRole::Designated if !is_news && port.info == Info::Received => {
                port.record_proposal(flags);
                port.set_tc_flags(message);
                port.update_rcvd_info_while();
            }
            SaidRole::Designated => port.record_dispute(flags),
            SaidRole::Root | SaidRole::AlternateOrBackup if vector >= port.vector => {
                port.record_agreement(flags);
                port.set_tc_flags(message);
            }
            SaidRole::Root | SaidRole::AlternateOrBackup | SaidRole::Unknown => {}
        }
    }

    /// Port role selection (17.28), of all ports at once.
    fn select_roles(&mut self) -> bool {
        if self.ports.values().all(|port| !port.reselect) {
            return false;
        }
        self.ports.values_mut().for_each(|port| port.reselect = false);
        let own = self.id.address();
        let ways = self
            .ports
            .iter()
            .filter(|(_, port)| port.info == Info::Received && port.vector.bridge.address() != own);
        let best = ways
            .map(|(number, port)| {
                let cost = port.vector.cost.saturating_add(port.cost);
                (Vector { cost, ..port.vector }, port.id, *number)
            })
            .min();
        let itself = Vector::of_root(self.id);
        (self.root, self.root_port) = match best {
            Some((way, _, number)) if way < itself => (way, Some(number)),
            _ => (itself, None),
        };
        self.root_times = match self.root_port.and_then(|number| self.ports.get(&number)) {
            Some(port) => Times { message_age: port.times.message_age + 1, ..port.times },
            None => self.own_times,
        };
        let Self { id, ports, root, root_port, root_times, .. } = self;
        for (number, port) in ports {
            port.designated = Vector { root: root.root, cost: root.cost, bridge: *id, port: port.id };
            port.designated_times = *root_times;
            let is_out_of_date = port.vector != port.designated || port.times != port.designated_times;
            (port.selected_role, port.updt_info) = match port.info {
                Info::Disabled => (Role::Disabled, false),
                Info::Aged => (Role::Designated, true),
                Info::Mine => (Role::Designated, is_out_of_date),
                Info::Received if *root_port == Some(*number) => (Role::Root, false),
                Info::Received if port.designated < port.vector => (Role::Designated, true),
                Info::Received if port.vector.bridge.address() == own => (Role::Backup, false),
                Info::Received => (Role::Alternate, false),
            };
            port.selected = true;
        }
        true
    }

    /// Whether all other ports are in step: 17.20.3.
    fn all_synced(&self) -> bool {
        self.ports.values().all(|port| {
            port.selected && port.role == port.selected_role && (port.role == Role::Root || port.synced)
        })
    }

    /// Whether no other port was the root port of late: 17.20.10.
    fn is_re_rooted(&self, number: u16) -> bool {
        self.ports.iter().all(|(other, port)| *other == number || port.rr_while == 0)
    }

    /// Port role transitions (17.29).
    fn change_role(&mut self, number: u16) -> bool {
        let (all_synced, is_re_rooted) = (self.all_synced(), self.is_re_rooted(number));
        let port = self.port(number);
        if !port.selected || port.updt_info {
            return false;
        }
        if port.role != port.selected_role {
            port.role = port.selected_role;
            match port.role {
                Role::Root => port.rr_while = port.designated_times.forward_delay,
                Role::Designated => {}
                Role::Disabled | Role::Alternate | Role::Backup => {
                    (port.learn, port.forward) = (false, false);
                }
            }
            return true;
        }
        match port.role {
            Role::Disabled => Self::stay_disabled(port),
            Role::Root => self.be_root_port(number, all_synced, is_re_rooted),
            Role::Designated => Self::be_designated(port),
            Role::Alternate | Role::Backup => self.be_alternate(number, all_synced),
        }
    }

    fn stay_disabled(port: &mut Port) -> bool {
        let is_quiet = port.state == State::default();
        let is_settled = port.synced && !port.sync && !port.re_root && port.rr_while == 0;
        if !is_quiet || is_settled {
            return false;
        }
        (port.synced, port.sync, port.re_root, port.rr_while) = (true, false, false, 0);
        port.fd_while = port.designated_times.max_age;
        true
    }

    fn be_root_port(&mut self, number: u16, all_synced: bool, is_re_rooted: bool) -> bool {
        let port = self.port(number);
        port.rr_while = port.designated_times.forward_delay;
        if port.proposed && !port.agree {
            port.proposed = false;
            self.set_sync_tree();
            return true;
        }
        if all_synced && !port.agree || port.proposed && port.agree {
            (port.proposed, port.sync, port.agree, port.new_info) = (false, false, true, true);
            return true;
        }
        if !port.forward && !port.re_root {
            self.ports.values_mut().for_each(|port| port.re_root = true);
            return true;
        }
        if port.re_root && port.forward {
            port.re_root = false;
            return true;
        }
        if port.fd_while == 0 || is_re_rooted && port.rb_while == 0 {
            return Self::open(port);
        }
        false
    }

    /// Clause 17.21.14.
    fn set_sync_tree(&mut self) {
        self.ports.values_mut().for_each(|port| port.sync = true);
    }

    /// To the next state on the way to forwarding, if it is not there.
    fn open(port: &mut Port) -> bool {
        if !port.learn {
            (port.learn, port.fd_while) = (true, port.forward_delay());
            return true;
        }
        if !port.forward {
            (port.forward, port.fd_while) = (true, 0);
            return true;
        }
        false
    }

    fn be_designated(port: &mut Port) -> bool {
        if !port.forward && !port.agreed && !port.proposing && !port.oper_edge {
            (port.proposing, port.new_info) = (true, true);
            port.edge_delay_while = port.edge_delay();
            return true;
        }
        let is_closed = port.state == State::default();
        if !port.synced && (is_closed || port.agreed || port.oper_edge) || port.sync && port.synced {
            (port.rr_while, port.synced, port.sync) = (0, true, false);
            return true;
        }
        if port.re_root && port.rr_while == 0 {
            port.re_root = false;
            return true;
        }
        let must_wait = port.sync && !port.synced || port.re_root && port.rr_while != 0 || port.disputed;
        if must_wait && !port.oper_edge && (port.learn || port.forward) {
            (port.learn, port.forward, port.disputed) = (false, false, false);
            port.fd_while = port.forward_delay();
            return true;
        }
        let may_open = port.fd_while == 0 || port.agreed || port.oper_edge;
        if may_open && (port.rr_while == 0 || !port.re_root) && !port.sync {
            let has_changed = Self::open(port);
            port.agreed = if port.forward && has_changed { port.send_rstp } else { port.agreed };
            return has_changed;
        }
        false
    }

    fn be_alternate(&mut self, number: u16, all_synced: bool) -> bool {
        let port = self.port(number);
        if port.state != State::default() {
            return false;
        }
        port.fd_while = port.forward_delay();
        if port.role == Role::Backup {
            port.rb_while = 2 * port.designated_times.hello;
        }
        if port.proposed && !port.agree {
            port.proposed = false;
            self.set_sync_tree();
            return true;
        }
        if all_synced && !port.agree || port.proposed && port.agree {
            (port.proposed, port.agree, port.new_info) = (false, true, true);
            return true;
        }
        if port.sync || port.re_root || !port.synced || port.rr_while != 0 {
            (port.synced, port.rr_while, port.sync, port.re_root) = (true, 0, false, false);
            return true;
        }
        false
    }

    /// Port state transition (17.30).
    fn change_state(&mut self, number: u16) -> bool {
        let port = self.port(number);
        let State { learning, forwarding } = port.state;
        let next = match (port.learn, port.forward) {
            (false, _) => State::default(),
            (true, false) if forwarding => State::default(),
            (true, forward) => State { learning: true, forwarding: learning && forward },
        };
        if next == port.state {
            return false;
        }
        port.state = next;
        self.effects.push(Effect::State(number, next));
        true
    }

    /// Topology change (17.31): stations may be elsewhere.
    fn change_topology(&mut self, number: u16) -> bool {
        let root_times = self.root_times;
        let port = self.port(number);
        let leads = matches!(port.role, Role::Root | Role::Designated);
        let has_heard = port.rcvd_tc || port.rcvd_tcn || port.rcvd_tc_ack || port.tc_prop;
        match port.change {
            Change::Inactive if port.learn => {
                port.clear_tc_flags();
                port.change = Change::Learning;
                true
            }
            Change::Inactive => false,
            Change::Learning if leads && port.forward && !port.oper_edge => {
                port.new_tc_while(root_times);
                (port.new_info, port.change) = (true, Change::Active);
                self.propagate(number);
                true
            }
            Change::Learning if has_heard => {
                port.clear_tc_flags();
                true
            }
            Change::Learning if !leads && !port.learn && !port.state.learning => {
                (port.tc_while, port.tc_ack, port.change) = (0, false, Change::Inactive);
                self.effects.push(Effect::Flush(number));
                true
            }
            Change::Learning => false,
            Change::Active if port.rcvd_tcn || port.rcvd_tc => {
                if port.rcvd_tcn {
                    port.new_tc_while(root_times);
                }
                (port.rcvd_tcn, port.rcvd_tc) = (false, false);
                port.tc_ack |= port.role == Role::Designated;
                self.propagate(number);
                true
            }
            Change::Active if port.tc_prop && !port.oper_edge => {
                port.new_tc_while(root_times);
                port.tc_prop = false;
                self.effects.push(Effect::Flush(number));
                true
            }
            Change::Active if port.rcvd_tc_ack => {
                (port.tc_while, port.rcvd_tc_ack) = (0, false);
                true
            }
            Change::Active if !leads || port.oper_edge => {
                port.change = Change::Learning;
                true
            }
            Change::Active => false,
        }
    }

    /// All other ports pass it on (17.21.18).
    fn propagate(&mut self, from: u16) {
        let others = self.ports.iter_mut().filter(|(number, _)| **number != from);
        others.for_each(|(_, port)| port.tc_prop = true);
    }

    /// Port transmit (17.26).
    fn transmit(&mut self, number: u16) {
        let hello = self.own_times.hello;
        let port = self.port(number);
        if port.hello_when == 0 {
            port.hello_when = hello;
            port.new_info |= port.role == Role::Designated || port.role == Role::Root && port.tc_while != 0;
        }
        let may_send = port.enabled && port.selected && !port.updt_info && port.tx_count < HOLD_COUNT;
        if !port.new_info || !may_send {
            return;
        }
        let role = match port.role {
            Role::Disabled => return,
            Role::Root => SaidRole::Root,
            Role::Designated => SaidRole::Designated,
            Role::Alternate | Role::Backup => SaidRole::AlternateOrBackup,
        };
        port.new_info = false;
        let flags = Flags {
            topology_change: port.tc_while != 0,
            proposal: port.proposing,
            role,
            learning: port.state.learning,
            forwarding: port.state.forwarding,
            agreement: port.agree,
            acknowledgement: port.tc_ack,
        };
        let message = match (port.send_rstp, port.role) {
            (true, _) => Bpdu::Rapid(flags, port.designated, port.designated_times),
            (false, Role::Root) if port.tc_while != 0 => Bpdu::TopologyChange,
            (false, Role::Designated) => Bpdu::Configuration(flags, port.designated, port.designated_times),
            (false, _) => return,
        };
        port.tx_count += 1;
        port.tc_ack = false;
        let frame = message.to_frame(port.address);
        self.effects.push(Effect::Send(number, frame));
    }
}
