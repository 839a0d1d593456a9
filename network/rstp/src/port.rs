//! What a tree keeps of a port (clause 17.19), and what concerns that port alone.

use crate::bpdu::{Bpdu, Flags, SaidRole};
use crate::vector::{PortId, Times, Vector};

/// What a port is for the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is not there, or has no link.
    Disabled,
    /// It leads to the root.
    Root,
    /// It leads from the root to others.
    Designated,
    /// It would lead to the root, if the root port did not.
    Alternate,
    /// Another port of this bridge leads to the same others.
    Backup,
}

/// What a port does with frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Stations are learned from what comes in.
    pub learning: bool,
    /// Frames come in and go out.
    pub forwarding: bool,
}

/// Whose the information is by which a port has its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Info {
    Disabled,
    Aged,
    Mine,
    Received,
}

/// Where the topology change machine is (clause 17.31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Inactive,
    Learning,
    Active,
}

/// In seconds (clause 17.14).
pub(crate) const MIGRATE_TIME: u16 = 3;
/// Messages that a port sends within a second at most.
pub(crate) const HOLD_COUNT: u16 = 6;

/// A port. Names are the standard's.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) id: PortId,
    pub(crate) address: [u8; 6],
    pub(crate) cost: u32,
    /// It leads to a host, if nobody says otherwise.
    pub(crate) admin_edge: bool,
    pub(crate) auto_edge: bool,
    pub(crate) is_point_to_point: bool,

    pub(crate) enabled: bool,
    pub(crate) role: Role,
    pub(crate) selected_role: Role,
    pub(crate) info: Info,
    pub(crate) change: Change,
    pub(crate) vector: Vector,
    pub(crate) times: Times,
    pub(crate) designated: Vector,
    pub(crate) designated_times: Times,
    pub(crate) received: Option<Bpdu>,
    pub(crate) state: State,

    pub(crate) agree: bool,
    pub(crate) agreed: bool,
    pub(crate) disputed: bool,
    pub(crate) forward: bool,
    pub(crate) learn: bool,
    pub(crate) new_info: bool,
    pub(crate) oper_edge: bool,
    pub(crate) proposed: bool,
    pub(crate) proposing: bool,
    pub(crate) rcvd_tc: bool,
    pub(crate) rcvd_tc_ack: bool,
    pub(crate) rcvd_tcn: bool,
    pub(crate) re_root: bool,
    pub(crate) reselect: bool,
    pub(crate) selected: bool,
    pub(crate) send_rstp: bool,
    pub(crate) sync: bool,
    pub(crate) synced: bool,
    pub(crate) tc_ack: bool,
    pub(crate) tc_prop: bool,
    pub(crate) updt_info: bool,

    // Seconds that are left.
    pub(crate) edge_delay_while: u16,
    pub(crate) fd_while: u16,
    pub(crate) hello_when: u16,
    pub(crate) mdelay_while: u16,
    pub(crate) rb_while: u16,
    pub(crate) rcvd_info_while: u16,
    pub(crate) rr_while: u16,
    pub(crate) tc_while: u16,
    pub(crate) tx_count: u16,
}

impl Port {
    pub(crate) fn new(id: PortId, address: [u8; 6], cost: u32, vector: Vector, times: Times) -> Self {
        Self {
            id,
            address,
            cost,
            admin_edge: false,
            auto_edge: true,
            is_point_to_point: true,
            enabled: false,
            role: Role::Disabled,
            selected_role: Role::Disabled,
            info: Info::Disabled,
            change: Change::Inactive,
            vector,
            times,
            designated: vector,
            designated_times: times,
            received: None,
            state: State::default(),
            agree: false,
            agreed: false,
            disputed: false,
            forward: false,
            learn: false,
            new_info: true,
            oper_edge: false,
            proposed: false,
            proposing: false,
            rcvd_tc: false,
            rcvd_tc_ack: false,
            rcvd_tcn: false,
            re_root: true,
            reselect: true,
            selected: false,
            send_rstp: true,
            sync: true,
            synced: false,
            tc_ack: false,
            tc_prop: false,
            updt_info: false,
            edge_delay_while: 0,
            fd_while: times.max_age,
            hello_when: times.hello,
            mdelay_while: MIGRATE_TIME,
            rb_while: 0,
            rcvd_info_while: 0,
            rr_while: times.forward_delay,
            tc_while: 0,
            tx_count: 0,
        }
    }

    /// Edge delay: how long a designated port waits for another bridge before it takes what is there for a host (clause 17.20.4).
    pub(crate) fn edge_delay(&self) -> u16 {
        if self.is_point_to_point { MIGRATE_TIME } else { self.designated_times.max_age }
    }

    /// How long a port waits where nobody agrees: of RSTP no longer than it takes to be asked again (clause 17.20.6).
    pub(crate) fn forward_delay(&self) -> u16 {
        if self.send_rstp { self.designated_times.hello } else { self.designated_times.forward_delay }
    }

    /// A second has passed.
    pub(crate) fn tick(&mut self) {
        for timer in [
            &mut self.edge_delay_while,
            &mut self.fd_while,
            &mut self.hello_when,
            &mut self.mdelay_while,
            &mut self.rb_while,
            &mut self.rcvd_info_while,
            &mut self.rr_while,
            &mut self.tc_while,
            &mut self.tx_count,
        ] {
            *timer = timer.saturating_sub(1);
        }
    }

    /// Clause 17.21.1: whether what was received, or what this bridge would say, is as good as the port has or better.
    pub(crate) fn is_better_or_same(&self, said: Info, received: &Vector) -> bool {
        match (said, self.info) {
            (Info::Received, Info::Received) => *received <= self.vector,
            (Info::Mine, Info::Mine) => self.designated <= self.vector,
            _ => false,
        }
    }

    /// Clause 17.21.9.
    pub(crate) fn record_agreement(&mut self, flags: Flags) {
        if self.send_rstp && self.is_point_to_point && flags.agreement {
            (self.agreed, self.proposing) = (true, false);
        } else {
            self.agreed = false;
        }
    }

    /// Clause 17.21.10: another bridge takes a worse way of ours for its own, and forwards; one of us does not hear the other.
    pub(crate) fn record_dispute(&mut self, flags: Flags) {
        if flags.learning {
            (self.agreed, self.disputed) = (false, true);
        }
    }

    /// Clause 17.21.11.
    pub(crate) fn record_proposal(&mut self, flags: Flags) {
        if flags.role == SaidRole::Designated && flags.proposal {
            self.proposed = true;
        }
    }

    /// Clause 17.21.17.
    pub(crate) fn set_tc_flags(&mut self, message: &Bpdu) {
        match message {
            Bpdu::Rapid(flags, ..) => self.rcvd_tc |= flags.topology_change,
            Bpdu::Configuration(flags, ..) => {
                self.rcvd_tc |= flags.topology_change;
                self.rcvd_tc_ack |= flags.acknowledgement;
            }
            Bpdu::TopologyChange => self.rcvd_tcn = true,
        }
    }

    /// What was heard of changes was for a port that passes nothing on.
    pub(crate) fn clear_tc_flags(&mut self) {
        (self.rcvd_tc, self.rcvd_tcn, self.rcvd_tc_ack, self.tc_prop) = (false, false, false, false);
    }

    /// Clause 17.21.23: three messages may be lost.
    pub(crate) fn update_rcvd_info_while(&mut self) {
        let age = self.times.message_age + 1;
        self.rcvd_info_while = if age <= self.times.max_age { 3 * self.times.hello } else { 0 };
    }

    /// Clause 17.21.7.
    pub(crate) fn new_tc_while(&mut self, root_times: Times) {
        if self.tc_while == 0 {
            if self.send_rstp {
                self.tc_while = root_times.hello + 1;
                self.new_info = true;
            } else {
                self.tc_while = root_times.max_age + root_times.forward_delay;
            }
        }
    }
}
