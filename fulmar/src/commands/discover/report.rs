//! What is printed.

use fulmar_discovery::live::{Member, Missing, Snapshot, Stable};
use serde_json::json;
use std::io::{self, Write, stdout};
use std::net::SocketAddr;
use std::time::Duration;

/// Prints for people, or for programs.
pub(super) struct Report {
    own: SocketAddr,
    json: bool,
}

impl Report {
    pub(super) const fn new(own: SocketAddr, json: bool) -> Self {
        Self { own, json }
    }

    /// Who stays says where.
    pub(super) fn serves(&self) -> io::Result<()> {
        if self.json {
            writeln!(stdout(), "{}", json!({"serving": self.own}))
        } else {
            writeln!(stdout(), "serving discovery on {}", self.own)
        }
    }

    /// All members, and how it is known that they are all.
    pub(super) fn view(&self, stable: &Stable) -> io::Result<()> {
        let out = &mut stdout().lock();
        for member in &stable.members {
            if self.json {
                writeln!(out, "{}", self.object(member))?;
            } else {
                let own = if member.address == self.own { "this one" } else { "" };
                let line = format!("{:<24} {:<24} {own}", member.address.to_string(), member.name);
                writeln!(out, "{}", line.trim_end())?;
            }
        }
        let Stable { members, digest, centre, within, unanswered } = stable;
        if self.json {
            let within = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
            return writeln!(
                out,
                "{}",
                json!({
                    "stable": true, "members": members.len(), "digest": digest.to_string(), "centre": centre,
                    "within_ms": within, "unanswered": unanswered,
                })
            );
        }
        writeln!(
            out,
            "stable: each of the {} held just this view, {digest}, within the last {:.2} s, as {centre} has gathered",
            members.len(),
            within.as_secs_f64()
        )?;
        if !unanswered.is_empty() {
            writeln!(out, "nobody answers at {}", list(unanswered))?;
        }
        Ok(())
    }

    /// What is new of a member.
    pub(super) fn news(&self, member: &Member) -> io::Result<()> {
        if self.json {
            return writeln!(stdout(), "{}", self.object(member));
        }
        writeln!(stdout(), "{}", line(member))
    }

    fn object(&self, member: &Member) -> serde_json::Value {
        json!({
            "address": member.address, "name": member.name.as_str(), "standing": member.standing.to_string(),
            "life": member.incarnation.life, "this": member.address == self.own,
        })
    }
}

/// A member, and what is believed of it.
pub(super) fn line(member: &Member) -> String {
    format!("{:<24} {:<24} {}", member.address.to_string(), member.name, member.standing)
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ")
}

/// What is missing after all that time.
pub(super) fn explain(waited: Duration, own: SocketAddr, snapshot: &Snapshot) -> String {
    let Missing { unanswered, suspected, unconfirmed } = &snapshot.missing;
    let live = snapshot.members.iter().filter(|member| member.standing.is_live() && member.address != own);
    let mut text = format!("no view was stable within {} s", waited.as_secs());
    let found: Vec<SocketAddr> = live.map(|member| member.address).collect();
    let unconfirmed = if suspected.is_empty() { &unconfirmed[..] } else { &[] };
    for (what, who) in [
        ("nobody answers at", &unanswered[..]),
        ("found so far:", &found[..]),
        ("suspected, and did not answer yet:", &suspected[..]),
        ("did not confirm the view:", unconfirmed),
    ] {
        if !who.is_empty() {
            text.push_str(&format!("\n  {what} {}", list(who)));
        }
    }
    text
}
