//! Groups, of which OpenFlow 1.0 has none, by Nicira's messages: in the form of OpenFlow 1.5, in which buckets have properties, and numbers. Those
//! are their places here.

use super::actions::{actions, steps};
use super::step::Step;
use crate::error::{BadAction, GroupModFailed};
use crate::group::{self, GroupCommand, GroupDescription, GroupFeatures, GroupKind, GroupMod};
use crate::numbers::choice;
use crate::property::{get_property, put_property};
use crate::wire::{Reader, Result, Wire, layout, length_of, put_length, said_length};
use crate::{GroupNumber, PortNumber, ShortPort};
use fulmar_packet::Match;

choice! {
    /// What else there is to a bucket.
    enum Property: u16, else GroupModFailed::BadBucket, {
        Weight(Weight) = 0,
        WatchPort(Watched) = 1,
        WatchGroup(GroupNumber) = 2,
    }
}

layout! {
    struct Weight {
        weight: u16 [2];
    }
}

layout! {
    struct Watched {
        [2];
        port: ShortPort;
    }
}

impl Wire for Property {
    fn put(&self, out: &mut Vec<u8>) {
        put_property(out, self.number(), |out| self.put_content(out));
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (kind, mut content) = get_property(input)?;
        let property = Self::get_content(kind, &mut content)?;
        content.end()?;
        Ok(property)
    }
}

/// Actions, and what they depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub(super) number: u32,
    pub(super) steps: Vec<Step>,
    pub(super) properties: Vec<Property>,
}

impl Wire for Bucket {
    fn put(&self, out: &mut Vec<u8>) {
        let (start, mut steps) = (out.len(), Vec::new());
        self.steps.put(&mut steps);
        (0u16, said_length(steps.len())).put(out);
        self.number.put(out);
        steps.put(out);
        self.properties.put(out);
        put_length(out, start, 0);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut whole = input.measured(0)?;
        let (_, length) = <(u16, u16)>::get(&mut whole)?;
        let number = u32::get(&mut whole)?;
        let steps = Vec::get(&mut whole.part(length.into(), BadAction::BadLength)?)?;
        Ok(Self { number, steps, properties: Vec::get(&mut whole)? })
    }
}

/// Buckets behind their length, and what comes after that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buckets<After> {
    pub(super) after: After,
    pub(super) list: Vec<Bucket>,
}

impl<After: Wire> Wire for Buckets<After> {
    fn put(&self, out: &mut Vec<u8>) {
        let mut list = Vec::new();
        self.list.put(&mut list);
        said_length(list.len()).put(out);
        self.after.put(out);
        list.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let length = u16::get(input)?;
        let after = After::get(input)?;
        Ok(Self { after, list: Vec::get(&mut input.part(length.into(), GroupModFailed::BadBucket)?)? })
    }
}

layout! {
    /// Before which bucket others are inserted: such commands are refused.
    struct Place {
        [2];
        number: u32;
    }
}

layout! {
    /// How groups change.
    struct Change {
        command: GroupCommand;
        kind: GroupKind [1];
        group: GroupNumber;
        buckets: Buckets<Place>;
        /// How a bucket is selected, for instance.
        properties: Vec<u8>;
    }
}

layout! {
    /// What a group is.
    measured at 0 struct Description {
        [2];
        kind: GroupKind [1];
        group: GroupNumber;
        buckets: Buckets<[u8; 6]>;
    }
}

impl Bucket {
    fn of(bucket: &group::Bucket, number: usize, kind: GroupKind) -> Self {
        let group::Bucket { weight, watch_port, watch_group, .. } = *bucket;
        let port = ShortPort::try_from(watch_port).ok().filter(|_| watch_port != PortNumber::ANY);
        let properties = [
            (weight > 0 || kind == GroupKind::Select).then_some(Property::Weight(Weight { weight })),
            port.map(|port| Property::WatchPort(Watched { port })),
            (watch_group != GroupNumber::ANY).then_some(Property::WatchGroup(watch_group)),
        ];
        Self {
            number: u32::try_from(number).unwrap_or(u32::MAX),
            steps: steps(&bucket.actions),
            properties: properties.into_iter().flatten().collect(),
        }
    }

    fn into_value(self, kind: GroupKind) -> Result<group::Bucket> {
        let mut bucket = group::Bucket {
            // Where one is selected and nothing is said.
            weight: u16::from(kind == GroupKind::Select),
            watch_port: PortNumber::ANY,
            watch_group: GroupNumber::ANY,
            actions: actions(self.steps, &Match::ANY)?,
        };
        for property in self.properties {
            match property {
                Property::Weight(Weight { weight }) => bucket.weight = weight,
                Property::WatchPort(Watched { port }) => bucket.watch_port = port.into(),
                Property::WatchGroup(group) => bucket.watch_group = group,
            }
        }
        Ok(bucket)
    }
}

fn said<After>(buckets: &[group::Bucket], kind: GroupKind, after: After) -> Buckets<After> {
    let list = buckets.iter().enumerate().map(|(number, bucket)| Bucket::of(bucket, number, kind));
    Buckets { after, list: list.collect() }
}

fn meant<After>(buckets: Buckets<After>, kind: GroupKind) -> Result<Vec<group::Bucket>> {
    buckets.list.into_iter().map(|bucket| bucket.into_value(kind)).collect()
}

impl From<&GroupMod> for Change {
    fn from(change: &GroupMod) -> Self {
        let GroupMod { command, kind, group, .. } = *change;
        let buckets = said(&change.buckets, kind, Place { number: u32::MAX });
        Self { command, kind, group, buckets, properties: Vec::new() }
    }
}

impl Change {
    pub(super) fn into_value(self) -> Result<GroupMod> {
        let Self { command, kind, group, buckets, properties } = self;
        if !properties.is_empty() {
            return Err(GroupModFailed::InvalidGroup.into());
        }
        let change = GroupMod { command, kind, group, buckets: meant(buckets, kind)? };
        change.check()?;
        Ok(change)
    }
}

impl From<&GroupDescription> for Description {
    fn from(description: &GroupDescription) -> Self {
        let GroupDescription { kind, group, .. } = *description;
        Self { kind, group, buckets: said(&description.buckets, kind, [0; 6]) }
    }
}

impl Description {
    pub(super) fn into_value(self) -> Result<GroupDescription> {
        let Self { kind, group, buckets } = self;
        Ok(GroupDescription { kind, group, buckets: meant(buckets, kind)? })
    }
}

/// How many bytes a group takes in an answer.
pub(crate) fn length_of_description(group: &GroupDescription) -> usize {
    length_of(&Description::from(group))
}

/// What groups can do, in numbers of this version's actions: all twelve.
pub(super) fn features(features: &GroupFeatures) -> GroupFeatures {
    GroupFeatures { actions: [0xfff; 4], ..features.clone() }
}
