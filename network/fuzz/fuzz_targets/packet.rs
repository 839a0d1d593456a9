//! Any frame: read, each field of it set; and taken as a datagram of VXLAN, what is in it.
#![no_main]

use fulmar_packet::{Field, FlowKey, extract, ip, rewrite, vxlan};
use fulmar_port::vxlan::decapsulate;
use libfuzzer_sys::fuzz_target;

const SET: [Field; 14] = [
    Field::ETH_SOURCE,
    Field::VLAN_TCI,
    Field::MPLS_LABEL,
    Field::MPLS_TTL,
    Field::IPV4_SOURCE,
    Field::IPV4_DESTINATION,
    Field::IPV6_SOURCE,
    Field::IPV6_DESTINATION,
    Field::IP_TOS,
    Field::IP_TTL,
    Field::ARP_SENDER,
    Field::ND_TARGET,
    Field::L4_SOURCE,
    Field::L4_DESTINATION,
];

fuzz_target!(|frame: &[u8]| {
    let mut key = FlowKey::EMPTY;
    let layers = extract(frame, &mut key);
    for field in SET {
        let mut changed = frame.to_vec();
        rewrite(&mut changed, &key, layers, field, (0x0102_0304_0506_0708, field.ones()));
        // Nothing else is another: what says where things are least of all.
        let mut after = FlowKey::EMPTY;
        assert_eq!(extract(&changed, &mut after), layers, "{field:?}");
        let mut expected = key.clone();
        expected.set(field, after.get(field));
        // Whether there is a tag, and whether a message of ICMPv6 is one of neighbour discovery, depends on what was set.
        let decides = match field {
            Field::VLAN_TCI => true,
            Field::L4_SOURCE | Field::L4_DESTINATION => key.get(Field::IP_PROTOCOL) == ip::ICMPV6.into(),
            _ => false,
        };
        if !decides {
            assert_eq!(after, expected, "{field:?}");
        }
    }
    if let Some((network, inner)) = vxlan::parse(frame) {
        assert_eq!(vxlan::parse(&[&vxlan::header(network), inner].concat()), Some((network, inner)));
        // Whatever came outside, nothing but the two bits changes inside, and what is left to be done can be, or is refused.
        for outer in 0..4 {
            let mut changed = frame.to_vec();
            let Ok((_, offload)) = decapsulate(outer, &mut changed) else { continue };
            let changed = &changed[vxlan::HEADER..];
            let [mut before, mut after] = [FlowKey::EMPTY, FlowKey::EMPTY];
            extract(inner, &mut before);
            extract(changed, &mut after);
            before.set(Field::IP_ECN, after.get(Field::IP_ECN));
            assert_eq!(after, before);
            let _ = fulmar_port::offload::finish(changed, offload, &mut Vec::new(), |_| {});
        }
    }
});
