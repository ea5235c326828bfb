//! Calendar periods: from which instant to which does the day, week, month or year last that is now
//! in some place?
//!
//! ```text
//!  Europe/Berlin   Sat 30 March     Sun 31 March (23 h)   Mon 1 April
//!  ────────────────┼────────────────┼─────────────────────┼──────────▶
//!  UTC      29th 23:00       30th 23:00            31st 22:00
//! ```
//!
//! A period starts where its first local date starts, and ends where the first date of the next one
//! does. Such starts only ever grow from date to date, so periods tile the time line: each instant
//! lies in exactly one, whatever clocks in that place do (see [`Zone`]).

mod civil;
mod zone;

pub use zone::Zone;

use crate::units::{MAX_INSTANT_US, parse_amount};
use core::hash::BuildHasherDefault;
use std::collections::HashMap;
use std::hash::DefaultHasher;
use zone::DAY_S;

/// A kind of calendar period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Period {
    /// A whole UTC minute.
    Minute,
    /// A whole UTC hour.
    Hour,
    /// From local midnight to local midnight: usually 23, 24 or 25 hours.
    Day,
    /// Seven local dates from Monday, or another weekday.
    Week,
    /// A local month from the 1st, or another day of the month.
    Month,
    /// From local 1 January to 1 January.
    Year,
}

impl Period {
    /// All periods, the shortest first; each at the index that is its [`Period::code`].
    pub const ALL: [Self; 6] =
        [Self::Minute, Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    /// Parses the keyword, in any case.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|period| text.eq_ignore_ascii_case(period.name().as_bytes()))
    }

    /// The keyword.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Year => "year",
        }
    }

    /// The number that stands for this period in stored bytes; never changes.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The period of a [`Period::code`].
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// Whether a time zone makes a difference: not to minutes and hours, which are UTC.
    #[must_use]
    pub const fn has_zone(self) -> bool {
        !matches!(self, Self::Minute | Self::Hour)
    }

    /// The first date of the period that `date` belongs to. Dates are days since 1970-01-01.
    const fn first_date(self, anchor: Anchor, date: i64) -> i64 {
        match self {
            Self::Week => date - (date - anchor.a_first_date_of_week()).rem_euclid(7),
            Self::Month => {
                let (year, month, _) = civil::year_month_day(date);
                let first = anchor.date_in_month(year, month);
                if first <= date { first } else { anchor.date_in_month(year, month - 1) }
            }
            Self::Year => civil::day_number(civil::year_month_day(date).0, 1, 1),
            Self::Minute | Self::Hour | Self::Day => date,
        }
    }

    /// The first date of the next period after the one whose first date is `first`.
    const fn next_first_date(self, anchor: Anchor, first: i64) -> i64 {
        let (year, month, _) = civil::year_month_day(first);
        match self {
            Self::Week => first + 7,
            Self::Month => anchor.date_in_month(year, month + 1),
            Self::Year => civil::day_number(year + 1, 1, 1),
            Self::Minute | Self::Hour | Self::Day => first + 1,
        }
    }
}

/// The day on which weeks (1 Monday ..= 7 Sunday) or months (1 ..= 31) start. The default, Monday or
/// the 1st, is all that other periods know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Anchor(u8);

impl Anchor {
    /// Weeks start on Monday, months on the 1st.
    pub const FIRST: Self = Self(1);

    /// Parses the anchor of a week (`mon` ..= `sun`, in any case) or month (`1` ..= `31`). `None`
    /// for anything else, and for periods that have no anchor.
    #[must_use]
    pub fn parse(period: Period, text: &[u8]) -> Option<Self> {
        const WEEKDAYS: [&[u8]; 7] = [b"mon", b"tue", b"wed", b"thu", b"fri", b"sat", b"sun"];
        match period {
            Period::Week => (1..)
                .zip(WEEKDAYS)
                .find(|(_, name)| text.eq_ignore_ascii_case(name))
                .map(|(n, _)| Self(n)),
            Period::Month => {
                let day = u8::try_from(parse_amount(text)?).ok()?;
                (1..=31).contains(&day).then_some(Self(day))
            }
            _ => None,
        }
    }

    /// Some date on which a week starts; 1970-01-01 was a Thursday, so 1970-01-05 is a Monday.
    const fn a_first_date_of_week(self) -> i64 {
        4 + (self.0 as i64 - 1)
    }

    /// The date on which the period starts in a month (which may be 0 or 13): the anchor's, or the
    /// last one of a shorter month.
    const fn date_in_month(self, year: i64, month: i64) -> i64 {
        let (year, month) = match month {
            0 => (year - 1, 12),
            13 => (year + 1, 1),
            _ => (year, month),
        };
        let last = civil::last_day(year, month);
        let day = if (self.0 as i64) < last { self.0 as i64 } else { last };
        civil::day_number(year, month, day)
    }
}

impl Default for Anchor {
    fn default() -> Self {
        Self::FIRST
    }
}

/// Who can tell in which calendar period an instant lies; asked only when that matters.
pub trait Periods {
    /// As [`Calendar::bounds`].
    fn bounds(&mut self, zone: &Zone, period: Period, anchor: Anchor, now_us: u64) -> (u64, u64);
}

impl Periods for Calendar {
    fn bounds(&mut self, zone: &Zone, period: Period, anchor: Anchor, now_us: u64) -> (u64, u64) {
        Self::bounds(self, zone, period, anchor, now_us)
    }
}

/// Zones by name, and the present period of each zone, period and anchor in use: neither is worked
/// out again on each call.
#[derive(Debug)]
pub struct Calendar {
    zones: Cache<Box<[u8]>, Zone>,
    /// `[start_ms, end_ms)`.
    periods: Cache<(Zone, Period, Anchor), (u64, u64)>,
}

/// Entries per cache. A full one is emptied: what is in use comes back at a microsecond each.
const CAPACITY: usize = 256;

/// A fixed hash does: a cache this small cannot be flooded.
type Cache<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;

impl Calendar {
    /// An empty cache.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            zones: HashMap::with_hasher(BuildHasherDefault::new()),
            periods: HashMap::with_hasher(BuildHasherDefault::new()),
        }
    }

    /// The zone of an IANA name (any bytes, any case), `None` when there is none.
    pub fn zone(&mut self, name: &[u8]) -> Option<Zone> {
        if name.eq_ignore_ascii_case(b"UTC") {
            return Some(Zone::UTC);
        }
        if let Some(zone) = self.zones.get(name) {
            return Some(zone.clone());
        }
        let zone = Zone::from_name(name)?;
        make_room(&mut self.zones);
        self.zones.insert(name.into(), zone.clone());
        Some(zone)
    }

    /// The period that contains `now_us`, as `(start_ms, end_ms)` in Unix milliseconds, the end
    /// excluded. What lies before 1970 is cut off; a `now_us` after [`MAX_INSTANT_US`] counts as
    /// that.
    ///
    /// An `anchor` that was parsed for another kind of period gives some period, no error.
    pub fn bounds(
        &mut self,
        zone: &Zone,
        period: Period,
        anchor: Anchor,
        now_us: u64,
    ) -> (u64, u64) {
        let now_us = now_us.min(MAX_INSTANT_US);
        if zone.is_utc() || !period.has_zone() {
            return bounds_ms(zone, period, anchor, now_us);
        }
        let key = (zone.clone(), period, anchor);
        if let Some(&(start_ms, end_ms)) = self.periods.get(&key)
            && (start_ms..end_ms).contains(&(now_us / 1000))
        {
            return (start_ms, end_ms);
        }
        let bounds = bounds_ms(zone, period, anchor, now_us);
        make_room(&mut self.periods);
        self.periods.insert(key, bounds);
        bounds
    }
}

impl Default for Calendar {
    fn default() -> Self {
        Self::new()
    }
}

fn make_room<K, V>(cache: &mut Cache<K, V>) {
    if cache.len() >= CAPACITY {
        cache.clear();
    }
}

fn bounds_ms(zone: &Zone, period: Period, anchor: Anchor, now_us: u64) -> (u64, u64) {
    let now_s = i64::try_from(now_us / 1_000_000).unwrap_or(i64::MAX);
    let (start_s, end_s) = match period {
        Period::Minute => whole(now_s, 60),
        Period::Hour => whole(now_s, 3600),
        Period::Day if zone.is_utc() => whole(now_s, DAY_S),
        _ => local_bounds_s(zone, period, anchor, now_s),
    };
    let ms = |at_s: i64| u64::try_from(at_s).unwrap_or(0) * 1000;
    (ms(start_s), ms(end_s))
}

const fn whole(now_s: i64, length_s: i64) -> (i64, i64) {
    let start_s = now_s - now_s.rem_euclid(length_s);
    (start_s, start_s + length_s)
}

fn local_bounds_s(zone: &Zone, period: Period, anchor: Anchor, now_s: i64) -> (i64, i64) {
    // Clocks show this date now, so its period has started …
    let mut first = period.first_date(anchor, zone.date(now_s));
    let mut start_s = zone.start_of_date_s(first);
    loop {
        let next = period.next_first_date(anchor, first);
        let end_s = zone.start_of_date_s(next);
        if now_s < end_s {
            return (start_s, end_s);
        }
        // … but it may be over where clocks went past midnight and were then set back before it.
        (first, start_s) = (next, end_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords() {
        for (code, period) in (0..).zip(Period::ALL) {
            assert_eq!(period.code(), code);
            assert_eq!(Period::from_code(code), Some(period));
            assert_eq!(Period::parse(period.name().to_uppercase().as_bytes()), Some(period));
        }
        assert_eq!(Period::from_code(6), None);
        for bad in [&b""[..], b"days", b"da", b"1d", b"day ", b"day\0", b"\xff"] {
            assert_eq!(Period::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn anchors() {
        let week = |text: &[u8]| Anchor::parse(Period::Week, text);
        let month = |text: &[u8]| Anchor::parse(Period::Month, text);
        assert_eq!(week(b"mon"), Some(Anchor::FIRST));
        assert_eq!(week(b"SUN"), Some(Anchor(7)));
        assert_eq!(month(b"1"), Some(Anchor::FIRST));
        assert_eq!(month(b"31"), Some(Anchor(31)));
        for bad in [
            &b""[..],
            b"0",
            b"32",
            b"257",
            b"-1",
            b"+1",
            b"1.0",
            b"1st",
            b"99999999999999999999",
            b"mon",
        ] {
            assert_eq!(month(bad), None, "{bad:?}");
        }
        for bad in [&b""[..], b"1", b"monday", b"mo", b"mon ", b"m\xc3\xb6n"] {
            assert_eq!(week(bad), None, "{bad:?}");
        }
        for period in [Period::Minute, Period::Hour, Period::Day, Period::Year] {
            assert_eq!(Anchor::parse(period, b"1"), None);
            assert_eq!(Anchor::parse(period, b"mon"), None);
        }
    }

    #[test]
    fn zone_names_are_total() {
        let mut calendar = Calendar::new();
        assert_eq!(calendar.zone(b"utc"), Some(Zone::UTC));
        let berlin = calendar.zone(b"Europe/Berlin").unwrap();
        assert_eq!(calendar.zone(b"eUROPE/bERLIN"), Some(berlin.clone()));
        assert_eq!(berlin.name(), "Europe/Berlin");
        assert_ne!(Some(berlin), calendar.zone(b"Europe/Paris"));
        let huge = vec![b'a'; 1 << 20];
        for bad in [
            &b""[..],
            b" ",
            b"Europe/Berlin\0",
            b"\0",
            b"Europe",
            b"Europe/",
            b"../etc/passwd",
            b"/etc/localtime",
            b"Etc/Unknown",
            b"Etc/unknown",
            b"+01:00",
            b"CET-1CEST,M3.5.0,M10.5.0/3",
            b"\xff\xfe",
            b"Europe/Berl\xc3\xadn",
            &huge,
        ] {
            assert_eq!(calendar.zone(bad), None, "{:?}", &bad[..bad.len().min(40)]);
        }
    }

    #[test]
    fn caches_are_bounded_and_answer_what_is_computed() {
        let mut calendar = Calendar::new();
        let names: Vec<String> = jiff::tz::TimeZoneDatabase::bundled()
            .available()
            .map(|name| name.as_str().to_owned())
            .collect();
        assert!(names.len() > CAPACITY);
        for now_us in [1_700_000_000_000_000, 1_700_100_000_000_000] {
            for name in &names {
                let zone = calendar.zone(name.as_bytes()).unwrap();
                for period in [Period::Day, Period::Month] {
                    let computed = bounds_ms(&zone, period, Anchor::FIRST, now_us);
                    for _ in 0..2 {
                        assert_eq!(calendar.bounds(&zone, period, Anchor::FIRST, now_us), computed);
                    }
                }
                assert!(calendar.zones.len() <= CAPACITY && calendar.periods.len() <= CAPACITY);
            }
        }
        let (zones, periods) = (calendar.zones.len(), calendar.periods.len());
        let last = calendar.zone(names.last().unwrap().as_bytes()).unwrap();
        calendar.bounds(&last, Period::Day, Anchor::FIRST, 1_700_100_000_000_000);
        assert_eq!((zones, periods), (calendar.zones.len(), calendar.periods.len()));
    }
}
