//! Amounts, durations and rates: parsed once into validated types, so that deciding cannot fail.
//!
//! Times are microseconds since the Unix epoch (`…_us`) or milliseconds (`…_ms`), always `u64`.

/// The largest amount, and the largest number of milliseconds ever answered: 2^53 − 1, the largest
/// integer that clients counting in doubles (Lua, JavaScript) hold exactly.
pub const MAX_AMOUNT: u64 = (1 << 53) - 1;

/// Later instants count as this one (the year 2540): a bound that leaves room for packing.
pub const MAX_INSTANT_US: u64 = (1 << 54) - 1;

/// The longest duration of an argument: 366 days.
pub const MAX_DURATION_MS: u64 = 366 * 24 * 60 * 60 * 1000;

/// The shortest window: a sliding window has 16 sub-windows of at least a millisecond.
pub const MIN_WINDOW_MS: u64 = 16;

/// The longest wait that `MAXWAIT` books.
pub const MAX_MAXWAIT_MS: u64 = 60 * 60 * 1000;

/// Microseconds as whole milliseconds, rounded up, capped at [`MAX_AMOUNT`].
#[must_use]
#[inline]
pub fn ceil_ms(us: u64) -> u64 {
    us.div_ceil(1000).min(MAX_AMOUNT)
}

/// Parses an amount: digits only, `0 ..= MAX_AMOUNT`.
#[must_use]
pub fn parse_amount(text: &[u8]) -> Option<u64> {
    digits(text).filter(|&amount| amount <= MAX_AMOUNT)
}

/// Parses a duration with its unit (`30s`, `100ms`), `1 ms ..= 366 d`, into milliseconds.
#[must_use]
pub fn parse_duration_ms(text: &[u8]) -> Option<u64> {
    let (count, unit) = leading_digits(text)?;
    let ms = count.checked_mul(unit_ms(unit)?)?;
    (1..=MAX_DURATION_MS).contains(&ms).then_some(ms)
}

fn unit_ms(unit: &[u8]) -> Option<u64> {
    match unit {
        b"ms" => Some(1),
        b"s" => Some(1_000),
        b"m" => Some(60_000),
        b"h" => Some(3_600_000),
        b"d" => Some(86_400_000),
        b"w" => Some(604_800_000),
        _ => None,
    }
}

/// Digits and nothing else.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    match text.split_first_chunk::<8>() {
        None => {
            let (value, len) = eight_digits(first_eight(text));
            (len == text.len() && len > 0).then_some(value)
        }
        Some(_) => {
            let (value, rest) = leading_digits(text)?;
            rest.is_empty().then_some(value)
        }
    }
}

/// The number that `text` starts with, and what follows it. At least one digit.
fn leading_digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut value, mut len) = match text.first_chunk() {
        Some(eight) => eight_digits(u64::from_le_bytes(*eight)),
        None => (0, 0),
    };
    for byte in &text[len..] {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        len += 1;
    }
    let (digits, rest) = text.split_at(len);
    match len {
        0 => None,
        // As many cannot overflow, and hardly anybody writes more.
        1..=19 => Some((value, rest)),
        _ => str::from_utf8(digits).ok()?.parse().ok().map(|value| (value, rest)),
    }
}

/// The number that eight bytes start with, the first lowest, and how many digits it has. All digits
/// at once, then all pairs, then all fours (Daniel Lemire, "Quickly parsing eight digits", 2018).
#[inline]
fn eight_digits(bytes: u64) -> (u64, usize) {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // Digits are 0x30 to 0x39: their high half is 3, also after adding 6. A carry spoils only what
    // follows the first byte that is no digit.
    let high = |bytes: u64| (bytes & (EACH * 0xf0)) ^ (EACH * 0x30);
    let others = high(bytes) | high(bytes.wrapping_add(EACH * 6));
    let len = others.trailing_zeros() / 8;
    if len == 0 {
        return (0, 0);
    }
    let ones = (bytes << (64 - 8 * len)) & (EACH * 0x0f);
    let tens = (ones * 10 + (ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let hundreds = (tens * 100 + (tens >> 16)) & 0x0000_ffff_0000_ffff;
    ((hundreds * 10_000 + (hundreds >> 32)) & 0xffff_ffff, len as usize)
}

/// Up to eight bytes as one integer, the first lowest, 0 for those that are missing.
#[must_use]
#[inline]
pub const fn first_eight(text: &[u8]) -> u64 {
    if let Some(eight) = text.first_chunk() {
        return u64::from_le_bytes(*eight);
    }
    if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        // Both have the bytes in the middle.
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return first as u64 | ((last as u64) << (8 * (text.len() - 4)));
    }
    match text {
        [a, b, c, ..] => *a as u64 | ((*b as u64) << 8) | ((*c as u64) << 16),
        [a, b] => *a as u64 | ((*b as u64) << 8),
        [a] => *a as u64,
        [] => 0,
    }
}

/// A refill rate as an exact fraction, from one unit per 366 days (292 years for
/// [`Rate::per_seconds`]) to 10^9 units per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units (or 10^-k units: the decimals of the argument) …
    units: u128,
    /// … in as many microseconds (times 10^k). Never 0.
    micros: u128,
}

impl Rate {
    /// `units` per `micros` microseconds, `None` when out of range.
    #[must_use]
    pub fn new(units: u128, micros: u128) -> Option<Self> {
        Self::bounded(units, micros, u128::from(MAX_DURATION_MS) * 1000)
    }

    /// `count` units per `period_s` seconds, down to one unit per 2^63 − 1 nanoseconds (292 years):
    /// the range of redis-cell. `None` when out of range.
    #[must_use]
    pub fn per_seconds(count: u64, period_s: u64) -> Option<Self> {
        let slowest_us = u128::from(u64::MAX >> 1) / 1000;
        Self::bounded(count.into(), u128::from(period_s) * 1_000_000, slowest_us)
    }

    /// `slowest_us`: the longest time, in microseconds, that a unit may take.
    fn bounded(units: u128, micros: u128, slowest_us: u128) -> Option<Self> {
        let fastest = 1000; // units per microsecond
        let in_range = units > 0
            && micros > 0
            && units.checked_mul(slowest_us)? >= micros
            && units <= micros.checked_mul(fastest)?;
        in_range.then_some(Self { units, micros })
    }

    /// Parses `COUNT` per second, or `COUNT/DURATION`, where a unit alone means one of it:
    /// `50`, `0.5`, `300/1m`, `300/m`, `10/100ms`. COUNT has at most 6 decimals.
    #[must_use]
    #[inline(always)]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (whole, rest) = leading_digits(text)?;
        let (units, scale, rest) = match rest {
            [b'.', decimals @ ..] => decimal(whole, decimals)?,
            _ => (u128::from(whole), 1, rest),
        };
        let per_ms = match rest {
            [] => 1_000,
            [b'/', per @ ..] => unit_ms(per).or_else(|| parse_duration_ms(per))?,
            _ => return None,
        };
        Self::new(units, u128::from(per_ms * 1000) * scale)
    }

    /// The fraction: units, and the microseconds in which as many refill.
    #[must_use]
    pub(crate) fn fraction(self) -> (u128, u128) {
        (self.units, self.micros)
    }
}

/// `12` with `5/s` behind the dot → (125, 10, `/s`): all digits, the power of ten they are too large
/// by, and what follows.
fn decimal(whole: u64, text: &[u8]) -> Option<(u128, u128, &[u8])> {
    let (decimals, rest) = leading_digits(text)?;
    let places = u32::try_from(text.len() - rest.len()).ok().filter(|places| *places <= 6)?;
    let scale = 10u128.pow(places);
    Some((u128::from(whole) * scale + u128::from(decimals), scale, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Mostly digits, and what comes next to them.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![12 => b'0'..=b'9', 1 => prop::sample::select(&b"/:. s\0"[..]), 1 => any::<u8>()];
        prop::collection::vec(byte, 0..26)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn leading_digits_are_what_they_say(text in text()) {
            let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = str::from_utf8(&text[..len]).unwrap().parse::<u64>().ok();
            prop_assert_eq!(leading_digits(&text), number.map(|value| (value, &text[len..])));
            prop_assert_eq!(digits(&text), number.filter(|_| len == text.len()));
        }

        #[test]
        fn eight_bytes_in_order(text: Vec<u8>) {
            let mut eight = [0; 8];
            text.iter().zip(&mut eight).for_each(|(byte, place)| *place = *byte);
            prop_assert_eq!(first_eight(&text), u64::from_le_bytes(eight));
        }
    }

    #[test]
    fn amounts() {
        assert_eq!(parse_amount(b"0"), Some(0));
        assert_eq!(parse_amount(b"9007199254740991"), Some(MAX_AMOUNT));
        for bad in [
            &b"9007199254740992"[..],
            b"99999999999999999999999",
            b"",
            b"-1",
            b"+1",
            b"1.0",
            b"1e9",
            b"nan",
            b" 1",
            b"1 ",
            b"1\0",
            b"\xff",
        ] {
            assert_eq!(parse_amount(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration_ms(b"1ms"), Some(1));
        assert_eq!(parse_duration_ms(b"30s"), Some(30_000));
        assert_eq!(parse_duration_ms(b"2w"), Some(1_209_600_000));
        assert_eq!(parse_duration_ms(b"366d"), Some(MAX_DURATION_MS));
        for bad in [&b"30"[..], b"s", b"0s", b"367d", b"1M", b"1.5s", b"1ss", b"-1s", b"", b"1s "] {
            assert_eq!(parse_duration_ms(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn rates_of_whole_seconds() {
        let rate = |count, period_s| Rate::per_seconds(count, period_s).map(Rate::fraction);
        assert_eq!(rate(30, 60), Rate::parse(b"30/60s").map(Rate::fraction));
        assert!(rate(1, 9_223_372_036).is_some());
        assert!(rate(1, 9_223_372_037).is_none());
        assert!(rate(1_000_000_000, 1).is_some());
        assert!(rate(1_000_000_001, 1).is_none());
        assert!(rate(u64::MAX, u64::MAX).is_some());
        assert!(rate(0, 1).is_none());
        assert!(rate(1, 0).is_none());
    }

    #[test]
    fn rates() {
        let same = |a: &[u8], b: &[u8]| {
            let ((au, am), (bu, bm)) =
                (Rate::parse(a).unwrap().fraction(), Rate::parse(b).unwrap().fraction());
            assert_eq!(au * bm, bu * am, "{a:?} {b:?}");
        };
        same(b"50", b"50/1s");
        same(b"0.5", b"1/2s");
        same(b"300/m", b"5");
        same(b"10/100ms", b"100/s");
        same(b"1.500000", b"3/2s");
        assert!(Rate::parse(b"1/366d").is_some());
        assert!(Rate::parse(b"1000000000").is_some());
        assert!(Rate::parse(b"31622399999999999.999999/366d").is_some());
        for bad in [
            &b"0"[..],
            b"0/s",
            b"0.5/366d",
            b"1000000000.000001",
            b"1/367d",
            b"1/0s",
            b"1/",
            b"/s",
            b".5",
            b"5.",
            b"1.0000001",
            b"1e9",
            b"nan",
            b"-1",
            b"1/s/s",
            b"",
            b"1/1",
            b"1.2.3",
        ] {
            assert_eq!(Rate::parse(bad), None, "{bad:?}");
        }
    }
}
