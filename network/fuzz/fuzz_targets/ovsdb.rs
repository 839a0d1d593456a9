//! Any bytes from a client of the configuration database.
#![no_main]

use fulmar_node::{Random, Time};
use fulmar_ovsdb::{ConnectionId, Outbox, Server, Store, open_vswitch};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut server = Server::new(Store::in_memory(open_vswitch()), Random::new(1));
    let (mut out, client) = (Outbox::default(), ConnectionId(1));
    server.connect(client, 0);
    // In two pieces, as a stream may cut it anywhere.
    let (one, two) = bytes.split_at(bytes.len() / 2);
    for part in [one, two] {
        server.receive(Time::ZERO, client, part, &mut out);
    }
    server.disconnect(client, &mut out);
    server.database().invariants();
});
