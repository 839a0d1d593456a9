//! Congestion that a tunnel met, told to what was inside it (RFC 6040, section 4.2).

use fulmar_packet::{Field, FlowKey, ethernet, extract, rewrite};

/// Values of the two bits (RFC 3168, section 5).
const NOT_CAPABLE: u128 = 0;
const CAPABLE_1: u8 = 1;
const CAPABLE_0: u128 = 2;
const EXPERIENCED: u8 = 3;

/// Sets what a frame says of congestion, by the type of service that was outside. Says whether the frame lives: one that does not
/// know of congestion, and met it, is dropped.
#[must_use]
pub(super) fn inherit(outer: u8, frame: &mut [u8]) -> bool {
    let outer = outer & EXPERIENCED;
    if !matches!(outer, CAPABLE_1 | EXPERIENCED) {
        return true;
    }
    let mut key = FlowKey::EMPTY;
    let layers = extract(frame, &mut key);
    let kind = u16::try_from(key.get(Field::ETH_TYPE)).unwrap_or_default();
    if !matches!(kind, ethernet::IPV4 | ethernet::IPV6) {
        return true;
    }
    match (key.get(Field::IP_ECN), outer) {
        (NOT_CAPABLE, EXPERIENCED) => return false,
        (CAPABLE_0, _) | (_, EXPERIENCED) => {
            rewrite(frame, &key, layers, Field::IP_ECN, (outer.into(), u128::MAX));
        }
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_packet::checksum::Sum;
    use fulmar_packet::{build, ip};

    fn frame(kind: u16, ecn: u8) -> Vec<u8> {
        let mut key = FlowKey::EMPTY;
        key.set(Field::ETH_TYPE, kind.into());
        key.set(Field::IP_PROTOCOL, ip::UDP.into());
        key.set(Field::IP_TOS, u128::from(0xb8 | ecn));
        build(&key, &[])
    }

    /// Figure 4: a row for each inner value, a column for each outer one; nothing, where it is dropped.
    #[test]
    fn what_is_inside_and_outside_become_one() {
        let expected = [
            [Some(0), Some(0), Some(0), None],
            [Some(1), Some(1), Some(1), Some(3)],
            [Some(2), Some(1), Some(2), Some(3)],
            [Some(3), Some(3), Some(3), Some(3)],
        ];
        for kind in [ethernet::IPV4, ethernet::IPV6] {
            for (inner, row) in (0..).zip(expected) {
                for (outer, expected) in (0..).zip(row) {
                    let mut frame = frame(kind, inner);
                    let lives = inherit(outer, &mut frame);
                    let mut key = FlowKey::EMPTY;
                    extract(&frame, &mut key);
                    let found = lives.then(|| key.get(Field::IP_TOS));
                    assert_eq!(found, expected.map(|ecn: u8| u128::from(0xb8 | ecn)), "{inner} in {outer}");
                    if kind == ethernet::IPV4 {
                        assert_eq!(Sum::default().bytes(&frame[14..34]).finish(), 0, "the header's sum");
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_not_ip_stays() {
        let mut frame = vec![0xff; 60];
        assert!(inherit(EXPERIENCED, &mut frame));
        assert_eq!(frame, [0xff; 60]);
    }
}
