//! Calendar periods against cases from public knowledge, written down as UTC instants, and against
//! a naive oracle that looks at a local clock minute by minute.

// Outside #[test] functions too, a test that cannot go on panics, and numbers are small.
#![allow(clippy::unwrap_used, clippy::cast_sign_loss, clippy::cast_possible_truncation)]

use jiff::civil::{Date, Weekday};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan};
use proptest::prelude::*;
use redis_limiter_core::calendar::{Anchor, Calendar, Period, Zone};
use redis_limiter_core::units::MAX_INSTANT_US;
use std::sync::LazyLock;

/// Zone, period, anchor (empty: none), and consecutive starts as UTC: each is where one period ends
/// and the next begins.
type Case = (&'static str, Period, &'static str, &'static [&'static str]);

use Period::{Day, Hour, Minute, Month, Week, Year};

#[rustfmt::skip]
const CASES: &[Case] = &[
    // Whole UTC units; the epoch was a Thursday.
    ("UTC", Minute, "", &["1970-01-01 00:00", "1970-01-01 00:01", "1970-01-01 00:02"]),
    ("UTC", Hour, "", &["2024-02-29 23:00", "2024-03-01 00:00", "2024-03-01 01:00"]),
    ("UTC", Day, "", &["2024-02-28 00:00", "2024-02-29 00:00", "2024-03-01 00:00"]),
    ("UTC", Week, "", &["1970-01-05 00:00", "1970-01-12 00:00", "1970-01-19 00:00"]),
    ("UTC", Month, "", &["2023-12-01 00:00", "2024-01-01 00:00", "2024-02-01 00:00", "2024-03-01 00:00"]),
    ("UTC", Year, "", &["1999-01-01 00:00", "2000-01-01 00:00", "2001-01-01 00:00"]),
    // Minutes and hours ignore the zone, also where it is off by less than an hour.
    ("Asia/Kathmandu", Hour, "", &["2024-01-01 00:00", "2024-01-01 01:00"]),
    // 31 March 2024 has 23 hours in Berlin, 27 October 25.
    ("Europe/Berlin", Day, "", &["2024-03-29 23:00", "2024-03-30 23:00", "2024-03-31 22:00", "2024-04-01 22:00"]),
    ("Europe/Berlin", Day, "", &["2024-10-25 22:00", "2024-10-26 22:00", "2024-10-27 23:00", "2024-10-28 23:00"]),
    ("Europe/Berlin", Week, "", &["2024-03-24 23:00", "2024-03-31 22:00", "2024-04-07 22:00"]),
    ("Europe/Berlin", Month, "", &["2024-02-29 23:00", "2024-03-31 22:00", "2024-04-30 22:00"]),
    ("Europe/Berlin", Year, "", &["2023-12-31 23:00", "2024-12-31 23:00", "2025-12-31 23:00"]),
    // A far year, for which the database holds no dates but the rule.
    ("Europe/Berlin", Day, "", &["2098-03-28 23:00", "2098-03-29 23:00", "2098-03-30 22:00"]),
    ("America/New_York", Day, "", &["2024-03-09 05:00", "2024-03-10 05:00", "2024-03-11 04:00"]),
    ("America/New_York", Day, "", &["2024-11-02 04:00", "2024-11-03 04:00", "2024-11-04 05:00"]),
    ("America/New_York", Year, "", &["2023-01-01 05:00", "2024-01-01 05:00", "2025-01-01 05:00"]),
    // Half an hour of DST: 24 h 30 min and 23 h 30 min.
    ("Australia/Lord_Howe", Day, "", &["2024-04-05 13:00", "2024-04-06 13:00", "2024-04-07 13:30", "2024-04-08 13:30"]),
    ("Australia/Lord_Howe", Day, "", &["2024-10-04 13:30", "2024-10-05 13:30", "2024-10-06 13:00", "2024-10-07 13:00"]),
    // No midnight on 4 November 2018: clocks go from 00:00 to 01:00. On 17 February they went back
    // from 24:00 to 23:00.
    ("America/Sao_Paulo", Day, "", &["2018-11-03 03:00", "2018-11-04 03:00", "2018-11-05 02:00"]),
    ("America/Sao_Paulo", Day, "", &["2018-02-16 02:00", "2018-02-17 02:00", "2018-02-18 03:00", "2018-02-19 03:00"]),
    ("America/Sao_Paulo", Month, "4", &["2018-10-04 03:00", "2018-11-04 03:00", "2018-12-04 02:00"]),
    ("Asia/Beirut", Day, "", &["2024-03-29 22:00", "2024-03-30 22:00", "2024-03-31 21:00"]),
    ("Asia/Beirut", Week, "sun", &["2024-03-23 22:00", "2024-03-30 22:00", "2024-04-06 21:00"]),
    ("Asia/Beirut", Day, "", &["2024-10-25 21:00", "2024-10-26 22:00", "2024-10-27 22:00"]),
    // Midnight twice on 3 November 2024 (01:00 back to 00:00): the first one counts. None on 10 March.
    ("America/Havana", Day, "", &["2024-11-02 04:00", "2024-11-03 04:00", "2024-11-04 05:00"]),
    ("America/Havana", Month, "3", &["2024-10-03 04:00", "2024-11-03 04:00", "2024-12-03 05:00"]),
    ("America/Havana", Day, "", &["2024-03-09 05:00", "2024-03-10 05:00", "2024-03-11 04:00"]),
    // 00:01 back to 23:01 of the day before: the 29th starts at its first midnight for good.
    ("America/St_Johns", Day, "", &["2006-10-28 02:30", "2006-10-29 02:30", "2006-10-30 03:30"]),
    ("Asia/Kathmandu", Day, "", &["2023-12-30 18:15", "2023-12-31 18:15", "2024-01-01 18:15"]),
    // 1986 began there with a jump from +05:30: 00:00 to 00:15.
    ("Asia/Kathmandu", Year, "", &["1984-12-31 18:30", "1985-12-31 18:30", "1986-12-31 18:15"]),
    // Turkey stayed on summer time in the autumn of 2016.
    ("Europe/Istanbul", Day, "", &["2016-10-28 21:00", "2016-10-29 21:00", "2016-10-30 21:00", "2016-10-31 21:00"]),
    ("Europe/Istanbul", Day, "", &["2016-03-25 22:00", "2016-03-26 22:00", "2016-03-27 21:00"]),
    ("Europe/Istanbul", Month, "", &["2016-02-29 22:00", "2016-03-31 21:00"]),
    ("Europe/Istanbul", Year, "", &["2014-12-31 22:00", "2015-12-31 22:00", "2016-12-31 21:00", "2017-12-31 21:00"]),
    // Samoa went over the date line: 30 December 2011 did not exist.
    ("Pacific/Apia", Day, "", &["2011-12-28 10:00", "2011-12-29 10:00", "2011-12-30 10:00", "2011-12-31 10:00"]),
    ("Pacific/Apia", Week, "", &["2011-12-19 10:00", "2011-12-26 10:00", "2012-01-01 10:00", "2012-01-08 10:00"]),
    ("Pacific/Apia", Week, "fri", &["2011-12-23 10:00", "2011-12-30 10:00", "2012-01-05 10:00"]),
    ("Pacific/Apia", Week, "sat", &["2011-12-24 10:00", "2011-12-30 10:00", "2012-01-06 10:00"]),
    ("Pacific/Apia", Month, "", &["2011-11-01 10:00", "2011-12-01 10:00", "2011-12-31 10:00", "2012-01-31 10:00"]),
    ("Pacific/Apia", Month, "30", &["2011-10-30 10:00", "2011-11-30 10:00", "2011-12-30 10:00", "2012-01-29 10:00"]),
    ("Pacific/Apia", Year, "", &["2011-01-01 10:00", "2011-12-31 10:00", "2012-12-31 10:00"]),
    // So did Kwajalein on 21 August 1993, a Saturday.
    ("Pacific/Kwajalein", Day, "", &["1993-08-20 12:00", "1993-08-21 12:00", "1993-08-22 12:00"]),
    // Late anchors through February, in a common year …
    ("UTC", Month, "29", &["2022-12-29 00:00", "2023-01-29 00:00", "2023-02-28 00:00", "2023-03-29 00:00", "2023-04-29 00:00"]),
    ("UTC", Month, "30", &["2022-12-30 00:00", "2023-01-30 00:00", "2023-02-28 00:00", "2023-03-30 00:00", "2023-04-30 00:00"]),
    ("UTC", Month, "31", &["2022-12-31 00:00", "2023-01-31 00:00", "2023-02-28 00:00", "2023-03-31 00:00", "2023-04-30 00:00", "2023-05-31 00:00"]),
    // … in a leap year …
    ("UTC", Month, "28", &["2024-01-28 00:00", "2024-02-28 00:00", "2024-03-28 00:00"]),
    ("UTC", Month, "29", &["2023-12-29 00:00", "2024-01-29 00:00", "2024-02-29 00:00", "2024-03-29 00:00"]),
    ("UTC", Month, "30", &["2023-12-30 00:00", "2024-01-30 00:00", "2024-02-29 00:00", "2024-03-30 00:00"]),
    ("UTC", Month, "31", &["2023-12-31 00:00", "2024-01-31 00:00", "2024-02-29 00:00", "2024-03-31 00:00", "2024-04-30 00:00"]),
    // … in the leap year 2000 and in 2100, which is none …
    ("UTC", Month, "31", &["2000-01-31 00:00", "2000-02-29 00:00", "2000-03-31 00:00"]),
    ("UTC", Month, "29", &["2100-01-29 00:00", "2100-02-28 00:00", "2100-03-29 00:00"]),
    // … and where the 31st of March has 23 hours.
    ("Europe/Berlin", Month, "31", &["2024-01-30 23:00", "2024-02-28 23:00", "2024-03-30 23:00", "2024-04-29 22:00"]),
    ("UTC", Month, "15", &["2024-11-15 00:00", "2024-12-15 00:00", "2025-01-15 00:00"]),
    // Every week anchor around Wednesday 15 May 2024, and one over a year's end.
    ("UTC", Week, "mon", &["2024-05-13 00:00", "2024-05-20 00:00"]),
    ("UTC", Week, "tue", &["2024-05-14 00:00", "2024-05-21 00:00"]),
    ("UTC", Week, "wed", &["2024-05-15 00:00", "2024-05-22 00:00"]),
    ("UTC", Week, "thu", &["2024-05-09 00:00", "2024-05-16 00:00"]),
    ("UTC", Week, "fri", &["2024-05-10 00:00", "2024-05-17 00:00"]),
    ("UTC", Week, "sat", &["2024-05-11 00:00", "2024-05-18 00:00"]),
    ("UTC", Week, "sun", &["2024-05-12 00:00", "2024-05-19 00:00"]),
    ("Asia/Tokyo", Week, "", &["2024-12-22 15:00", "2024-12-29 15:00", "2025-01-05 15:00"]),
    // Year ends at both edges of the world, 25 hours apart.
    ("Pacific/Kiritimati", Year, "", &["2023-12-31 10:00", "2024-12-31 10:00"]),
    ("Pacific/Pago_Pago", Year, "", &["2024-01-01 11:00", "2025-01-01 11:00"]),
];

#[test]
fn cases_from_public_knowledge() {
    let mut calendar = Calendar::new();
    for (name, period, anchor, starts) in CASES {
        let zone = calendar.zone(name.as_bytes()).expect(name);
        let anchor = match *anchor {
            "" => Anchor::default(),
            text => Anchor::parse(*period, text.as_bytes()).expect(text),
        };
        for pair in starts.windows(2) {
            let (start_ms, end_ms) = (utc_ms(pair[0]), utc_ms(pair[1]));
            let (start_us, end_us) = (start_ms * 1000, end_ms * 1000);
            // Half an hour after the start is where clocks may be back on the date before.
            let early_us = (start_us + 1_800_000_000).min(end_us - 1);
            for now_us in [start_us, early_us, (start_us + end_us) / 2, end_us - 1] {
                // A new one each time: a cached period would hide what another instant computes.
                let bounds = Calendar::new().bounds(&zone, *period, anchor, now_us);
                assert_eq!(bounds, (start_ms, end_ms), "{name} {period:?} {pair:?} {now_us}");
            }
        }
    }
}

/// `YYYY-MM-DD HH:MM` in UTC as Unix milliseconds, counted day by day.
fn utc_ms(text: &str) -> u64 {
    let number = |range: std::ops::Range<usize>| text[range].parse::<u64>().unwrap();
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let year = number(0..4);
    let months = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days: u64 = (1970..year).map(|year| if leap(year) { 366 } else { 365 }).sum::<u64>()
        + months[..number(5..7) as usize - 1].iter().sum::<u64>()
        + number(8..10)
        - 1;
    ((days * 24 + number(11..13)) * 60 + number(14..16)) * 60_000
}

#[test]
fn the_ends_of_time() {
    let mut calendar = Calendar::new();
    // What began before 1970 is cut off there.
    let new_york = calendar.zone(b"America/New_York").unwrap();
    let first_day = calendar.bounds(&new_york, Day, Anchor::default(), 0);
    assert_eq!(first_day, (0, utc_ms("1970-01-01 05:00")));
    assert_eq!(
        calendar.bounds(&Zone::UTC, Week, Anchor::default(), 0),
        (0, utc_ms("1970-01-05 00:00"))
    );
    // All instants after the latest count as that one.
    for name in ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "Pacific/Pago_Pago"] {
        let zone = calendar.zone(name.as_bytes()).unwrap();
        for period in Period::ALL {
            let last = calendar.bounds(&zone, period, Anchor::default(), MAX_INSTANT_US);
            assert!(last.0 <= MAX_INSTANT_US / 1000 && MAX_INSTANT_US / 1000 < last.1);
            assert_eq!(calendar.bounds(&zone, period, Anchor::default(), u64::MAX), last);
        }
    }
}

#[test]
fn a_foreign_anchor_is_no_trouble() {
    let mut calendar = Calendar::new();
    let month_anchor = Anchor::parse(Month, b"31").unwrap();
    for period in Period::ALL {
        let (start_ms, end_ms) = calendar.bounds(&Zone::UTC, period, month_anchor, 1 << 50);
        assert!(start_ms <= (1 << 50) / 1000 && (1 << 50) / 1000 < end_ms);
    }
}

/// In every zone of the database, around every change of its clocks, days tile the time line.
#[test]
fn days_tile_around_every_change_of_clocks() {
    let mut calendar = Calendar::new();
    for name in ZONES.iter() {
        let zone = calendar.zone(name.as_bytes()).unwrap();
        let time_zone = time_zone(name);
        let changes = time_zone.following(Timestamp::UNIX_EPOCH).map(|t| t.timestamp().as_second());
        for change_s in changes.take_while(|&at_s| at_s < 2_208_988_800) {
            let now_us = change_s as u64 * 1_000_000;
            let (mut start_ms, mut end_ms) =
                calendar.bounds(&zone, Day, Anchor::default(), now_us - 86_400_000_000);
            while start_ms * 1000 < now_us + 86_400_000_000 {
                // A skipped date leaves no empty period. Some stations in Antarctica moved by 7 hours.
                let minutes = (end_ms - start_ms) / 60_000;
                assert!((17 * 60..=31 * 60).contains(&minutes), "{name} {start_ms} {minutes}");
                let next = calendar.bounds(&zone, Day, Anchor::default(), end_ms * 1000);
                assert_eq!(next.0, end_ms, "{name}");
                (start_ms, end_ms) = next;
            }
        }
    }
}

static ZONES: LazyLock<Vec<String>> = LazyLock::new(|| {
    TimeZoneDatabase::bundled().available().map(|name| name.as_str().to_owned()).collect()
});

fn time_zone(name: &str) -> TimeZone {
    TimeZoneDatabase::bundled().get(name).unwrap()
}

/// The oracle: dates one by one, and for each the first minute (then second) at which a local clock
/// shows its midnight or later.
struct Oracle {
    zone: TimeZone,
    period: Period,
    anchor: u8,
}

impl Oracle {
    fn begins_on(&self, date: Date) -> bool {
        let last = date.last_of_month().day();
        let anchor = self.anchor as i8;
        match self.period {
            Week => date.weekday() == Weekday::from_monday_one_offset(anchor).unwrap(),
            Month => date.day() == anchor || (date.day() == last && last < anchor),
            Year => (date.month(), date.day()) == (1, 1),
            _ => true,
        }
    }

    fn shows(&self, date: Date, at_s: i64) -> bool {
        let at = Timestamp::from_second(at_s).unwrap();
        self.zone.to_datetime(at).date() >= date
    }

    fn start_s(&self, date: Date) -> i64 {
        let midnight_s = TimeZone::UTC.to_timestamp(date.at(0, 0, 0, 0)).unwrap().as_second();
        let mut at_s = midnight_s - 16 * 3600;
        while !self.shows(date, at_s) {
            at_s += 60;
        }
        (at_s - 59..=at_s).find(|&at_s| self.shows(date, at_s)).unwrap()
    }

    fn bounds_s(&self, now_s: i64) -> (i64, i64) {
        let now = self.zone.to_datetime(Timestamp::from_second(now_s).unwrap());
        let (mut date, mut end_s) = (now.date().tomorrow().unwrap(), None);
        loop {
            if self.begins_on(date) {
                let start_s = self.start_s(date);
                if start_s <= now_s {
                    return (start_s, end_s.unwrap_or_else(|| self.end_s(date)));
                }
                end_s = Some(start_s);
            }
            date = date.yesterday().unwrap();
        }
    }

    fn end_s(&self, first: Date) -> i64 {
        let mut date = first;
        loop {
            date = date.checked_add(1.day()).unwrap();
            if self.begins_on(date) {
                return self.start_s(date);
            }
        }
    }
}

/// A local period: its zone's name, its kind, and its anchor as the oracle knows it.
fn local_period() -> impl Strategy<Value = (String, Period, u8)> {
    let odd = prop::sample::select(vec![
        "America/St_Johns",
        "America/Havana",
        "America/Sao_Paulo",
        "Asia/Beirut",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Antarctica/Casey",
    ]);
    let zone = prop_oneof![
        2 => (0..ZONES.len()).prop_map(|at| ZONES[at].clone()),
        1 => odd.prop_map(str::to_owned),
    ];
    let period = prop_oneof![
        Just((Day, 1)),
        Just((Year, 1)),
        (1..=7u8).prop_map(|anchor| (Week, anchor)),
        prop_oneof![1..=31u8, 28..=31u8].prop_map(|anchor| (Month, anchor)),
    ];
    (zone, period).prop_map(|(zone, (period, anchor))| (zone, period, anchor))
}

fn anchor_text(period: Period, anchor: u8) -> String {
    match period {
        Week => ["mon", "tue", "wed", "thu", "fri", "sat", "sun"][usize::from(anchor) - 1].into(),
        _ => anchor.to_string(),
    }
}

/// Instants: mostly near a change of the zone's clocks, where it matters.
fn near_a_change(name: &str, at_s: i64, off_s: i64) -> i64 {
    let at = Timestamp::from_second(at_s).unwrap();
    match time_zone(name).following(at).next() {
        Some(change) if off_s != 0 => (change.timestamp().as_second() + off_s).max(0),
        _ => at_s,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn agrees_with_a_local_clock(
        (name, period, anchor) in local_period(),
        at_s in prop_oneof![200_000_000..2_200_000_000i64, 200_000_000..17_000_000_000i64],
        off_s in prop_oneof![Just(0), -90_000..90_000i64, -4_000..4_000i64],
    ) {
        let now_s = near_a_change(&name, at_s, off_s);
        let mut calendar = Calendar::new();
        let zone = calendar.zone(name.as_bytes()).unwrap();
        let parsed = Anchor::parse(period, anchor_text(period, anchor).as_bytes()).unwrap_or_default();
        let (start_ms, end_ms) = calendar.bounds(&zone, period, parsed, now_s as u64 * 1_000_000);
        let oracle = Oracle { zone: time_zone(&name), period, anchor };
        let (start_s, end_s) = oracle.bounds_s(now_s);
        prop_assert_eq!((start_ms, end_ms), (start_s as u64 * 1000, end_s as u64 * 1000));
    }

    #[test]
    fn periods_tile_the_time_line(
        (name, period, anchor) in local_period(),
        at_s in 0..17_900_000_000i64,
        off_s in prop_oneof![Just(0), -90_000..90_000i64, -4_000..4_000i64],
        within in 0.0..1.0f64,
    ) {
        let now_us = near_a_change(&name, at_s, off_s) as u64 * 1_000_000;
        let zone = Calendar::new().zone(name.as_bytes()).unwrap();
        let anchor = Anchor::parse(period, anchor_text(period, anchor).as_bytes()).unwrap_or_default();
        // A new calendar each time: a cached period would hide what another instant computes.
        let bounds = |at_us| Calendar::new().bounds(&zone, period, anchor, at_us);
        let (start_ms, end_ms) = bounds(now_us);
        let (start_us, end_us) = (start_ms * 1000, end_ms * 1000);
        prop_assert!(start_us <= now_us && now_us < end_us);
        let middle_us = start_us + ((end_us - start_us) as f64 * within) as u64;
        let next = bounds(end_us);
        prop_assert!(next.0 == end_ms && next.1 > end_ms);
        for at_us in [start_us, middle_us.min(end_us - 1), end_us - 1] {
            prop_assert_eq!(bounds(at_us), (start_ms, end_ms));
        }
        if start_us > 0 {
            prop_assert_eq!(bounds(start_us - 1).1, start_ms);
        }
    }

    #[test]
    fn any_name_is_answered(name in prop::collection::vec(any::<u8>(), 0..80)) {
        if let Some(zone) = Calendar::new().zone(&name) {
            prop_assert!(zone.name().as_bytes().eq_ignore_ascii_case(&name));
        }
    }
}

/// Run by hand with `--release -- --ignored --nocapture`: a cached look-up takes at most 0.25 µs.
#[test]
#[ignore = "measures time"]
fn cached_lookups_are_fast() {
    let mut calendar = Calendar::new();
    for name in ["UTC", "Europe/Berlin", "America/Argentina/ComodRivadavia"] {
        let start = std::time::Instant::now();
        for step in 0..1_000_000u64 {
            let zone = calendar.zone(std::hint::black_box(name.as_bytes())).unwrap();
            let now_us = 1_700_000_000_000_000 + step;
            std::hint::black_box(calendar.bounds(&zone, Month, Anchor::default(), now_us));
        }
        println!("{name}: {} ns", start.elapsed().as_nanos() / 1_000_000);
    }
}
