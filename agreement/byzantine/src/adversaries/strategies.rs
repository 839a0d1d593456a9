//! What is known to hurt.

use super::{About, Act, Deed, Liar, Lie, Plan, Say, Setting};
use crate::{Processes, Value};
use fulmar_node::Random;

/// A way to lie, of which chance fills in who, when and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// Some send nothing at all.
    Silence,
    /// Each crashes in a round in which only some hear it, and sends nothing later.
    Crash,
    /// Two-faced from the beginning: some hear what a process would say that began with another value.
    Equivocation,
    /// Honest up to a round, two-faced later.
    LateLies,
    /// In each round one more lies, about nodes in whose sequence all lie: the longest execution for the price (section 1).
    OneExposureARound,
    /// Two lie in a round, then one in each, then none: the generalized cross corruption (Lemma 5).
    CrossCorruption,
    /// Three or more lie in one round, then one in each (Lemma 8).
    Burst,
    /// A lie heard by as many as a threshold says, or one fewer or more: at the rules that count.
    Threshold,
    /// Lies about what correct processes said: at who is confirmed and who votes (IT-TO-RT and RESOLVE).
    FalseWitness,
    /// The default said of what one process said, by all that lie, to some: at the rules for ⊥ (SPECIAL-BOT, RELAXED).
    Default,
    /// One lies and others pass on what it said, though they should know: at detection after three rounds (Not Masking).
    NotMasking,
    /// Silent for some in one round and honest later: at what silence means (DECAY and the early rules).
    Pretence,
    /// Accusations of correct processes.
    Accusation,
    /// Lies in one of the protocols that go on at the same time, a monitor's if there is one.
    Monitors,
    /// Messages some bytes of which are changed.
    Garbling,
    /// Any deed to anybody in any round.
    Chaos,
    /// To each that lies its own strategy.
    Mixed,
}

impl Strategy {
    /// Every one.
    pub const ALL: [Self; 17] = [
        Self::Silence,
        Self::Crash,
        Self::Equivocation,
        Self::LateLies,
        Self::OneExposureARound,
        Self::CrossCorruption,
        Self::Burst,
        Self::Threshold,
        Self::FalseWitness,
        Self::Default,
        Self::NotMasking,
        Self::Pretence,
        Self::Accusation,
        Self::Monitors,
        Self::Garbling,
        Self::Chaos,
        Self::Mixed,
    ];

    /// One that chance chooses.
    pub fn any(random: &mut Random) -> Self {
        Self::ALL[random.index(Self::ALL.len())]
    }

    /// A plan of this kind, which depends on the setting and `random` alone.
    pub fn plan<V: Value>(self, setting: &Setting<V>, random: &mut Random) -> Plan<V> {
        // All that may lie mostly do.
        let count = if random.one_in(3) { random.index(setting.t + 1) } else { setting.t };
        self.plan_of(setting, count, random)
    }

    /// The same with so many that lie.
    pub fn plan_of<V: Value>(self, setting: &Setting<V>, count: usize, random: &mut Random) -> Plan<V> {
        let lying = some(Processes::first(setting.n), count, random);
        let cast = Cast { setting, lying, first: random.index(3) + 1 };
        let mut order: Vec<_> = lying.iter().collect();
        for place in (1..order.len()).rev() {
            order.swap(place, random.index(place + 1));
        }
        // In half of the plans they conspire: they choose the same victims, rounds and words.
        let conspiracy = random.one_in(2).then(|| random.fork());
        let mut liars = Vec::new();
        for (rank, &process) in order.iter().enumerate() {
            let mut chance = conspiracy.clone().unwrap_or_else(|| random.fork());
            liars.push(Liar { process, acts: self.acts(&cast, rank, &mut chance) });
        }
        liars.sort_unstable_by_key(|liar| liar.process);
        Plan { inputs: inputs(setting, lying, random), liars, seed: random.next() }
    }

    /// What the liar does that is the `rank`-th to.
    fn acts<V: Value>(self, cast: &Cast<'_, V>, rank: usize, random: &mut Random) -> Vec<Vec<Act<V>>> {
        let t = cast.setting.t;
        let first = cast.first;
        match self {
            Self::Silence => cast.always(|_| vec![act(cast.everybody(), Deed::Silent)]),
            Self::Crash => {
                let last = cast.a_round(random);
                let missed = cast.victims(random);
                cast.always(|round| match round.cmp(&last) {
                    std::cmp::Ordering::Less => Vec::new(),
                    std::cmp::Ordering::Equal => vec![act(missed, Deed::Silent)],
                    std::cmp::Ordering::Greater => vec![act(cast.everybody(), Deed::Silent)],
                })
            }
            Self::Equivocation => {
                let (victims, face) = (cast.victims(random), cast.face(random));
                cast.always(|_| vec![act(victims, face.clone())])
            }
            Self::LateLies => {
                let (since, face) = (cast.a_round(random), cast.face(random));
                let victims = cast.victims(random);
                cast.always(|round| {
                    (round >= since).then(|| act(victims, face.clone())).into_iter().collect()
                })
            }
            Self::OneExposureARound => cast.from(first + rank, About::AmongLiars, random),
            Self::CrossCorruption => cast.from(first + rank.saturating_sub(1), About::AmongLiars, random),
            Self::Burst => {
                let together = 3.min(t / 2 + 1);
                cast.from(first + rank.saturating_sub(together - 1), About::AmongLiars, random)
            }
            Self::Threshold => {
                let victims = cast.as_many_as_a_threshold(random);
                let (since, about) = (cast.a_round(random), cast.about(random));
                let lie = Deed::Lie(Lie { about, say: cast.say(random), percent: 100 });
                cast.always(|round| (round >= since).then(|| act(victims, lie.clone())).into_iter().collect())
            }
            Self::FalseWitness => {
                let about = if random.one_in(2) { About::SaidByCorrect } else { cast.about(random) };
                let victims = cast.victims(random);
                let lie = Deed::Lie(Lie { about, say: cast.say(random), percent: cast.percent(random) });
                cast.always(|_| vec![act(victims, lie.clone())])
            }
            Self::Default => {
                let say = Say::Value(cast.setting.values[0]);
                let about = if random.one_in(2) { About::AmongLiars } else { cast.about(random) };
                let victims = cast.as_many_as_a_threshold(random);
                let since = cast.a_round(random);
                let lie = Deed::Lie(Lie { about, say, percent: 100 });
                cast.always(|round| (round >= since).then(|| act(victims, lie.clone())).into_iter().collect())
            }
            Self::NotMasking => {
                let whom = cast.lying.iter().next().unwrap_or(0);
                let (victims, face) = (cast.victims(random), cast.face(random));
                if rank == 0 {
                    return cast.at(first, vec![act(victims, face)]);
                }
                let say = Say::Value(cast.value(random));
                let lie = Deed::Lie(Lie { about: About::SaidBy(whom), say, percent: 100 });
                cast.always(|round| (round > first).then(|| act(victims, lie.clone())).into_iter().collect())
            }
            Self::Pretence => {
                let victims = cast.victims(random);
                cast.at(cast.a_round(random), vec![act(victims, Deed::Silent)])
            }
            Self::Accusation => {
                let correct = cast.correct();
                let accused = some(correct, 1 + random.index(t + 1), random);
                let victims = cast.victims(random);
                cast.always(|_| vec![act(victims, Deed::Accuse(accused))])
            }
            Self::Monitors => {
                let about = About::Instance(1 + random.index(4));
                let victims = cast.victims(random);
                let lie = Deed::Lie(Lie { about, say: Say::Any, percent: cast.percent(random) });
                let since = cast.a_round(random);
                cast.always(|round| (round >= since).then(|| act(victims, lie.clone())).into_iter().collect())
            }
            Self::Garbling => {
                let victims = cast.victims(random);
                cast.always(|_| vec![act(victims, Deed::Garble)])
            }
            Self::Chaos => {
                let rounds = 0..cast.setting.rounds;
                rounds.map(|_| (0..random.below(3)).map(|_| any_act(cast, random)).collect()).collect()
            }
            Self::Mixed => {
                let others = &Self::ALL[..Self::ALL.len() - 1];
                others[random.index(others.len())].acts(cast, rank, random)
            }
        }
    }
}

/// Something to somebody.
pub(super) fn any_act<V: Value>(cast: &Cast<'_, V>, random: &mut Random) -> Act<V> {
    let targets = if random.one_in(2) { cast.victims(random) } else { cast.as_many_as_a_threshold(random) };
    let deed = match random.weighted(&[1, 3, 6, 1, 1]) {
        0 => Deed::Silent,
        1 => cast.face(random),
        2 => {
            Deed::Lie(Lie { about: cast.about(random), say: cast.say(random), percent: cast.percent(random) })
        }
        3 => Deed::Accuse(some(cast.everybody(), 1 + random.index(3), random)),
        _ => Deed::Garble,
    };
    act(targets, deed)
}

const fn act<V>(targets: Processes, deed: Deed<V>) -> Act<V> {
    Act { targets, deed }
}

/// Who plays, and what chance may choose for them.
pub(super) struct Cast<'a, V> {
    pub(super) setting: &'a Setting<V>,
    pub(super) lying: Processes,
    /// The round in which those begin that do so together.
    pub(super) first: usize,
}

impl<V: Value> Cast<'_, V> {
    fn everybody(&self) -> Processes {
        Processes::first(self.setting.n)
    }

    fn correct(&self) -> Processes {
        self.everybody().without(self.lying)
    }

    fn always(&self, acts: impl FnMut(usize) -> Vec<Act<V>>) -> Vec<Vec<Act<V>>> {
        (1..=self.setting.rounds).map(acts).collect()
    }

    fn at(&self, round: usize, acts: Vec<Act<V>>) -> Vec<Vec<Act<V>>> {
        let mut acts = Some(acts);
        self.always(|r| (r == round).then(|| acts.take()).flatten().unwrap_or_default())
    }

    /// Honest before `round`, a lie in it and in those behind it.
    fn from(&self, round: usize, about: About, random: &mut Random) -> Vec<Vec<Act<V>>> {
        let victims =
            if random.one_in(2) { self.victims(random) } else { self.as_many_as_a_threshold(random) };
        let lie = Deed::Lie(Lie { about, say: self.say(random), percent: 100 });
        let (others, other_lie) =
            (self.victims(random), Deed::Lie(Lie { about, say: self.say(random), percent: 100 }));
        let is_twofold = random.one_in(2);
        self.always(|r| {
            let mut acts = Vec::new();
            if r >= round {
                acts.push(act(victims, lie.clone()));
                if is_twofold {
                    acts.push(act(others, other_lie.clone()));
                }
            }
            acts
        })
    }

    pub(super) fn a_round(&self, random: &mut Random) -> usize {
        random.index(self.setting.rounds) + 1
    }

    /// Each correct one is with one chance in two.
    pub(super) fn victims(&self, random: &mut Random) -> Processes {
        self.everybody().iter().filter(|_| random.one_in(2)).collect()
    }

    /// So many correct ones that a rule just does or does not see enough of them.
    pub(super) fn as_many_as_a_threshold(&self, random: &mut Random) -> Processes {
        let Setting { n, t, .. } = *self.setting;
        let correct = self.correct();
        let thresholds = [1, 2, t, t + 1, n - 2 * t, n - t - self.lying.len(), n - t, correct.len()];
        let count = thresholds[random.index(thresholds.len())] + random.index(3);
        some(correct, count.saturating_sub(1), random)
    }

    fn face(&self, random: &mut Random) -> Deed<V> {
        Deed::Face(self.value(random))
    }

    fn value(&self, random: &mut Random) -> V {
        self.setting.values[random.index(self.setting.values.len())]
    }

    fn percent(&self, random: &mut Random) -> u64 {
        [5, 20, 50, 80, 100, 100][random.index(6)]
    }

    fn about(&self, random: &mut Random) -> About {
        let everybody: Vec<_> = self.everybody().iter().collect();
        let process = everybody[random.index(everybody.len())];
        match random.below(7) {
            0 => About::All,
            1 => About::SaidBy(process),
            2 => About::Through(process),
            3 | 4 => About::AmongLiars,
            5 => About::SaidByCorrect,
            _ => About::Instance(random.index(5)),
        }
    }

    fn say(&self, random: &mut Random) -> Say<V> {
        match random.below(6) {
            0 => Say::Value(self.setting.values[0]),
            1 => Say::Value(self.value(random)),
            2 | 3 => Say::Next,
            4 => Say::Any,
            _ => Say::Nothing,
        }
    }
}

/// So many of these, or all if there are not so many; each choice is as likely as any other.
fn some(processes: Processes, count: usize, random: &mut Random) -> Processes {
    let mut rest: Vec<_> = processes.iter().collect();
    let count = count.min(rest.len());
    (0..count).map(|_| rest.swap_remove(random.index(rest.len()))).collect()
}

/// What all begin with: one value, two, any, or so many with the default or another value that a threshold is just met.
fn inputs<V: Value>(setting: &Setting<V>, lying: Processes, random: &mut Random) -> Vec<V> {
    let Setting { n, t, values, .. } = setting;
    let any = |random: &mut Random| values[random.index(values.len())];
    let (one, other) = (any(random), any(random));
    let correct = Processes::first(*n).without(lying);
    let count = match random.below(5) {
        0 => 0,
        1 => *t,
        2 => t + 1,
        3 => n - 2 * t,
        _ => n / 2,
    };
    let chosen = some(correct, count, random);
    let is_mixture = random.one_in(4);
    Processes::first(*n)
        .iter()
        .map(|p| {
            if is_mixture {
                any(random)
            } else if chosen.contains(p) {
                other
            } else {
                one
            }
        })
        .collect()
}
