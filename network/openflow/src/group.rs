//! Groups of buckets, each of which can send a packet (sections 7.3.4.3 and 7.3.5.7 to 7.3.5.9).

use crate::error::GroupModFailed;
use crate::numbers::{flags, numbers};
use crate::wire::{Result, layout, length};
use crate::{Action, GroupNumber, PortNumber};

numbers! {
    /// What happens to groups.
    enum GroupCommand: u16, else GroupModFailed::BadCommand, {
        /// One is added.
        Add = 0,
        /// It gets other buckets.
        Modify = 1,
        /// It is removed, or all are.
        Delete = 2,
    }
}

numbers! {
    /// Which buckets of a group send a packet.
    enum GroupKind: u8, else GroupModFailed::BadType, {
        /// All, each its copy.
        All = 0,
        /// One that the switch selects.
        Select = 1,
        /// The only one.
        Indirect = 2,
        /// The first that is alive.
        FastFailover = 3,
    }
}

layout! {
    /// Actions, and what they depend on.
    measured at 0 struct Bucket {
        [2];
        /// Its share, where one is selected.
        weight: u16;
        /// It is alive while this port is…
        watch_port: PortNumber;
        /// …or this group.
        watch_group: GroupNumber [4];
        /// What it does with the packet.
        actions: Vec<Action>;
    }
}

layout! {
    /// Change groups.
    struct GroupMod, checked by check {
        /// What happens.
        command: GroupCommand;
        /// Which buckets it is to use.
        kind: GroupKind [1];
        /// Which group.
        group: GroupNumber;
        /// Its buckets.
        buckets: Vec<Bucket>;
    }
}

impl Bucket {
    /// How long it is, as it is sent: bytes.
    pub fn length(&self) -> usize {
        length(self)
    }

    fn watches(&self) -> bool {
        self.watch_port != PortNumber::ANY || self.watch_group != GroupNumber::ANY
    }
}

impl GroupMod {
    /// What can be wrong with it in any switch.
    pub(crate) fn check(&self) -> Result<()> {
        if self.command == GroupCommand::Delete {
            return Ok(());
        }
        let is_one = self.kind != GroupKind::Indirect || self.buckets.len() == 1;
        if self.group > GroupNumber::LAST || !is_one {
            return Err(GroupModFailed::InvalidGroup.into());
        }
        self.buckets.iter().try_for_each(|bucket| match (self.kind, bucket.watches()) {
            // Only who selects weighs.
            (GroupKind::All | GroupKind::Indirect | GroupKind::FastFailover, _) if bucket.weight != 0 => {
                Err(GroupModFailed::InvalidGroup.into())
            }
            (GroupKind::All | GroupKind::Indirect, true) => Err(GroupModFailed::WatchUnsupported.into()),
            (GroupKind::FastFailover, false) => Err(GroupModFailed::InvalidGroup.into()),
            _ => Ok(()),
        })
    }
}

layout! {
    /// Which group is asked for.
    struct GroupFilter {
        /// This one, or [`GroupNumber::ALL`].
        group: GroupNumber [4];
    }
}

layout! {
    /// What a bucket or a band has done.
    struct Counts {
        /// So many packets…
        packets: u64;
        /// …with so many bytes.
        bytes: u64;
    }
}

layout! {
    /// What a group has done.
    measured at 0 struct GroupStats {
        [4];
        /// Which.
        group: GroupNumber;
        /// How many flows and groups send to it.
        references: u32 [4];
        /// All packets.
        counts: Counts;
        /// It has been there for so many seconds…
        seconds: u32;
        /// …and nanoseconds.
        nanoseconds: u32;
        /// The packets of each bucket.
        buckets: Vec<Counts>;
    }
}

layout! {
    /// What a group is.
    measured at 0 struct GroupDescription {
        [2];
        /// Which buckets it uses.
        kind: GroupKind [1];
        /// Which.
        group: GroupNumber;
        /// Its buckets.
        buckets: Vec<Bucket>;
    }
}

flags! {
    /// What groups can do.
    struct GroupCapabilities: u32, {
        /// Weights count where one is selected.
        SELECT_WEIGHT = 1,
        /// One that is not alive is not selected.
        SELECT_LIVENESS = 2,
        /// They can send to groups.
        CHAINING = 4,
        /// And are checked for circles then.
        CHAINING_CHECKS = 8,
    }
}

layout! {
    /// Which groups there can be. What there is of each kind stands in the order of [`GroupKind`].
    struct GroupFeatures {
        /// Which kinds, as bits.
        kinds: u32;
        /// What they can do.
        capabilities: GroupCapabilities;
        /// How many of each kind.
        max_groups: [u32; 4];
        /// Which actions they can have, as bits.
        actions: [u32; 4];
    }
}
