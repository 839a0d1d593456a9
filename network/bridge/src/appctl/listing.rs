//! What is remembered by a switch that runs, as `ovs-appctl` prints it, or for programs.

use crate::bridge::{Bridge, Remembered};
use fulmar_openflow::{MatchText, PortNumber};
use fulmar_port::vxlan::Dropped;
use fulmar_vswitch::{Cached, Steps};
use serde_json::{Value, json};
use std::sync::Arc;

/// How it is to be listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    /// One object a line.
    Json,
}

/// What is said when the threads for packets have ended, which they do when the bridge does.
const ENDED: &str = "the bridge is ending";

fn line(object: &Value) -> String {
    format!("{object}\n")
}

/// Stations, and at which ports they were heard.
pub(super) fn stations(name: &str, bridge: &Bridge, form: Form) -> String {
    let head = " port  VLAN  MAC                Age\n";
    let mut text = String::from(if form == Form::Text { head } else { "" });
    for (station, port, age) in bridge.stations() {
        let octets: Vec<_> =
            station.address.to_be_bytes()[2..].iter().map(|octet| format!("{octet:02x}")).collect();
        let (port, vlan, address, age) = (PortNumber(port), station.vlan, octets.join(":"), age.as_secs());
        text += &match form {
            Form::Text => format!("{port:>5}  {vlan:>4}  {address}  {age:>3}\n"),
            Form::Json => line(&json!({
                "bridge": name, "port": port.to_string(), "vlan": vlan, "address": address, "age": age,
            })),
        };
    }
    text
}

/// How often what is remembered was met, and how much that is.
pub(super) fn stats(name: &str, bridge: &Bridge, form: Form) -> Result<String, String> {
    let remembered = bridge.remembered().ok_or(ENDED)?;
    Ok(match form {
        Form::Text => stats_as_text(name, bridge, &remembered),
        Form::Json => line(&stats_as_json(name, bridge, &remembered)),
    })
}

fn stats_as_text(name: &str, bridge: &Bridge, remembered: &Remembered) -> String {
    let Remembered { hits, megaflows, masks, most } = remembered;
    let looked_up = hits.microflow + hits.megaflow + hits.missed + hits.renewed;
    let rate = |hits: u64| if looked_up == 0 { 0.0 } else { 100.0 * hits as f64 / looked_up as f64 };
    let mut text = format!(
        "{name}:\n  lookups: hit:{} missed:{} renewed:{}\n  microflows: hit:{} ({:.1} %)\n  megaflows: hit:{} ({:.1} %)\n  flows: {megaflows} (at most {most}), masks: {masks}\n  openflow flows: {}\n",
        hits.microflow + hits.megaflow,
        hits.missed,
        hits.renewed,
        hits.microflow,
        rate(hits.microflow),
        hits.megaflow,
        rate(hits.megaflow),
        bridge.switch().flows(),
    );
    for (number, port) in bridge.switch().ports() {
        text += &format!("  port {}: {}\n", PortNumber(number), port.name);
    }
    for (udp_port, dropped) in bridge.dropped() {
        let Dropped { malformed, unclaimed, congested, late } = dropped;
        text += &format!(
            "  tunnels at UDP port {udp_port}: dropped malformed:{malformed} unclaimed:{unclaimed} congested:{congested} late:{late}\n"
        );
    }
    text
}

fn stats_as_json(name: &str, bridge: &Bridge, remembered: &Remembered) -> Value {
    let Remembered { hits, megaflows, masks, most } = remembered;
    let ports = bridge.switch().ports().into_iter();
    let ports =
        ports.map(|(number, port)| json!({"number": PortNumber(number).to_string(), "name": port.name}));
    let tunnels = bridge.dropped().into_iter().map(|(udp_port, dropped)| {
        let Dropped { malformed, unclaimed, congested, late } = dropped;
        json!({
            "udp_port": udp_port, "malformed": malformed, "unclaimed": unclaimed, "congested": congested, "late": late,
        })
    });
    json!({
        "bridge": name,
        "microflow_hits": hits.microflow,
        "megaflow_hits": hits.megaflow,
        "missed": hits.missed,
        "renewed": hits.renewed,
        "megaflows": megaflows,
        "most_megaflows": most,
        "masks": masks,
        "openflow_flows": bridge.switch().flows(),
        "ports": ports.collect::<Vec<_>>(),
        "tunnels": tunnels.collect::<Vec<_>>(),
    })
}

/// Decisions that are remembered, with what came for them.
pub(super) fn megaflows(name: &str, bridge: &Bridge, form: Form) -> Result<String, String> {
    let name = name.to_owned();
    let told = bridge.look(move |forwarder, now| {
        let list = |flow: &Arc<Cached>| {
            let (megaflow, traffic) = (flow.value(), flow.value().traffic());
            let (condition, actions) = (MatchText(&flow.condition()).to_string(), Steps(megaflow.steps()));
            let (packets, bytes, idle) = (traffic.packets, traffic.bytes, megaflow.idle(now).as_secs_f64());
            match form {
                Form::Text => format!(
                    "{condition}, packets:{packets}, bytes:{bytes}, used:{idle:.3}s, actions:{actions}\n"
                ),
                Form::Json => line(&json!({
                    "bridge": name,
                    "match": condition,
                    "packets": packets,
                    "bytes": bytes,
                    "used": idle,
                    "actions": actions.to_string(),
                })),
            }
        };
        forwarder.megaflows().map(list).collect::<Vec<String>>()
    });
    if told.is_empty() {
        return Err(ENDED.to_owned());
    }
    let mut lines = told.concat();
    lines.sort_unstable();
    Ok(lines.concat())
}
