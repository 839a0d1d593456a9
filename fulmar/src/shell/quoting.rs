//! The quotation rules of the formats a result can be written in.

use std::io::{self, Write};

use super::statement::{Cell, exact_real, is_keyword};

/// A string literal of SQL.
pub(crate) fn sql_string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as SQL reads it, in double quotes where it needs them.
pub(crate) fn sql_name(name: &str) -> String {
    if needs_quotes(name) { quoted_name(name) } else { name.to_owned() }
}

/// A name in double quotes.
pub(crate) fn quoted_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn needs_quotes(name: &str) -> bool {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let plain = name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_');
    !(starts_well && plain) || is_keyword(name)
}

/// What a literal of SQL does about line ends in a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineEnds {
    /// They stand in the literal as they are.
    Plain,
    /// Newlines do. Carriage returns are escaped: who reads a script takes one before a newline for part of the line end.
    Newlines,
    /// The literal stays on one line: `replace('a\nb','\n',char(10))`.
    Escaped,
}

/// A value as a literal of SQL.
pub(crate) fn write_sql_literal(out: &mut dyn Write, cell: Cell<'_>, line_ends: LineEnds) -> io::Result<()> {
    match cell {
        Cell::Null => out.write_all(b"NULL"),
        Cell::Integer(integer) => write!(out, "{integer}"),
        Cell::Real(real, _) => out.write_all(exact_real(real).as_bytes()),
        Cell::Blob(blob) => {
            out.write_all(b"X'")?;
            write_hex(out, blob)?;
            out.write_all(b"'")
        }
        // A script is UTF-8, whatever the texts in it are.
        Cell::Text(text) if std::str::from_utf8(text).is_err() => {
            out.write_all(b"CAST(X'")?;
            write_hex(out, text)?;
            out.write_all(b"' AS TEXT)")
        }
        Cell::Text(text) => write_text(out, text, line_ends),
    }
}

/// A text as a literal of SQL. A string literal would end at a NUL, so that one is always escaped.
fn write_text(out: &mut dyn Write, text: &[u8], line_ends: LineEnds) -> io::Result<()> {
    const NUL: (u8, [&str; 2]) = (0, ["\\0", "\\000"]);
    const CARRIAGE_RETURN: (u8, [&str; 2]) = (b'\r', ["\\r", "\\015"]);
    const NEWLINE: (u8, [&str; 2]) = (b'\n', ["\\n", "\\012"]);
    let escapes: &[_] = match line_ends {
        LineEnds::Plain => &[NUL],
        LineEnds::Newlines => &[CARRIAGE_RETURN, NUL],
        LineEnds::Escaped => &[NEWLINE, CARRIAGE_RETURN, NUL],
    };
    let mut escaped = text.to_vec();
    let mut calls = Vec::new();
    for (byte, [first, second]) in escapes.iter().filter(|(byte, _)| text.contains(byte)) {
        let mark = absent_mark(&escaped, first, second);
        escaped = replace_byte(&escaped, *byte, mark.as_bytes());
        out.write_all(b"replace(")?;
        calls.push((mark, byte));
    }
    write_quoted(out, &escaped)?;
    for (mark, byte) in calls.iter().rev() {
        write!(out, ",'{mark}',char({byte}))")?;
    }
    Ok(())
}

/// A stand-in for a character that the text does not hold already.
fn absent_mark(text: &[u8], first: &str, second: &str) -> String {
    let absent = |mark: &str| !text.windows(mark.len()).any(|window| window == mark.as_bytes());
    [first, second].into_iter().find(|mark| absent(mark)).map_or_else(
        || {
            let numbered = (0_u64..).map(|number| format!("({first}{number})"));
            numbered.into_iter().find(|mark| absent(mark)).unwrap_or_default()
        },
        str::to_owned,
    )
}

fn replace_byte(text: &[u8], byte: u8, by: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::with_capacity(text.len() + by.len());
    for &each in text {
        if each == byte { replaced.extend_from_slice(by) } else { replaced.push(each) }
    }
    replaced
}

fn write_quoted(out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    out.write_all(b"'")?;
    out.write_all(&replace_byte(text, b'\'', b"''"))?;
    out.write_all(b"'")
}

fn write_hex(out: &mut dyn Write, blob: &[u8]) -> io::Result<()> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let hex: Vec<u8> = blob
        .iter()
        .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
        .collect();
    out.write_all(&hex)
}

/// A field of a CSV file, in quotes where any common reader might need them.
pub(crate) fn write_csv(out: &mut dyn Write, text: &[u8], separator: &[u8]) -> io::Result<()> {
    let plain = |&byte: &u8| byte > b' ' && byte < 127 && byte != b'"' && byte != b'\'';
    let holds_separator =
        !separator.is_empty() && text.windows(separator.len()).any(|window| window == separator);
    if !text.is_empty() && text.iter().all(plain) && !holds_separator {
        return out.write_all(text);
    }
    out.write_all(b"\"")?;
    out.write_all(&replace_byte(text, b'"', b"\"\""))?;
    out.write_all(b"\"")
}

/// A string of JSON.
pub(crate) fn write_json_string(out: &mut dyn Write, text: &str) -> io::Result<()> {
    out.write_all(b"\"")?;
    write_escaped(out, text.as_bytes(), |byte, out| match byte {
        b'"' | b'\\' => Some(out.write_all(&[b'\\', byte])),
        0x08 => Some(out.write_all(b"\\b")),
        0x0c => Some(out.write_all(b"\\f")),
        b'\n' => Some(out.write_all(b"\\n")),
        b'\r' => Some(out.write_all(b"\\r")),
        b'\t' => Some(out.write_all(b"\\t")),
        0..=0x1f => Some(write!(out, "\\u{byte:04x}")),
        _ => None,
    })?;
    out.write_all(b"\"")
}

/// A string of C and Tcl: bytes outside printable ASCII in octal.
pub(crate) fn write_c_string(out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    out.write_all(b"\"")?;
    write_escaped(out, text, |byte, out| match byte {
        b'"' | b'\\' => Some(out.write_all(&[b'\\', byte])),
        b'\n' => Some(out.write_all(b"\\n")),
        b'\r' => Some(out.write_all(b"\\r")),
        b'\t' => Some(out.write_all(b"\\t")),
        b' '..=b'~' => None,
        _ => Some(write!(out, "\\{byte:03o}")),
    })?;
    out.write_all(b"\"")
}

/// Text between tags of HTML.
pub(crate) fn write_html(out: &mut dyn Write, text: &[u8]) -> io::Result<()> {
    write_escaped(out, text, |byte, out| match byte {
        b'<' => Some(out.write_all(b"&lt;")),
        b'>' => Some(out.write_all(b"&gt;")),
        b'&' => Some(out.write_all(b"&amp;")),
        b'"' => Some(out.write_all(b"&quot;")),
        b'\'' => Some(out.write_all(b"&#39;")),
        _ => None,
    })
}

/// Writes `text`, giving each byte to `escape` first; runs of bytes that it leaves alone go out in one piece.
fn write_escaped(
    out: &mut dyn Write,
    text: &[u8],
    escape: impl Fn(u8, &mut dyn Write) -> Option<io::Result<()>>,
) -> io::Result<()> {
    let mut plain_from = 0;
    for (at, &byte) in text.iter().enumerate() {
        let mut escaped = Vec::new();
        if let Some(written) = escape(byte, &mut escaped) {
            written?;
            out.write_all(&text[plain_from..at])?;
            out.write_all(&escaped)?;
            plain_from = at + 1;
        }
    }
    out.write_all(&text[plain_from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(text: &str) -> String {
        literal_with(text.as_bytes(), LineEnds::Escaped)
    }

    fn literal_with(text: &[u8], line_ends: LineEnds) -> String {
        let mut out = Vec::new();
        write_sql_literal(&mut out, Cell::Text(text), line_ends).expect("a vector grows");
        String::from_utf8(out).expect("a script is UTF-8")
    }

    #[test]
    fn a_literal_on_one_line_finds_a_mark_that_the_text_does_not_hold() {
        assert_eq!(literal("it's"), "'it''s'");
        assert_eq!(literal("a\nb"), r"replace('a\nb','\n',char(10))");
        assert_eq!(literal("a\r\nb"), r"replace(replace('a\r\nb','\r',char(13)),'\n',char(10))");
        assert_eq!(literal("a\0'b"), r"replace('a\0''b','\0',char(0))");
        assert_eq!(literal("\\n\n"), r"replace('\n\012','\012',char(10))");
        assert_eq!(literal("\\n\\012\n"), r"replace('\n\012(\n0)','(\n0)',char(10))");
    }

    #[test]
    fn text_that_is_not_utf_8_is_a_cast() {
        assert_eq!(literal_with(b"\xffA", LineEnds::Escaped), "CAST(X'ff41' AS TEXT)");
    }

    #[test]
    fn newlines_may_stand_in_a_script_and_carriage_returns_may_not() {
        assert_eq!(literal_with(b"a\r\nb", LineEnds::Newlines), "replace('a\\r\nb','\\r',char(13))");
        assert_eq!(literal_with(b"a\r\nb", LineEnds::Plain), "'a\r\nb'");
    }

    #[test]
    fn names_are_quoted_only_where_sql_needs_it() {
        assert_eq!(sql_name("plain_1"), "plain_1");
        assert_eq!(sql_name("1st"), "\"1st\"");
        assert_eq!(sql_name("order"), "\"order\"");
        assert_eq!(sql_name("a\"b"), "\"a\"\"b\"");
    }
}
