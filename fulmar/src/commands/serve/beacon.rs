//! What makes a server be found, and find others: it takes part in discovery at the address where it serves.

use crate::commands::discover::{figures, resolve};
use fulmar_discovery::live::{Host, Name};
use fulmar_metrics::Figures;
use std::net::{SocketAddr, UdpSocket};

/// The name of a server that serves databases begins so, and its address follows.
const SCHEME: &str = "fulmar://";
/// The name of one that looks for its cluster.
const JOINING: &str = "joining";
/// Of those that a server found while it was joining it goes on with some.
const MOST_KNOWN: usize = 8;

/// A server as others find it; nothing, if they cannot.
pub(super) struct Beacon(Option<Node>);

struct Node {
    host: Host,
    socket: UdpSocket,
    known: Vec<SocketAddr>,
    advertised: String,
}

impl Beacon {
    /// A server that is not found.
    pub(super) const fn off() -> Self {
        Self(None)
    }

    /// Looks for others from `known`, through the UDP port of the number that the server listens at. Others reach it as they
    /// reach the server. If that cannot be, the server goes on without, and says so.
    pub(super) fn new<'a>(
        listen: SocketAddr,
        advertised: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let node = Node::start(listen, advertised, known);
        Self(node.inspect_err(|why| tracing::warn!("others cannot discover this server: {why}")).ok())
    }

    /// The servers of databases that were found so far.
    pub(super) fn servers(&self) -> Vec<String> {
        let snapshot = self.0.as_ref().and_then(|node| node.host.snapshot());
        let members = snapshot.map(|snapshot| snapshot.members).unwrap_or_default();
        let live = members.iter().filter(|member| member.standing.is_live());
        live.filter_map(|member| member.name.as_str().strip_prefix(SCHEME)).map(str::to_owned).collect()
    }

    /// Adds what it has found, in figures.
    pub(super) fn add_to(&self, figures: &mut Figures) {
        if let Some(node) = &self.0 {
            figures::add(figures, &node.host);
        }
    }

    /// From now on this server is one that serves: another member than the one that was joining.
    pub(super) fn serve(&mut self) {
        let Some(node) = self.0.take() else { return };
        self.0 =
            node.serve().inspect_err(|why| tracing::warn!("others cannot discover this server: {why}")).ok();
    }

    /// Says farewell.
    pub(super) fn leave(&mut self) {
        if let Some(node) = self.0.take() {
            node.host.leave();
        }
    }
}

impl Node {
    fn start<'a>(
        listen: SocketAddr,
        advertised: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, String> {
        let address = resolve(advertised, Some(listen))?;
        if address.ip().is_unspecified() {
            return Err(format!(
                "{address} leads everywhere; `advertise` says where others reach this server"
            ));
        }
        let socket =
            UdpSocket::bind(listen).map_err(|why| format!("cannot listen on {listen} (UDP): {why}"))?;
        // Who is not known here is no server to ask either, and the search for the cluster says so.
        let known: Vec<SocketAddr> =
            known.into_iter().filter_map(|known| resolve(known, Some(listen)).ok()).collect();
        Self::named(JOINING, socket, address, known, advertised.into()).map_err(|why| why.to_string())
    }

    fn named(
        name: &str,
        socket: UdpSocket,
        address: SocketAddr,
        known: Vec<SocketAddr>,
        advertised: String,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let name: Name = name.parse()?;
        let host = Host::start(socket.try_clone()?, address, name, known.clone(), |_| ())?;
        Ok(Self { host, socket, known, advertised })
    }

    fn serve(self) -> Result<Self, String> {
        let (address, name) = (self.host.address(), format!("{SCHEME}{}", self.advertised));
        let found = self.host.snapshot().map(|snapshot| snapshot.members).unwrap_or_default();
        let found = found.into_iter().map(|member| member.address).filter(|found| *found != address);
        let known = self.known.iter().copied().chain(found.take(MOST_KNOWN)).collect();
        let Self { host, socket, advertised, .. } = self;
        // Its socket is to be read by one thread.
        drop(host);
        Self::named(&name, socket, address, known, advertised).map_err(|why| why.to_string())
    }
}
