//! A replica of a service: timestamps, or locks.

use super::figures;
use super::settings::{Service, Settings};
use super::{reach, rights};
use crate::ending::BadUsage;
use crate::{log, metrics, signals};
use fulmar_metrics::Events;
use fulmar_services::{Begun, Charter, Members, Server, ServerError};
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
        let why = format!("`{name}` is for servers of databases, and these settings have `service`");
        return Err(BadUsage::new(why).into());
    }
    let leader_timeout = settings.leader_timeout()?;
    let lack = |what: &str| BadUsage::new(format_args!("the settings lack {what}"));
    let members = settings.members.as_ref().ok_or_else(|| lack("`members`, all replicas' HOST:PORT"))?;
    let members = Members::new(members.0.iter().map(String::as_str)).map_err(BadUsage::new)?;
    let data = settings.data.as_ref().ok_or_else(|| lack("`data`, a directory"))?;
    let (listen, advertised) = match (&settings.listen, &settings.advertise) {
        (Some(listen), Some(advertised)) => (listen, advertised),
        (Some(address), None) | (None, Some(address)) => (address, address),
        (None, None) => return Err(lack("`listen`, the member that this one is").into()),
    };
    let listener =
        TcpListener::bind(listen).map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let address = listener.local_addr()?;
    // Who is none is told that.
    if members.iter().any(|(_, member)| member == advertised) {
        reach::require(&listener, advertised)?;
    }
    let asked = settings.metrics.as_deref().map(metrics::listen).transpose()?;
    let charter = Charter { application: service.into(), members, protocol: settings.replication.into() };
    let what = charter.application;
    let events = Arc::new(Events::default());
    let counted = Arc::clone(&events);
    let tell = move |kind, news: &str| {
        counted.count(kind);
        tracing::info!(kind, "{news}");
    };
    rights::take_those_of_owner(data)?;
    let opened = Server::open(charter, advertised, data, founds, leader_timeout, tell);
    let server = opened.map_err(|why| -> Box<dyn Error> {
        match why {
            ServerError::NoMember { .. } => BadUsage::new(why).into(),
            _ => why.into(),
        }
    })?;
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
