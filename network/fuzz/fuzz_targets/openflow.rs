//! Any bytes as a message, and as what a session gets.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    fulmar_openflow::read_and_write(bytes);
    fulmar_session::run_session(bytes);
});
