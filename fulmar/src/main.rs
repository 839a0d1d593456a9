//! The `fulmar` binary.
fn main() {}
