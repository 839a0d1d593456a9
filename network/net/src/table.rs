//! What there is, for people.

use serde_json::Value;
use std::fmt::Write as _;

/// The status of a network, a line for each host, switch and link.
pub(crate) fn of(status: &Value) -> String {
    let mut text = format!(
        "network {}, process {}, in {}\n",
        plain(&status["name"]),
        status["process"],
        plain(&status["directory"])
    );
    // Writing to a string does not fail.
    for host in list(&status["hosts"]) {
        let addresses: Vec<_> = list(&host["addresses"]).map(plain).collect();
        let _ = writeln!(
            text,
            "host {}: {}; namespace {}",
            plain(&host["name"]),
            addresses.join(", "),
            plain(&host["namespace"])
        );
    }
    for switch in list(&status["switches"]) {
        let ports: Vec<_> = list(&switch["ports"])
            .zip(1..)
            .map(|(port, number)| format!("{number} to {}", plain(port)))
            .collect();
        let (name, management) = (plain(&switch["name"]), plain(&switch["management"]));
        let _ = writeln!(
            text,
            "switch {name}: ports {}; ovs-ofctl -O OpenFlow13 show unix:{management}",
            ports.join(", ")
        );
    }
    for link in list(&status["links"]) {
        let [one, other] = [plain(&link["ends"][0]), plain(&link["ends"][1])];
        let _ = writeln!(text, "link {one} {other}: {}", quality(&link["quality"]));
        for (from, to, counts) in [(&one, &other, &link["counts"][0]), (&other, &one, &link["counts"][1])] {
            let _ = writeln!(
                text,
                "  {from} to {to}: {} arrived, {} lost, {} overflowed, {} unplugged",
                counts["arrived"], counts["lost"], counts["overflowed"], counts["unplugged"]
            );
        }
    }
    text
}

/// Parts that are not nothing.
fn quality(quality: &Value) -> String {
    let up = if quality["up"] == true { "up" } else { "down" };
    let mut text = String::from(up);
    if let Some(rate) = quality["rate"].as_u64() {
        let _ = write!(text, ", {rate} bit/s with a queue of {} bytes", quality["queue"]);
    }
    for part in ["delay", "jitter"] {
        let nanoseconds = quality[part]["secs"].as_u64().unwrap_or(0) * 1_000_000_000
            + quality[part]["nanos"].as_u64().unwrap_or(0);
        if nanoseconds > 0 {
            let _ = write!(text, ", {part} {:?}", std::time::Duration::from_nanos(nanoseconds));
        }
    }
    for part in ["loss", "duplicate", "reorder"] {
        if quality[part] != 0.0 {
            let _ = write!(text, ", {part} {}", quality[part]);
        }
    }
    text
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
