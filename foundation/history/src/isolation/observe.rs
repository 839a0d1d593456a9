//! From a history to its dependencies, and the phenomena that need no cycle.

use super::{Edge, Object, Operation, Order, Outcome, Phenomenon, Reason, Transaction, Value, Violation};
use std::collections::BTreeMap;

/// A value and who wrote it.
struct Write {
    writer: usize,
    /// The last that its transaction wrote to the object.
    is_final: bool,
    /// Where it stands among the versions of the object, once that is known.
    position: Option<usize>,
}

/// What a transaction saw of an object that was not its own doing. Of a list, the last element.
struct Read {
    reader: usize,
    object: Object,
    seen: Option<Value>,
}

struct Observer<'a> {
    history: &'a [Transaction],
    writes: BTreeMap<(Object, Value), Write>,
    reads: Vec<Read>,
    /// The longest reads of lists.
    longest: BTreeMap<Object, (usize, &'a [Value])>,
    /// Who committed, as far as is known.
    counts: Vec<bool>,
    /// Who counts and has not been looked at.
    waiting: Vec<usize>,
    violations: Vec<Violation>,
}

/// Phenomena, and the dependencies of each transaction that counts, on those that come after it.
pub(super) fn observe(history: &[Transaction]) -> (Vec<Violation>, Vec<Vec<Edge>>) {
    let committed = |transaction: &Transaction| transaction.outcome == Outcome::Committed;
    let mut observer = Observer {
        history,
        writes: BTreeMap::new(),
        reads: Vec::new(),
        longest: BTreeMap::new(),
        counts: history.iter().map(committed).collect(),
        waiting: (0..history.len()).rev().filter(|&index| committed(&history[index])).collect(),
        violations: Vec::new(),
    };
    observer.note_writes();
    while let Some(transaction) = observer.waiting.pop() {
        observer.note_reads(transaction);
    }
    let versions = observer.order_versions();
    observer.find_lost_updates();
    let dependencies = observer.dependencies(&versions);
    (observer.violations, dependencies)
}

impl<'a> Observer<'a> {
    fn report(&mut self, phenomenon: Phenomenon, mut transactions: Vec<usize>, explanation: String) {
        transactions.dedup();
        let explanation = format!("  {explanation}\n");
        self.violations.push(Violation { phenomenon, order: Order::Any, transactions, explanation });
    }

    fn note_writes(&mut self) {
        for (writer, transaction) in self.history.iter().enumerate() {
            let mut last = BTreeMap::new();
            for operation in &transaction.operations {
                let (object, value) = match *operation {
                    Operation::Append(key, element) => (Object::List(key), element),
                    Operation::Write(key, value) => (Object::Register(key), value),
                    _ => continue,
                };
                if let Some(before) = last.insert(object, value)
                    && let Some(write) = self.writes.get_mut(&(object, before))
                {
                    write.is_final = false;
                }
                let write = Write { writer, is_final: true, position: None };
                if let Some(other) = self.writes.insert((object, value), write) {
                    let text = format!("T{} and T{writer} both wrote {value} to {object}", other.writer);
                    self.report(Phenomenon::DuplicateWrite, vec![other.writer, writer], text);
                }
            }
        }
    }

    /// Separates what a transaction saw of others from what it did itself, and compares.
    fn note_reads(&mut self, reader: usize) {
        let mut own: BTreeMap<Object, Vec<Value>> = BTreeMap::new();
        let mut lists: BTreeMap<Object, &'a [Value]> = BTreeMap::new();
        let mut registers: BTreeMap<Object, Option<Value>> = BTreeMap::new();
        for operation in &self.history[reader].operations {
            match operation {
                Operation::Append(key, element) => {
                    let object = Object::List(*key);
                    let was_seen = lists.get(&object).is_some_and(|seen| seen.contains(element));
                    self.note_own(reader, object, *element, was_seen);
                    own.entry(object).or_default().push(*element);
                }
                Operation::Write(key, value) => {
                    let object = Object::Register(*key);
                    let was_seen = registers.get(&object) == Some(&Some(*value));
                    self.note_own(reader, object, *value, was_seen);
                    own.entry(object).or_default().push(*value);
                }
                Operation::ReadList(key, elements) => {
                    let object = Object::List(*key);
                    let own = own.get(&object).map_or(&[][..], Vec::as_slice);
                    let Some(others) = elements.strip_suffix(own) else {
                        let text =
                            format!("T{reader} appended {own:?} to {object}, and then read {elements:?}");
                        self.report(Phenomenon::Internal, vec![reader], text);
                        continue;
                    };
                    match lists.insert(object, others) {
                        None => self.note_list(reader, object, others),
                        Some(before) if before != others => {
                            let text = format!(
                                "T{reader} read of others in {object} {before:?}, and then {others:?}"
                            );
                            self.report(Phenomenon::Internal, vec![reader], text);
                        }
                        Some(_) => {}
                    }
                }
                Operation::Read(key, value) => {
                    let object = Object::Register(*key);
                    let known = own.get(&object).map(|own| own.last().copied());
                    match known.or_else(|| registers.get(&object).copied()) {
                        None => {
                            registers.insert(object, *value);
                            self.note_read(reader, object, *value);
                        }
                        Some(known) if known != *value => {
                            let (known, value) = (text(known), text(*value));
                            let text = format!("T{reader} had {known} in {object}, and then read {value}");
                            self.report(Phenomenon::Internal, vec![reader], text);
                        }
                        Some(_) => {}
                    }
                }
            }
        }
    }

    fn note_own(&mut self, writer: usize, object: Object, value: Value, was_seen: bool) {
        if was_seen {
            let text = format!("T{writer} read {value} in {object} before it wrote it itself");
            self.report(Phenomenon::Internal, vec![writer], text);
        }
    }

    /// Of lists that continue each other the longest says all.
    fn note_list(&mut self, reader: usize, object: Object, elements: &'a [Value]) {
        let (other, known) = self.longest.get(&object).copied().unwrap_or((reader, &[]));
        if let Some(new) = elements.strip_prefix(known) {
            for (offset, &element) in new.iter().enumerate() {
                let position = known.len() + offset;
                if let Some(write) = self.writes.get_mut(&(object, element))
                    && write.position.replace(position).is_some()
                {
                    let text = format!("T{reader} read {element} twice in {object}");
                    self.report(Phenomenon::DuplicateElement, vec![reader], text);
                }
                if position + 1 < elements.len() {
                    self.note_writer(reader, object, element);
                }
            }
            self.longest.insert(object, (reader, elements));
        } else if !known.starts_with(elements) {
            let common = known.iter().zip(elements).take_while(|(left, right)| left == right).count();
            let (left, right) = (known.get(common).copied(), elements.get(common).copied());
            let text = format!(
                "T{other} and T{reader} read {object} with the same {common} elements, and then {} and {}",
                text(left),
                text(right)
            );
            self.report(Phenomenon::IncompatibleOrder, vec![other, reader], text);
        }
        self.note_read(reader, object, elements.last().copied());
    }

    fn note_read(&mut self, reader: usize, object: Object, seen: Option<Value>) {
        self.reads.push(Read { reader, object, seen });
        let Some(value) = seen else { return };
        self.note_writer(reader, object, value);
        if let Some(&Write { writer, is_final: false, .. }) = self.writes.get(&(object, value)) {
            let text = format!("T{reader} read {value} in {object}, which T{writer} went on to change");
            self.report(Phenomenon::G1b, vec![writer, reader], text);
        }
    }

    /// Who was seen has committed.
    fn note_writer(&mut self, reader: usize, object: Object, value: Value) {
        let Some(&Write { writer, .. }) = self.writes.get(&(object, value)) else {
            let text = format!("T{reader} read {value} in {object}, which nobody wrote");
            return self.report(Phenomenon::GarbageRead, vec![reader], text);
        };
        match self.history[writer].outcome {
            Outcome::Aborted => {
                let text = format!("T{reader} read {value} in {object}, but T{writer}, its writer, aborted");
                self.report(Phenomenon::G1a, vec![writer, reader], text);
            }
            Outcome::Unknown if !self.counts[writer] => {
                self.counts[writer] = true;
                self.waiting.push(writer);
            }
            _ => {}
        }
    }

    /// The versions of each object that are known, in their order: first what lists show, then what commit timestamps
    /// say. Versions between them may be missing; that hides phenomena but invents none, because ww is transitive.
    fn order_versions(&mut self) -> BTreeMap<Object, Vec<(Value, usize)>> {
        let mut versions: BTreeMap<Object, Vec<_>> = BTreeMap::new();
        for (&(object, value), write) in &self.writes {
            let commit = self.history[write.writer].commit;
            let is_version = write.is_final || matches!(object, Object::List(_));
            let is_placed = write.position.is_some() || commit.is_some();
            if self.counts[write.writer] && is_version && is_placed {
                let position = write.position.unwrap_or(usize::MAX);
                versions.entry(object).or_default().push((position, commit, value, write.writer));
            }
        }
        let mut ordered = BTreeMap::new();
        for (object, mut versions) in versions {
            // Among those of one writer that nobody saw, any order will do.
            versions.sort_unstable();
            let mut newest = None;
            for &(position, commit, value, writer) in &versions {
                let Some(commit) = commit else { continue };
                if let Some((newest_commit, newest_value, newest_writer)) = newest
                    && newest_writer != writer
                    && newest_commit >= commit
                {
                    let how = if position == usize::MAX { "was not seen with" } else { "stands behind" };
                    let text = format!(
                        "in {object} {value}, which T{writer} committed at {commit}, {how} {newest_value}, which \
                         T{newest_writer} committed at {newest_commit}"
                    );
                    self.report(Phenomenon::IncompatibleOrder, vec![newest_writer, writer], text);
                }
                newest = newest.max(Some((commit, value, writer)));
            }
            let order: Vec<_> = versions.into_iter().map(|(_, _, value, writer)| (value, writer)).collect();
            for (position, &(value, _)) in order.iter().enumerate() {
                if let Some(write) = self.writes.get_mut(&(object, value)) {
                    write.position = Some(position);
                }
            }
            ordered.insert(object, order);
        }
        ordered
    }

    /// Lost updates of which the order is not known. Where it is they are cycles.
    fn find_lost_updates(&mut self) {
        let mut replaced: BTreeMap<(Object, Option<Value>), Vec<usize>> = BTreeMap::new();
        let mut unplaced: BTreeMap<(Object, usize), bool> = BTreeMap::new();
        for (&(object, _), write) in &self.writes {
            *unplaced.entry((object, write.writer)).or_default() |=
                write.is_final && write.position.is_none();
        }
        for read in &self.reads {
            if unplaced.contains_key(&(read.object, read.reader)) {
                replaced.entry((read.object, read.seen)).or_default().push(read.reader);
            }
        }
        for ((object, seen), writers) in replaced {
            if writers.len() > 1 && writers.iter().any(|&writer| unplaced[&(object, writer)]) {
                let names: Vec<_> = writers.iter().map(|writer| format!("T{writer}")).collect();
                let text = format!("{} read {} in {object}, and wrote it", names.join(", "), text(seen));
                self.report(Phenomenon::LostUpdate, writers, text);
            }
        }
    }

    fn dependencies(&self, versions: &BTreeMap<Object, Vec<(Value, usize)>>) -> Vec<Vec<Edge>> {
        let mut edges: Vec<Vec<Edge>> = vec![Vec::new(); self.history.len()];
        let mut depend = |from: usize, to, reason| {
            if from != to {
                edges[from].push(Edge { to, reason });
            }
        };
        for (&object, versions) in versions {
            for pair in versions.windows(2) {
                let [(before, from), (after, to)] = *pair else { continue };
                depend(from, to, Reason::Ww { object, before, after });
            }
        }
        for &Read { reader, object, seen } in &self.reads {
            let next = match seen {
                None => Some(0),
                Some(value) => self.writes.get(&(object, value)).and_then(|write| {
                    if !self.counts[write.writer] {
                        return None;
                    }
                    depend(write.writer, reader, Reason::Wr { object, value });
                    Some(write.position? + 1)
                }),
            };
            let next = next.and_then(|next| versions.get(&object)?.get(next));
            if let Some(&(after, writer)) = next {
                depend(reader, writer, Reason::Rw { object, seen, after });
            }
        }
        edges
    }
}

pub(super) fn text(value: Option<Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| value.to_string())
}
