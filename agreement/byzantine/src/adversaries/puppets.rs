//! A plan, carried out.

use super::forge::garble;
use super::{About, Act, Claim, Deed, Forge, Lie, Origin, Plan, Say, Setting};
use crate::runs::{Adversary, Scene, say};
use crate::{Processes, Synchronous, Value};
use fulmar_node::Random;

/// An adversary that does what a plan says.
///
/// A face hears all correct processes, and of those that lie the face with the same input, if it has one, else the first: so what
/// it says is what a correct process would in a world in which all that lie began with that.
#[derive(Clone, Debug)]
pub struct Puppets<'a, S: Synchronous> {
    setting: &'a Setting<S::Value>,
    plan: &'a Plan<S::Value>,
    lying: Processes,
    /// By liar, then as in `worlds`; `None` if no act of the liar shows that face.
    faces: Vec<Vec<Option<S>>>,
    /// Inputs of faces, but for the first, which has that of the plan.
    worlds: Vec<S::Value>,
    /// By liar and act of this round, that for those whom no act is meant for behind them.
    messages: Vec<Vec<Option<S::Message>>>,
    round: u32,
}

impl<'a, S> Puppets<'a, S>
where
    S: Synchronous + Clone,
    S::Value: Value,
    S::Message: Forge<S::Value>,
{
    /// Before the first round; `make` makes a correct process by its number and input.
    pub fn new(
        setting: &'a Setting<S::Value>,
        plan: &'a Plan<S::Value>,
        make: impl Fn(u8, S::Value) -> S,
    ) -> Self {
        let shown = |acts: &[Vec<Act<S::Value>>], input| {
            acts.iter().flatten().any(|act| act.deed == Deed::Face(input))
        };
        let mut worlds = setting.values.clone();
        worlds.retain(|&input| plan.liars.iter().any(|liar| shown(&liar.acts, input)));
        let faces = plan.liars.iter().map(|liar| {
            let first = Some(make(liar.process, plan.inputs[usize::from(liar.process)]));
            let others =
                worlds.iter().map(|&input| shown(&liar.acts, input).then(|| make(liar.process, input)));
            std::iter::once(first).chain(others).collect()
        });
        Self {
            setting,
            plan,
            lying: plan.lying(),
            faces: faces.collect(),
            worlds,
            messages: Vec::new(),
            round: 0,
        }
    }

    fn acts(&self, liar: usize) -> &'a [Act<S::Value>] {
        self.plan.liars[liar].acts.get(self.round as usize - 1).map_or(&[], Vec::as_slice)
    }

    /// What an act sends.
    fn perform(
        &self,
        liar: usize,
        deed: &Deed<S::Value>,
        said: &[Option<S::Message>],
        random: &mut Random,
    ) -> Option<S::Message> {
        let truth = || said[0].clone();
        match deed {
            Deed::Silent => None,
            Deed::Face(input) => {
                let world = self.worlds.iter().position(|world| world == input)?;
                said[world + 1].clone()
            }
            Deed::Lie(lie) => truth().map(|message| self.lie(liar, lie, message, random)),
            Deed::Accuse(accused) => {
                let mut message = truth()?;
                message.accuse(*accused);
                Some(message)
            }
            Deed::Garble => garble(&truth()?, random),
        }
    }

    fn lie(
        &self,
        liar: usize,
        lie: &Lie<S::Value>,
        mut message: S::Message,
        random: &mut Random,
    ) -> S::Message {
        let origin = Origin { n: self.setting.n, from: self.plan.liars[liar].process, round: self.round };
        message.forge(origin, &mut |claim, truth| {
            if !self.concerns(lie.about, claim) || random.below(100) >= lie.percent {
                return Some(truth);
            }
            match lie.say {
                Say::Value(value) => Some(value),
                Say::Next => Some(next(&self.setting.values, truth)),
                Say::Any => random.choose(&self.setting.values).copied(),
                Say::Nothing => None,
            }
        });
        message
    }

    fn concerns(&self, about: About, claim: Claim<'_>) -> bool {
        let last = claim.node.last().copied();
        match about {
            About::All => true,
            About::SaidBy(process) => last == Some(process),
            About::Through(process) => claim.node.contains(&process),
            About::AmongLiars => claim.node.iter().all(|&process| self.lying.contains(process)),
            About::SaidByCorrect => last.is_some_and(|process| !self.lying.contains(process)),
            About::Instance(instance) => claim.instance == instance,
        }
    }
}

/// The value behind this one, in a circle.
fn next<V: Value>(values: &[V], value: V) -> V {
    let place = values.iter().position(|&other| other == value);
    values[place.map_or(0, |place| (place + 1) % values.len())]
}

impl<S> Adversary<S> for Puppets<'_, S>
where
    S: Synchronous + Clone,
    S::Message: Forge<S::Value>,
{
    fn look(&mut self, scene: &Scene<'_, S>) {
        self.round = scene.round;
        let said: Vec<Vec<_>> = self
            .faces
            .iter_mut()
            .map(|faces| faces.iter_mut().map(|face| say(face.as_mut()?, scene.round)).collect())
            .collect();
        let chance = |liar: usize| {
            let liar = u64::from(self.plan.liars[liar].process);
            Random::new(self.plan.seed ^ (u64::from(scene.round) << 8 | liar)).fork()
        };
        let messages = said.iter().enumerate().map(|(liar, said)| {
            let mut random = chance(liar);
            let acts = self.acts(liar).iter();
            let lies = acts.map(|act| self.perform(liar, &act.deed, said, &mut random.fork()));
            lies.chain([said[0].clone()]).collect()
        });
        self.messages = messages.collect();
        let mut heard = scene.sent.to_vec();
        for world in 0..=self.worlds.len() {
            for (liar, said) in self.plan.liars.iter().zip(&said) {
                heard[usize::from(liar.process)] = said[world].as_ref().or(said[0].as_ref()).cloned();
            }
            for face in self.faces.iter_mut().filter_map(|faces| faces[world].as_mut()) {
                if !face.has_halted() {
                    face.receive(scene.round, &heard);
                }
            }
        }
    }

    fn message(&mut self, from: u8, to: u8) -> Option<S::Message> {
        let liar = self.plan.liars.iter().position(|liar| liar.process == from)?;
        let acts = self.acts(liar);
        let act = acts.iter().position(|act| act.targets.contains(to)).unwrap_or(acts.len());
        self.messages[liar][act].clone()
    }
}
