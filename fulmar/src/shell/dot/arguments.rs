//! The words of a dot command.

/// Splits the text after a command's name at blanks. Quotes keep blanks together; in double quotes and without
/// quotes a backslash escapes as it does in C.
pub(super) fn split(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, after) = match first {
            '\'' => {
                let inner = &rest[1..];
                let end = inner.find('\'').unwrap_or(inner.len());
                (inner[..end].to_owned(), inner.get(end + 1..).unwrap_or(""))
            }
            '"' => {
                let inner = &rest[1..];
                let end = closing_quote(inner);
                (unescaped(&inner[..end]), inner.get(end + 1..).unwrap_or(""))
            }
            _ => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                (unescaped(&rest[..end]), &rest[end..])
            }
        };
        words.push(word);
        rest = after.trim_start();
    }
    words
}

fn closing_quote(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    text.len()
}

/// Resolves `\n`, `\t`, `\\`, `\x1f`, `\037` and their kin.
fn unescaped(word: &str) -> String {
    let mut resolved = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find('\\') {
        resolved.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(escape) = rest.chars().next() else {
            resolved.push('\\');
            break;
        };
        let digits = |text: &str, radix, most: usize| {
            text.chars().take(most).take_while(|digit| digit.is_digit(radix)).count()
        };
        let (character, taken) = match escape {
            'a' => ('\x07', 1),
            'b' => ('\x08', 1),
            'f' => ('\x0c', 1),
            'n' => ('\n', 1),
            'r' => ('\r', 1),
            't' => ('\t', 1),
            'v' => ('\x0b', 1),
            'x' if digits(&rest[1..], 16, 2) > 0 => {
                let count = digits(&rest[1..], 16, 2);
                (number(&rest[1..=count], 16), 1 + count)
            }
            '0'..='7' => {
                let count = digits(rest, 8, 3);
                (number(&rest[..count], 8), count)
            }
            other => (other, other.len_utf8()),
        };
        resolved.push(character);
        rest = &rest[taken..];
    }
    resolved + rest
}

fn number(digits: &str, radix: u32) -> char {
    u32::from_str_radix(digits, radix).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn quotes_keep_blanks_and_backslashes_escape_outside_single_quotes() {
        assert_eq!(split(" a  'b c' \"d \\\" e\" f\\tg "), ["a", "b c", "d \" e", "f\tg"]);
        assert_eq!(split(r"'\n' \x1f \037 \\ \"), [r"\n", "\x1f", "\x1f", "\\", "\\"]);
        assert_eq!(split("'open"), ["open"]);
        assert!(split("  ").is_empty());
    }
}
