//! RL.QUOTA through the calendar, on a server whose clock the test turns.
#![allow(clippy::unwrap_used, clippy::panic)]

mod lines;
mod support;
use lines::*;
use support::*;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Unix ms of a UTC instant (proleptic Gregorian days, Howard Hinnant's formula).
fn utc_ms(year: i64, month: i64, day: i64, hour: i64, minute: i64) -> u64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let days = era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468;
    u64::try_from(days * DAY_MS + hour * HOUR_MS + minute * 60_000).unwrap()
}

#[test]
fn counts_within_the_period() {
    needs_clock!();
    assert_eq!(utc_ms(2026, 3, 15, 12, 0), NOON_MS);
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[
        ("RL.QUOTA k month 1000 250", [1, 1000, 750, 0, 1_425_600_000]),
        ("RL.QUOTA k month 1000 800", [0, 1000, 750, 1_425_600_000, 1_425_600_000]),
        ("RL.QUOTA k month 1000 1001", [0, 1000, 750, -1, 1_425_600_000]),
        ("RL.QUOTA k day 100", [1, 100, 99, 0, 43_200_000]),
        ("RL.QUOTA k month 1000 1 AS x", [1, 1000, 999, 0, 1_425_600_000]),
        ("RL.QUOTA k month 300 0", [1, 300, 50, 0, 1_425_600_000]),
        ("RL.QUOTA k month 200 0", [0, 200, 0, 1_425_600_000, 1_425_600_000]),
        ("RL.QUOTA k month 1000 999 UPTO LEAVE 50", [700, 1000, 50, 0, 1_425_600_000]),
        ("RL.QUOTA k month 1000 999 FORCE", [1, 1000, 0, 0, 1_425_600_000]),
        ("RL.QUOTA k month 1000 0", [0, 1000, 0, 1_425_600_000, 1_425_600_000]),
        ("RL.QUOTA k month 0 5", [0, 0, 0, -1, 1_425_600_000]),
    ]);
}

#[test]
fn answers_the_end_of_the_period_also_unused() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    for (period, end_ms) in [
        ("minute", 60_000),
        ("hour", HOUR_MS),
        ("day", 12 * HOUR_MS),
        // 2026-03-15 is a Sunday.
        ("week", 12 * HOUR_MS),
        ("month", 16 * DAY_MS + 12 * HOUR_MS),
        ("year", (16 + 275) * DAY_MS + 12 * HOUR_MS),
    ] {
        let upper = period.to_uppercase();
        con.expect(&[
            (&format!("RL.PEEK k QUOTA {period} 5"), [1, 5, 5, 0, end_ms]),
            (&format!("RL.QUOTA k {period} 5 0"), [1, 5, 5, 0, end_ms]),
            (&format!("RL.QUOTA k {period} 0"), [0, 0, 0, -1, end_ms]),
            (&format!("RL.QUOTA k {upper} 5 6"), [0, 5, 5, -1, end_ms]),
        ]);
    }
    assert_eq!(con.number("EXISTS k"), 0);
}

/// The zone's public rules, written by hand: the local day of an instant and how long it lasts on.
#[test]
fn days_follow_the_zone() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    for (now_ms, zone, left_ms) in [
        (utc_ms(2026, 3, 28, 23, 0), "Europe/Berlin", 23 * HOUR_MS),
        (utc_ms(2026, 10, 24, 22, 0), "europe/berlin", 25 * HOUR_MS),
        (utc_ms(2026, 3, 8, 5, 0), "America/New_York", 23 * HOUR_MS),
        (utc_ms(2026, 11, 1, 4, 0), "AMERICA/NEW_YORK", 25 * HOUR_MS),
        // No midnight: the day starts at the first instant after the gap.
        (utc_ms(2018, 11, 3, 3, 0), "America/Sao_Paulo", 24 * HOUR_MS),
        (utc_ms(2018, 11, 4, 3, 0), "America/Sao_Paulo", 23 * HOUR_MS),
        (utc_ms(2023, 3, 25, 22, 0), "Asia/Beirut", 23 * HOUR_MS),
        // Midnight twice: it starts at the first.
        (utc_ms(2024, 11, 3, 4, 0), "America/Havana", 25 * HOUR_MS),
        (utc_ms(2024, 11, 3, 5, 30), "America/Havana", 23 * HOUR_MS + HOUR_MS / 2),
        // Half an hour of DST.
        (utc_ms(2026, 4, 4, 13, 0), "Australia/Lord_Howe", 24 * HOUR_MS + HOUR_MS / 2),
        (NOON_MS, "Asia/Kathmandu", 6 * HOUR_MS + HOUR_MS / 4),
        // 30 December 2011 never was.
        (utc_ms(2011, 12, 29, 10, 0), "Pacific/Apia", 24 * HOUR_MS),
    ] {
        con.ask("FLUSHALL");
        still.clock.set_ms(now_ms);
        let call = format!("RL.QUOTA k day 2 2 TZ {zone}");
        con.expect(&[(&call, [1, 2, 0, 0, left_ms]), (&call, [0, 2, 0, left_ms, left_ms])]);
        assert_eq!(still.keeps_promise(&mut con, &call), u64::try_from(left_ms).unwrap());
    }
}

#[test]
fn anchors_clamp_to_short_months_and_return() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    for (anchor, starts) in [
        (31, [(2026, 1, 31), (2026, 2, 28), (2026, 3, 31), (2026, 4, 30), (2026, 5, 31)]),
        (31, [(2028, 1, 31), (2028, 2, 29), (2028, 3, 31), (2028, 4, 30), (2028, 5, 31)]),
        (30, [(2027, 12, 30), (2028, 1, 30), (2028, 2, 29), (2028, 3, 30), (2028, 4, 30)]),
        (29, [(2026, 12, 29), (2027, 1, 29), (2027, 2, 28), (2027, 3, 29), (2027, 4, 29)]),
        (1, [(2026, 11, 1), (2026, 12, 1), (2027, 1, 1), (2027, 2, 1), (2027, 3, 1)]),
    ] {
        con.ask("DEL k");
        still.clock.set_ms(utc_ms(starts[0].0, starts[0].1, starts[0].2, 0, 0));
        let call = format!("RL.QUOTA k month 1 ANCHOR {anchor}");
        for (year, month, day) in &starts[1..] {
            assert_eq!(con.five(&call)[0], 1, "anchor {anchor}");
            still.keeps_promise(&mut con, &call);
            assert_eq!(still.clock.now_ms(), utc_ms(*year, *month, *day, 0, 0), "anchor {anchor}");
            con.ask("DEL k");
        }
    }
}

#[test]
fn billing_months_and_weeks_in_a_zone() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.expect(&[
        // 10 April, midnight in New York (UTC−4).
        (
            "RL.QUOTA a month 9 TZ America/New_York ANCHOR 10",
            [1, 9, 8, 0, 25 * DAY_MS + 16 * HOUR_MS],
        ),
        ("RL.QUOTA b week 9 ANCHOR sun", [1, 9, 8, 0, 6 * DAY_MS + 12 * HOUR_MS]),
        ("RL.QUOTA c week 9 anchor MON", [1, 9, 8, 0, 12 * HOUR_MS]),
        ("RL.QUOTA d week 9 ANCHOR tue TZ Asia/Tokyo", [1, 9, 8, 0, DAY_MS + 3 * HOUR_MS]),
        ("RL.QUOTA e year 9 TZ Pacific/Auckland", [1, 9, 8, 0, 290 * DAY_MS + 23 * HOUR_MS]),
    ]);
}

#[test]
fn the_stored_period_governs_until_its_end() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    let left = 12 * HOUR_MS;
    con.expect(&[
        ("RL.QUOTA k day 5 5", [1, 5, 0, 0, left]),
        // Tokyo's day ends in 3 hours, but a new zone takes effect with the next period only.
        ("RL.QUOTA k day 5 TZ Asia/Tokyo", [0, 5, 0, left, left]),
        ("RL.PEEK k QUOTA day 5 TZ America/New_York", [0, 5, 0, left, left]),
        ("RL.QUOTA k week 5 5", [1, 5, 0, 0, left]),
        ("RL.QUOTA k week 5 ANCHOR thu", [0, 5, 0, left, left]),
    ]);
    still.clock.advance_ms(12 * 3_600_000 - 1);
    con.expect(&[("RL.QUOTA k day 5 TZ Asia/Tokyo", [0, 5, 0, 1, 1])]);
    still.clock.advance_ms(1);
    con.expect(&[
        ("RL.QUOTA k day 5 TZ Asia/Tokyo", [1, 5, 4, 0, 15 * HOUR_MS]),
        ("RL.QUOTA k week 5 ANCHOR thu", [1, 5, 4, 0, 3 * DAY_MS]),
    ]);
}

#[test]
fn keeps_its_period_when_the_clock_steps_back() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask("RL.QUOTA k day 5 5");
    let before = still.server.digest("k");
    // Into yesterday: the stored period starts less than a period ahead, and governs.
    still.clock.step_us(-20 * HOUR_MS * 1000);
    con.expect(&[("RL.QUOTA k day 5", [0, 5, 0, 32 * HOUR_MS, 32 * HOUR_MS])]);
    assert_eq!(still.server.digest("k"), before, "a quota is not moved");
    // Further: the clock was grossly wrong, and the period is void.
    still.clock.step_us(-20 * HOUR_MS * 1000);
    con.expect(&[
        ("RL.PEEK k QUOTA day 5", [1, 5, 5, 0, 4 * HOUR_MS]),
        ("RL.QUOTA k day 5", [1, 5, 4, 0, 4 * HOUR_MS]),
    ]);
    assert_ne!(still.server.digest("k"), before);
}

#[test]
fn one_counter_per_period_and_name() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    for period in ["minute", "hour", "day", "week", "month", "year"] {
        for name in ["", " AS a", " AS b"] {
            assert_eq!(con.five(&format!("RL.QUOTA k {period} 9 4{name}"))[2], 5);
            assert_eq!(con.five(&format!("RL.QUOTA k {period} 9 4{name}"))[2], 1);
        }
    }
}

#[test]
fn an_overflow_is_an_error_that_charges_nothing() {
    needs_clock!();
    let still = Still::at_noon();
    let mut con = still.server.connection();
    con.ask(&format!("RL.QUOTA k day 9 {MAX} FORCE"));
    let before = still.server.digest("k");
    let error = con.error("RL.QUOTA k day 9 1 FORCE");
    assert!(error.starts_with("ERR the charge would lift"), "{error}");
    assert_eq!(still.server.digest("k"), before);
}

#[test]
fn zones_and_anchors_are_checked() {
    let server = Server::start();
    let mut con = server.connection();
    for (line, text) in [
        ("RL.QUOTA k day 5 TZ Mars/Olympus", "ERR TZ must be followed by the IANA name of a known"),
        ("RL.QUOTA k day 5 TZ", "ERR TZ must be followed"),
        ("RL.QUOTA k day 5 TZ ../../etc/localtime", "ERR TZ must be followed"),
        ("RL.QUOTA k day 5 TZ +01:00", "ERR TZ must be followed"),
        ("RL.QUOTA k minute 5 TZ UTC", "ERR TZ belongs to the periods"),
        ("RL.QUOTA k hour 5 TZ Europe/Berlin", "ERR TZ belongs to the periods"),
        ("RL.QUOTA k week 5 ANCHOR 1", "ERR ANCHOR of a week"),
        ("RL.QUOTA k week 5 ANCHOR sunday", "ERR ANCHOR of a week"),
        ("RL.QUOTA k month 5 ANCHOR 0", "ERR ANCHOR of a month"),
        ("RL.QUOTA k month 5 ANCHOR 32", "ERR ANCHOR of a month"),
        ("RL.QUOTA k month 5 ANCHOR -1", "ERR ANCHOR of a month"),
        ("RL.QUOTA k month 5 ANCHOR mon", "ERR ANCHOR of a month"),
        ("RL.QUOTA k day 5 ANCHOR 1", "ERR ANCHOR belongs to the periods week and month"),
        ("RL.QUOTA k year 5 ANCHOR 1", "ERR ANCHOR belongs to the periods week and month"),
        ("RL.QUOTA k month 5 ANCHOR", "ERR ANCHOR must be followed"),
        ("RL.QUOTA k decade 5", "ERR period must be"),
        ("RL.QUOTA k month 5 TZ UTC TZ UTC", "ERR each option may stand only once"),
    ] {
        let error = con.error(line);
        assert!(error.starts_with(text), "{line}: {error}");
        let layer = line.replace("RL.QUOTA k", "RL.TAKE k QUOTA");
        let error = con.error(&layer);
        assert!(error.starts_with(text), "{layer}: {error}");
    }
    assert_eq!(con.number("EXISTS k"), 0);
}
