//! Decimal numbers of any length.
//!
//! A digit is a byte. Numbers that people write have tens of digits, and digits make it linear to read, to write, to
//! add and to compare; numbers in binary would be faster to multiply only.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, Mul, Neg};

/// Exponents beyond this are cut, as SQLite does: a few characters must not become gigabytes.
const GREATEST_EXPONENT: i64 = 9_999_999;

/// ± digits × 10^-scale.
#[derive(Debug, Clone, Default)]
pub(super) struct Decimal {
    /// False for zero.
    is_negative: bool,
    /// From the least significant on, none above 9. The last one is not 0, so zero has none.
    digits: Vec<u8>,
    /// How many digits stand after the point. `1.50` is not written as `1.5`.
    scale: usize,
}

impl Decimal {
    fn new(is_negative: bool, mut digits: Vec<u8>, scale: usize) -> Self {
        let length = digits.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1);
        digits.truncate(length);
        Self { is_negative: is_negative && length > 0, digits, scale }
    }

    fn integer(mut number: u64) -> Self {
        let mut digits = Vec::new();
        while number > 0 {
            digits.push((number % 10).to_le_bytes()[0]);
            number /= 10;
        }
        Self::new(false, digits, 0)
    }

    /// Reads a number. As in SQLite every text is one: what does not belong there is passed over.
    pub(super) fn parse(text: &[u8]) -> Self {
        let text = text.trim_ascii_start();
        let (is_negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let exponent_at = text.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (text, exponent) = match exponent_at {
            Some(at) => (&text[..at], parse_exponent(&text[at + 1..])),
            None => (text, 0),
        };
        let is_digit = |byte: &&u8| byte.is_ascii_digit();
        let point = text.iter().rposition(|&byte| byte == b'.');
        let after_point = point.map_or(0, |at| text[at..].iter().filter(is_digit).count());
        let mut digits: Vec<u8> = text.iter().rev().filter(is_digit).map(|byte| byte - b'0').collect();

        let scale = i64::try_from(after_point).unwrap_or(i64::MAX).saturating_sub(exponent);
        if digits.iter().all(|&digit| digit == 0) {
            // Zeros before a zero are not worth their bytes.
            digits.clear();
        } else if scale < 0 {
            let zeros = usize::try_from(scale.unsigned_abs()).unwrap_or_default();
            digits.splice(0..0, std::iter::repeat_n(0, zeros));
        }
        Self::new(is_negative, digits, usize::try_from(scale).unwrap_or_default())
    }

    /// A binary number to its last digit; `None` for infinity and what is no number.
    pub(super) fn exactly(real: f64) -> Option<Self> {
        const FRACTION_BITS: u32 = 52;
        if !real.is_finite() {
            return None;
        }
        let bits = real.to_bits();
        let fraction = bits & ((1 << FRACTION_BITS) - 1);
        let biased = i32::try_from(bits >> FRACTION_BITS & 0x7ff).unwrap_or_default();
        // Subnormal numbers have the exponent of the smallest normal ones, and no leading 1.
        let (significand, exponent) =
            if biased == 0 { (fraction, -1074) } else { (fraction | 1 << FRACTION_BITS, biased - 1075) };
        if significand == 0 {
            return Some(Self::default());
        }
        let even = significand.trailing_zeros();
        let odd = Self::integer(significand >> even);
        let power = Self::power_of_two(exponent + i32::try_from(even).unwrap_or_default());
        let magnitude = &odd * &power;
        Some(if real.is_sign_negative() { -magnitude } else { magnitude })
    }

    /// 2 to a power. A negative one is 5 to its magnitude with the point moved: 2⁻³ = 5³ × 10⁻³.
    pub(super) fn power_of_two(exponent: i32) -> Self {
        let mut square = Self::integer(if exponent < 0 { 5 } else { 2 });
        let mut power = Self::integer(1);
        let mut left = exponent.unsigned_abs();
        while left > 0 {
            if left & 1 == 1 {
                power = &power * &square;
            }
            left >>= 1;
            if left > 0 {
                square = &square * &square;
            }
        }
        if exponent < 0 {
            power.scale = usize::try_from(exponent.unsigned_abs()).unwrap_or_default();
        }
        power
    }

    /// As `+1.25e-01`, without zeros that mean nothing.
    pub(super) fn scientific(&self) -> String {
        let zeros = self.digits.iter().take_while(|&&digit| digit == 0).count();
        let mut written = self.digits[zeros..].iter().rev().map(|digit| char::from(b'0' + digit));
        let first = written.next().unwrap_or('0');
        let rest: String = written.collect();
        let rest = if rest.is_empty() { "0" } else { &rest };
        let sign = if self.is_negative { '-' } else { '+' };
        let (length, scale) = (self.digits.len(), self.scale);
        let (is_small, exponent) = match length {
            0 => (false, 0),
            _ => (length <= scale, (length - 1).abs_diff(scale)),
        };
        let exponent_sign = if is_small { '-' } else { '+' };
        format!("{sign}{first}.{rest}e{exponent_sign}{exponent:02}")
    }

    /// The digits as they are with more places after the point.
    fn digits_at(&self, scale: usize) -> Vec<u8> {
        let mut digits = vec![0; scale - self.scale];
        digits.extend_from_slice(&self.digits);
        digits
    }

    fn compare_magnitudes(&self, other: &Self) -> Ordering {
        if self.digits.is_empty() || other.digits.is_empty() {
            return self.digits.len().cmp(&other.digits.len());
        }
        // The place of the first digit is the length less the scale, which may be negative.
        let place = (self.digits.len() + other.scale).cmp(&(other.digits.len() + self.scale));
        let length = self.digits.len().max(other.digits.len());
        place.then_with(|| self.downward().take(length).cmp(other.downward().take(length)))
    }

    /// The digits from the most significant on, and then zeros.
    fn downward(&self) -> impl Iterator<Item = &u8> {
        self.digits.iter().rev().chain(std::iter::repeat(&0))
    }
}

fn parse_exponent(text: &[u8]) -> i64 {
    let (sign, digits) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        rest => (1, rest),
    };
    let digits = digits.iter().filter(|byte| byte.is_ascii_digit());
    let magnitude = digits.fold(0_i64, |number, byte| {
        (number.saturating_mul(10).saturating_add(i64::from(byte - b'0'))).min(GREATEST_EXPONENT)
    });
    sign * magnitude
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative, other.is_negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.compare_magnitudes(other),
            (true, true) => other.compare_magnitudes(self),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Equal are numbers, however many zeros they are written with.
impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal {}

impl Neg for Decimal {
    type Output = Self;

    fn neg(self) -> Self {
        Self::new(!self.is_negative, self.digits, self.scale)
    }
}

impl Add for &Decimal {
    type Output = Decimal;

    fn add(self, other: Self) -> Decimal {
        // The greater magnitude gives the sign, and nothing is ever subtracted from less.
        let (greater, less) = match self.compare_magnitudes(other) {
            Ordering::Less => (other, self),
            Ordering::Equal | Ordering::Greater => (self, other),
        };
        let is_sum = greater.is_negative == less.is_negative;
        let scale = self.scale.max(other.scale);
        let mut digits = greater.digits_at(scale);
        digits.push(0);
        let addends = less.digits_at(scale).into_iter().chain(std::iter::repeat(0));
        let mut carry = 0;
        for (digit, addend) in digits.iter_mut().zip(addends) {
            if is_sum {
                let sum = *digit + addend + carry;
                (*digit, carry) = (sum % 10, sum / 10);
            } else {
                let difference = 10 + *digit - addend - carry;
                (*digit, carry) = (difference % 10, 1 - difference / 10);
            }
        }
        Decimal::new(greater.is_negative, digits, scale)
    }
}

impl Mul for &Decimal {
    type Output = Decimal;

    /// All digits are kept, but for zeros at the end that neither factor has after its point.
    fn mul(self, other: Self) -> Decimal {
        let mut digits = vec![0_u8; self.digits.len() + other.digits.len()];
        for (at, &left) in self.digits.iter().enumerate() {
            let mut carry = 0;
            for (place, &right) in digits[at..].iter_mut().zip(&other.digits) {
                let sum = *place + left * right + carry;
                (*place, carry) = (sum % 10, sum / 10);
            }
            digits[at + other.digits.len()] = carry;
        }
        let mut product =
            Decimal::new(self.is_negative != other.is_negative, digits, self.scale + other.scale);
        let spare = product.scale - self.scale.min(other.scale);
        let zeros = product.digits.iter().take_while(|&&digit| digit == 0).count();
        let dropped = if product.digits.is_empty() { spare } else { zeros.min(spare) };
        product.digits.drain(..dropped.min(product.digits.len()));
        product.scale -= dropped;
        product
    }
}

/// All digits, without an exponent.
impl fmt::Display for Decimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |at: usize| char::from(b'0' + self.digits.get(at).copied().unwrap_or(0));
        let length = self.digits.len().max(self.scale + 1);
        let mut text = String::with_capacity(length + 2);
        if self.is_negative {
            text.push('-');
        }
        for at in (0..length).rev() {
            text.push(digit(at));
            if at == self.scale && at > 0 {
                text.push('.');
            }
        }
        out.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number in an `i128`, with three digits after the point.
    fn decimal(thousandths: i128) -> Decimal {
        let sign = if thousandths < 0 { "-" } else { "" };
        let magnitude = thousandths.unsigned_abs();
        Decimal::parse(format!("{sign}{}.{:03}", magnitude / 1000, magnitude % 1000).as_bytes())
    }

    #[test]
    fn operations_answer_what_integers_do() {
        let mut numbers = vec![0, 1, -1, 999, 1000, -1001, 99_999, 123_456_789, i128::from(i64::MAX)];
        numbers.extend((1..40).map(|n| (n * n * 7919 - 60_000) * n));
        for &left in &numbers {
            for &right in &numbers {
                let (a, b) = (decimal(left), decimal(right));
                assert_eq!((&a + &b).to_string(), decimal(left + right).to_string(), "{left} + {right}");
                assert_eq!(
                    (&a + &-b.clone()).to_string(),
                    decimal(left - right).to_string(),
                    "{left} - {right}"
                );
                // Six digits after the point, of which three may be zeros that are left out.
                assert_eq!(&a * &b, &decimal(left * right) * &Decimal::parse(b"0.001"), "{left} × {right}");
                assert_eq!(a.cmp(&b), left.cmp(&right), "{left} and {right}");
            }
        }
    }

    #[test]
    fn a_binary_number_is_read_back_from_its_digits() {
        for real in [0.1, -2.5, 1e300, 5e-324, f64::MIN_POSITIVE, f64::MAX, 123_456_789.0, 0.0] {
            let digits = Decimal::exactly(real).expect("finite").to_string();
            assert_eq!(digits.parse(), Ok(real), "{digits}");
        }
        assert_eq!(Decimal::exactly(f64::INFINITY), None);
    }

    #[test]
    fn exponents_are_bounded() {
        assert_eq!(Decimal::parse(b"1e99999999999999999999").digits.len(), 10_000_000);
        assert_eq!(Decimal::parse(b"1e-99999999999999999999").scale, 9_999_999);
        assert_eq!(Decimal::parse(b"0e99999999999999999999").to_string(), "0");
    }
}
