//! Any bytes as a message of servers of databases, as one of replicas, and as what a replica has written down: what is read is written so that
//! it is read again.
#![no_main]

use fulmar_transport::Wire;
use libfuzzer_sys::fuzz_target;

fn read_and_write<T: Wire>(bytes: &[u8]) {
    let Ok(read) = T::decode(bytes) else { return };
    let mut written = Vec::new();
    read.encode(&mut written);
    let again = T::decode(&written).expect("what `encode` writes, `decode` reads");
    let mut twice = Vec::new();
    again.encode(&mut twice);
    assert_eq!(written, twice);
}

fuzz_target!(|bytes: &[u8]| {
    read_and_write::<fulmar_cluster::Message>(bytes);
    read_and_write::<fulmar_replication::Message>(bytes);
    read_and_write::<fulmar_replication::Record>(bytes);
});
