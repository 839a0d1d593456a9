//! SQLite's record format: a header of serial types, then the values
//! (<https://sqlite.org/fileformat2.html#record_format>).

/// A value as SQLite compares it. Text is in the encoding of the database.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a [u8]),
    /// Bytes, and a number of zero bytes after them.
    Blob(&'a [u8], usize),
}

/// The values of a record. What is malformed reads as NULL, as SQLite itself tolerates.
pub(crate) struct Values<'a> {
    header: &'a [u8],
    body: &'a [u8],
}

impl<'a> Values<'a> {
    pub(crate) fn of(record: &'a [u8]) -> Self {
        let (size, used) = varint(record);
        let end = usize::try_from(size).unwrap_or(usize::MAX).clamp(used, record.len().max(used));
        match (record.get(used..end), record.get(end..)) {
            (Some(header), Some(body)) => Self { header, body },
            _ => Self { header: &[], body: &[] },
        }
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.body.split_at_checked(length)?;
        self.body = rest;
        Some(taken)
    }

    fn integer(&mut self, length: usize) -> Value<'a> {
        let Some(bytes) = self.take(length) else { return Value::Null };
        let negative = bytes.first().is_some_and(|b| b & 0x80 != 0);
        Value::Integer(bytes.iter().fold(if negative { -1 } else { 0 }, |n, b| n << 8 | i64::from(*b)))
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        if self.header.is_empty() {
            return None;
        }
        let (kind, used) = varint(self.header);
        self.header = self.header.get(used..).unwrap_or(&[]);
        Some(match kind {
            1..=4 => self.integer(usize::try_from(kind).unwrap_or(0)),
            5 => self.integer(6),
            6 => self.integer(8),
            7 => match self.take(8).and_then(|b| b.try_into().ok()) {
                Some(bytes) => Value::Real(f64::from_be_bytes(bytes)),
                None => Value::Null,
            },
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            0 | 10 | 11 => Value::Null,
            _ => {
                let length = usize::try_from((kind - 12) / 2).unwrap_or(usize::MAX);
                match self.take(length) {
                    Some(bytes) if kind % 2 == 1 => Value::Text(bytes),
                    Some(bytes) => Value::Blob(bytes, 0),
                    None => Value::Null,
                }
            }
        })
    }
}

/// A number of one to nine bytes, seven bits in each of the first eight, and how many bytes it has.
fn varint(bytes: &[u8]) -> (u64, usize) {
    let mut number = 0;
    for (i, byte) in bytes.iter().take(9).enumerate() {
        if i == 8 {
            return (number << 8 | u64::from(*byte), 9);
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return (number, i + 1);
        }
    }
    (number, bytes.len())
}
