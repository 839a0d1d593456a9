//! From a datagram to the frame in it.

use super::{congestion, unfinished};
use crate::Offload;
use fulmar_packet::vxlan;

/// Why nothing comes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// There is no VXLAN header in it, or no frame.
    Malformed,
    /// It met congestion, of which what is inside cannot know (RFC 6040, section 4.2).
    Congested,
}

/// Reads a datagram that came with a type of service: the number of the network, and what is left to be done to the frame, which begins
/// after [`vxlan::HEADER`] bytes, and says of congestion what both say.
///
/// # Errors
///
/// If nothing comes of it.
pub fn decapsulate(tos: u8, datagram: &mut [u8]) -> Result<(u32, Offload), Lost> {
    let (network, _) = vxlan::parse(datagram).ok_or(Lost::Malformed)?;
    let frame = &mut datagram[vxlan::HEADER..];
    if !congestion::inherit(tos, frame) {
        return Err(Lost::Congested);
    }
    Ok((network, unfinished::left(frame)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::finish;
    use fulmar_node::Random;
    use fulmar_packet::{Field, FlowKey, build, ethernet, extract, ip};

    /// Whatever comes in, nothing but the two bits changes inside, and what is left to be done can be, or is refused.
    #[test]
    fn anything_is_read_or_lost() {
        let mut random = Random::new(1);
        let mut counts = [0; 3];
        for _ in 0..100_000 {
            let mut key = FlowKey::EMPTY;
            let kind = if random.below(2) == 0 { ethernet::IPV4 } else { ethernet::IPV6 };
            key.set(Field::ETH_TYPE, kind.into());
            key.set(Field::IP_PROTOCOL, if random.below(2) == 0 { ip::TCP } else { ip::UDP }.into());
            key.set(Field::IP_TOS, random.below(4).into());
            let payload = usize::try_from(random.below(2000)).expect("short");
            let mut datagram = [&vxlan::header(42)[..], &build(&key, &vec![1; payload])].concat();
            for _ in 0..random.below(4) {
                let at = usize::try_from(random.below(70.min(datagram.len() as u64))).expect("short");
                datagram[at] = u8::try_from(random.below(256)).expect("a byte");
            }
            if random.below(4) == 0 {
                datagram.truncate(usize::try_from(random.below(100)).expect("short"));
            }
            let before = datagram.clone();
            let read = decapsulate(u8::try_from(random.below(4)).expect("small"), &mut datagram);
            counts[match read {
                Ok((_, offload)) => {
                    let [mut was, mut is] = [FlowKey::EMPTY, FlowKey::EMPTY];
                    extract(&before[vxlan::HEADER..], &mut was);
                    extract(&datagram[vxlan::HEADER..], &mut is);
                    was.set(Field::IP_ECN, is.get(Field::IP_ECN));
                    assert_eq!(is, was);
                    let frame = &datagram[vxlan::HEADER..];
                    // Said to be what it is not, it is refused.
                    let _ = finish(frame, offload, &mut Vec::new(), |_| {});
                    0
                }
                Err(Lost::Malformed) => 1,
                Err(Lost::Congested) => 2,
            }] += 1;
        }
        assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
    }
}
