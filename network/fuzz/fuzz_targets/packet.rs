//! Any frame: read, each field of it set, tags pushed and taken away.
#![no_main]

use fulmar_packet::{Field, FlowKey, extract, rewrite};
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
        if field != Field::VLAN_TCI && field != Field::L4_SOURCE {
            assert_eq!(after, expected, "{field:?}");
        }
    }
});
