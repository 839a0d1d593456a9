//! Cneighbor discovery and degree inflation (Algorithms 3 and 4), side by side.
//!
//! A leader asks some neighbours of its cluster whom they follow, and the leaders it has heard of what they know; what they know
//! of members leaves fewer neighbours to ask. No leader asks another twice: a cluster 2ᵏ hops away is reached over one at 2ᵏ⁻¹, which
//! was heard of in the round before.

use super::message::{Record, Survey};
use crate::Marks;
use crate::model::Round;
use fulmar_node::{NodeId, Random};
use std::sync::Arc;

/// Of so many neighbours at least one is asked in a round, though that be more than others ask.
const HUB: usize = 16;

/// What a leader finds out about other clusters while no clusters merge.
#[derive(Debug)]
pub(super) struct Exploration {
    /// X of Algorithm 3: neighbours that were not asked, are in no cluster of `records`, and not in `open`.
    unexplored: Vec<NodeId>,
    /// Its own cluster first, none twice.
    records: Vec<Record>,
    /// A(C) but for those of `records`: leaders to ask, none twice.
    open: Vec<NodeId>,
    /// Members of so many of them are not in `unexplored`.
    left_out: usize,
    /// In all clusters of `records`.
    members: usize,
    /// What was heard in the last round: whom neighbours follow, and what leaders know.
    pub(super) leaders: Vec<NodeId>,
    pub(super) surveys: Vec<Arc<Survey>>,
    /// What it answers; nothing before it has heard anything, since who asks does so once.
    pub(super) answer: Option<Arc<Survey>>,
}

impl Exploration {
    /// Of a cluster with these neighbours.
    pub(super) fn new(own: Record, neighbours: Vec<NodeId>) -> Self {
        let members = own.len();
        let (open, leaders, surveys, answer) = Default::default();
        let (unexplored, records, left_out) = (neighbours, vec![own], 1);
        Self { unexplored, records, open, left_out, members, leaders, surveys, answer }
    }

    /// Of a cluster whose neighbours all lead.
    pub(super) fn among_leaders(own: Record, neighbours: Vec<NodeId>) -> Self {
        let mut exploration = Self { open: neighbours, ..Self::new(own, Vec::new()) };
        exploration.answer = Some(exploration.survey());
        exploration
    }

    /// In all clusters that it knows.
    pub(super) const fn members(&self) -> usize {
        self.members
    }

    /// All leaders it knows but its own.
    pub(super) fn known(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.records[1..].iter().map(|record| record[0]).chain(self.open.iter().copied())
    }

    /// Takes in what was heard.
    pub(super) fn digest(&mut self, marks: &mut Marks) {
        let surveys = std::mem::take(&mut self.surveys);
        let leaders = std::mem::take(&mut self.leaders);
        if surveys.is_empty() && leaders.is_empty() {
            return;
        }
        marks.clear();
        self.records.iter().for_each(|record| _ = marks.insert(record[0]));
        for record in surveys.iter().flat_map(|survey| &survey.records) {
            if marks.insert(record[0]) {
                self.members += record.len();
                self.records.push(Arc::clone(record));
            }
        }
        self.open.retain(|&leader| marks.insert(leader));
        let heard = surveys.iter().flat_map(|survey| &survey.heard).copied().chain(leaders);
        self.open.extend(heard.filter(|&leader| marks.insert(leader)));
        self.answer = Some(self.survey());
    }

    /// What it knows by now.
    pub(super) fn survey(&self) -> Arc<Survey> {
        let (records, heard) = (self.records.clone(), self.open.clone());
        Arc::new(Survey { records, heard, members: self.members })
    }

    /// Asks up to so many neighbours, and as many leaders.
    pub(super) fn ask<M>(&mut self, sample: usize, random: &mut Random, round: &mut Round<'_, M>) {
        self.leave_out(round.marks);
        // What goes over a hub is known to nobody else.
        let neighbours = sample.max(self.unexplored.len() / HUB);
        for _ in 0..neighbours.min(self.unexplored.len()) {
            let chosen = random.index(self.unexplored.len());
            round.pull(self.unexplored.swap_remove(chosen));
        }
        self.open.iter().take(sample).for_each(|&leader| round.pull(leader));
    }

    /// Leaves out neighbours that by now are known to be members of known clusters, or to be leaders.
    fn leave_out(&mut self, marks: &mut Marks) {
        if !self.unexplored.is_empty() {
            marks.clear();
            let members = self.records[self.left_out..].iter().flat_map(|record| record.iter());
            members.chain(&self.open).for_each(|&known| _ = marks.insert(known));
            self.unexplored.retain(|&neighbour| !marks.contains(neighbour));
        }
        self.left_out = self.records.len();
    }

    /// Asks some leaders again, if nothing else is left to ask: what they did not know then they may know now. Of N clusters √N are
    /// asked, so that news is with all in three rounds or so.
    pub(super) fn ask_again<M>(&self, random: &mut Random, round: &mut Round<'_, M>) {
        if self.unexplored.is_empty() && self.open.is_empty() {
            let others = &self.records[1..];
            for _ in 0..others.len().isqrt() {
                round.pull(others[random.index(others.len())][0]);
            }
        }
    }
}
