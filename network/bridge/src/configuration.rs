//! What the configuration database asks for: bridges, ports and controllers, as `ovs-vsctl` writes them.

use crate::bridge::FailMode;
use crate::spanning::SpanningPort;
use fulmar_openflow::Version;
use fulmar_ovsdb::{Atom, Database, RowRef, Uuid};
use fulmar_rstp::Times;
use fulmar_vswitch::{Learning, Policing, Rate, Shaping, Vlans};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// So many mirrors a bridge has, as with Open vSwitch: a packet asks each of them.
const MOST_MIRRORS: usize = 32;

/// All that is asked for.
#[derive(Debug, Default)]
pub(crate) struct Configuration {
    /// The row of the table `Open_vSwitch`.
    pub(crate) root: Option<Uuid>,
    pub(crate) next: i64,
    pub(crate) bridges: BTreeMap<String, BridgeWanted>,
}

#[derive(Clone, Debug)]
pub(crate) struct BridgeWanted {
    pub(crate) row: Uuid,
    pub(crate) datapath: Option<u64>,
    pub(crate) fail_mode: FailMode,
    pub(crate) controllers: Vec<ControllerWanted>,
    /// What is spoken with controllers and tools.
    pub(crate) versions: Vec<Version>,
    pub(crate) interfaces: Vec<InterfaceWanted>,
    pub(crate) mirrors: Vec<MirrorWanted>,
    /// How many more there are to be than can be.
    pub(crate) unmirrored: usize,
    pub(crate) spanning: Option<SpanningWanted>,
    pub(crate) learning: Learning,
}

/// What a bridge is to be in a spanning tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanningWanted {
    pub(crate) priority: u16,
    /// Its name there, if that is not its own address.
    pub(crate) address: Option<[u8; 6]>,
    pub(crate) times: Times,
}

#[derive(Clone, Debug)]
pub(crate) struct ControllerWanted {
    pub(crate) row: Uuid,
    pub(crate) target: String,
    pub(crate) settings: fulmar_session::Settings,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceWanted {
    pub(crate) row: Uuid,
    /// The row of its port.
    pub(crate) port: Uuid,
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) options: BTreeMap<String, String>,
    pub(crate) number: Option<u32>,
    pub(crate) vlans: Vlans,
    /// Ports of one QoS share it.
    pub(crate) shaping: Option<Arc<Shaping>>,
    pub(crate) policing: Policing,
    pub(crate) bond: Option<BondWanted>,
    /// What is asked of its port that is not done here, and would not be missed at once: that some others do not reach it.
    pub(crate) unmet: Option<&'static str>,
    /// What its port is in the bridge's spanning tree, if it is in that.
    pub(crate) spanning: Option<SpanningPort>,
    /// Its number before, as was written down.
    pub(crate) last: Option<u32>,
    /// Its Ethernet address, if it has one of its own.
    pub(crate) address: Option<[u8; 6]>,
}

/// A port that has several interfaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BondWanted {
    pub(crate) row: Uuid,
    pub(crate) port: Arc<str>,
    pub(crate) mode: Option<String>,
    pub(crate) lacp: Option<String>,
}

/// A mirror, of ports by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MirrorWanted {
    pub(crate) row: Uuid,
    pub(crate) name: String,
    pub(crate) arriving: Vec<String>,
    pub(crate) leaving: Vec<String>,
    pub(crate) vlans: BTreeSet<u16>,
    /// As `ovs-ofctl` has it.
    pub(crate) filter: Option<String>,
    pub(crate) output: MirrorTo,
    pub(crate) length: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MirrorTo {
    Port(String),
    Vlan(u16),
}

fn text(row: RowRef<'_>, column: &str) -> Option<String> {
    row.get(column).string().map(str::to_owned)
}

fn string(atom: &Atom) -> Option<String> {
    match atom {
        Atom::String(text) => Some(text.to_string()),
        _ => None,
    }
}

fn number(row: RowRef<'_>, column: &str) -> Option<i64> {
    row.get(column).integer()
}

/// The rows of another table that a column refers to.
fn referred<'d>(
    database: &'d Database,
    row: RowRef<'d>,
    column: &str,
    table: &'static str,
) -> impl Iterator<Item = RowRef<'d>> {
    let rows: Vec<Uuid> = row.get(column).uuids().collect();
    rows.into_iter().filter_map(move |uuid| database.row(table, uuid))
}

/// Reads what is asked for. A value that makes no sense is as if it were not there: the schema has let it in.
pub(crate) fn read(database: &Database) -> Configuration {
    let Some(root) = database.rows("Open_vSwitch").next() else { return Configuration::default() };
    let tls = referred(database, root, "ssl", "SSL").next().and_then(|row| {
        let path = |column| text(row, column).map(PathBuf::from);
        let (private_key, certificate) = (path("private_key")?, path("certificate")?);
        Some(fulmar_session::TlsFiles { private_key, certificate, authority: path("ca_cert")? })
    });
    let bridges = referred(database, root, "bridges", "Bridge");
    let bridges = bridges.filter_map(|row| Some((text(row, "name")?, bridge(database, row, tls.as_ref()))));
    Configuration {
        root: Some(root.uuid()),
        next: number(root, "next_cfg").unwrap_or_default(),
        bridges: bridges.collect(),
    }
}

fn bridge(database: &Database, row: RowRef<'_>, tls: Option<&fulmar_session::TlsFiles>) -> BridgeWanted {
    let configured = other(row, "datapath-id");
    let datapath = configured.and_then(|id| u64::from_str_radix(&id, 16).ok());
    let secure = text(row, "fail_mode").is_some_and(|mode| mode == "secure");
    let versions = versions(row);
    let controllers = referred(database, row, "controller", "Controller").filter_map(|controller| {
        Some(ControllerWanted {
            row: controller.uuid(),
            target: text(controller, "target")?,
            settings: settings(controller, tls, &versions),
        })
    });
    let protocol = protocol(row);
    let ports = referred(database, row, "ports", "Port");
    let mut shapings = BTreeMap::new();
    let interfaces = ports.flat_map(|port| {
        let shaping = shaping(database, port, &mut shapings);
        let interfaces = referred(database, port, "interfaces", "Interface");
        let interface = |row| interface(row, port, shaping.clone(), protocol);
        interfaces.filter_map(interface).collect::<Vec<_>>()
    });
    let mut interfaces: Vec<InterfaceWanted> = interfaces.collect();
    let own_address = other(row, "hwaddr").and_then(|text| address(&text));
    if let Some(own) =
        interfaces.iter_mut().find(|interface| Some(&interface.name) == text(row, "name").as_ref())
    {
        own.address = own_address.or(own.address);
    }
    let unmirrored = row.get("mirrors").uuids().count().saturating_sub(MOST_MIRRORS);
    let mirrors = referred(database, row, "mirrors", "Mirror").take(MOST_MIRRORS);
    let mirrors = mirrors.filter_map(|row| mirror(database, row, &interfaces)).collect();
    BridgeWanted {
        row: row.uuid(),
        datapath,
        fail_mode: if secure { FailMode::Secure } else { FailMode::Standalone },
        controllers: controllers.collect(),
        versions,
        interfaces,
        mirrors,
        unmirrored,
        spanning: protocol.map(|protocol| spanning(row, protocol)),
        learning: learning(row),
    }
}

/// In the ranges that Open vSwitch takes them to.
fn learning(bridge: RowRef<'_>) -> Learning {
    let number = |name| other(bridge, name)?.parse::<u64>().ok();
    let usual = Learning::default();
    let most = number("mac-table-size").and_then(|most| usize::try_from(most.clamp(10, 1_000_000)).ok());
    let age = number("mac-aging-time").map(|seconds| Duration::from_secs(seconds.clamp(15, 3_600)));
    Learning { most: most.unwrap_or(usual.most), age: age.unwrap_or(usual.age) }
}

/// The protocol of the spanning tree that a bridge is to take part in, as its settings begin with it. RSTP speaks STP with whoever does.
fn protocol(bridge: RowRef<'_>) -> Option<&'static str> {
    let has = |column| bridge.get(column).boolean().unwrap_or_default();
    if has("rstp_enable") { Some("rstp") } else { has("stp_enable").then_some("stp") }
}

/// One of the further settings of a row.
fn other(row: RowRef<'_>, name: &str) -> Option<String> {
    row.get("other_config").get(name).and_then(string)
}

fn spanning(bridge: RowRef<'_>, protocol: &str) -> SpanningWanted {
    let number = |name: &str, least, most| {
        let number = other(bridge, &format!("{protocol}-{name}"))?.parse().ok()?;
        (least..=most).contains(&number).then_some(number)
    };
    let usual = Times::default();
    let named = if protocol == "rstp" { "rstp-address" } else { "stp-system-id" };
    SpanningWanted {
        priority: number("priority", 0, 0xf000).unwrap_or(0x8000),
        address: other(bridge, named).and_then(|text| address(&text)),
        times: Times {
            max_age: number("max-age", 6, 40).unwrap_or(usual.max_age),
            hello: number("hello-time", 1, 10).unwrap_or(usual.hello),
            forward_delay: number("forward-delay", 4, 30).unwrap_or(usual.forward_delay),
            ..usual
        },
    }
}

fn spanning_port(port: RowRef<'_>, protocol: &str) -> Option<SpanningPort> {
    let setting = |name: &str| other(port, &format!("{protocol}-{name}"));
    if setting("enable").is_some_and(|enable| enable == "false") {
        return None;
    }
    let usual = SpanningPort::default();
    Some(SpanningPort {
        priority: setting("port-priority").and_then(|text| text.parse().ok()).unwrap_or(usual.priority),
        cost: setting("path-cost").and_then(|text| text.parse().ok()).filter(|cost| *cost > 0),
        is_edge: setting("port-admin-edge").is_some_and(|edge| edge == "true"),
    })
}

/// The versions that a bridge speaks: all, if it names none that there is here.
fn versions(row: RowRef<'_>) -> Vec<Version> {
    let named = row.get("protocols").atoms().filter_map(string);
    let mut versions: Vec<Version> = named.filter_map(|name| Version::named(&name)).collect();
    versions.sort();
    if versions.is_empty() { Version::ALL.to_vec() } else { versions }
}

fn settings(
    row: RowRef<'_>,
    tls: Option<&fulmar_session::TlsFiles>,
    versions: &[Version],
) -> fulmar_session::Settings {
    let versions = versions.to_vec();
    let mut settings = fulmar_session::Settings { tls: tls.cloned(), versions, ..Default::default() };
    let milliseconds = |column| number(row, column).and_then(|number| u64::try_from(number).ok());
    if let Some(backoff) = milliseconds("max_backoff") {
        settings.max_backoff = Duration::from_millis(backoff);
    }
    if let Some(probe) = milliseconds("inactivity_probe") {
        settings.inactivity = (probe > 0).then(|| Duration::from_millis(probe));
    }
    settings
}

fn interface(
    row: RowRef<'_>,
    port: RowRef<'_>,
    shaping: Option<Arc<Shaping>>,
    protocol: Option<&str>,
) -> Option<InterfaceWanted> {
    let number = number(row, "ofport_request").and_then(|number| u32::try_from(number).ok());
    let pairs = row.get("options").pairs();
    let options = pairs.filter_map(|(name, value)| Some((string(name)?, string(value?)?))).collect();
    let kind = text(row, "type").unwrap_or_default();
    let last = self::number(row, "ofport").and_then(|number| u32::try_from(number).ok());
    let address = text(row, "mac").and_then(|text| address(&text));
    let (vlans, bond, unmet) = (vlans(port), bond(port), unmet(port));
    // Neither a member of a bond nor what is inside leads to another bridge of the tree.
    let protocol = protocol.filter(|_| bond.is_none() && kind != "internal");
    let spanning = protocol.and_then(|protocol| spanning_port(port, protocol));
    let (row, port, name, policing) = (row.uuid(), port.uuid(), text(row, "name")?, policing(row));
    Some(InterfaceWanted {
        row,
        port,
        name,
        kind,
        options,
        number,
        vlans,
        shaping,
        policing,
        bond,
        unmet,
        spanning,
        last,
        address,
    })
}

/// An Ethernet address of one station, as people write it.
fn address(text: &str) -> Option<[u8; 6]> {
    let bytes: Vec<u8> =
        text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect::<Option<_>>()?;
    <[u8; 6]>::try_from(bytes).ok().filter(|address| address[0] & 1 == 0 && *address != [0; 6])
}

fn unmet(port: RowRef<'_>) -> Option<&'static str> {
    if text(port, "vlan_mode").is_some_and(|mode| mode == "dot1q-tunnel") {
        return Some("vlan_mode=dot1q-tunnel");
    }
    port.get("protected").boolean().unwrap_or_default().then_some("protected=true")
}

/// What the interfaces of a port are, if it has several.
fn bond(port: RowRef<'_>) -> Option<BondWanted> {
    (port.get("interfaces").uuids().count() > 1).then_some(())?;
    Some(BondWanted {
        row: port.uuid(),
        port: text(port, "name")?.into(),
        mode: text(port, "bond_mode"),
        lacp: text(port, "lacp"),
    })
}

/// How much may come in at an interface: thousands of bits and of packets, of which 0 is any, or an ordinary burst.
fn policing(row: RowRef<'_>) -> Policing {
    let thousands = |column| {
        let number = number(row, column).and_then(|number| u64::try_from(number).ok());
        number.filter(|number| *number > 0).map(|number| number.saturating_mul(1000))
    };
    let rate = |rate, burst, ordinary| {
        let rate = thousands(rate).map(|rate| (rate, thousands(burst).unwrap_or(ordinary)));
        rate.map_or_else(Rate::default, |(rate, burst)| Rate { per_second: Some(rate), burst: Some(burst) })
    };
    Policing {
        bits: rate("ingress_policing_rate", "ingress_policing_burst", 8_000_000),
        packets: rate("ingress_policing_kpkts_rate", "ingress_policing_kpkts_burst", 16_000),
    }
}

/// The queues of a port; `known` are those of its bridge that were read before. Only what is of the type `linux-htb` has any.
fn shaping(
    database: &Database,
    port: RowRef<'_>,
    known: &mut BTreeMap<Uuid, Arc<Shaping>>,
) -> Option<Arc<Shaping>> {
    let qos = referred(database, port, "qos", "QoS").next()?;
    text(qos, "type").filter(|kind| kind == "linux-htb")?;
    if let Some(shaping) = known.get(&qos.uuid()) {
        return Some(Arc::clone(shaping));
    }
    let queues = qos.get("queues").pairs().filter_map(|(number, queue)| match (number, queue?) {
        (Atom::Integer(number), Atom::Uuid(queue)) => {
            Some((u32::try_from(*number).ok()?, rate(database.row("Queue", *queue)?)))
        }
        _ => None,
    });
    let shaping = Arc::new(Shaping { port: rate(qos), queues: queues.collect() });
    known.insert(qos.uuid(), Arc::clone(&shaping));
    Some(shaping)
}

fn rate(row: RowRef<'_>) -> Rate {
    let bits = |name| other(row, name)?.parse().ok();
    Rate { per_second: bits("max-rate"), burst: bits("burst") }
}

/// A mirror of a bridge with these interfaces; none, if its copies go nowhere.
fn mirror(database: &Database, row: RowRef<'_>, all: &[InterfaceWanted]) -> Option<MirrorWanted> {
    let has_all = row.get("select_all").boolean().unwrap_or_default();
    let ports = |column| -> Vec<String> {
        if has_all {
            return all.iter().map(|interface| interface.name.clone()).collect();
        }
        let ports = referred(database, row, column, "Port");
        ports.flat_map(|port| names(database, port)).collect()
    };
    let output = referred(database, row, "output_port", "Port").find_map(|port| names(database, port).next());
    let output =
        output.map(MirrorTo::Port).or_else(|| Some(MirrorTo::Vlan(vlan(number(row, "output_vlan")?)?)));
    Some(MirrorWanted {
        row: row.uuid(),
        name: text(row, "name")?,
        arriving: ports("select_src_port"),
        leaving: ports("select_dst_port"),
        vlans: integers(row, "select_vlan").filter_map(vlan).collect(),
        filter: text(row, "filter"),
        output: output?,
        length: number(row, "snaplen").and_then(|length| u32::try_from(length).ok()),
    })
}

/// The names of a port's interfaces.
fn names<'d>(database: &'d Database, port: RowRef<'d>) -> impl Iterator<Item = String> {
    referred(database, port, "interfaces", "Interface").filter_map(|row| text(row, "name"))
}

fn integers<'d>(row: RowRef<'d>, column: &str) -> impl Iterator<Item = i64> {
    row.get(column).atoms().filter_map(|atom| match atom {
        Atom::Integer(number) => Some(*number),
        _ => None,
    })
}

fn vlan(number: i64) -> Option<u16> {
    u16::try_from(number).ok()
}

fn vlans(port: RowRef<'_>) -> Vlans {
    let tag = number(port, "tag").and_then(vlan);
    let allowed = integers(port, "trunks").filter_map(vlan).collect();
    match (text(port, "vlan_mode").as_deref(), tag) {
        (Some("access") | None, Some(tag)) => Vlans::Access(tag),
        (Some("native-tagged"), tag) => {
            Vlans::Trunk { native: tag.unwrap_or_default(), is_native_tagged: true, allowed }
        }
        (Some("native-untagged"), tag) => {
            Vlans::Trunk { native: tag.unwrap_or_default(), is_native_tagged: false, allowed }
        }
        _ => Vlans::Trunk { native: 0, is_native_tagged: false, allowed },
    }
}
