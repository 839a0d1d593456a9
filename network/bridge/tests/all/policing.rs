//! What is too much of what comes in at a port is dropped there, and counted; until nobody asks for that any more.

use fulmar_bridge::Bridge;
use fulmar_port::{Offload, Port, memory};
use fulmar_vswitch::{Policing, PortInfo, Rate, Settings, Switch};
use std::num::NonZeroUsize;

const FRAME: [u8; 60] = [0xff; 60];

#[test]
fn a_port_is_policed() {
    let switch = Switch::new(1, "br0", Settings::default());
    let bridge = Bridge::start("br0", switch, NonZeroUsize::MIN, |text| println!("{text}")).expect("threads");
    let [(mut a, one), (mut b, two)] = [(); 2].map(|()| memory::pair().expect("a pair"));
    bridge.attach(1, PortInfo::new("one", [2, 0, 0, 0, 0, 1]), one);
    bridge.attach(2, PortInfo::new("two", [2, 0, 0, 0, 0, 2]), two);
    bridge.work_alone();
    // Five packets at once, and no more ever.
    let few = Rate { per_second: Some(0), burst: Some(5) };
    let counted = || {
        let port = bridge.switch().port(1).expect("it is there");
        port.counters.all().map(|traffic| traffic.packets)
    };
    let send = |a: &mut Port, frames: u64| {
        // Orders from before have been carried out then.
        bridge.look(|_, _| ());
        let before: u64 = counted()[..2].iter().sum();
        (0..frames).for_each(|_| a.send(&FRAME, Offload::NONE));
        a.flush();
        while counted()[..2].iter().sum::<u64>() < before + frames {
            std::thread::yield_now();
        }
        let [received, refused, ..] = counted();
        (received, refused)
    };
    assert_eq!(send(&mut a, 8), (8, 0));
    bridge.police(1, Policing { packets: few, ..Policing::default() });
    assert_eq!(send(&mut a, 8), (13, 3));
    bridge.police(1, Policing { bits: few, ..Policing::default() });
    assert_eq!(send(&mut a, 8), (14, 10), "the first has more bits than there are for long");
    bridge.police(1, Policing::default());
    assert_eq!(send(&mut a, 8), (22, 10));
    // What comes in elsewhere is not concerned.
    bridge.police(1, Policing { packets: Rate { burst: Some(0), ..few }, ..Policing::default() });
    b.send(&FRAME, Offload::NONE);
    b.flush();
    while a.receive(1, |frame| assert_eq!(frame.bytes(), FRAME)).expect("it is open") == 0 {}
}
