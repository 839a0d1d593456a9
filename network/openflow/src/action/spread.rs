//! Packets spread by a hash of them, over ports or numbers.

use crate::action::Subfield;
use crate::error::BadAction;
use crate::numbers::numbers;
use crate::wire::{Reader, Result, Wire, layout, put_zeros};
use crate::{OxmField, ShortPort};

numbers! {
    /// What of a packet is hashed.
    enum HashFields: u16, else BadAction::BadArgument, {
        /// The Ethernet source.
        EthernetSource = 0,
        /// Addresses and ports, the same for both directions.
        SymmetricL4 = 1,
        /// The same, of IP and TCP alone.
        SymmetricL3L4 = 2,
        /// The same, with UDP.
        SymmetricL3L4Udp = 3,
        /// The network source.
        NetworkSource = 4,
        /// The network destination.
        NetworkDestination = 5,
        /// Network addresses, the same for both directions.
        SymmetricL3 = 6,
    }
}

numbers! {
    /// How a link is chosen by a hash.
    enum MultipathAlgorithm: u16, else BadAction::BadArgument, {
        /// By its rest.
        Modulo = 0,
        /// By the part of the range that it is in.
        Threshold = 1,
        /// By the link with the highest random weight.
        HighestRandomWeight = 2,
        /// By hashing again until there is such a link.
        Iterative = 3,
    }
}

numbers! {
    /// How a port is chosen by a hash, among those that are up.
    enum BundleAlgorithm: u16, else BadAction::BadArgument, {
        /// The first.
        ActiveBackup = 0,
        /// The one with the highest random weight.
        HighestRandomWeight = 1,
    }
}

layout! {
    /// Write the number of a link into a field.
    struct Multipath {
        /// What is hashed.
        fields: HashFields;
        /// From where the hash begins.
        basis: u16 [2];
        /// How it chooses.
        algorithm: MultipathAlgorithm;
        /// The number of links, less one.
        last_link: u16;
        /// The algorithm's argument.
        argument: u32 [2];
        /// Where the number goes: 64 bits at most.
        destination: Subfield;
    }
}

/// Send the packet to one of some ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// How it is chosen.
    pub algorithm: BundleAlgorithm,
    /// What is hashed.
    pub fields: HashFields,
    /// From where the hash begins.
    pub basis: u16,
    /// The ports.
    pub members: Vec<ShortPort>,
}

/// Write the number of one of some ports into a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleLoad {
    /// Which ports, and how one is chosen.
    pub bundle: Bundle,
    /// Where its number goes: 64 bits at most.
    pub destination: Subfield,
}

impl Bundle {
    fn put_with(&self, destination: Option<Subfield>, out: &mut Vec<u8>) {
        self.algorithm.put(out);
        self.fields.put(out);
        self.basis.put(out);
        Self::members_are().put(out);
        u16::try_from(self.members.len()).unwrap_or(u16::MAX).put(out);
        match destination {
            Some(destination) => destination.put(out),
            None => put_zeros(out, 6),
        }
        put_zeros(out, 4);
        self.members.put(out);
    }

    /// What members are: numbers of ports.
    fn members_are() -> OxmField {
        OxmField::named("in_port").unwrap_or_else(|| unreachable!("there is such a field"))
    }

    /// With the part that says where the number of the chosen one goes.
    fn get_with<'a>(input: &mut Reader<'a>) -> Result<(Self, Reader<'a>)> {
        let (algorithm, fields) = (BundleAlgorithm::get(input)?, HashFields::get(input)?);
        let basis = u16::get(input)?;
        if OxmField::get(input)? != Self::members_are() {
            return Err(BadAction::BadArgument.into());
        }
        let count = usize::from(u16::get(input)?);
        let destination = input.part(6, BadAction::BadLength)?;
        input.skip(4)?;
        let members = Vec::get(&mut input.part(2 * count, BadAction::BadLength)?)?;
        Ok((Self { algorithm, fields, basis, members }, destination))
    }
}

impl Wire for Bundle {
    fn put(&self, out: &mut Vec<u8>) {
        self.put_with(None, out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (bundle, mut destination) = Self::get_with(input)?;
        let is_empty = destination.all().iter().all(|byte| *byte == 0);
        if is_empty { Ok(bundle) } else { Err(BadAction::BadArgument.into()) }
    }
}

impl Wire for BundleLoad {
    fn put(&self, out: &mut Vec<u8>) {
        self.bundle.put_with(Some(self.destination), out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (bundle, mut destination) = Bundle::get_with(input)?;
        Ok(Self { bundle, destination: Subfield::get(&mut destination)? })
    }
}
