//! Calendar quotas have no clock rule: what is stored governs until its end.

use super::*;

/// Steps of every size, also those that make a stored period void: nothing else opens a period before
/// the stored one has ended, in none is more admitted than the limit, and whoever is refused waits
/// until the stored end and no longer.
#[test]
fn a_quota_opens_only_when_none_governs() {
    needs_clock!();
    const LIMIT: i64 = 4;
    for (seed, (period, zone)) in (90..).zip([
        ("minute", ""),
        ("hour", ""),
        ("day", "TZ Europe/Berlin"),
        ("week", "ANCHOR sun TZ America/New_York"),
        ("month", "ANCHOR 31"),
        ("year", "TZ Asia/Kolkata"),
    ]) {
        let clock = Clock::new(START_US);
        let server = Server::builder().clock(&clock).start();
        let mut con = server.connection();
        let call = format!("RL.QUOTA k {period} {LIMIT} {zone}");
        let mut rng = Rng::new(seed);
        // The period that was used last, and what was used of it.
        let (mut since_ms, mut until_ms, mut used) = (0, 0, 0);
        let (mut voids, mut full) = (0, 0);
        for _ in 0..500 {
            let away_ms = clock.now_ms().abs_diff(START_US / 1000);
            match rng.below(6) {
                _ if away_ms > 3 * 365 * 86_400_000 => clock.set_us(START_US),
                0 => clock.step_us(1000 * STEPS_MS[usize::try_from(rng.below(6)).unwrap()]),
                // The edge itself.
                1 if until_ms > clock.now_ms() => clock.set_ms(until_ms - rng.below(2)),
                2 => clock.advance_us(rng.below(20_000_000)),
                _ => clock.advance_us(rng.below(2_000)),
            }
            let now_ms = clock.now_ms();
            let void = since_ms * 1000 > clock.now_us() + (until_ms - since_ms) * 1000;
            let governs = now_ms < until_ms && !void;
            let reply = five(&say(&mut con, &call));
            if reply[0] == 0 {
                assert!(governs && used == LIMIT, "{call}: {reply:?} at {now_ms}");
                let wait_us = u64::try_from(reply[3]).unwrap() * 1000;
                assert_eq!(wait_us, (until_ms * 1000 - clock.now_us()).next_multiple_of(1000));
                assert_eq!(reply[3], reply[4], "{call}");
                full += 1;
                continue;
            }
            let info = say(&mut con, "RL.INFO k");
            let redis::Value::Array(limits) = &info else { panic!("{info:?}") };
            let shown = |name: &str| u64::try_from(int(&field(&limits[0], name).unwrap())).unwrap();
            let stored = (shown("since_ms"), shown("until_ms"));
            if governs {
                assert_eq!(stored, (since_ms, until_ms), "{call}: another period at {now_ms}");
                used += 1;
            } else {
                voids += u64::from(now_ms < until_ms);
                (since_ms, until_ms) = stored;
                assert!((since_ms..until_ms).contains(&now_ms), "{call}: {info:?} at {now_ms}");
                used = 1;
            }
            assert!(used <= LIMIT, "{call}: {used} in the period that ends at {until_ms}");
            assert_eq!(reply[2], LIMIT - used, "{call}");
        }
        assert!(full > 5, "{call}: {full} refused");
        assert!(voids > 0 || period == "year", "{call}: no void period");
    }
}

/// A quota period is identified by its end; in none is more admitted than the limit.
struct Quota<'a> {
    call: String,
    clock: &'a Clock,
    con: Connection,
    admitted: BTreeMap<u64, u32>,
}

impl Quota<'_> {
    fn call(&mut self) -> bool {
        let reply = five(&say(&mut self.con, &self.call));
        if reply[0] == 1 {
            let end_ms = self.clock.now_ms() + u64::try_from(reply[4]).unwrap();
            // The answer is rounded up; no period ends between two seconds.
            *self.admitted.entry(end_ms / 1000).or_default() += 1;
        }
        reply[0] == 1
    }
}

#[test]
fn no_quota_period_is_opened_twice() {
    needs_clock!();
    const LIMIT: u32 = 5;
    // The clock is never further back than this, which is less than the period: else the stored
    // period may be void.
    let cases = [
        ("minute", 59_000),
        ("hour", 3_500_000),
        ("day", 3_600_000),
        ("day", 80_000_000),
        ("week", 3_600_000),
        ("month", 3_600_000),
        ("month", 86_400_000),
        ("year", 3_600_000),
    ];
    for (seed, (period, step_ms)) in (1..).zip(cases) {
        let clock = Clock::new(START_US);
        let server = Server::builder().clock(&clock).start();
        let zone = if ["minute", "hour"].contains(&period) { "" } else { " TZ Europe/Berlin" };
        let call = format!("RL.QUOTA k {period} {LIMIT}{zone}");
        let con = server.connection();
        let mut quota = Quota { call, clock: &clock, con, admitted: BTreeMap::new() };
        let (mut rng, mut latest_us) = (Rng::new(seed), START_US);
        for _ in 0..600 {
            if rng.one_in(4) {
                let step_us = rng.below(step_ms * 1000);
                latest_us = latest_us.max(clock.now_us());
                let back_us = clock.now_us() - step_us;
                let back = rng.below(5) < 2 && back_us + step_ms * 1000 > latest_us;
                clock.set_us(if back { back_us } else { clock.now_us() + step_us });
            }
            quota.call();
            quota.call();
        }
        assert!(quota.admitted.values().any(|&n| n == LIMIT), "{period}: never used up");
        for (end, n) in quota.admitted {
            assert!(n <= LIMIT, "{period} that ends at {end}: {n} admitted");
        }
    }
}

#[test]
fn around_midnight_both_days_have_one_quota() {
    needs_clock!();
    for step_ms in [1_000, 3_600_000] {
        // Just before midnight in UTC.
        let clock = Clock::new(1_774_828_799_600_000);
        let server = Server::builder().clock(&clock).start();
        let call = "RL.QUOTA k day 3".to_owned();
        let con = server.connection();
        let mut quota = Quota { call, clock: &clock, con, admitted: BTreeMap::new() };
        while quota.call() {}
        for _ in 0..3 {
            clock.step_us(step_ms * 1000);
            while quota.call() {}
            clock.step_us(-step_ms * 1000);
            assert!(!quota.call(), "the new day's period stays until its own end");
        }
        assert_eq!(quota.admitted.values().copied().collect::<Vec<_>>(), [3, 3]);
    }
}

#[test]
fn a_grossly_wrong_clock_does_not_lock_a_quota() {
    needs_clock!();
    let clock = Clock::new(START_US);
    let server = Server::builder().clock(&clock).start();
    let mut con = server.connection();
    for period in ["minute", "hour", "day", "week", "month"] {
        let call = format!("RL.QUOTA {period} {period} 1");
        assert_eq!(five(&say(&mut con, &call))[0], 1);
        let refused = five(&say(&mut con, &call));
        assert_eq!((refused[0], refused[3]), (0, refused[4]), "until the stored end");
        clock.step_us(-365 * 86_400_000_000);
        assert_eq!(five(&say(&mut con, &call))[0], 1, "{period}: a period a year ahead is void");
        clock.step_us(365 * 86_400_000_000);
    }
}
