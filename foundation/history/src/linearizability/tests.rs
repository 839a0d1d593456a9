use super::RegisterOperation::{CompareAndSwap, Read, Write};
use super::RegisterOutput::{Swapped, Value, Written};
use super::*;
use fulmar_node::Random;

type RegisterCall = CallOf<Register>;

fn call(
    process: u64,
    invoked: u64,
    operation: RegisterOperation,
    responded: u64,
    output: RegisterOutput,
) -> RegisterCall {
    Call { process, invoked, operation, response: Some((responded, output)) }
}

fn write(process: u64, invoked: u64, value: u64, responded: u64) -> RegisterCall {
    call(process, invoked, Write(Some(value)), responded, Written)
}

fn read(process: u64, invoked: u64, value: u64, responded: u64) -> RegisterCall {
    call(process, invoked, Read, responded, Value(Some(value)))
}

fn lost(process: u64, invoked: u64, operation: RegisterOperation) -> RegisterCall {
    Call { process, invoked, operation, response: None }
}

fn is_linearizable(history: &[RegisterCall]) -> bool {
    check(&Register::default(), history).is_ok()
}

#[test]
fn calls_that_overlap_may_take_either_order() {
    assert!(is_linearizable(&[]));
    assert!(is_linearizable(&[write(0, 1, 1, 10), write(1, 2, 2, 9), read(2, 3, 1, 4), read(2, 11, 2, 12)]));
    assert!(is_linearizable(&[write(0, 1, 1, 5), call(1, 5, Read, 6, Value(None))]));
}

#[test]
fn a_stale_read_is_told_in_words() {
    let history = [write(0, 1, 1, 2), write(0, 3, 2, 4), read(1, 5, 1, 6)];
    let counterexample = check(&Register::default(), &history).expect_err("it is not linearizable");
    assert_eq!((&counterexample.longest[..], &counterexample.stuck[..]), (&[0, 1][..], &[2][..]));
    assert_eq!(
        counterexample.to_string(),
        "no order explains (); the longest has 2 calls\n  \
         process 0, 1 to 2: Write(Some(1)) said Written\n  \
         process 0, 3 to 4: Write(Some(2)) said Written\n\
         then the state is Register(Some(2)), and none of these can come next:\n  \
         process 1, 5 to 6: Read said Value(Some(1)); now it would say Value(Some(2))\n"
    );
}

#[test]
fn reads_do_not_go_back() {
    // Both reads overlap the write, but not each other: regular (Lamport, 1986), not linearizable.
    let history = [write(0, 1, 1, 9), read(1, 2, 1, 3), call(1, 4, Read, 5, Value(None))];
    assert!(!is_linearizable(&history));
}

#[test]
fn one_of_two_swaps_fails() {
    let swap = |expected, new| CompareAndSwap { expected, new: Some(new) };
    let both = [call(0, 1, swap(None, 1), 5, Swapped(true)), call(1, 1, swap(None, 2), 5, Swapped(true))];
    assert!(!is_linearizable(&both));
    let one = [both[0].clone(), call(1, 1, swap(None, 2), 5, Swapped(false)), read(0, 6, 1, 7)];
    assert!(is_linearizable(&one));
}

#[test]
fn without_a_response_it_happens_later_or_never() {
    let pending = lost(0, 10, Write(Some(1)));
    assert!(is_linearizable(std::slice::from_ref(&pending)));
    let never = call(1, 11, Read, 12, Value(None));
    let later = read(1, 90, 1, 91);
    assert!(is_linearizable(&[pending.clone(), never.clone(), later.clone()]));
    let back = call(1, 92, Read, 93, Value(None));
    assert!(!is_linearizable(&[pending.clone(), later, back]));
    let before = read(1, 1, 1, 2);
    assert!(!is_linearizable(&[pending, before]));
}

#[test]
fn a_key_fails_alone() {
    let of = |key, call: RegisterCall| Call {
        process: call.process,
        invoked: call.invoked,
        operation: KeyValueOperation { key, operation: call.operation },
        response: call.response,
    };
    let mut history = vec![of(1, write(0, 1, 1, 2)), of(2, write(0, 3, 2, 4)), of(1, read(1, 5, 1, 6))];
    assert_eq!(check(&KeyValue::default(), &history), Ok(()));
    history.push(of(2, read(1, 7, 1, 8)));
    let counterexample = check(&KeyValue::default(), &history).expect_err("it is not linearizable");
    assert_eq!(counterexample.stuck, [3]);
    assert!(counterexample.to_string().starts_with("no order explains 2;"));
}

#[test]
#[should_panic(expected = "call 0 has a response before its invocation")]
fn time_does_not_run_back() {
    let _ = check(&Register::default(), &[write(0, 2, 1, 1)]);
}

/// Calls of some processes on a register; each takes place somewhere in its interval, but those of one process may be
/// answered with something else.
fn random_history(random: &mut Random, calls: usize, lost_one_in: u64, lies: bool) -> Vec<RegisterCall> {
    let mut free = [0; 4];
    let mut history = Vec::new();
    for _ in 0..calls {
        let process = random.index(free.len());
        let invoked = free[process] + 1 + random.below(6);
        let responded = invoked + random.below(12);
        free[process] = responded;
        let mut value = || Some(random.below(3)).filter(|&value| value > 0);
        let (expected, new) = (value(), value());
        let operation = match random.below(3) {
            0 => Read,
            1 => Write(new),
            _ => CompareAndSwap { expected, new },
        };
        let moment = (invoked + random.below(responded - invoked + 1), random.next());
        history.push((
            moment,
            Call { process: process as u64, invoked, operation, response: Some((responded, Written)) },
        ));
    }
    history.sort_by_key(|(moment, _)| *moment);
    let mut register = Register::default();
    for (_, call) in &mut history {
        let mut output =
            if random.one_in(lost_one_in) { None } else { Some(register.apply(&call.operation)) };
        if lies && random.one_in(6) && output.is_some() {
            output = Some(Register(Some(random.below(3))).apply(&call.operation));
        }
        call.response = call.response.zip(output).map(|((at, _), output)| (at, output));
    }
    history.into_iter().map(|(_, call)| call).collect()
}

/// All orders, one call after another.
fn has_linearization(history: &[RegisterCall], left: &mut Vec<usize>, state: Register) -> bool {
    if left.iter().all(|&index| history[index].response.is_none()) {
        return true;
    }
    let deadline = left.iter().filter_map(|&index| history[index].response).map(|(at, _)| at).min();
    (0..left.len()).any(|place| {
        let index = left.remove(place);
        let Call { invoked, operation, response, .. } = history[index];
        let mut after = state;
        let output = after.apply(&operation);
        let fits = response.is_none_or(|(_, observed)| observed == output);
        let is_early = deadline.is_none_or(|deadline| invoked <= deadline);
        let found = fits && is_early && has_linearization(history, left, after);
        left.insert(place, index);
        found
    })
}

#[test]
fn the_checker_agrees_with_all_orders() {
    let mut random = Random::new(1);
    let mut right = 0;
    for _ in 0..5_000 {
        let history = random_history(&mut random, 7, 12, true);
        let expected = has_linearization(&history, &mut (0..history.len()).collect(), Register::default());
        assert_eq!(is_linearizable(&history), expected, "{history:#?}");
        right += usize::from(expected);
    }
    assert!((500..4_500).contains(&right), "{right}");
}

#[test]
fn long_histories_are_checked() {
    let mut random = Random::new(2);
    for _ in 0..10 {
        let with_many_lost = random_history(&mut random, 1_000, 20, false);
        assert_eq!(check(&Register::default(), &with_many_lost), Ok(()));
        let mut history = random_history(&mut random, 1_000, 300, false);
        assert_eq!(check(&Register::default(), &history), Ok(()));
        // Nobody ever wrote 7.
        history.push(read(9, 20_000, 7, 20_001));
        assert!(!is_linearizable(&history));
    }
}
