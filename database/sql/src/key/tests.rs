//! Keys against an oracle that compares values as SQLite documents it.

use super::*;
use fulmar_node::Random;
use std::cmp::Ordering;

#[derive(Clone, Debug)]
enum Owned {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

impl Owned {
    fn random(random: &mut Random) -> Self {
        match random.index(6) {
            0 => Self::Null,
            1 => Self::Integer(Self::integer(random)),
            #[expect(clippy::cast_precision_loss, reason = "any double near an integer will do")]
            2 => Self::Real(Self::integer(random) as f64 + [0.0, 0.5, -0.5, 1e-9][random.index(4)]),
            3 => Self::Real(
                [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, 9.3e18, -9.3e18, 5e-324]
                    [random.index(8)],
            ),
            4 => Self::Text(Self::bytes(random)),
            _ => Self::Blob(Self::bytes(random)),
        }
    }

    fn integer(random: &mut Random) -> i64 {
        let near = [0, 1 << 53, -(1 << 53), 1 << 60, i64::MAX, i64::MIN, 1 << 62][random.index(7)];
        near.wrapping_add(i64::try_from(random.index(7)).unwrap_or(0) - 3)
    }

    fn bytes(random: &mut Random) -> Vec<u8> {
        (0..random.index(5)).map(|_| b"aAbB \0~\xff"[random.index(8)]).collect()
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Null => Value::Null,
            Self::Integer(i) => Value::Integer(*i),
            Self::Real(r) => Value::Real(*r),
            Self::Text(t) => Value::Text(t),
            Self::Blob(b) => Value::Blob(b, 0),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Integer(_) | Self::Real(_) => 1,
            Self::Text(_) => 2,
            Self::Blob(_) => 3,
        }
    }
}

/// Compares as SQLite's sqlite3MemCompare does.
fn oracle(a: &Owned, b: &Owned, collation: Collation) -> Ordering {
    match (a, b) {
        (Owned::Integer(a), Owned::Integer(b)) => a.cmp(b),
        (Owned::Real(a), Owned::Real(b)) => a.partial_cmp(b).expect("no NaN"),
        (Owned::Integer(a), Owned::Real(b)) => integer_and_real(*a, *b),
        (Owned::Real(a), Owned::Integer(b)) => integer_and_real(*b, *a).reverse(),
        (Owned::Text(a), Owned::Text(b)) => match collation {
            Collation::Binary => a.cmp(b),
            Collation::Rtrim => trimmed(a).cmp(trimmed(b)),
            Collation::NoCase => no_case(a, b),
        },
        (Owned::Blob(a), Owned::Blob(b)) => a.cmp(b),
        _ => a.rank().cmp(&b.rank()),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the whole part lies within the range of i64 here")]
fn integer_and_real(integer: i64, real: f64) -> Ordering {
    if !(-9.3e18..9.3e18).contains(&real) {
        return 0.0.partial_cmp(&real).expect("no NaN");
    }
    let whole = real.trunc();
    i128::from(integer).cmp(&(whole as i128)).then_with(|| 0.0.partial_cmp(&(real - whole)).expect("no NaN"))
}

fn trimmed(text: &[u8]) -> &[u8] {
    &text[..text.len() - text.iter().rev().take_while(|b| **b == b' ').count()]
}

fn no_case(a: &[u8], b: &[u8]) -> Ordering {
    for (x, y) in a.iter().zip(b) {
        let order = x.to_ascii_lowercase().cmp(&y.to_ascii_lowercase());
        if order.is_ne() {
            return order;
        }
        if *x == 0 {
            break;
        }
    }
    a.len().cmp(&b.len())
}

fn compare(a: &[Owned], b: &[Owned], format: &Format) -> Ordering {
    for ((field, a), b) in format.fields.iter().zip(a).zip(b) {
        let order = oracle(a, b, field.collation);
        if order.is_ne() {
            return if field.descending { order.reverse() } else { order };
        }
    }
    Ordering::Equal
}

fn encoded(format: &Format, values: &[Owned]) -> Vec<u8> {
    let mut key = Vec::new();
    format.encode(values.iter().map(Owned::value), &mut key, &mut Vec::new());
    key
}

#[test]
fn keys_sort_as_their_values() {
    let random = &mut Random::new(1);
    for _ in 0..200_000 {
        let fields = (0..1 + random.index(3))
            .map(|_| Field {
                collation: [Collation::Binary, Collation::NoCase, Collation::Rtrim][random.index(3)],
                descending: random.index(2) == 0,
            })
            .collect::<Vec<_>>();
        let format = Format { fields, unique: 0, encoding: Encoding::Utf8 };
        let mut draw = || (0..format.fields.len()).map(|_| Owned::random(random)).collect::<Vec<_>>();
        let (a, b) = (draw(), draw());
        let (key_a, key_b) = (encoded(&format, &a), encoded(&format, &b));
        assert_eq!(key_a.cmp(&key_b), compare(&a, &b, &format), "{format:?}: {a:?} {b:?}");
        // A prefix's keys lie between it and it followed by FF.
        let mut prefix = encoded(&format, &a[..1]);
        assert!(key_a.starts_with(&prefix));
        prefix.push(0xff);
        assert!(key_a < prefix);
    }
}

#[test]
fn unique_entries_have_no_rowid_in_their_key() {
    let field = Field { collation: Collation::Binary, descending: false };
    let format = Format { fields: vec![field; 3], unique: 2, encoding: Encoding::Utf8 };
    let entry = |second: Owned, row: i64| encoded(&format, &[Owned::Integer(1), second, Owned::Integer(row)]);
    assert_eq!(entry(Owned::Integer(2), 7), entry(Owned::Integer(2), 8));
    assert_ne!(entry(Owned::Null, 7), entry(Owned::Null, 8));
}

#[test]
fn rows_sort_and_come_back() {
    let rows = [i64::MIN, -1, 0, 1, 255, 256, i64::MAX];
    assert!(rows.windows(2).all(|pair| of_row(pair[0]) < of_row(pair[1])));
    assert!(rows.iter().all(|row| row_of(&of_row(*row)) == *row));
}

#[test]
fn utf16_text_is_folded() {
    let field = Field { collation: Collation::NoCase, descending: false };
    let format = Format { fields: vec![field], unique: 0, encoding: Encoding::Utf16Le };
    let utf16 = |text: &str| Owned::Text(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
    assert_eq!(encoded(&format, &[utf16("ABÉ")]), encoded(&format, &[utf16("abÉ")]));
}
