//! From a packet to a decision: its way through the tables (section 5 of the OpenFlow specification; Open vSwitch, section 4).
//!
//! A way is taken once for all packets like this one. Whatever it depends on is consulted: bits that flows ask for, as the
//! classifier tells them, and bits that actions read. Bits that actions have set before are no longer the packet's.
//!
//! *Known as:* the slow path: upcalls are answered here (`ofproto_xlate`), table misses told.

mod actions;
mod fields;
mod groups;
mod learn;
mod leave;
mod mirror;
mod normal;
mod recirculation;
mod track;
mod written;

use crate::pipeline::Pipeline;
use crate::step::{Credit, Decision, Frozen, Notice, Pending, Step};
use crate::table::Entry;
use fulmar_node::Time;
use fulmar_openflow::packet_in::PacketInReason;
use fulmar_openflow::{Action, Instruction, PortNumber};
use fulmar_packet::{Field, FlowKey, FlowMask, Match, Stage, ethernet};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A packet goes through so many tables at most, one from within another: a circle of them ends there.
const MAX_DEPTH: u8 = 64;
/// And through so many in all.
const MAX_LOOKUPS: u32 = 4096;
/// So many actions are carried out for it, in buckets, too, so many clauses of conjunctions are looked at, and so many copies of it leave,
/// together; what takes long counts for several.
pub(crate) const MAX_WORK: u32 = 1 << 16;
/// So many values can be on the stack.
const MAX_STACK: usize = 1024;

/// A packet on its way.
pub(crate) struct Translation<'a> {
    pipeline: &'a Pipeline,
    now: Time,
    /// The packet as it is by now.
    key: FlowKey,
    consulted: FlowMask,
    /// Bits that are the same for all packets that come here: they were set, or consulted already.
    settled: FlowMask,
    steps: SmallVec<[Step; 2]>,
    credits: SmallVec<[Credit; 2]>,
    stack: Vec<(u128, u8)>,
    /// The queue by which the packet leaves, if one was chosen.
    queue: Option<u32>,
    /// Actions for the end, one of each kind.
    written: Vec<Action>,
    /// Mirrors that have got a copy: each gets one, however often the packet leaves.
    mirrored: SmallVec<[usize; 2]>,
    depth: u8,
    lookups: u32,
    work: u32,
    /// The flow whose actions these are, if it is known by now; its table, and its cookie.
    flow: Option<Entry>,
    table: u8,
    cookie: u64,
    reason: PacketInReason,
    /// No more actions are carried out.
    is_over: bool,
    /// It had no hop left to live: no more actions of this flow, or of this set, are carried out, as in Open vSwitch.
    is_expired: bool,
    /// It came through too many tables, or made too much work, and is dropped.
    has_failed: bool,
    /// A tag was put around two, of which the key has only one more.
    has_hidden_tag: bool,
    /// The packet is to be looked at again, and then goes on with what is left.
    frozen: Option<Vec<Pending>>,
    /// Whether there is a packet, so that what is learned from it is learned.
    is_real: bool,
    trace: Option<Vec<String>>,
}

impl<'a> Translation<'a> {
    fn new(pipeline: &'a Pipeline, key: &FlowKey, now: Time) -> Self {
        let mut consulted = FlowMask::EMPTY;
        // These tell packets apart whatever flows ask for: where they are from, and how the rest of the key is to be read.
        for field in [Field::IN_PORT, Field::RECIRCULATION, Field::ETH_TYPE] {
            consulted.add_all(field);
        }
        if is_ip(key) {
            consulted.add_all(Field::IP_FRAGMENT);
        }
        Self {
            pipeline,
            now,
            key: key.clone(),
            settled: consulted.clone(),
            consulted,
            steps: SmallVec::new(),
            credits: SmallVec::new(),
            stack: Vec::new(),
            queue: None,
            written: Vec::new(),
            mirrored: SmallVec::new(),
            depth: 0,
            lookups: 0,
            work: 0,
            flow: None,
            table: 0,
            cookie: u64::MAX,
            reason: PacketInReason::Action,
            is_over: false,
            is_expired: false,
            has_failed: false,
            has_hidden_tag: false,
            frozen: None,
            is_real: true,
            trace: None,
        }
    }

    /// What is done with a packet, and with all that agree with it in these bits; what it teaches has been learned.
    pub(crate) fn of(
        pipeline: &'a Pipeline,
        key: &FlowKey,
        rest: Option<&Frozen>,
        now: Time,
    ) -> (Decision, FlowMask) {
        let _steady = pipeline.steady();
        let generation = pipeline.generation();
        let mut translation = Self::new(pipeline, key, now);
        translation.run(rest);
        translation.decide(generation)
    }

    /// What is done with a packet that has these actions of its own.
    pub(crate) fn of_actions(
        pipeline: &'a Pipeline,
        key: &FlowKey,
        actions: &[Action],
        now: Time,
    ) -> Decision {
        let _steady = pipeline.steady();
        let generation = pipeline.generation();
        let mut translation = Self::new(pipeline, key, now);
        translation.reason = PacketInReason::PacketOut;
        translation.actions(actions);
        translation.freeze();
        translation.decide(generation).0
    }

    /// What would be done with a packet, and how that comes about, line by line. Nothing is learned.
    pub(crate) fn trace(
        pipeline: &'a Pipeline,
        key: &FlowKey,
        rest: Option<&Frozen>,
        now: Time,
    ) -> (Decision, FlowMask, Vec<String>) {
        let _steady = pipeline.steady();
        let mut translation = Self::new(pipeline, key, now);
        (translation.is_real, translation.trace) = (false, Some(Vec::new()));
        translation.run(rest);
        let lines = translation.trace.take().unwrap_or_default();
        let (decision, consulted) = translation.decide(pipeline.generation());
        (decision, consulted, lines)
    }

    fn run(&mut self, rest: Option<&Frozen>) {
        let tree = self.pipeline.tree(&self.key);
        if tree.is_some() && rest.is_none() && self.is_for_the_tree() {
            self.say(|| "of the spanning tree".into());
            self.steps.push(Step::Tree);
            return;
        }
        self.treat(rest);
        if tree.is_some_and(|state| !state.forwarding) {
            // Stations may have been learned from it.
            self.say(|| "the spanning tree blocks the port: dropped".into());
            self.steps.clear();
        }
    }

    /// Whether it is one of the messages from which bridges make a tree.
    fn is_for_the_tree(&mut self) -> bool {
        number::<u64>(self.consult(Field::ETH_DESTINATION, u128::MAX)) == normal::RESERVED
    }

    fn treat(&mut self, rest: Option<&Frozen>) {
        if !self.pipeline.receives(&self.key) {
            self.say(|| "the port does not receive".into());
            return;
        }
        match rest {
            None if self.is_for_a_mirror(self.in_port().0) => {}
            None => {
                self.mirror_arriving();
                if self.pipeline.passes_flows_over.load(Relaxed) {
                    self.say(|| "flows are passed over".into());
                    if !self.is_fragment_to_drop() {
                        self.normal();
                    }
                } else {
                    self.table_at(0);
                }
                self.carry_out_written();
            }
            Some(frozen) => self.resume(&frozen.rest),
        }
        self.freeze();
    }

    fn is_fragment(&self) -> bool {
        self.key.get(Field::IP_FRAGMENT) != 0
    }

    /// Whether it is a fragment, and those are dropped. All packets that agree with it are, as that was consulted at first.
    fn is_fragment_to_drop(&mut self) -> bool {
        let drops = self.pipeline.drops_fragments.load(Relaxed) && self.is_fragment();
        if drops {
            self.say(|| "a fragment: dropped".into());
        }
        drops
    }

    fn decide(mut self, generation: u64) -> (Decision, FlowMask) {
        // What is done to a packet that then goes nowhere is not done.
        let has_effect = |step: &Step| {
            !matches!(
                step,
                Step::Set(_) | Step::PushVlan(_) | Step::PopVlan | Step::PushMpls(_) | Step::PopMpls(_)
            )
        };
        let useful = self.steps.iter().rposition(has_effect).filter(|_| !self.has_failed);
        let useful = useful.map_or(0, |last| last + 1);
        self.steps.truncate(useful);
        (Decision { steps: self.steps, generation, credits: self.credits }, self.consulted)
    }

    fn say(&mut self, line: impl FnOnce() -> String) {
        let indent = 4 * usize::from(self.depth);
        if let Some(lines) = &mut self.trace {
            lines.push(format!("{:indent$}{}", "", line()));
        }
    }

    /// Looks the packet up in a table, and carries out what the flow says.
    fn table_at(&mut self, table: u8) {
        self.table_as_from(table, self.in_port());
    }

    /// Looks the packet up as if it had come in elsewhere, and then where flows say that it goes on; what they say is carried out on the
    /// packet as it is.
    fn table_as_from(&mut self, table: u8, port: PortNumber) {
        let before = (self.flow.clone(), self.table, self.cookie, self.reason);
        let mut next = self.one_table(table, port);
        while let Some(table) = next {
            next = self.one_table(table, self.in_port());
        }
        self.is_expired = false;
        (self.flow, self.table, self.cookie, self.reason) = before;
    }

    /// Answers in which table the packet goes on. That is not from within this one, which has nothing to say afterwards.
    fn one_table(&mut self, table: u8, port: PortNumber) -> Option<u8> {
        if self.depth >= MAX_DEPTH || self.lookups >= MAX_LOOKUPS {
            self.fail("too many tables");
            return None;
        }
        self.lookups += 1;
        if self.is_fragment_to_drop() {
            return None;
        }
        let from = self.key.get(Field::IN_PORT);
        self.key.set(Field::IN_PORT, port.0.into());
        let entry = self.look_up(table);
        self.key.set(Field::IN_PORT, from);
        self.say(|| match &entry {
            Some(entry) => {
                let asked = fulmar_openflow::MatchText(&entry.condition()).to_string();
                let asked = if asked.is_empty() { "any".to_owned() } else { asked };
                let flow = entry.value();
                format!("{table}. {asked}, priority {}, cookie {:#x}", entry.priority(), flow.cookie)
            }
            None => format!("{table}. no flow"),
        });
        self.credits.push(Credit::Lookup(table, entry.clone()));
        let Some(entry) = entry else {
            self.miss(table);
            return None;
        };
        (self.table, self.cookie) = (table, entry.value().cookie);
        if self.reason == PacketInReason::Action && is_miss(&entry) {
            self.reason = PacketInReason::NoMatch;
        }
        let instructions = entry.value().instructions.clone();
        self.flow = Some(entry);
        self.depth += 1;
        let next = self.instructions(&instructions.0);
        self.depth -= 1;
        next
    }

    /// One more thing is done for the packet. Says whether it may be: else the packet is dropped.
    fn may_work(&mut self) -> bool {
        self.may_do(1)
    }

    /// The same for something that takes as long as so many others.
    fn may_do(&mut self, work: u32) -> bool {
        let could = self.work < MAX_WORK;
        self.work = self.work.saturating_add(work);
        let can = self.work < MAX_WORK;
        if could && !can {
            self.fail("too much to do");
        }
        can
    }

    fn fail(&mut self, why: &str) {
        self.say(|| format!("{why}: dropped"));
        (self.is_over, self.has_failed) = (true, true);
    }

    /// No flow is for the packet: where one table comes after another, that is told; where a flow has looked elsewhere, it is not.
    fn miss(&mut self, table: u8) {
        if self.depth == 0 && self.pipeline.tells_misses.load(Relaxed) {
            let before = (self.table, self.cookie);
            (self.table, self.cookie) = (table, u64::MAX);
            self.tell(0, PacketInReason::NoMatch, Vec::new());
            (self.table, self.cookie) = before;
        }
    }

    /// What flow the packet meets. Ports of fragments are as good as not there: not all of a packet have them.
    fn look_up(&mut self, table: u8) -> Option<Entry> {
        let mut asked = FlowMask::EMPTY;
        if self.is_fragment() {
            let mut key = self.key.clone();
            key.set(Field::L4_SOURCE, 0);
            key.set(Field::L4_DESTINATION, 0);
            let (entry, clauses) = self.pipeline.tables.look_up(table, &key, &mut asked);
            asked.remove(Field::L4_SOURCE);
            asked.remove(Field::L4_DESTINATION);
            self.consulted.add_mask_but(&asked, &self.settled);
            self.may_do(clauses);
            return entry;
        }
        let (entry, clauses) = self.pipeline.tables.look_up(table, &self.key, &mut asked);
        self.consulted.add_mask_but(&asked, &self.settled);
        self.may_do(clauses);
        entry
    }

    /// In the order of section 5.9, whatever order they stand in. Answers in which table the packet goes on.
    fn instructions(&mut self, instructions: &[Instruction]) -> Option<u8> {
        let rank = |instruction: &Instruction| match instruction {
            Instruction::Meter(_) => 0,
            Instruction::ApplyActions(_) => 1,
            Instruction::ClearActions => 2,
            Instruction::WriteActions(_) => 3,
            Instruction::WriteMetadata(_) => 4,
            Instruction::GotoTable(_) => 5,
        };
        let mut ordered: SmallVec<[&Instruction; 6]> = instructions.iter().collect();
        ordered.sort_by_key(|instruction| rank(instruction));
        for (index, instruction) in ordered.iter().enumerate() {
            if self.is_over || self.is_expired {
                return None;
            }
            if let Some(left) = &mut self.frozen {
                let rest = ordered[index..].iter().map(|instruction| (*instruction).clone()).collect();
                left.push(Pending::Instructions(rest, self.table, self.cookie));
                return None;
            }
            if let Instruction::GotoTable(goto) = instruction {
                return Some(goto.table);
            }
            self.instruction(instruction);
        }
        None
    }

    fn instruction(&mut self, instruction: &Instruction) {
        match instruction {
            Instruction::Meter(meter) => self.meter(*meter),
            Instruction::ApplyActions(list) => self.actions(&list.actions),
            Instruction::ClearActions => self.written.clear(),
            Instruction::WriteActions(list) => {
                list.actions.iter().for_each(|action| self.write_action(action))
            }
            Instruction::WriteMetadata(write) => {
                self.set(Field::METADATA, write.value.into(), write.mask.into());
            }
            // It comes last, and is answered.
            Instruction::GotoTable(_) => {}
        }
    }

    fn notice(&mut self, controller: u16, reason: PacketInReason) -> Notice {
        // What is told of the packet besides itself is the same for all packets that are decided about like this.
        for word in Stage::Metadata.start()..Stage::Metadata.end() {
            self.consulted.add_word(word, !self.settled.word(word));
        }
        let mut known = Match::ANY;
        for (field, value) in self.key.fields().filter(|(field, _)| field.stage() == Stage::Metadata) {
            if field != Field::RECIRCULATION {
                known = known.with(field, value);
            }
        }
        Notice { controller, reason, table: self.table, cookie: self.cookie, known, user_data: Vec::new() }
    }

    fn in_port(&self) -> PortNumber {
        PortNumber(crate::pipeline::in_port(&self.key))
    }
}

/// Whether a flow is the one for packets that no other is for (section 5.4).
fn is_miss(entry: &Entry) -> bool {
    entry.priority() == 0 && entry.mask().whole().is_empty()
}

/// A value as a number that is wide enough for it.
fn number<T: TryFrom<u128> + Default>(value: u128) -> T {
    T::try_from(value).unwrap_or_default()
}

fn ethernet_type(key: &FlowKey) -> u16 {
    number(key.get(Field::ETH_TYPE))
}

/// By its type, whether or not its header can be read.
fn is_ip(key: &FlowKey) -> bool {
    matches!(ethernet_type(key), ethernet::IPV4 | ethernet::IPV6)
}

/// A list of steps that others have.
fn shared(steps: SmallVec<[Step; 2]>) -> Arc<[Step]> {
    steps.into_vec().into()
}
