use super::*;
use fulmar_node::Random;

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const C: SessionId = SessionId(3);

fn do_all(operations: impl IntoIterator<Item = LockOperation>) -> Vec<LockAnswer> {
    let mut locks = Locks::default();
    let numbers = (1..).map(SequenceNumber);
    let results =
        numbers.zip(operations).map(|(number, operation)| locks.execute(number, &operation.encode()));
    results.map(|result| LockAnswer::decode(&result).expect("an answer")).collect()
}

fn open() -> LockOperation {
    LockOperation::Open { ticks: 9, session: None }
}

fn release(session: SessionId) -> LockOperation {
    LockOperation::Release(session, b"eggs".into())
}

fn acquire(session: SessionId, mode: LockMode, waits: bool) -> LockOperation {
    LockOperation::Acquire { session, name: b"eggs".into(), mode, waits }
}

fn look(session: SessionId) -> LockOperation {
    LockOperation::Look(session, b"eggs".into())
}

#[test]
fn readers_share_and_a_writer_waits_its_turn() {
    use LockAnswer::{Done, Free, Held, Opened, Waits};
    use LockMode::{Read, Write};
    let answers = do_all([
        open(),
        open(),
        open(),
        acquire(A, Read, true),
        acquire(B, Read, true),
        acquire(C, Write, false),
        acquire(C, Write, true),
        // Behind one who waits, even if it could be had now.
        release(B),
        acquire(B, Read, false),
        acquire(B, Read, true),
        release(A),
        look(C),
        look(B),
        LockOperation::Close(C),
        look(B),
    ]);
    let expected = [
        Opened(A),
        Opened(B),
        Opened(C),
        Held(Fence(1)),
        Held(Fence(2)),
        Free,
        Waits,
        Done,
        Free,
        Waits,
        Done,
        Held(Fence(3)),
        Waits,
        Done,
        Held(Fence(4)),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn who_is_not_heard_of_loses_all() {
    use LockAnswer::{Done, Gone, Held, Opened, Ticks, Waits};
    let answers = do_all([
        LockOperation::Open { ticks: 2, session: None },
        LockOperation::Open { ticks: 2, session: None },
        acquire(A, LockMode::Write, true),
        acquire(B, LockMode::Write, true),
        LockOperation::Tick(1),
        LockOperation::KeepAlive(B),
        LockOperation::Tick(2),
        LockOperation::Tick(3),
        look(A),
        look(B),
    ]);
    // The token of who comes after is the larger one.
    let (first, next) = (Held(Fence(1)), Held(Fence(2)));
    let expected = [Opened(A), Opened(B), first, Waits, Ticks(1), Done, Ticks(2), Ticks(3), Gone, next];
    assert_eq!(answers, expected);
}

#[test]
fn time_goes_no_faster_if_several_let_it_pass() {
    use LockAnswer::{Done, Opened, Ticks};
    let answers = do_all([
        LockOperation::Open { ticks: 1, session: None },
        LockOperation::Tick(0),
        LockOperation::Tick(1),
        // Of another who thinks so, of one who is late, and of one who has gone astray.
        LockOperation::Tick(1),
        LockOperation::Tick(0),
        LockOperation::Tick(u64::MAX),
        LockOperation::KeepAlive(A),
    ]);
    assert_eq!(answers, [Opened(A), Ticks(0), Ticks(1), Ticks(1), Ticks(1), Ticks(1), Done]);
}

#[test]
fn a_session_that_is_drawn_is_opened_once() {
    use LockAnswer::{Done, Gone, Held, Malformed, Opened};
    let drawn = SessionId::drawn(u64::MAX);
    let open = |session| LockOperation::Open { ticks: 9, session };
    let answers = do_all([
        open(None),
        open(Some(drawn)),
        acquire(drawn, LockMode::Write, true),
        open(Some(drawn)),
        look(drawn),
        // Nobody has a name that others are given.
        open(Some(SessionId(2))),
        LockOperation::Close(SessionId(2)),
        LockOperation::Close(drawn),
        look(drawn),
    ]);
    let held = Held(Fence(1));
    assert_eq!(answers, [Opened(A), Opened(drawn), held, Opened(drawn), held, Malformed, Gone, Done, Gone]);
}

/// What one client wants, others have no use of.
#[test]
fn there_is_an_end_to_everything() {
    let mut locks = Locks::default();
    let mut number = 0;
    let mut ask = |operation: LockOperation| {
        number += 1;
        let result = locks.execute(SequenceNumber(number), &operation.encode());
        locks.commit(SequenceNumber(number));
        LockAnswer::decode(&result).expect("an answer")
    };
    assert_eq!(ask(LockOperation::Open { ticks: u64::MAX, session: None }), LockAnswer::Opened(A));
    for n in 1..MOST as u64 {
        assert_eq!(
            ask(LockOperation::Open { ticks: 9, session: None }),
            LockAnswer::Opened(SessionId(n + 1))
        );
    }
    assert_eq!(ask(LockOperation::Open { ticks: 9, session: None }), LockAnswer::Full);
    let name = |n: usize| n.to_be_bytes().to_vec();
    let take = |session, name| LockOperation::Acquire { session, name, mode: LockMode::Write, waits: true };
    assert!(matches!(ask(take(A, name(0))), LockAnswer::Held(_)));
    for n in 1..MOST_OF_LOCK as u64 {
        assert_eq!(ask(take(SessionId(1 + n), name(0))), LockAnswer::Waits);
    }
    assert_eq!(ask(take(SessionId(1 + MOST_OF_LOCK as u64), name(0))), LockAnswer::Full);
    let long = |n: usize| [&n.to_be_bytes(), &[7; Locks::LONGEST_NAME - 8][..]].concat();
    let most = usize::try_from(MOST_BYTES).expect("it fits") / Locks::LONGEST_NAME;
    let are_held = (1..=most).filter(|n| matches!(ask(take(A, long(*n))), LockAnswer::Held(_)));
    assert_eq!(are_held.count(), most - 1, "the first lock's name is short");
    for n in 1..most {
        assert_eq!(ask(LockOperation::Release(A, long(n))), LockAnswer::Done);
    }
    for n in MOST_OF_LOCK..MOST {
        assert!(matches!(ask(take(A, name(n))), LockAnswer::Held(_)));
    }
    assert_eq!(ask(take(A, name(MOST))), LockAnswer::Full);
    assert_eq!(ask(take(A, vec![7; Locks::LONGEST_NAME + 1])), LockAnswer::Malformed);
    // It took as many times longer as there are sessions.
    for tick in 1..12 {
        assert_eq!(ask(LockOperation::Tick(tick)), LockAnswer::Ticks(tick));
    }
    let session = locks.sessions.get(&A).expect("it is open");
    assert_eq!(session.ticks, Locks::MOST_TICKS);
    assert_eq!(locks.sessions.values().len(), 1, "the others are over");
}

/// It was told that it has the lock to write, while others read.
#[test]
fn who_reads_writes_only_if_it_is_alone() {
    use LockAnswer::{Done, Free, Held, Opened, Shared, Waits};
    use LockMode::{Read, Write};
    let answers = do_all([
        open(),
        open(),
        open(),
        acquire(A, Read, true),
        acquire(B, Read, true),
        acquire(A, Write, true),
        acquire(C, Read, false),
        release(C),
        release(B),
        acquire(A, Write, true),
        // As before.
        acquire(A, Write, true),
        acquire(A, Read, true),
        acquire(B, Read, false),
        // Who waits to read, and wants to write then, waits to write.
        acquire(B, Read, true),
        acquire(C, Read, true),
        acquire(B, Write, true),
        release(A),
        look(B),
        look(C),
    ]);
    let upgraded = Held(Fence(4));
    let expected = [
        [Opened(A), Opened(B), Opened(C), Held(Fence(1)), Held(Fence(2)), Shared, Held(Fence(3)), Done, Done]
            .as_slice(),
        &[upgraded, upgraded, upgraded, Free, Waits, Waits, Waits, Done, Held(Fence(5)), Waits],
    ];
    assert_eq!(answers, expected.concat());
}

fn random_operation(random: &mut Random, ticks: u64) -> LockOperation {
    let numbered = SessionId(1 + random.below(5));
    let session = if random.one_in(3) { SessionId::drawn(random.below(2)) } else { numbered };
    let name = vec![b'a' + u8::try_from(random.below(3)).unwrap_or_default()];
    match random.below(12) {
        0 | 1 => LockOperation::Open {
            ticks: random.below(4),
            session: random.one_in(2).then(|| SessionId::drawn(random.below(2))),
        },
        2 => LockOperation::KeepAlive(session),
        3 => LockOperation::Close(session),
        4 | 5 => LockOperation::Release(session, name),
        6 => LockOperation::Look(session, name),
        7 => LockOperation::Tick(ticks + random.below(3)),
        _ => {
            let mode = if random.one_in(2) { LockMode::Read } else { LockMode::Write };
            LockOperation::Acquire { session, name, mode, waits: random.one_in(2) }
        }
    }
}

/// Beside states that were kept whole before each operation.
#[test]
fn what_is_rolled_back_has_never_been() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let mut locks = Locks::default();
        let mut states = vec![locks.snapshot()];
        let mut committed = 0;
        for _ in 0..80 {
            let last = states.len() as u64 - 1;
            match random.below(6) {
                0 => {
                    let kept = committed + random.below(last - committed + 1);
                    locks.rollback(SequenceNumber(kept + 1));
                    states.truncate(usize::try_from(kept + 1).expect("few"));
                }
                1 => {
                    committed += random.below(last - committed + 1);
                    locks.commit(SequenceNumber(committed));
                }
                _ => {
                    let operation = random_operation(&mut random, locks.count(Count::Ticks));
                    assert_eq!(LockOperation::decode(&operation.encode()).as_ref(), Some(&operation));
                    locks.execute(SequenceNumber(last + 1), &operation.encode());
                    states.push(locks.snapshot());
                }
            }
            assert_eq!(states.last(), Some(&locks.snapshot()));
            let mut other = Locks::default();
            assert!(other.restore(SequenceNumber(9), &locks.snapshot()));
            assert_eq!(other.snapshot(), locks.snapshot());
            // What was damaged is refused, or reads as another state that could be; nothing is left of what is refused.
            let mut damaged = locks.snapshot();
            let place = random.below(damaged.len() as u64);
            damaged[usize::try_from(place).expect("few")] = random.next().to_be_bytes()[0];
            if !other.restore(SequenceNumber(9), &damaged) {
                assert_eq!(other.snapshot(), locks.snapshot());
            }
        }
        for (name, lock) in locks.locks.values() {
            assert!(!lock.holders.is_empty(), "nobody holds {name:?}, and it is kept");
            assert!(!lock.is_write || lock.holders.len() == 1, "{lock:?}");
            let lives = |(holder, _): &(SessionId, Fence)| locks.sessions.get(holder).is_some();
            assert!(lock.holders.iter().all(lives), "{lock:?}");
            let last = Fence(locks.count(Count::Fences));
            assert!(lock.holders.iter().all(|(_, fence)| *fence > Fence(0) && *fence <= last), "{lock:?}");
        }
    }
}
