//! Messages that take effect together.

use super::*;
use fulmar_openflow::bundle::BundleAdd;

fn control(bundle: u32, command: BundleCommand, flags: BundleFlags) -> Body {
    Body::Experimenter(Experimenter::BundleControl(BundleControl { bundle, command, flags }))
}

fn add(bundle: u32, flags: BundleFlags, xid: u32, body: Body) -> Body {
    let message = Box::new(Message { xid, body });
    Body::Experimenter(Experimenter::BundleAdd(BundleAdd { bundle, flags, message }))
}

#[test]
fn a_bundle_takes_effect_as_a_whole() {
    use BundleCommand::{Close, Closed, Commit, Committed, Discard, Discarded, Open, Opened};
    let (mut world, flags) = (World::default(), BundleFlags::ATOMIC);
    let mut peer = world.peer(Kind::Controller);
    let said = |command| control(1, command, flags);
    assert_eq!(world.ask(&mut peer, 2, said(Open)), [(2, said(Opened))]);
    for xid in 3..6 {
        assert_eq!(world.ask(&mut peer, xid, add(1, flags, xid, flow_mod(1))), []);
    }
    assert!(world.switch.committed.lock().is_empty());
    assert_eq!(world.ask(&mut peer, 6, said(Close)), [(6, said(Closed))]);
    assert_eq!(world.ask(&mut peer, 7, said(Commit)), [(7, said(Committed))]);
    assert_eq!(*world.switch.committed.lock(), [3, 4, 5]);
    let again = world.ask(&mut peer, 8, said(Commit));
    assert_eq!(codes(&again), [(8, Onf::BundleBadId.into())]);

    // One that is opened by what is added to it, and in which something is wrong.
    world.ask(&mut peer, 9, add(1, flags, 9, flow_mod(1)));
    world.ask(&mut peer, 10, add(1, flags, 10, flow_mod(13)));
    let failed = world.ask(&mut peer, 11, said(Commit));
    let expected = [(10, FlowModFailed::TableFull.into()), (11, Onf::BundleMessageFailed.into())];
    assert_eq!(codes(&failed), expected);
    assert_eq!(world.switch.committed.lock().len(), 3, "none of it");
    world.ask(&mut peer, 12, said(Open));
    assert_eq!(world.ask(&mut peer, 13, said(Discard)), [(13, said(Discarded))]);
}

#[test]
fn what_is_wrong_with_a_bundle_is_said_and_the_bundle_gone() {
    use BundleCommand::{Close, Commit, Discard, Open, Opened};
    let (mut world, flags) = (World::default(), BundleFlags::ORDERED);
    let mut peer = world.peer(Kind::Controller);
    let other = BundleFlags::ATOMIC;
    let said = |command| control(1, command, flags);
    let cases: [(Vec<Body>, Onf); 9] = [
        (vec![said(Open), said(Open)], Onf::BundleExists),
        (vec![said(Close)], Onf::BundleBadId),
        (vec![said(Commit)], Onf::BundleBadId),
        (vec![said(Discard)], Onf::BundleBadId),
        (vec![said(Open), control(1, Close, other)], Onf::BundleBadFlags),
        (vec![said(Open), add(1, other, 4, flow_mod(1))], Onf::BundleBadFlags),
        (vec![said(Open), said(Close), said(Close)], Onf::BundleClosed),
        (vec![said(Open), said(Close), add(1, flags, 4, flow_mod(1))], Onf::BundleClosed),
        (vec![said(Opened)], Onf::BundleBadType),
    ];
    for (bodies, expected) in cases {
        let heard: Vec<_> = bodies.into_iter().flat_map(|body| world.ask(&mut peer, 4, body)).collect();
        assert_eq!(codes(&heard[heard.len() - 1..]), [(4, expected.into())]);
        let gone = world.ask(&mut peer, 5, said(Commit));
        assert_eq!(codes(&gone), [(5, Onf::BundleBadId.into())]);
    }
    // What cannot be in one is refused when it is added.
    let heard = world.ask(&mut peer, 6, add(1, flags, 6, Body::BarrierRequest));
    assert_eq!(codes(&heard), [(6, Onf::BundleUnsupported.into())]);
}

#[test]
fn bundles_take_a_bounded_amount_of_memory() {
    let (mut world, flags) = (World::default(), BundleFlags::NONE);
    let mut peer = world.peer(Kind::Controller);
    let too_many = (0..).find_map(|bundle| {
        let heard = world.ask(&mut peer, 3, control(bundle, BundleCommand::Open, flags));
        matches!(heard[0].1, Body::Error(_)).then(|| codes(&heard)[0].1)
    });
    assert_eq!(too_many, Some(Onf::OutOfBundles.into()));
    let message = bytes(4, add(0, flags, 4, flow_mod(1)));
    let refused = loop {
        world.push(&mut peer, &message).expect("it goes on");
        if let Some((_, Body::Error(error))) = peer.hear().pop() {
            break error.code;
        }
    };
    assert_eq!(refused, Onf::BundleTooMany.into());
}

/// Many may each bundle a little, and few much.
#[test]
fn bundles_of_all_take_a_bounded_amount_of_memory() {
    let (mut world, flags) = (World::default(), BundleFlags::NONE);
    let message = bytes(4, add(1, flags, 4, flow_mod(1)));
    let many = (1 << 20) / message.len();
    let is_refused = |world: &World, peer: &mut Peer, count: usize| {
        world.push(peer, &message.repeat(count)).expect("it goes on");
        codes(&peer.hear()).contains(&(4, Onf::BundleTooMany.into()))
    };
    let mut peers: Vec<Peer> = Vec::new();
    loop {
        let mut peer = world.peer(Kind::Controller);
        let refused = is_refused(&world, &mut peer, many);
        peers.push(peer);
        if refused {
            break;
        }
    }
    assert!((33..40).contains(&peers.len()), "{} of a megabyte each", peers.len());
    let mut other = world.peer(Kind::Controller);
    assert!(!is_refused(&world, &mut other, many / 10) && is_refused(&world, &mut other, many));
    // Bundles that are gone leave room, and so does who is gone.
    let discard = control(1, BundleCommand::Discard, flags);
    assert_eq!(
        world.ask(&mut peers[0], 5, discard.clone()),
        [(5, control(1, BundleCommand::Discarded, flags))]
    );
    peers.remove(1);
    assert!(!is_refused(&world, &mut other, many) && !is_refused(&world, &mut other, many / 2));
}
