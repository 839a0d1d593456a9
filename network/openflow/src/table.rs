//! Tables: what they are and can do (sections 7.3.3, 7.3.5.4 and 7.3.5.5).

use crate::OxmField;
use crate::error::TableFeaturesFailed;
use crate::numbers::choice;
use crate::property::{get_property, put_property};
use crate::text_bytes::Text;
use crate::wire::{Reader, Result, Wire, layout};

layout! {
    /// Change a table. All that it could change is deprecated.
    struct TableMod {
        /// Which.
        table: u8 [3];
        /// Nothing.
        config: u32;
    }
}

layout! {
    /// What a table has done.
    struct TableStats {
        /// Which.
        table: u8 [3];
        /// How many flows it has.
        flows: u32;
        /// How many packets were looked up…
        lookups: u64;
        /// …and matched.
        matched: u64;
    }
}

layout! {
    /// What a table can do.
    measured at 0 struct TableFeatures {
        [2];
        /// Which.
        table: u8 [5];
        /// Its name.
        name: Text<32>;
        /// Bits of the metadata that can be matched…
        metadata_match: u64;
        /// …and written.
        metadata_write: u64;
        /// Nothing.
        config: u32;
        /// How many flows it may have.
        max_flows: u32;
        /// The rest.
        properties: Vec<TableProperty>;
    }
}

choice! {
    /// What flows of a table can do; of a pair, the second is about the flow that matches all packets at the lowest priority, if that
    /// differs.
    enum TablePropertyKind: u16, else TableFeaturesFailed::BadType, {
        /// Instructions.
        Instructions(Identifiers) = 0,
        /// Instructions.
        MissInstructions(Identifiers) = 1,
        /// Tables that they can go to.
        NextTables(Vec<u8>) = 2,
        /// Tables that they can go to.
        MissNextTables(Vec<u8>) = 3,
        /// Actions that can be written for the end.
        WriteActions(Identifiers) = 4,
        /// Actions that can be written for the end.
        MissWriteActions(Identifiers) = 5,
        /// Actions that can be carried out at once.
        ApplyActions(Identifiers) = 6,
        /// Actions that can be carried out at once.
        MissApplyActions(Identifiers) = 7,
        /// Fields that can be matched.
        Match(Fields) = 8,
        /// Fields that need not be matched.
        Wildcards(Fields) = 10,
        /// Fields that can be set at the end.
        WriteSetField(Fields) = 12,
        /// Fields that can be set at the end.
        MissWriteSetField(Fields) = 13,
        /// Fields that can be set at once.
        ApplySetField(Fields) = 14,
        /// Fields that can be set at once.
        MissApplySetField(Fields) = 15,
    }
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableProperty(pub TablePropertyKind);

impl Wire for TableProperty {
    fn put(&self, out: &mut Vec<u8>) {
        put_property(out, self.0.number(), |out| self.0.put_content(out));
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (kind, mut content) = get_property(input)?;
        let property = TablePropertyKind::get_content(kind, &mut content)?;
        content.end()?;
        Ok(Self(property))
    }
}

/// The numbers of actions or instructions. Whose extension one is, is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identifiers(pub Vec<u16>);

impl Wire for Identifiers {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|number| (*number, 4u16).put(out));
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut numbers = Vec::new();
        while !input.is_empty() {
            let mut identifier = input.measured(2)?;
            numbers.push(u16::get(&mut identifier)?);
            identifier.skip(2)?;
        }
        Ok(Self(numbers))
    }
}

/// Fields. Those that are not known here are passed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fields(pub Vec<OxmField>);

impl Wire for Fields {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.iter().for_each(|field| field.put(out));
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut fields = Vec::new();
        while !input.is_empty() {
            fields.extend(OxmField::get_listed(input)?);
        }
        Ok(Self(fields))
    }
}
