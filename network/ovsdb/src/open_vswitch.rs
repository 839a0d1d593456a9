//! The schema of a switch's configuration, `Open_vSwitch`: what `ovs-vsctl` and controllers write, and what a switch says of itself.
//!
//! Names, types and limits are those that these programs know, as of version 8.8.0. Of columns that nobody here fills, none is missing:
//! a client that names one that is not there fails.

use crate::{Base, Column, Schema, Table, Type};

const VERSION: &str = "8.8.0";
/// The largest number of 32 bits.
const U32: i64 = u32::MAX as i64;

/// The schema `Open_vSwitch`.
///
/// # Panics
/// Never: it keeps the rules.
#[must_use]
pub fn open_vswitch() -> Schema {
    let tables = [
        root(),
        bridge(),
        port(),
        interface(),
        flow_table(),
        qos(),
        queue(),
        mirror(),
        netflow(),
        sflow(),
        ipfix(),
        sample_collector_set(),
        controller(),
        manager(),
        datapath(),
        zone(),
        timeout_policy(),
        ssl(),
        auto_attach(),
    ];
    Schema::new("Open_vSwitch", VERSION, tables).expect("it keeps the rules")
}

fn root() -> Table {
    let columns = [
        map("datapaths", Base::string(), Base::strong("Datapath")),
        set("bridges", Base::strong("Bridge")),
        set("manager_options", Base::strong("Manager")),
        optional("ssl", Base::strong("SSL")),
        strings("other_config"),
        strings("external_ids"),
        one("next_cfg", Base::integer()),
        one("cur_cfg", Base::integer()),
        strings("statistics").ephemeral(),
        optional("ovs_version", Base::string()),
        optional("db_version", Base::string()),
        optional("system_type", Base::string()),
        optional("system_version", Base::string()),
        set("datapath_types", Base::string()),
        set("iface_types", Base::string()),
        one("dpdk_initialized", Base::Boolean),
        optional("dpdk_version", Base::string()),
    ];
    Table::new("Open_vSwitch", columns).root().at_most(1)
}

fn bridge() -> Table {
    let columns = [
        one("name", Base::string()).immutable(),
        one("datapath_type", Base::string()),
        one("datapath_version", Base::string()),
        optional("datapath_id", Base::string()).ephemeral(),
        one("stp_enable", Base::Boolean),
        one("rstp_enable", Base::Boolean),
        one("mcast_snooping_enable", Base::Boolean),
        set("ports", Base::strong("Port")),
        set("mirrors", Base::strong("Mirror")),
        optional("netflow", Base::strong("NetFlow")),
        optional("sflow", Base::strong("sFlow")),
        optional("ipfix", Base::strong("IPFIX")),
        set("controller", Base::strong("Controller")),
        set("protocols", Base::one_of((10..=15).map(|version| format!("OpenFlow{version}")))),
        optional("fail_mode", Base::one_of(["standalone", "secure"])),
        strings("status").ephemeral(),
        strings("rstp_status").ephemeral(),
        strings("other_config"),
        strings("external_ids"),
        vlans("flood_vlans"),
        map("flow_tables", Base::Integer(0, 254), Base::strong("Flow_Table")),
        optional("auto_attach", Base::strong("AutoAttach")),
    ];
    Table::new("Bridge", columns).indexed_by(&["name"])
}

fn port() -> Table {
    let vlan_modes = ["trunk", "access", "native-tagged", "native-untagged", "dot1q-tunnel"];
    let columns = [
        one("name", Base::string()).immutable(),
        Column::new("interfaces", Type::set(Base::strong("Interface")).nonempty()),
        vlans("trunks"),
        vlans("cvlans"),
        optional("tag", Base::Integer(0, 4095)),
        optional("vlan_mode", Base::one_of(vlan_modes)),
        optional("qos", Base::strong("QoS")),
        optional("mac", Base::string()),
        optional("bond_mode", Base::one_of(["balance-tcp", "balance-slb", "active-backup"])),
        optional("lacp", Base::one_of(["active", "passive", "off"])),
        one("bond_updelay", Base::integer()),
        one("bond_downdelay", Base::integer()),
        optional("bond_active_slave", Base::string()),
        one("bond_fake_iface", Base::Boolean),
        one("fake_bridge", Base::Boolean),
        strings("status").ephemeral(),
        strings("rstp_status").ephemeral(),
        counters("rstp_statistics"),
        counters("statistics"),
        one("protected", Base::Boolean),
        strings("other_config"),
        strings("external_ids"),
    ];
    Table::new("Port", columns).indexed_by(&["name"])
}

fn interface() -> Table {
    let up_or_down = || Base::one_of(["up", "down"]);
    let columns = [
        one("name", Base::string()).immutable(),
        one("type", Base::string()),
        strings("options"),
        one("ingress_policing_rate", Base::Integer(0, i64::MAX)),
        one("ingress_policing_burst", Base::Integer(0, i64::MAX)),
        one("ingress_policing_kpkts_rate", Base::Integer(0, i64::MAX)),
        one("ingress_policing_kpkts_burst", Base::Integer(0, i64::MAX)),
        optional("mac_in_use", Base::string()).ephemeral(),
        optional("mac", Base::string()),
        optional("ifindex", Base::Integer(0, U32)).ephemeral(),
        strings("external_ids"),
        optional("ofport", Base::integer()),
        optional("ofport_request", Base::Integer(1, 65279)),
        strings("bfd"),
        strings("bfd_status").ephemeral(),
        optional("cfm_mpid", Base::integer()),
        set("cfm_remote_mpids", Base::integer()).ephemeral(),
        optional("cfm_flap_count", Base::integer()),
        optional("cfm_fault", Base::Boolean).ephemeral(),
        set("cfm_fault_status", Base::string()).ephemeral(),
        optional("cfm_remote_opstate", up_or_down()).ephemeral(),
        optional("cfm_health", Base::Integer(0, 100)).ephemeral(),
        optional("lacp_current", Base::Boolean).ephemeral(),
        strings("lldp"),
        strings("other_config"),
        counters("statistics"),
        strings("status").ephemeral(),
        optional("admin_state", up_or_down()).ephemeral(),
        optional("link_state", up_or_down()).ephemeral(),
        optional("link_resets", Base::integer()).ephemeral(),
        optional("link_speed", Base::integer()).ephemeral(),
        optional("duplex", Base::one_of(["half", "full"])).ephemeral(),
        optional("mtu", Base::integer()).ephemeral(),
        optional("mtu_request", Base::Integer(1, i64::MAX)),
        optional("error", Base::string()),
    ];
    Table::new("Interface", columns).indexed_by(&["name"])
}

fn flow_table() -> Table {
    let columns = [
        optional("name", Base::string()),
        optional("flow_limit", Base::Integer(0, i64::MAX)),
        optional("overflow_policy", Base::one_of(["refuse", "evict"])),
        set("groups", Base::string()),
        Column::new("prefixes", Type::set(Base::string()).at_most(4)),
        strings("external_ids"),
    ];
    Table::new("Flow_Table", columns)
}

fn qos() -> Table {
    let columns = [
        one("type", Base::string()),
        map("queues", Base::Integer(0, U32), Base::strong("Queue")),
        strings("other_config"),
        strings("external_ids"),
    ];
    Table::new("QoS", columns).root()
}

fn queue() -> Table {
    let columns = [optional("dscp", Base::Integer(0, 63)), strings("other_config"), strings("external_ids")];
    Table::new("Queue", columns).root()
}

fn mirror() -> Table {
    let columns = [
        one("name", Base::string()),
        one("select_all", Base::Boolean),
        set("select_src_port", Base::weak("Port")),
        set("select_dst_port", Base::weak("Port")),
        vlans("select_vlan"),
        optional("output_port", Base::weak("Port")),
        optional("output_vlan", Base::Integer(1, 4095)),
        optional("snaplen", Base::Integer(14, 65535)),
        optional("filter", Base::string()),
        counters("statistics"),
        strings("external_ids"),
    ];
    Table::new("Mirror", columns)
}

fn netflow() -> Table {
    let columns = [
        Column::new("targets", Type::set(Base::string()).nonempty()),
        optional("engine_type", Base::Integer(0, 255)),
        optional("engine_id", Base::Integer(0, 255)),
        one("add_id_to_interface", Base::Boolean),
        one("active_timeout", Base::Integer(-1, i64::MAX)),
        strings("external_ids"),
    ];
    Table::new("NetFlow", columns)
}

fn sflow() -> Table {
    let columns = [
        Column::new("targets", Type::set(Base::string()).nonempty()),
        optional("sampling", Base::integer()),
        optional("polling", Base::integer()),
        optional("header", Base::integer()),
        optional("agent", Base::string()),
        strings("external_ids"),
    ];
    Table::new("sFlow", columns)
}

fn ipfix() -> Table {
    let columns = [
        set("targets", Base::string()),
        optional("sampling", Base::Integer(1, U32)),
        optional("obs_domain_id", Base::Integer(0, U32)),
        optional("obs_point_id", Base::Integer(0, U32)),
        optional("cache_active_timeout", Base::Integer(0, 4200)),
        optional("cache_max_flows", Base::Integer(0, U32)),
        optional("stats_interval", Base::Integer(1, 3600)),
        optional("template_interval", Base::Integer(1, 3600)),
        strings("other_config"),
        strings("external_ids"),
    ];
    Table::new("IPFIX", columns)
}

fn sample_collector_set() -> Table {
    let columns = [
        one("id", Base::Integer(0, U32)),
        one("bridge", Base::strong("Bridge")),
        optional("ipfix", Base::strong("IPFIX")),
        optional("local_group_id", Base::Integer(0, U32)),
        strings("external_ids"),
    ];
    Table::new("Flow_Sample_Collector_Set", columns).root().indexed_by(&["id", "bridge"])
}

fn controller() -> Table {
    let columns = [
        optional("type", Base::one_of(["primary", "service"])),
        one("target", Base::string()),
        optional("max_backoff", Base::Integer(1000, i64::MAX)),
        optional("inactivity_probe", Base::integer()),
        optional("connection_mode", Base::one_of(["in-band", "out-of-band"])),
        optional("local_ip", Base::string()),
        optional("local_netmask", Base::string()),
        optional("local_gateway", Base::string()),
        optional("enable_async_messages", Base::Boolean),
        optional("controller_queue_size", Base::Integer(1, 512)),
        optional("controller_rate_limit", Base::Integer(100, i64::MAX)),
        optional("controller_burst_limit", Base::Integer(25, i64::MAX)),
        strings("other_config"),
        strings("external_ids"),
        one("is_connected", Base::Boolean).ephemeral(),
        optional("role", Base::one_of(["other", "master", "slave"])).ephemeral(),
        strings("status").ephemeral(),
    ];
    Table::new("Controller", columns)
}

fn manager() -> Table {
    let columns = [
        one("target", Base::string()),
        optional("max_backoff", Base::Integer(1000, i64::MAX)),
        optional("inactivity_probe", Base::integer()),
        optional("connection_mode", Base::one_of(["in-band", "out-of-band"])),
        strings("other_config"),
        strings("external_ids"),
        one("is_connected", Base::Boolean).ephemeral(),
        strings("status").ephemeral(),
    ];
    Table::new("Manager", columns).indexed_by(&["target"])
}

fn datapath() -> Table {
    let columns = [
        one("datapath_version", Base::string()),
        map("ct_zones", Base::Integer(0, 65535), Base::strong("CT_Zone")),
        optional("ct_zone_default_limit", Base::Integer(0, U32)),
        strings("capabilities"),
        strings("external_ids"),
    ];
    Table::new("Datapath", columns)
}

fn zone() -> Table {
    let columns = [
        optional("timeout_policy", Base::strong("CT_Timeout_Policy")),
        optional("limit", Base::Integer(0, U32)),
        strings("external_ids"),
    ];
    Table::new("CT_Zone", columns)
}

fn timeout_policy() -> Table {
    let tcp = [
        "syn_sent",
        "syn_recv",
        "established",
        "fin_wait",
        "close_wait",
        "last_ack",
        "time_wait",
        "close",
        "syn_sent2",
        "retransmit",
        "unack",
    ];
    let others = ["udp_first", "udp_single", "udp_multiple", "icmp_first", "icmp_reply"];
    let states = tcp.iter().map(|state| format!("tcp_{state}")).chain(others.map(String::from));
    let columns = [map("timeouts", Base::one_of(states), Base::Integer(0, U32)), strings("external_ids")];
    Table::new("CT_Timeout_Policy", columns)
}

fn ssl() -> Table {
    let columns = [
        one("private_key", Base::string()),
        one("certificate", Base::string()),
        one("ca_cert", Base::string()),
        one("bootstrap_ca_cert", Base::Boolean),
        strings("external_ids"),
    ];
    Table::new("SSL", columns).at_most(1)
}

fn auto_attach() -> Table {
    let columns = [
        one("system_name", Base::string()),
        one("system_description", Base::string()),
        map("mappings", Base::Integer(0, 16_777_215), Base::Integer(0, 4095)),
    ];
    Table::new("AutoAttach", columns)
}

fn one(name: &str, base: Base) -> Column {
    Column::new(name, Type::one(base))
}

fn optional(name: &str, base: Base) -> Column {
    Column::new(name, Type::optional(base))
}

fn set(name: &str, base: Base) -> Column {
    Column::new(name, Type::set(base))
}

fn map(name: &str, key: Base, value: Base) -> Column {
    Column::new(name, Type::map(key, value))
}

/// Texts by texts.
fn strings(name: &str) -> Column {
    map(name, Base::string(), Base::string())
}

/// Numbers that a switch counts, and loses when it ends.
fn counters(name: &str) -> Column {
    map(name, Base::string(), Base::integer()).ephemeral()
}

fn vlans(name: &str) -> Column {
    Column::new(name, Type::set(Base::Integer(0, 4095)).at_most(4096))
}
