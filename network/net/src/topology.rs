//! What a network consists of, read from TOML.

mod entries;

use crate::{Error, Quality};
use entries::{Entry, Wrong};
use fulmar_bridge::FailMode;
use fulmar_openflow::flow::FlowMod;
use fulmar_session::Target;
use std::net::IpAddr;
use std::path::Path;
use toml::de::DeTable;

/// A network as it is to be.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Hosts, in the order in which they are written.
    pub hosts: Vec<Host>,
    /// Switches: the first has number 1 (its datapath's).
    pub switches: Vec<Switch>,
    /// Links. A host's first is its `eth0`, a switch's first its port 1.
    pub links: Vec<Link>,
}

/// A host: a network namespace.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// Its name: no other host's or switch's.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<Address>,
    /// The hardware address of its `eth0`; one made up of its place, if there is none.
    pub mac: Option<String>,
    /// Its routes, as `ip route add` takes them.
    pub routes: Vec<String>,
}

/// An address of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// How many of its bits all neighbours have.
    pub prefix: u8,
    /// On which interface it is: 0 for `eth0`.
    pub interface: usize,
}

/// A switch.
#[derive(Clone, Debug, Default)]
pub struct Switch {
    /// Its name: no other host's or switch's.
    pub name: String,
    /// Who controls it.
    pub controllers: Vec<Target>,
    /// What it does without controllers.
    pub fail_mode: FailMode,
    /// Flows that it has from the start.
    pub flows: Vec<FlowMod>,
}

/// A link between two of them.
#[derive(Clone, Debug)]
pub struct Link {
    /// Names of hosts or switches.
    pub ends: [String; 2],
    /// How good it is, in either direction.
    pub quality: Quality,
}

impl Topology {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is not as it should be.
    pub fn read(file: &Path) -> Result<Self, Error> {
        let text =
            std::fs::read_to_string(file).map_err(Error::cannot(format!("read {}", file.display())))?;
        Self::parse(&text, file)
    }

    /// Reads a text that is, or could be, in this file.
    ///
    /// # Errors
    /// If it is not as it should be. The error names the file and the line.
    pub fn parse(text: &str, file: &Path) -> Result<Self, Error> {
        Self::of(text).map_err(|Wrong { at, what, instead }| Error::Topology {
            file: file.to_owned(),
            line: 1 + text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count(),
            what,
            instead,
        })
    }

    fn of(text: &str) -> Result<Self, Wrong> {
        let document = DeTable::parse(text).map_err(|error| Wrong {
            at: error.span().map_or(0, |span| span.start),
            what: error.message().replace('\n', ", "),
            instead: "TOML, as in name = \"a\"".into(),
        })?;
        let mut topology = Self::default();
        let mut names = Vec::new();
        let entries = Entry::all(&document)?;
        for entry in &entries {
            match entry.kind {
                "host" => topology.hosts.push(host(entry, &mut names)?),
                "switch" => topology.switches.push(switch(entry, &mut names)?),
                _ => {}
            }
        }
        for entry in entries.iter().filter(|entry| entry.kind == "link") {
            topology.links.push(link(entry, &names)?);
        }
        topology.check_interfaces(&entries)?;
        Ok(topology)
    }

    /// Names of what is linked with this, in the order of its interfaces or ports.
    pub fn neighbours<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.links.iter().filter_map(move |link| match &link.ends {
            [one, other] if one == name => Some(other.as_str()),
            [one, other] if other == name => Some(one.as_str()),
            _ => None,
        })
    }

    /// Each address needs an interface.
    fn check_interfaces(&self, entries: &[Entry<'_>]) -> Result<(), Wrong> {
        let hosts = entries.iter().filter(|entry| entry.kind == "host");
        for (host, entry) in self.hosts.iter().zip(hosts) {
            let interfaces = self.neighbours(&host.name).count();
            if let Some(address) = host.addresses.iter().find(|address| address.interface >= interfaces) {
                let what = format!("host {:?} has no interface eth{}", host.name, address.interface);
                let instead =
                    format!("a [[link]] with ends = [\"{}\", …] for each of its interfaces", host.name);
                return Err(Wrong { at: entry.at, what, instead });
            }
        }
        Ok(())
    }
}

fn host(entry: &Entry<'_>, names: &mut Vec<String>) -> Result<Host, Wrong> {
    entry.only(&["name", "address", "mac", "routes"])?;
    let name = new_name(entry, names)?;
    let parse = |text: &str| {
        address(text).ok_or("an address and its prefix, as in \"10.0.0.1/24\" or \"fd00::1/64 dev eth1\"")
    };
    let addresses = entry.list("address", parse)?;
    let mac = entry
        .list(
            "mac",
            |text| if is_mac(text) { Ok(text.to_owned()) } else { Err("as in \"02:00:00:00:00:01\"") },
        )?
        .pop();
    let routes = entry.list("routes", |text| Ok::<_, &str>(text.to_owned()))?;
    Ok(Host { name, addresses, mac, routes })
}

fn switch(entry: &Entry<'_>, names: &mut Vec<String>) -> Result<Switch, Wrong> {
    entry.only(&["name", "controllers", "fail-mode", "flows"])?;
    let name = new_name(entry, names)?;
    let controllers = entry.list("controllers", |text| match text.parse() {
        Ok(target @ (Target::Tcp(_) | Target::Unix(_) | Target::PassiveTcp(_) | Target::PassiveUnix(_))) => {
            Ok(target)
        }
        _ => Err("a controller without TLS, as in \"tcp:127.0.0.1:6653\" or \"ptcp:6653:127.0.0.1\""),
    })?;
    let fail_mode = entry.list("fail-mode", |text| match text {
        "standalone" => Ok(FailMode::Standalone),
        "secure" => Ok(FailMode::Secure),
        _ => Err("\"standalone\" or \"secure\""),
    })?;
    let flows = entry.list("flows", |text| {
        text.parse::<FlowMod>().map_err(|why| format!("a flow as `ovs-ofctl add-flow` takes it: {why}"))
    })?;
    Ok(Switch { name, controllers, fail_mode: fail_mode.first().copied().unwrap_or_default(), flows })
}

fn link(entry: &Entry<'_>, names: &[String]) -> Result<Link, Wrong> {
    let known: Vec<_> = ["ends"].into_iter().chain(Quality::names()).collect();
    entry.only(&known)?;
    let ends = entry.list("ends", |text| {
        if names.iter().any(|name| name == text) {
            Ok(text.to_owned())
        } else {
            Err(format!("one of {}", names.join(", ")))
        }
    })?;
    let ends: [String; 2] = ends.try_into().map_err(|ends: Vec<_>| Wrong {
        at: entry.at,
        what: format!("a link with {} ends", ends.len()),
        instead: "two, as in ends = [\"a\", \"s1\"]".into(),
    })?;
    if ends[0] == ends[1] {
        let (what, instead) = (format!("a link from {:?} to itself", ends[0]), "two different ends".into());
        return Err(Wrong { at: entry.at, what, instead });
    }
    let mut quality = Quality::default();
    for part in Quality::names() {
        entry.list(part, |text| quality.set(part, text))?;
    }
    if quality.reorder > 0.0 && quality.delay.is_zero() {
        let what = "without a delay, there is nothing to overtake".into();
        return Err(Wrong {
            at: entry.at,
            what,
            instead: "a delay beside reorder, as in delay = \"2ms\"".into(),
        });
    }
    Ok(Link { ends, quality })
}

/// Letters, digits, `-` and `_`; 15 at most, as of interfaces.
pub(crate) fn is_name(text: &str) -> bool {
    (1..=15).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn new_name(entry: &Entry<'_>, names: &mut Vec<String>) -> Result<String, Wrong> {
    let name = entry.list("name", |text| match is_name(text) {
        true if names.iter().any(|name| name == text) => Err("a name that no other host or switch has"),
        true => Ok(text.to_owned()),
        false => Err("letters, digits, `-` and `_`, 15 at most"),
    })?;
    let name = name.into_iter().next().ok_or_else(|| Wrong {
        at: entry.at,
        what: format!("a {} without a name", entry.kind),
        instead: "one, as in name = \"a\"".into(),
    })?;
    names.push(name.clone());
    Ok(name)
}

/// `IP/PREFIX`, or `IP/PREFIX dev ethN`.
fn address(text: &str) -> Option<Address> {
    let (address, interface) = text.split_once(" dev eth").unwrap_or((text, "0"));
    let (ip, prefix) = address.split_once('/')?;
    let (ip, prefix) = (ip.parse::<IpAddr>().ok()?, prefix.parse().ok()?);
    let longest = if ip.is_ipv4() { 32 } else { 128 };
    (prefix <= longest).then_some(Address { ip, prefix, interface: interface.trim().parse().ok()? })
}

/// Six bytes, of a single station.
fn is_mac(text: &str) -> bool {
    let bytes: Vec<_> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok().filter(|_| byte.len() == 2)).collect();
    bytes.len() == 6 && bytes.iter().all(Option::is_some) && bytes[0].is_some_and(|first| first & 1 == 0)
}
