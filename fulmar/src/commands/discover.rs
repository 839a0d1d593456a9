//! `fulmar discover`: finds all members of a network, from the addresses of some.

pub(crate) mod figures;
mod place;
mod report;

use crate::ending::{BadUsage, exit_code};
use crate::{log, metrics, signals};
use clap::Args;
use fulmar_discovery::live::{Event, Host, Name};
use fulmar_metrics::{Events, Figures};
pub(crate) use place::{Place, resolve};
use report::Report;
use std::error::Error;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `fulmar discover`
#[derive(Args)]
#[command(
    override_usage = "fulmar discover [OPTIONS] --join <HOST:PORT,…>\n       \
                            fulmar discover [OPTIONS] --serve --listen <HOST:PORT> [--join <HOST:PORT,…>]",
    after_help = "Example:\n  fulmar discover --serve --listen 127.0.0.1:7401 --name one &\n  \
                        fulmar discover --serve --listen 127.0.0.1:7402 --name two --join 127.0.0.1:7401 &\n  \
                        fulmar discover --join 127.0.0.1:7402\n\n\
                        Servers of databases are found, too, at the addresses where they serve. Who looks is a member for \
                        as long as that takes.\n\n\
                        Exit status: 0 a view is stable, 1 none is in time, 2 bad usage."
)]
pub struct Discover {
    /// Addresses of some members: one that answers is enough
    #[arg(
        long,
        alias = "know",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        required_unless_present = "serve"
    )]
    join: Vec<String>,
    /// Where others reach this one; without it, a free port at the address from which the first of those known is reached
    #[arg(long, value_name = "HOST:PORT", value_parser = place::own)]
    listen: Option<SocketAddr>,
    /// What this one is called; without it, as the machine is
    #[arg(long)]
    name: Option<Name>,
    /// Stay a member until stopped by a signal, for others to find
    #[arg(long, requires = "listen")]
    serve: bool,
    /// Where to tell figures to Prometheus, over HTTP
    #[arg(long, value_name = "HOST:PORT", requires = "serve")]
    metrics: Option<String>,
    /// Go on, and print what changes, until stopped by a signal
    #[arg(long)]
    watch: bool,
    /// One object a line
    #[arg(long)]
    json: bool,
    /// How long to wait for a stable view
    #[arg(long, value_name = "SECONDS", default_value = "10", conflicts_with_all = ["serve", "watch"],
          value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
}

/// What there is to react to.
enum Occurrence {
    Event(Event),
    Stop,
}

/// Finds all members, and prints them.
pub fn run(discover: &Discover) -> ExitCode {
    exit_code(try_run(discover))
}

fn try_run(discover: &Discover) -> Result<(), Box<dyn Error>> {
    let name = discover.name.clone().unwrap_or_else(host_name);
    let asked = discover.metrics.as_deref().map(metrics::listen).transpose()?;
    let known = discover.join.iter().map(|text| resolve(text, discover.listen));
    let known = known.collect::<Result<Vec<_>, _>>().map_err(BadUsage::new)?;
    let Place { socket, address, known } = Place::new(discover.listen, known)?;
    let (sender, occurrences) = channel();
    on_signals(&sender)?;
    let listener = move |event| {
        // Who does not wait any more is ending already.
        let _ = sender.send(Occurrence::Event(event));
    };
    let host = Host::start(socket, address, name, known, listener)?;
    let report = Report::new(address, discover.json);
    if discover.serve || discover.watch {
        return stay(discover, host, &occurrences, &report, asked);
    }
    let timeout = Duration::from_secs(discover.timeout.into());
    let outcome = await_stable(&host, &occurrences, timeout, &report);
    host.leave();
    outcome
}

fn on_signals(sender: &Sender<Occurrence>) -> Result<(), Box<dyn Error>> {
    let sender = sender.clone();
    let stop = move || {
        let _ = sender.send(Occurrence::Stop);
    };
    Ok(signals::on(&[signals::SIGINT, signals::SIGTERM], stop)?)
}

fn host_name() -> Name {
    rustix::system::uname().nodename().to_str().ok().and_then(|name| name.parse().ok()).unwrap_or_default()
}

/// Prints the first stable view that somebody else is in.
fn await_stable(
    host: &Host,
    occurrences: &Receiver<Occurrence>,
    timeout: Duration,
    report: &Report,
) -> Result<(), Box<dyn Error>> {
    let deadline = Instant::now() + timeout;
    loop {
        match occurrences.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Occurrence::Event(Event::Stable(stable))) if stable.members.len() > 1 => {
                return Ok(report.view(&stable)?);
            }
            Ok(Occurrence::Event(_)) => {}
            Ok(Occurrence::Stop) => return Err("stopped before a view was stable".into()),
            Err(_) => {
                let snapshot = host.snapshot().ok_or("the thread that looked has ended")?;
                return Err(report::explain(timeout, host.address(), &snapshot).into());
            }
        }
    }
}

/// Stays a member until it is stopped.
fn stay(
    discover: &Discover,
    host: Host,
    occurrences: &Receiver<Occurrence>,
    report: &Report,
    asked: Option<TcpListener>,
) -> Result<(), Box<dyn Error>> {
    let _written_at_the_end = discover.serve.then(log::begin);
    let events = Arc::new(Events::default());
    let member = Arc::new(Mutex::new(Some(host)));
    if let Some(asked) = asked {
        let (member, happened) = (Arc::clone(&member), Arc::clone(&events));
        let figures = move || {
            let mut told = Figures::default();
            happened.add_to(&mut told, "fulmar_discovery_events_total");
            locked(&member).iter().for_each(|member| figures::add(&mut told, member));
            told
        };
        metrics::tell(asked, figures)?;
    }
    if discover.serve {
        report.serves()?;
    }
    let mut events_until_stopped = occurrences.iter().map_while(|occurrence| match occurrence {
        Occurrence::Event(event) => Some(event),
        Occurrence::Stop => None,
    });
    let outcome = events_until_stopped.try_for_each(|event| note(&event, discover.watch, report, &events));
    locked(&member).take().into_iter().for_each(Host::leave);
    Ok(outcome?)
}

/// The member, as long as it is one.
fn locked(member: &Mutex<Option<Host>>) -> MutexGuard<'_, Option<Host>> {
    member.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints what has happened, or logs it.
fn note(event: &Event, watch: bool, report: &Report, events: &Events) -> io::Result<()> {
    match event {
        Event::News(member) => {
            let kind = member.standing.name();
            events.count(kind);
            if watch {
                return report.news(member);
            }
            tracing::info!(kind, "{}", report::line(member));
        }
        Event::Stable(stable) => {
            events.count("stable");
            if watch {
                return report.view(stable);
            }
            let (count, digest) = (stable.members.len(), &stable.digest);
            tracing::info!(kind = "stable", "the view is stable: {count} members, {digest}");
        }
        Event::Departed => {}
    }
    Ok(())
}
