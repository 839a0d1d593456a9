//! Where controllers are, as Open vSwitch writes it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// The port of OpenFlow.
const PORT: u16 = 6653;

/// Where a controller is, or where controllers come to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// `tcp:IP[:PORT]`
    Tcp(SocketAddr),
    /// `ssl:IP[:PORT]`
    Tls(SocketAddr),
    /// `unix:PATH`
    Unix(PathBuf),
    /// `ptcp:[PORT][:IP]`: they come. With port 0 the system chooses one.
    PassiveTcp(SocketAddr),
    /// `pssl:[PORT][:IP]`
    PassiveTls(SocketAddr),
    /// `punix:PATH`
    PassiveUnix(PathBuf),
}

/// A text is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no place of a controller: {wrong}; expected as in {example}")]
pub struct TargetError {
    text: String,
    wrong: String,
    example: &'static str,
}

impl Target {
    /// Whether controllers come, instead of being called.
    #[must_use]
    pub const fn is_passive(&self) -> bool {
        matches!(self, Self::PassiveTcp(_) | Self::PassiveTls(_) | Self::PassiveUnix(_))
    }

    /// Whether it needs keys and certificates.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::PassiveTls(_))
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (method, rest) = text.split_once(':').unwrap_or((text, ""));
        let (parsed, example) = match method {
            "tcp" => (active(rest).map(Self::Tcp), "tcp:192.0.2.1:6653 or tcp:[2001:db8::1]"),
            "ssl" => (active(rest).map(Self::Tls), "ssl:192.0.2.1:6653 or ssl:[2001:db8::1]"),
            "ptcp" => (passive(rest).map(Self::PassiveTcp), "ptcp:6653:127.0.0.1 or ptcp:6653"),
            "pssl" => (passive(rest).map(Self::PassiveTls), "pssl:6653:127.0.0.1 or pssl:6653"),
            "unix" => (path(rest).map(Self::Unix), "unix:/run/controller.sock"),
            "punix" => (path(rest).map(Self::PassiveUnix), "punix:/run/br0.mgmt"),
            _ => (
                Err(format!("there is no method {method:?}")),
                "tcp:192.0.2.1:6653 (or ssl, unix, ptcp, pssl, punix)",
            ),
        };
        parsed.map_err(|wrong| TargetError { text: text.into(), wrong, example })
    }
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("it has no path".into()) } else { Ok(text.into()) }
}

/// An address of IPv6 may be in brackets, and is if a port follows.
fn address(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse().map_err(|_| format!("{text:?} is no IP address"))
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("{text:?} is no port"))
}

fn active(text: &str) -> Result<SocketAddr, String> {
    // What follows the last colon outside of brackets; with several colons and no brackets, all of it is an address.
    let (ip, number) = match text.rsplit_once(':') {
        Some((ip, number)) if !number.ends_with(']') && (ip.ends_with(']') || !ip.contains(':')) => {
            (ip, port(number)?)
        }
        _ => (text, PORT),
    };
    match (address(ip)?, number) {
        (_, 0) => Err("nobody can be called at port 0".into()),
        (ip, number) => Ok(SocketAddr::new(ip, number)),
    }
}

fn passive(text: &str) -> Result<SocketAddr, String> {
    let (number, ip) = text.split_once(':').unwrap_or((text, ""));
    let number = if number.is_empty() { PORT } else { port(number)? };
    let ip = if ip.is_empty() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { address(ip)? };
    Ok(SocketAddr::new(ip, number))
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let in_brackets = |ip: IpAddr| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
        match self {
            Self::Tcp(at) => write!(f, "tcp:{at}"),
            Self::Tls(at) => write!(f, "ssl:{at}"),
            Self::PassiveTcp(at) => write!(f, "ptcp:{}:{}", at.port(), in_brackets(at.ip())),
            Self::PassiveTls(at) => write!(f, "pssl:{}:{}", at.port(), in_brackets(at.ip())),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::PassiveUnix(path) => write!(f, "punix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_as_open_vswitch_writes_them() {
        for (text, whole) in [
            ("tcp:10.0.0.1", "tcp:10.0.0.1:6653"),
            ("tcp:10.0.0.1:6633", "tcp:10.0.0.1:6633"),
            ("tcp:[::1]", "tcp:[::1]:6653"),
            ("tcp:[::1]:1", "tcp:[::1]:1"),
            ("tcp:fe80::1", "tcp:[fe80::1]:6653"),
            ("ssl:10.0.0.1", "ssl:10.0.0.1:6653"),
            ("ptcp:", "ptcp:6653:0.0.0.0"),
            ("ptcp:0:127.0.0.1", "ptcp:0:127.0.0.1"),
            ("ptcp::127.0.0.1", "ptcp:6653:127.0.0.1"),
            ("pssl:7:[::1]", "pssl:7:[::1]"),
            ("pssl:7:::1", "pssl:7:[::1]"),
            ("unix:/a:b", "unix:/a:b"),
            ("punix:br0.mgmt", "punix:br0.mgmt"),
        ] {
            let target: Target = text.parse().expect(text);
            assert_eq!(target.to_string(), whole);
            assert_eq!(whole.parse(), Ok(target));
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |text: &str| text.parse::<Target>().expect_err(text).to_string();
        assert_eq!(
            wrong("tcp:10.0.0.1:66533"),
            "\"tcp:10.0.0.1:66533\" is no place of a controller: \"66533\" is no port; \
             expected as in tcp:192.0.2.1:6653 or tcp:[2001:db8::1]"
        );
        assert!(wrong("tcp:controller").contains("\"controller\" is no IP address"));
        assert!(wrong("tcp:10.0.0.1:0").contains("port 0"));
        assert!(wrong("udp:10.0.0.1").contains("no method \"udp\"; expected as in tcp:"));
        assert!(wrong("punix:").contains("no path; expected as in punix:/run/br0.mgmt"));
        assert!(wrong("").contains("no method"));
    }
}
