//! Retwis: what a clone of Twitter asks of a key-value store, in the profile of the authors of Speculative Paxos.
//!
//! Their paper names the workload only; the shares, gets and puts are those of the benchmark of their next system, TAPIR
//! (Zhang and others, SOSP 2015; `store/benchmark/retwisClient.cc`). A transaction gets the first of its keys and puts the
//! first of them, so that those that put have put all that they got: under snapshot isolation that is serializable.

use crate::ycsb::Chooser;
use fulmar_dbt::{Database, Durability, Error, Tree};
use fulmar_node::Random;

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AddUser,
    Follow,
    PostTweet,
    GetTimeline,
}

impl Kind {
    pub(crate) fn next(random: &mut Random) -> Self {
        match random.below(100) {
            0..5 => Self::AddUser,
            5..20 => Self::Follow,
            20..50 => Self::PostTweet,
            _ => Self::GetTimeline,
        }
    }

    fn gets(self, random: &mut Random) -> usize {
        match self {
            Self::AddUser => 1,
            Self::Follow => 2,
            Self::PostTweet => 3,
            Self::GetTimeline => 1 + random.index(10),
        }
    }

    const fn puts(self) -> usize {
        match self {
            Self::AddUser => 3,
            Self::Follow => 2,
            Self::PostTweet => 5,
            Self::GetTimeline => 0,
        }
    }
}

/// A transaction that is still to be carried out, again after each conflict.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    keys: Vec<[u8; 8]>,
    gets: usize,
    puts: usize,
}

impl Request {
    /// On some of so many records.
    pub(crate) fn next(random: &mut Random, chooser: &mut Chooser, records: u64) -> Self {
        let kind = Kind::next(random);
        let (gets, puts) = (kind.gets(random), kind.puts());
        let keys = (0..gets.max(puts)).map(|_| key(chooser.choose(random, records))).collect();
        Self { keys, gets, puts }
    }

    pub(crate) fn carry_out(&self, database: &Database, tree: Tree, value: &[u8]) -> Result<(), Error> {
        let mut transaction = database.begin()?;
        for key in &self.keys[..self.gets] {
            transaction.get(tree, key)?.ok_or(Error::Unexpected)?;
        }
        for key in &self.keys[..self.puts] {
            transaction.put(tree, key, value)?;
        }
        transaction.commit(Durability::Written).map(|_| ())
    }
}

/// Where a record is.
pub(crate) const fn key(record: u64) -> [u8; 8] {
    record.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ycsb::Distribution;

    const DRAWS: u32 = 100_000;

    /// `retwisClient.cc` of TAPIR.
    #[test]
    fn the_mix_is_that_of_the_authors() {
        let mut random = Random::new(1);
        let kinds: Vec<Kind> = (0..DRAWS).map(|_| Kind::next(&mut random)).collect();
        for (kind, share, gets, puts) in [
            (Kind::AddUser, 0.05, 1.0, 3),
            (Kind::Follow, 0.15, 2.0, 2),
            (Kind::PostTweet, 0.30, 3.0, 5),
            (Kind::GetTimeline, 0.50, 5.5, 0),
        ] {
            let count = kinds.iter().filter(|found| **found == kind).count();
            let found = count as f64 / f64::from(DRAWS);
            assert!((found - share).abs() < 0.005, "{kind:?}: {found}");
            let all: usize = (0..DRAWS).map(|_| kind.gets(&mut random)).sum();
            let found = all as f64 / f64::from(DRAWS);
            assert!((found - gets).abs() < 0.05, "{kind:?}: {found} gets");
            assert_eq!(kind.puts(), puts);
        }
    }

    #[test]
    fn a_request_has_a_key_for_each_get_and_put() {
        let (mut random, mut chooser) = (Random::new(2), Chooser::new(Distribution::Zipfian, 10));
        for _ in 0..1_000 {
            let request = Request::next(&mut random, &mut chooser, 10);
            assert_eq!(request.keys.len(), request.gets.max(request.puts));
            assert!((1..=10).contains(&request.gets) && (request.puts == 0 || request.gets <= request.puts));
        }
    }

    #[test]
    fn what_is_put_is_there() {
        let database = Database::transient(&fulmar_dbt::Options::default()).expect("memory");
        let mut loader = database.begin().expect("memory");
        let tree = loader.create_tree().expect("memory");
        for record in 0..2 {
            loader.put(tree, &key(record), b"old").expect("memory");
        }
        loader.commit(Durability::Written).expect("nobody else");
        let request = Request { keys: vec![key(0), key(1)], gets: 2, puts: 1 };
        request.carry_out(&database, tree, b"new").expect("nobody else");
        let found = [0, 1].map(|record| database.begin()?.get(tree, &key(record)));
        let found = found.map(|value| value.expect("memory").expect("put above").to_vec());
        assert_eq!(found, [b"new", b"old"]);
        let missing = Request { keys: vec![key(2)], gets: 1, puts: 0 };
        assert!(matches!(missing.carry_out(&database, tree, b""), Err(Error::Unexpected)));
    }
}
