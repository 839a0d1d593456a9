//! Links in virtual time.

use super::*;
use std::num::NonZeroU64;

const MS: Duration = Duration::from_millis(1);

fn at(nanoseconds: u128) -> Time {
    Time::from_nanos(u64::try_from(nanoseconds).expect("within centuries"))
}

/// A frame that says which it is.
fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![0; length];
    frame[..4].copy_from_slice(&number.to_be_bytes());
    frame
}

/// All that arrives, with when: by going from one moment to the next.
fn arrivals(direction: &mut Direction) -> Vec<(Time, u32)> {
    let mut arrived = Vec::new();
    while let Some(due) = direction.next_due() {
        let before = due - Duration::from_nanos(1);
        assert!(before == due || direction.take_due(before).is_none(), "it came too early");
        let (frame, _) = direction.take_due(due).expect("it is due");
        let number = *frame.first_chunk().expect("it has a number");
        arrived.push((due, u32::from_be_bytes(number)));
    }
    assert_eq!(direction.bytes_under_way, 0);
    arrived
}

fn numbers(arrivals: &[(Time, u32)]) -> Vec<u32> {
    arrivals.iter().map(|(_, number)| *number).collect()
}

/// So many frames of 100 bytes at once.
fn burst(quality: Quality, seed: u64, frames: u32) -> (Vec<(Time, u32)>, Counts) {
    let mut direction = Direction::new(quality, seed);
    for number in 0..frames {
        direction.send(Time::ZERO, &frame(number, 100), Offload::NONE);
    }
    (arrivals(&mut direction), direction.counts())
}

#[test]
fn a_wire_without_length_takes_no_time() {
    let (arrived, counts) = burst(Quality::default(), 1, 10);
    assert_eq!(numbers(&arrived), Vec::from_iter(0..10));
    assert!(arrived.iter().all(|(due, _)| *due == Time::ZERO));
    assert_eq!(counts, Counts { arrived: 10, ..Counts::default() });
}

/// At any rate, frames of any lengths leave when the bits before them, and their own, have: to the nanosecond, however many they are.
#[test]
fn a_rate_is_kept_to_the_frame() {
    for seed in 0..50 {
        let mut random = Random::new(seed);
        let rate = 1 + random.below(10_u64.pow(1 + u32::try_from(seed % 11).expect("small")));
        let quality = Quality { rate: NonZeroU64::new(rate), queue: u64::MAX, ..Quality::default() };
        let mut direction = Direction::new(quality, seed);
        let (mut bits, mut expected) = (0, Vec::new());
        for number in 0..200 {
            let length = 60 + random.index(1455);
            direction.send(Time::ZERO, &frame(number, length), Offload::NONE);
            bits += 8 * length as u128;
            expected.push((at(bits * 1_000_000_000 / u128::from(rate)), number));
        }
        assert_eq!(arrivals(&mut direction), expected, "seed {seed}");
    }
}

#[test]
fn a_wire_that_rests_saves_nothing_up() {
    let quality = Quality { rate: NonZeroU64::new(8_000_000), ..Quality::default() };
    let mut direction = Direction::new(quality, 1);
    direction.send(Time::ZERO, &frame(0, 1000), Offload::NONE);
    direction.send(Time::ZERO + 10 * MS, &frame(1, 1000), Offload::NONE);
    direction.send(Time::ZERO + 10 * MS, &frame(2, 1000), Offload::NONE);
    let expected = [(MS, 0), (11 * MS, 1), (12 * MS, 2)].map(|(due, number)| (Time::ZERO + due, number));
    assert_eq!(arrivals(&mut direction), expected);
}

#[test]
fn a_queue_holds_so_many_bytes_and_one_frame_always() {
    let slow = |queue| Quality { rate: NonZeroU64::new(8_000), queue, ..Quality::default() };
    let (arrived, counts) = burst(slow(250), 1, 5);
    assert_eq!(numbers(&arrived), [0, 1]);
    assert_eq!(counts, Counts { arrived: 2, overflowed: 3, ..Counts::default() });
    assert_eq!(numbers(&burst(slow(1), 1, 5).0), [0]);
    // A byte leaves each millisecond: after 50 there is room for a frame again.
    let mut direction = Direction::new(slow(250), 1);
    for (number, sent) in [0, 0, 49, 50].into_iter().enumerate() {
        let number = u32::try_from(number).expect("small");
        direction.send(Time::ZERO + sent * MS, &frame(number, 100), Offload::NONE);
    }
    assert_eq!(numbers(&arrivals(&mut direction)), [0, 1, 3]);
}

#[test]
fn frames_keep_their_order_whatever_the_jitter() {
    for seed in 0..20 {
        let quality =
            Quality { delay: 2 * MS, jitter: 3 * MS, loss: 0.1, duplicate: 0.1, ..Quality::default() };
        let mut direction = Direction::new(quality, seed);
        for number in 0..1000 {
            direction.send(at(u128::from(number) * 10_000), &frame(number, 60), Offload::NONE);
        }
        let arrived = arrivals(&mut direction);
        assert!(arrived.is_sorted_by_key(|(_, number)| *number), "seed {seed}");
        for (due, number) in arrived {
            let sent = at(u128::from(number) * 10_000);
            assert!(due >= sent, "seed {seed}");
            // At most as late as the latest before it.
            assert!(due.since(sent) <= 5 * MS, "seed {seed}");
        }
    }
}

#[test]
fn a_fraction_overtakes() {
    let quality = Quality { delay: 10 * MS, reorder: 0.25, ..Quality::default() };
    let (arrived, _) = burst(quality, 7, 10_000);
    let early = arrived.iter().filter(|(due, _)| *due == Time::ZERO).count();
    // Within 5 standard deviations of a binomial distribution: 43 each.
    assert!((2_284..=2_716).contains(&early), "{early}");
    let (first, last) = arrived.split_at(early);
    assert!(first.is_sorted_by_key(|(_, number)| *number) && last.is_sorted_by_key(|(_, number)| *number));
    assert!(last.iter().all(|(due, _)| *due == Time::ZERO + 10 * MS));
}

#[test]
fn losses_and_copies_are_as_many_as_they_should_be() {
    let quality = Quality { loss: 0.1, duplicate: 0.2, ..Quality::default() };
    let (arrived, counts) = burst(quality, 3, 10_000);
    // Within 5 standard deviations: 30 of the losses, 38 of the copies.
    assert!((850..=1150).contains(&counts.lost), "{counts:?}");
    let mut different = numbers(&arrived);
    different.dedup();
    assert_eq!(different.len() as u64 + counts.lost, 10_000);
    let copies = arrived.len() - different.len();
    assert!((1_610..=1_990).contains(&copies), "{copies}");
    let none = burst(Quality { loss: 1.0, ..Quality::default() }, 3, 1000);
    assert_eq!((none.0.len(), none.1.lost), (0, 1000));
}

#[test]
fn a_seed_gives_one_course() {
    let bad = Quality {
        delay: MS,
        jitter: MS,
        loss: 0.2,
        duplicate: 0.2,
        reorder: 0.2,
        rate: NonZeroU64::new(1_000_000),
        ..Quality::default()
    };
    assert_eq!(burst(bad.clone(), 5, 500), burst(bad.clone(), 5, 500));
    assert_ne!(burst(bad.clone(), 5, 500), burst(bad, 6, 500));
}

#[test]
fn what_is_under_way_is_lost_with_the_link() {
    let delayed = Quality { delay: MS, ..Quality::default() };
    let mut direction = Direction::new(delayed.clone(), 1);
    direction.send(Time::ZERO, &frame(0, 60), Offload::NONE);
    direction.set_quality(Quality { up: false, ..delayed.clone() });
    direction.send(Time::ZERO, &frame(1, 60), Offload::NONE);
    assert_eq!(direction.next_due(), None);
    direction.set_quality(delayed);
    direction.send(Time::ZERO, &frame(2, 60), Offload::NONE);
    // Of another quality, it still arrives as it was sent.
    direction.set_quality(Quality::default());
    assert_eq!(arrivals(&mut direction), [(Time::ZERO + MS, 2)]);
    assert_eq!(direction.counts(), Counts { arrived: 1, unplugged: 2, ..Counts::default() });
}
