//! D_φ: one agreement, of at most φ + 1 rounds (section 2).

use crate::closing::{decay, is_echoed, is_strongly_echoed};
use crate::detection::{Duty, duties, mask_neglected, neglectful, suspects};
use crate::resolve::{Pass, climb, special_bot};
use crate::tree::Node;
use crate::votes::elected;
use crate::{Claims, Processes, Sequence, Value};

/// A rule that is broken on purpose, for tests of checks.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Defect {
    /// Nodes below a resolved one keep what they had.
    NoColouring,
    /// n − t − 1 are enough where n − t must be.
    FewerVoters,
    /// The SPECIAL-BOT RULE is left out.
    NoSpecialBot,
    /// One child may differ in the EARLY-IT-TO-RT RULE, as printed.
    PrintedEarly,
    /// The SPECIAL-BOT RULE is applied at once, as printed.
    PrintedSpecialBot,
    /// However few children agree in the STRONG-IT-TO-RT RULE, as printed.
    PrintedStrong,
    /// A correct process before w is not counted by *Not Voter*, as printed.
    PrintedNotVoter,
    /// No one supports w among the voters of IT, as printed.
    PrintedVoter,
    /// w is not among the RT-confirmed, as printed.
    PrintedResolve,
}

/// What all parts of one process of D_φ know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) n: usize,
    pub(crate) t: usize,
    pub(crate) phi: usize,
    pub(crate) me: u8,
    pub(crate) defect: Option<Defect>,
}

impl Shape {
    /// n − t.
    pub(crate) fn quorum(&self) -> usize {
        self.n - self.t - usize::from(self.defect == Some(Defect::FewerVoters))
    }
}

/// By which rule a node was put into RT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// IT-TO-RT RULE.
    ItToRt,
    /// ROUND φ + 1 RULE, which does not put into PT.
    LastRound,
    /// RESOLVE RULE.
    Resolve,
    /// RELAXED RULE.
    Relaxed,
    /// SPECIAL-BOT RULE.
    SpecialBot,
    /// SPECIAL-ROOT-BOT RULE.
    SpecialRootBot,
    /// EARLY-IT-TO-RT RULE.
    Early,
    /// STRONG-IT-TO-RT RULE.
    Strong,
}

/// What was put into RT: an entry of PT (section 3), where nothing is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Put<V> {
    /// σ.
    pub sequence: Sequence,
    /// PT(σ); `None` is ⊥.
    pub value: Option<V>,
    /// By which rule.
    pub rule: Rule,
    /// If that is the RESOLVE RULE, the RT-confirmed v of which the voters say that they are; else nobody.
    pub confirmed: Processes,
}

impl<V> Put<V> {
    /// By a rule that confirms nobody.
    pub(crate) fn new(sequence: Sequence, value: Option<V>, rule: Rule) -> Self {
        Self { sequence, value, rule, confirmed: Processes::default() }
    }
}

/// One process of D_φ.
#[derive(Clone, Debug)]
pub(crate) struct Dphi<V> {
    shape: Shape,
    root: Node<V>,
    /// Rounds that are over.
    round: usize,
    duties: Vec<Duty>,
    neglected: Vec<(Sequence, Duty)>,
    /// What was put in the last round.
    puts: Vec<Put<V>>,
    output: Option<(Option<V>, usize)>,
    stopped: Option<usize>,
}

impl<V: Value> Dphi<V> {
    pub(crate) fn new(shape: Shape, input: Option<V>) -> Self {
        let root = Node::new(u8::MAX, input);
        Self {
            shape,
            root,
            round: 0,
            duties: Vec::new(),
            neglected: Vec::new(),
            puts: Vec::new(),
            output: None,
            stopped: None,
        }
    }

    /// What it says in its next round.
    pub(crate) fn send(&self) -> Claims<V> {
        let mut claims = Claims::default();
        self.root.open(Sequence::EMPTY, self.round, &mut |sequence, node| {
            if !sequence.contains(self.shape.me) {
                claims.push(sequence, node.value);
            }
        });
        claims
    }

    /// Receive rule: takes in what was said in its next round, by process. Silence repeats what was last heard, as a correct process
    /// is silent of what it has closed.
    pub(crate) fn receive(&mut self, said: &[Option<&Claims<V>>]) {
        decay(&mut self.root);
        let (shape, mut at) = (&self.shape, vec![0; self.shape.n]);
        self.root.unresolved(Sequence::EMPTY, self.round, &mut |sequence, node| {
            let senders = Processes::first(shape.n).iter().filter(|&process| !sequence.contains(process));
            let children = senders.map(|process| {
                let sender = usize::from(process);
                let said = said[sender].filter(|_| process != shape.me);
                let claim = said.and_then(|said| said.next(&mut at[sender], &sequence));
                Node::new(process, claim.unwrap_or(node.value))
            });
            node.children = children.collect();
        });
        self.round += 1;
        self.neglected.clear();
    }

    /// Masks what `faulty` processes said in this round, and finds others to be faulty.
    pub(crate) fn detect(&mut self, faulty: Processes) -> Processes {
        if self.is_stopped() {
            return Processes::default();
        }
        self.root.unresolved(Sequence::EMPTY, self.round - 1, &mut |_, node| {
            for child in node.children.iter_mut().filter(|child| faulty.contains(child.process)) {
                child.value = None;
            }
        });
        let neglected = mask_neglected(&mut self.root, self.round, &self.duties);
        self.neglected.extend(neglected);
        suspects(&mut self.root, self.round, &self.shape).without(faulty)
    }

    /// Resolves what can be resolved and closes what can be closed, and ends the round; returns who turns out to be faulty by that.
    pub(crate) fn resolve(&mut self, faulty: Processes) -> Processes {
        self.puts.clear();
        if self.is_stopped() {
            return Processes::default();
        }
        self.duties = duties(&mut self.root, self.round, &self.shape);
        if self.round <= self.shape.phi {
            self.close(faulty);
        }
        self.elect();
        if self.round == self.shape.phi + 1 {
            self.end();
        }
        // SPECIAL-BOT only when no other rule applies any more: it may be wrong of a node that another would resolve.
        for special in [false, true] {
            let pass = Pass { round: self.round, special };
            climb(&mut self.root, Sequence::EMPTY, pass, &self.shape, &mut self.puts);
        }
        let found = neglectful(&self.root, &self.neglected);
        self.root.prune();
        self.conclude();
        found
    }

    /// EARLY-IT-TO-RT and STRONG-IT-TO-RT.
    fn close(&mut self, faulty: Processes) {
        let (shape, puts) = (&self.shape, &mut self.puts);
        let mut close = |sequence: Sequence, node: &mut Node<V>, rule| {
            node.resolved = Some(node.value);
            node.closed = true;
            puts.push(Put::new(sequence, node.value, rule));
        };
        if let Some(depth) = self.round.checked_sub(2) {
            self.root.unresolved(Sequence::EMPTY, depth, &mut |sequence, node| {
                if is_strongly_echoed(node, faulty, sequence.is_empty(), shape) {
                    close(sequence, node, Rule::Strong);
                }
            });
        }
        self.root.unresolved(Sequence::EMPTY, self.round - 1, &mut |sequence, node| {
            if is_echoed(node, faulty, shape) {
                close(sequence, node, Rule::Early);
            }
        });
    }

    /// IT-TO-RT.
    fn elect(&mut self) {
        let (shape, puts) = (&self.shape, &mut self.puts);
        let Some(depth) = self.round.checked_sub(2) else { return };
        self.root.unresolved(Sequence::EMPTY, depth, &mut |sequence, node| {
            if let Some(value) = elected(node, sequence.is_empty(), shape) {
                node.resolved = Some(value);
                puts.push(Put::new(sequence, value, Rule::ItToRt));
            }
        });
    }

    /// ROUND φ + 1.
    fn end(&mut self) {
        let puts = &mut self.puts;
        self.root.unresolved(Sequence::EMPTY, self.round, &mut |sequence, node| {
            node.resolved = Some(node.value);
            puts.push(Put::new(sequence, node.value, Rule::LastRound));
        });
    }

    /// Finalized output and stopping rule.
    fn conclude(&mut self) {
        if self.output.is_none() {
            let early = self.root.resolved.map(|value| (value, self.round));
            self.output = early.or_else(|| self.root.has_frontier().then_some((None, self.round)));
        }
        if self.stopped.is_none() && (self.root.is_closed() || self.round == self.shape.phi + 1) {
            self.stopped = Some(self.round);
        }
    }

    /// What it began with.
    pub(crate) const fn input(&self) -> Option<V> {
        self.root.value
    }

    /// What it put out, and in which of its rounds.
    pub(crate) const fn output(&self) -> Option<(Option<V>, usize)> {
        self.output
    }

    /// In which of its rounds it stopped.
    pub(crate) const fn stopped(&self) -> Option<usize> {
        self.stopped
    }

    pub(crate) const fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// What was put into RT in the last round.
    pub(crate) fn puts(&self) -> &[Put<V>] {
        &self.puts
    }

    /// RT(σ).
    pub(crate) fn resolved(&self, sequence: &Sequence) -> Option<Option<V>> {
        self.root.resolved(sequence.members())
    }

    /// All σ of a level that are in IT and not in RT.
    pub(crate) fn unresolved(&self, level: usize) -> Vec<Sequence> {
        let mut found = Vec::new();
        self.root.open(Sequence::EMPTY, level, &mut |sequence, _| {
            if self.resolved(&sequence).is_none() {
                found.push(sequence);
            }
        });
        found
    }

    /// To which node SPECIAL-BOT still applies: there is none after a round.
    pub(crate) fn special_bot(&self) -> Option<Sequence> {
        let mut found = None;
        for level in 1..self.round {
            self.root.open(Sequence::EMPTY, level, &mut |sequence, node| {
                if self.resolved(&sequence).is_some() {
                    return;
                }
                if let Some(last) = special_bot(node, level, self.round, &self.shape) {
                    found = Some(sequence.then(node.children[last].process));
                }
            });
        }
        found
    }

    /// How many nodes it holds.
    pub(crate) fn size(&self) -> usize {
        self.root.size()
    }
}
