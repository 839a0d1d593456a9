//! Flow tables: which flow a packet meets, and how the flows change (sections 5 and 6.4 of the OpenFlow specification).

use crate::flow::{Flow, History};
use crate::flows::Flows;
use crate::traffic::{Counters, Traffic};
use fulmar_classifier::{Masks, Optimisations, Rule};
use fulmar_node::Time;
use fulmar_openflow::error::FlowModFailed;
use fulmar_openflow::flow::{FlowCommand, FlowFlags, FlowMod, FlowRemovedReason};
use fulmar_openflow::{ALL_TABLES, ErrorCode, GroupNumber, Instructions, PortNumber};
use fulmar_packet::{FlowKey, FlowMask, Match};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The number of tables: all numbers but [`ALL_TABLES`].
pub(crate) const TABLES: u8 = 255;
/// So many flows there may be in all tables.
const MAX_FLOWS: usize = 2_000_000;
/// So many bytes of instructions they may have in all, as they are sent. In memory that may be six times as much.
const MAX_BYTES: usize = 256 << 20;

/// A flow in its table.
pub(crate) type Entry = Arc<Rule<Flow>>;

/// One table.
struct Table {
    flows: RwLock<Flows>,
    lookups: Counters,
    matched: Counters,
}

/// All tables. Each can change by itself; that several do at once is seen to by who holds them.
pub(crate) struct Tables {
    tables: Box<[Table]>,
    masks: Mutex<Masks>,
    /// How many flows there are in all.
    flows: AtomicUsize,
    /// How long their instructions are together.
    bytes: AtomicUsize,
}

/// A change that has been made: what was there before, and what is there now.
pub(crate) struct Change {
    pub(crate) before: Option<Entry>,
    pub(crate) after: Option<Entry>,
    pub(crate) how: How,
}

/// How a flow changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// It comes, perhaps in the place of another.
    Added,
    /// It stays, and does something else.
    Modified,
    Removed(FlowRemovedReason),
}

/// Which flows are meant.
pub(crate) struct Filter<'a> {
    pub(crate) table: u8,
    pub(crate) asked: &'a Match,
    /// Only of this priority and exactly this match.
    pub(crate) strict: Option<u16>,
    pub(crate) cookie: u64,
    pub(crate) cookie_mask: u64,
    pub(crate) out_port: PortNumber,
    pub(crate) out_group: GroupNumber,
}

impl Filter<'static> {
    /// All flows.
    pub(crate) const ALL: Self = Self {
        table: ALL_TABLES,
        asked: &Match::ANY,
        strict: None,
        cookie: 0,
        cookie_mask: 0,
        out_port: PortNumber::ANY,
        out_group: GroupNumber::ANY,
    };
}

impl<'a> Filter<'a> {
    fn of(flow_mod: &'a FlowMod) -> Self {
        use FlowCommand::{Delete, DeleteStrict, ModifyOrAddStrict, ModifyStrict};
        let deletes = matches!(flow_mod.command, Delete | DeleteStrict);
        let is_strict = matches!(flow_mod.command, ModifyStrict | ModifyOrAddStrict | DeleteStrict);
        Self {
            table: flow_mod.table,
            asked: &flow_mod.asked,
            strict: is_strict.then_some(flow_mod.priority),
            cookie: flow_mod.cookie,
            cookie_mask: flow_mod.cookie_mask,
            out_port: if deletes { flow_mod.out_port } else { PortNumber::ANY },
            out_group: if deletes { flow_mod.out_group } else { GroupNumber::ANY },
        }
    }

    fn means(&self, rule: &Rule<Flow>) -> bool {
        let flow = rule.value();
        (flow.cookie ^ self.cookie) & self.cookie_mask == 0
            && self.strict.is_none_or(|priority| rule.priority() == priority)
            && flow.sends_to(self.out_port)
            && flow.uses(self.out_group)
            && rule.condition().is_within(self.asked)
    }
}

impl Tables {
    pub(crate) fn new(optimisations: Optimisations, seed: u64) -> Self {
        let table = |_| Table {
            flows: RwLock::new(Flows::new(optimisations, seed)),
            lookups: Counters::default(),
            matched: Counters::default(),
        };
        Self {
            tables: (0..TABLES).map(table).collect(),
            masks: Mutex::default(),
            flows: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    fn table(&self, number: u8) -> Option<&Table> {
        self.tables.get(usize::from(number))
    }

    /// The flow that a packet meets; the bits that this depends on, and how many clauses of conjunctions were looked at.
    pub(crate) fn look_up(&self, table: u8, key: &FlowKey, consulted: &mut FlowMask) -> (Option<Entry>, u32) {
        let Some(table) = self.table(table) else { return (None, 0) };
        let flows = table.flows.read();
        let (found, clauses) = flows.find_consulting(key, consulted);
        (found.cloned(), clauses)
    }

    /// So many packets were looked up, and met a flow or did not.
    pub(crate) fn credit(&self, table: u8, has_matched: bool, traffic: Traffic) {
        if let Some(table) = self.table(table) {
            table.lookups.add(traffic);
            if has_matched {
                table.matched.add(traffic);
            }
        }
    }

    /// How many flows a table has, how many packets were looked up in it, and how many of them met a flow.
    pub(crate) fn stats(&self, table: u8) -> (usize, u64, u64) {
        self.table(table).map_or((0, 0, 0), |table| {
            (table.flows.read().len(), table.lookups.get().packets, table.matched.get().packets)
        })
    }

    /// How many flows there are.
    pub(crate) fn len(&self) -> usize {
        self.flows.load(Relaxed)
    }

    /// The flows that are meant, in no order that means anything.
    pub(crate) fn select(&self, filter: &Filter<'_>) -> Vec<Entry> {
        let tables = (0..TABLES).filter(|number| filter.table == ALL_TABLES || filter.table == *number);
        if let Some(priority) = filter.strict {
            let same = tables.filter_map(|table| self.same(table, filter.asked, priority));
            return same.filter(|rule| filter.means(rule)).collect();
        }
        let meant = |table: &Table| -> Vec<Entry> {
            table.flows.read().iter().filter(|rule| filter.means(rule)).cloned().collect()
        };
        tables.filter_map(|number| self.table(number)).flat_map(meant).collect()
    }

    /// The flow of exactly this match and priority.
    fn same(&self, table: u8, asked: &Match, priority: u16) -> Option<Entry> {
        let flows = self.table(table)?.flows.read();
        let mask = self.masks.lock().get(asked.mask());
        flows.get(&Rule::new(mask, asked.key(), priority, ())).cloned()
    }

    /// How many flows are looked at to find those that a change means.
    pub(crate) fn looked_at_by(&self, flow_mod: &FlowMod) -> usize {
        let all = if flow_mod.table == ALL_TABLES { self.len() } else { self.stats(flow_mod.table).0 };
        match flow_mod.command {
            FlowCommand::Add if flow_mod.flags.contains(FlowFlags::CHECK_OVERLAP) => all,
            FlowCommand::Modify | FlowCommand::ModifyOrAdd | FlowCommand::Delete => all,
            _ => 1,
        }
    }

    /// Carries out a change, and tells what has become of which flows.
    ///
    /// # Errors
    /// That there is no such table, or no room, or an overlap that was not to be; then nothing has changed.
    pub(crate) fn change(&self, flow_mod: &FlowMod, now: Time) -> Result<Vec<Change>, ErrorCode> {
        match flow_mod.command {
            FlowCommand::Add if flow_mod.table == ALL_TABLES => Err(FlowModFailed::BadTable.into()),
            FlowCommand::Add => self.add(flow_mod, now).map(|change| vec![change]),
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                self.modify(self.select(&Filter::of(flow_mod)), flow_mod, now)
            }
            FlowCommand::ModifyOrAdd | FlowCommand::ModifyOrAddStrict => {
                let meant = self.select(&Filter::of(flow_mod));
                if meant.is_empty() {
                    // Without a table it is for the first.
                    let table = if flow_mod.table == ALL_TABLES { 0 } else { flow_mod.table };
                    return self.add(&FlowMod { table, ..flow_mod.clone() }, now).map(|change| vec![change]);
                }
                self.modify(meant, flow_mod, now)
            }
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                let meant = self.select(&Filter::of(flow_mod));
                Ok(meant
                    .into_iter()
                    .filter_map(|rule| self.remove(&rule, FlowRemovedReason::Delete))
                    .collect())
            }
        }
    }

    fn add(&self, flow_mod: &FlowMod, now: Time) -> Result<Change, ErrorCode> {
        let before = self.same(flow_mod.table, &flow_mod.asked, flow_mod.priority);
        if flow_mod.flags.contains(FlowFlags::CHECK_OVERLAP) && self.overlaps(flow_mod) {
            return Err(FlowModFailed::Overlap.into());
        }
        if before.is_none() && self.len() >= MAX_FLOWS {
            return Err(FlowModFailed::TableFull.into());
        }
        let goes_on = before.as_ref().filter(|_| !flow_mod.flags.contains(FlowFlags::RESET_COUNTS));
        let counters = goes_on.map(|before| before.value().history.counters()).unwrap_or_default();
        let flow = Flow::new(flow_mod, Arc::new(History::new(flow_mod, now, counters)));
        self.require_room(before.as_slice(), flow.length)?;
        Ok(self.put(flow, &flow_mod.asked, flow_mod.priority, How::Added))
    }

    /// If a flow that is to be learned is there already, it stays as if it had been learned now.
    pub(crate) fn renew(&self, flow_mod: &FlowMod, now: Time) -> bool {
        let Some(there) = self.same(flow_mod.table, &flow_mod.asked, flow_mod.priority) else { return false };
        let flow = there.value();
        let is_same = *flow.instructions == flow_mod.instructions
            && flow.cookie == flow_mod.cookie
            && flow.flags == flow_mod.flags
            && flow.given_timeouts == (flow_mod.idle_timeout, flow_mod.hard_timeout);
        if is_same {
            flow.history.touch(now);
        }
        is_same
    }

    /// Whether there is a flow of the same match and priority.
    pub(crate) fn has(&self, flow_mod: &FlowMod) -> bool {
        self.same(flow_mod.table, &flow_mod.asked, flow_mod.priority).is_some()
    }

    fn overlaps(&self, flow_mod: &FlowMod) -> bool {
        let Some(table) = self.table(flow_mod.table) else { return false };
        let flows = table.flows.read();
        flows
            .iter()
            .any(|rule| rule.priority() == flow_mod.priority && rule.condition().overlaps(&flow_mod.asked))
    }

    /// Requires that there is room for so many more bytes of instructions, once these flows have none.
    fn require_room(&self, instead_of: &[Entry], bytes: usize) -> Result<(), ErrorCode> {
        let freed: usize = instead_of.iter().map(|rule| rule.value().length).sum();
        let has_room = bytes <= freed || self.bytes.load(Relaxed) + bytes <= MAX_BYTES + freed;
        has_room.then_some(()).ok_or_else(|| FlowModFailed::TableFull.into())
    }

    fn modify(&self, meant: Vec<Entry>, flow_mod: &FlowMod, now: Time) -> Result<Vec<Change>, ErrorCode> {
        // They share what they do; each counts, as it may be all that is left of them.
        let (instructions, length) =
            (Arc::new(flow_mod.instructions.clone()), flow_mod.instructions.length());
        self.require_room(&meant, length * meant.len())?;
        Ok(meant
            .into_iter()
            .map(|rule| self.modify_one(rule, flow_mod, (&instructions, length), now))
            .collect())
    }

    fn modify_one(
        &self,
        before: Entry,
        flow_mod: &FlowMod,
        (instructions, length): (&Arc<Instructions>, usize),
        now: Time,
    ) -> Change {
        let mut flow = before.value().clone();
        (flow.instructions, flow.length) = (instructions.clone(), length);
        if matches!(flow_mod.command, FlowCommand::ModifyOrAdd | FlowCommand::ModifyOrAddStrict) {
            flow.cookie = flow_mod.cookie;
        }
        if flow_mod.flags.contains(FlowFlags::RESET_COUNTS) {
            flow.history = Arc::new(flow.history.without_counts());
        }
        flow.history.touch(now);
        self.put(flow, &before.condition(), before.priority(), How::Modified)
    }

    fn put(&self, flow: Flow, asked: &Match, priority: u16, how: How) -> Change {
        let mask = self.masks.lock().get(asked.mask());
        let number = flow.table;
        let rule = Arc::new(Rule::new(mask, asked.key(), priority, flow));
        let before = self.table(number).and_then(|table| table.flows.write().insert(rule.clone()));
        self.count(before.as_ref(), Some(&rule));
        Change { before, after: Some(rule), how }
    }

    /// One flow has gone, and another has come.
    fn count(&self, gone: Option<&Entry>, come: Option<&Entry>) {
        let count = |sum: &AtomicUsize, of: fn(&Entry) -> usize| {
            sum.fetch_add(come.map_or(0, of), Relaxed);
            sum.fetch_sub(gone.map_or(0, of), Relaxed);
        };
        count(&self.flows, |_| 1);
        count(&self.bytes, |rule| rule.value().length);
    }

    /// Removes a flow, unless another has its place by now.
    pub(crate) fn remove(&self, rule: &Entry, reason: FlowRemovedReason) -> Option<Change> {
        let mut flows = self.table(rule.value().table)?.flows.write();
        let is_there = flows.get(rule).is_some_and(|there| Arc::ptr_eq(there, rule));
        let before = if is_there { flows.remove(rule) } else { None };
        drop(flows);
        self.count(before.as_ref(), None);
        before.map(|before| Change { before: Some(before), after: None, how: How::Removed(reason) })
    }

    /// Undoes a change that nothing came after.
    pub(crate) fn undo(&self, change: Change) {
        let rule = change.before.as_ref().or(change.after.as_ref());
        let Some(table) = rule.and_then(|rule| self.table(rule.value().table)) else { return };
        let mut flows = table.flows.write();
        match (change.before, change.after) {
            (Some(before), _) => self.count(flows.insert(before.clone()).as_ref(), Some(&before)),
            (None, Some(after)) => self.count(flows.remove(&after).as_ref(), None),
            (None, None) => {}
        }
    }

    /// The flows whose time is over.
    pub(crate) fn over(&self, now: Time) -> Vec<(Entry, FlowRemovedReason)> {
        let over = |table: &Table| -> Vec<_> {
            let flows = table.flows.read();
            let over = flows.iter().filter_map(|rule| Some((rule.clone(), rule.value().is_over(now)?)));
            over.collect()
        };
        self.tables.iter().flat_map(over).collect()
    }

    /// Forgets what no flow needs any more.
    pub(crate) fn tidy(&self) {
        self.masks.lock().forget_unused();
    }
}
