//! Meters: rates, and what happens to packets beyond them (sections 7.3.4.4 and 7.3.5.12 to 7.3.5.14).

use crate::error::MeterModFailed;
use crate::group::Counts;
use crate::numbers::{choice, flags, numbers};
use crate::wire::{Reader, Result, Wire, align, layout, put_length};

numbers! {
    /// What happens to a meter.
    enum MeterCommand: u16, else MeterModFailed::BadCommand, {
        /// It is added.
        Add = 0,
        /// It gets other bands.
        Modify = 1,
        /// It is removed.
        Delete = 2,
    }
}

flags! {
    /// How a meter measures.
    struct MeterFlags: u16, else MeterModFailed::BadFlags, {
        /// In kilobits a second.
        KILOBITS = 1,
        /// In packets a second.
        PACKETS = 2,
        /// With bursts.
        BURST = 4,
        /// It counts.
        STATS = 8,
    }
}

choice! {
    /// What happens beyond a rate.
    enum BandKind: u16, else MeterModFailed::BadBand, {
        /// The packet is dropped.
        Drop = 1,
        /// It is more likely to be dropped elsewhere.
        Remark(Remark) = 2,
    }
}

layout! {
    /// Have it dropped more likely elsewhere.
    struct Remark {
        /// By so many steps.
        steps: u8 [3];
    }
}

/// A rate, and what happens beyond it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Band {
    /// The rate.
    pub rate: u32,
    /// How much may come at once.
    pub burst: u32,
    /// What happens.
    pub kind: BandKind,
}

impl Wire for Band {
    fn put(&self, out: &mut Vec<u8>) {
        let start = out.len();
        (self.kind.number(), 0u16).put(out);
        (self.rate, self.burst).put(out);
        self.kind.put_content(out);
        align(out, start);
        put_length(out, start, 2);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut content = input.measured(2)?;
        let (kind, _) = <(u16, u16)>::get(&mut content)?;
        let (rate, burst) = <(u32, u32)>::get(&mut content)?;
        let kind = BandKind::get_content(kind, &mut content)?;
        // What is left fills it up, and is less than a multiple of 8.
        if content.left() >= 8 { Err(content.wrong_length()) } else { Ok(Self { rate, burst, kind }) }
    }
}

layout! {
    /// Change a meter.
    struct MeterMod, checked by check {
        /// What happens.
        command: MeterCommand;
        /// How it measures.
        flags: MeterFlags;
        /// Which.
        meter: u32;
        /// Its bands.
        bands: Vec<Band>;
    }
}

impl MeterMod {
    /// The largest number of an ordinary meter.
    pub const LAST: u32 = 0xffff_0000;
    /// For packets that the switch has to look at more closely.
    pub const SLOW_PATH: u32 = 0xffff_fffd;
    /// For packets that go to controllers.
    pub const CONTROLLER: u32 = 0xffff_fffe;
    /// All meters, in requests.
    pub const ALL: u32 = 0xffff_ffff;

    /// What can be wrong with it in any switch.
    pub(crate) fn check(&self) -> Result<()> {
        if self.flags.contains(MeterFlags::KILOBITS | MeterFlags::PACKETS) {
            return Err(MeterModFailed::BadFlags.into());
        }
        match self.meter {
            1..=Self::LAST | Self::SLOW_PATH | Self::CONTROLLER => Ok(()),
            Self::ALL if self.command == MeterCommand::Delete => Ok(()),
            _ => Err(MeterModFailed::InvalidMeter.into()),
        }
    }
}

layout! {
    /// Which meter is asked for.
    struct MeterFilter {
        /// This one, or [`MeterMod::ALL`].
        meter: u32 [4];
    }
}

layout! {
    /// What a meter has done.
    measured at 4 struct MeterStats {
        /// Which.
        meter: u32 [8];
        /// How many flows use it.
        flows: u32;
        /// All packets.
        counts: Counts;
        /// It has been there for so many seconds…
        seconds: u32;
        /// …and nanoseconds.
        nanoseconds: u32;
        /// The packets that each band was for.
        bands: Vec<Counts>;
    }
}

layout! {
    /// What a meter is.
    measured at 0 struct MeterConfig {
        [2];
        /// How it measures.
        flags: MeterFlags;
        /// Which.
        meter: u32;
        /// Its bands.
        bands: Vec<Band>;
    }
}

layout! {
    /// Which meters there can be.
    struct MeterFeatures {
        /// How many.
        max_meters: u32;
        /// Which kinds of bands, as bits.
        kinds: u32;
        /// [`MeterFlags`] that they can have.
        capabilities: u32;
        /// How many bands each.
        max_bands: u8;
        /// How many colours.
        max_colours: u8 [2];
    }
}
