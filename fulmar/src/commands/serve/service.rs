//! A replica of a service: timestamps, or locks.

use super::figures;
use super::settings::{Service, Settings};
use super::{reach, rights};
use crate::metrics::{self, Events};
use crate::{log, signals};
use fulmar_services::{Begun, Charter, Members, Server};
use std::error::Error;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;

/// Serves until it is stopped by a signal.
pub(super) fn run(service: Service, settings: &Settings, founds: bool) -> Result<(), Box<dyn Error>> {
    let of_databases = [
        ("join", settings.join.is_some()),
        ("replicas", settings.replicas.is_some()),
        ("cache_mb", settings.cache_mb.is_some()),
        ("discovery", settings.discovery.is_some()),
    ];
    if let Some((name, _)) = of_databases.into_iter().find(|(_, is_set)| *is_set) {
        return Err(format!("`{name}` is for servers of databases, and these settings have `service`").into());
    }
    let leader_timeout = settings.leader_timeout()?;
    let members = settings.members.as_ref().ok_or("the settings lack `members`, all replicas' HOST:PORT")?;
    let members = Members::new(members.iter().map(String::as_str))?;
    let data = settings.data.as_ref().ok_or("the settings lack `data`, a directory")?;
    let (listen, advertised) = match (&settings.listen, &settings.advertise) {
        (Some(listen), Some(advertised)) => (listen, advertised),
        (Some(address), None) | (None, Some(address)) => (address, address),
        (None, None) => return Err("the settings lack `listen`, the member that this one is".into()),
    };
    let listener =
        TcpListener::bind(listen).map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let address = listener.local_addr()?;
    // Who is none is told that.
    if members.iter().any(|(_, member)| member == advertised) {
        reach::require(&listener, advertised)?;
    }
    let asked = settings.metrics.map(metrics::listen).transpose()?;
    let charter = Charter { application: service.into(), members, protocol: settings.replication.into() };
    let what = charter.application;
    let events = Arc::new(Events::default());
    let counted = Arc::clone(&events);
    let tell = move |kind, news: &str| {
        counted.count(kind);
        tracing::info!(kind, "{news}");
    };
    rights::take_those_of_owner(data)?;
    let server = Server::open(charter, advertised, data, founds, leader_timeout, tell)?;
    server.run(listener, |Begun { stop, status }| {
        if let Some(asked) = asked {
            metrics::tell(asked, move || figures::of_replica(&events, status())).map_err(io::Error::other)?;
        }
        signals::on(&[signals::SIGINT, signals::SIGTERM], stop)?;
        log::announce(format_args!("serving {what} on {address}"));
        Ok(())
    })?;
    Ok(())
}
