//! What a flow does with a packet, each thing once (section 7.2.4).

use crate::action::Action;
use crate::error::{BadInstruction, Onf};
use crate::numbers::choice;
use crate::property::{get_content, get_head, put_step};
use crate::wire::{Reader, Result, Wire, layout, length};

choice! {
    /// An instruction.
    enum Instruction: u16, else BadInstruction::Unknown, {
        /// Go on in this table.
        GotoTable(GotoTable) = 1,
        /// Change the metadata.
        WriteMetadata(WriteMetadata) = 2,
        /// Add to the set of actions that are carried out at the end.
        WriteActions(ActionList) = 3,
        /// Carry out actions at once.
        ApplyActions(ActionList) = 4,
        /// Empty the set of actions.
        ClearActions = 5,
        /// Have a meter measure the packet.
        Meter(u32) = 6,
    }
}

layout! {
    /// Go on in a table.
    struct GotoTable {
        /// A later one.
        table: u8 [3];
    }
}

layout! {
    /// Change the metadata.
    struct WriteMetadata {
        [4];
        /// Their bits…
        value: u64;
        /// …as far as they are these.
        mask: u64;
    }
}

layout! {
    /// Actions.
    struct ActionList {
        [4];
        /// In this order.
        actions: Vec<Action>;
    }
}

impl Instruction {
    /// The actions that it has.
    pub fn actions(&self) -> &[Action] {
        match self {
            Self::WriteActions(list) | Self::ApplyActions(list) => &list.actions,
            _ => &[],
        }
    }
}

impl Wire for Instruction {
    fn put(&self, out: &mut Vec<u8>) {
        put_step(out, self.number(), |out| self.put_content(out));
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let (kind, length) = get_head(input, BadInstruction::BadLength)?;
        if kind == EXPERIMENTER {
            return Err(BadInstruction::BadExperimenter.into());
        }
        get_content(input, length, |content| Self::get_content(kind, content), BadInstruction::BadLength)
    }
}

/// Others' instructions, of which none is known.
const EXPERIMENTER: u16 = 0xffff;

/// Instructions up to the end: none of them twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instructions(pub Vec<Instruction>);

impl Instructions {
    /// What a flow does at once and nothing else: these actions.
    pub fn apply(actions: Vec<Action>) -> Self {
        Self(vec![Instruction::ApplyActions(ActionList { actions })])
    }

    /// How long they are, as they are sent: bytes.
    pub fn length(&self) -> usize {
        length(self)
    }
}

impl Wire for Instructions {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn get(input: &mut Reader<'_>) -> Result<Self> {
        let mut content = input.part(input.left(), BadInstruction::BadLength)?;
        let instructions: Vec<Instruction> = Vec::get(&mut content)?;
        let mut seen = 0_u32;
        for instruction in &instructions {
            let bit = 1 << instruction.number();
            if seen & bit != 0 {
                return Err(Onf::DuplicateInstruction.into());
            }
            seen |= bit;
        }
        Ok(Self(instructions))
    }
}
