//! What a network says while it runs, to who has started it.

use std::fmt;
use std::io::{self, Write as _};

/// Says it on standard error, a line of which a terminal obeys nothing.
pub(crate) fn tell(what: fmt::Arguments<'_>) {
    // That nobody can be told any more, as who has started it is gone or a disk is full, must not end the network.
    let _ = writeln!(io::stderr(), "{}", line(what));
}

/// Names and reasons may be anybody's.
fn line(what: fmt::Arguments<'_>) -> String {
    what.to_string().replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_of_a_line() {
        assert_eq!(line(format_args!("a\u{1b}[2J\n{}", 'b')), "a\u{fffd}[2J\u{fffd}b");
    }
}
