//! What an interface of type `vxlan` is asked to be, in the words of Open vSwitch (`ovs-vswitchd.conf.db(5)`, "Tunnel Options").

use fulmar_packet::vxlan;
use fulmar_port::vxlan::Claim;
use fulmar_vswitch::Tunnel;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// One end of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TunnelWanted {
    pub(crate) udp_port: u16,
    pub(crate) claim: Claim,
    pub(crate) tunnel: Tunnel,
}

/// A value, or that flows have it.
#[derive(Clone, Copy)]
enum Said<T> {
    Fixed(T),
    ByFlow,
}

impl<T> Said<T> {
    fn fixed(self) -> Option<T> {
        match self {
            Self::Fixed(value) => Some(value),
            Self::ByFlow => None,
        }
    }
}

/// Options by their names, and of what they are.
struct Options<'a>(&'a str, &'a BTreeMap<String, String>);

impl Options<'_> {
    /// A value, which may be left to something else by a word.
    fn said<T: FromStr>(&self, name: &str, word: &str, expected: &str) -> Result<Option<Said<T>>, String> {
        let Some(text) = self.1.get(name) else { return Ok(None) };
        if text == word {
            return Ok(Some(Said::ByFlow));
        }
        let value = text.parse().map(|value| Some(Said::Fixed(value)));
        value.map_err(|_| format!("{}: options:{name} is {expected}, not {text:?}", self.0))
    }

    fn key(&self, name: &str) -> Result<Option<Said<u32>>, String> {
        let expected = "a number below 16777216, or flow";
        let key: Option<Said<Key>> = self.said(name, "flow", expected)?;
        Ok(key.map(|key| match key {
            Said::Fixed(Key(number)) => Said::Fixed(number),
            Said::ByFlow => Said::ByFlow,
        }))
    }

    fn address(&self, name: &str) -> Result<Option<Said<Ipv4Addr>>, String> {
        self.said(name, "flow", "an address of IPv4, or flow")
    }
}

/// The number of a network, also with hexadecimal digits.
struct Key(u32);

impl FromStr for Key {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => text.parse(),
        };
        number.ok().filter(|number| *number <= vxlan::LAST_NETWORK).map(Self).ok_or(())
    }
}

/// The options that there are. (Of `csum` nothing needs to be done: the checksum outside is always there, and any is taken.)
const KNOWN: [&str; 10] =
    ["remote_ip", "local_ip", "key", "in_key", "out_key", "dst_port", "tos", "ttl", "df_default", "csum"];

/// Reads the options of an interface.
///
/// # Errors
/// Which of them is missing, not known, or not what it should be.
pub(crate) fn tunnel(name: &str, options: &BTreeMap<String, String>) -> Result<TunnelWanted, String> {
    if let Some(unknown) = options.keys().find(|option| !KNOWN.contains(&option.as_str())) {
        return Err(format!("{name}: options:{unknown} is not known here: there are {}", KNOWN.join(", ")));
    }
    let options = Options(name, options);
    let remote = options.address("remote_ip")?;
    let remote = remote.ok_or_else(|| format!("{name}: a tunnel needs options:remote_ip=ADDRESS"))?;
    let local = options.address("local_ip")?.unwrap_or(Said::Fixed(Ipv4Addr::UNSPECIFIED));
    let key = options.key("key")?.unwrap_or(Said::Fixed(0));
    let (in_key, out_key) = (options.key("in_key")?.unwrap_or(key), options.key("out_key")?.unwrap_or(key));
    let udp_port = options.said("dst_port", "", "a UDP port")?.and_then(Said::fixed).unwrap_or(vxlan::PORT);
    let byte = |name, default| {
        let said = options.said::<u8>(name, "inherit", "a number below 256, or inherit")?;
        Ok::<_, String>(said.map_or(Some(default), Said::fixed))
    };
    let ttl = byte("ttl", 0)?.map(|ttl| if ttl == 0 { Tunnel::TTL } else { ttl });
    let is_whole = options.said("df_default", "", "true or false")?.and_then(Said::fixed).unwrap_or(true);
    let local_fixed = local.fixed().filter(|address| !address.is_unspecified());
    Ok(TunnelWanted {
        udp_port,
        claim: Claim { network: in_key.fixed(), remote: remote.fixed(), local: local_fixed },
        tunnel: Tunnel {
            key: out_key.fixed(),
            remote: remote.fixed(),
            local: local.fixed(),
            tos: byte("tos", 0)?,
            ttl,
            is_whole,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn read(text: &str) -> Result<TunnelWanted, String> {
        let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
        tunnel("vx0", &pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn what_is_not_said_is_as_in_open_vswitch() {
        let expected = TunnelWanted {
            udp_port: 4789,
            claim: Claim { network: Some(0), remote: Some(REMOTE), local: None },
            tunnel: Tunnel::to(REMOTE, 0),
        };
        assert_eq!(read("remote_ip=10.0.0.2"), Ok(expected));
    }

    #[test]
    fn what_is_said_counts() {
        let local = Ipv4Addr::new(10, 0, 0, 1);
        let all = "remote_ip=10.0.0.2 local_ip=10.0.0.1 key=0x2a out_key=7 dst_port=8472 tos=inherit ttl=9 df_default=false";
        let expected = TunnelWanted {
            udp_port: 8472,
            claim: Claim { network: Some(42), remote: Some(REMOTE), local: Some(local) },
            tunnel: Tunnel {
                key: Some(7),
                remote: Some(REMOTE),
                local: Some(local),
                tos: None,
                ttl: Some(9),
                is_whole: false,
            },
        };
        assert_eq!(read(all), Ok(expected));
        let by_flow = read("remote_ip=flow local_ip=flow key=flow").expect("it can be");
        assert_eq!(by_flow.claim, Claim::default());
        assert_eq!((by_flow.tunnel.key, by_flow.tunnel.remote, by_flow.tunnel.local), (None, None, None));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let cases = [
            ("key=5", "a tunnel needs options:remote_ip=ADDRESS"),
            ("remote_ip=fd00::1", "options:remote_ip is an address of IPv4, or flow, not \"fd00::1\""),
            (
                "remote_ip=10.0.0.2 key=16777216",
                "options:key is a number below 16777216, or flow, not \"16777216\"",
            ),
            ("remote_ip=10.0.0.2 dst_port=x", "options:dst_port is a UDP port, not \"x\""),
            ("remote_ip=10.0.0.2 exts=gbp", "options:exts is not known here"),
        ];
        for (text, why) in cases {
            let refused = read(text).expect_err(text);
            assert!(refused.starts_with("vx0: ") && refused.contains(why), "{refused}");
        }
    }
}
