//! The proleptic Gregorian calendar as plain arithmetic: a date is the number of days since
//! 1970-01-01, a Thursday.
//!
//! Years are counted from March inside, so that the leap day is the last one: the days before a
//! month are then ⌊(153 · month + 2) ÷ 5⌋ with March = 0, and no table is needed.

/// The date of `year`-`month`-`day`; `month` 1..=12, `day` within the month.
pub(super) const fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let from_march = (month + 9) % 12;
    let before_month = (153 * from_march + 2) / 5;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719_468 days lie between 0000-03-01 and 1970-01-01.
    365 * year + leap_days + before_month + day - 1 - 719_468
}

/// The year, month (1..=12) and day (1..=31) of a date.
pub(super) const fn year_month_day(date: i64) -> (i64, i64, i64) {
    // Within its 400 years (146_097 days) each day of the era knows its year: the corrections take
    // the leap days out.
    let shifted = date + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// The last day (28..=31) of a month.
pub(super) const fn last_day(year: i64, month: i64) -> i64 {
    match month {
        2 if year.rem_euclid(4) == 0
            && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) =>
        {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_every_day_of_eight_centuries() {
        let (mut year, mut month, mut day) = (1900, 1, 1);
        for date in -25_567..=day_number(2700, 12, 31) {
            assert_eq!(day_number(year, month, day), date);
            assert_eq!(year_month_day(date), (year, month, day));
            day += 1;
            if day > last_day(year, month) {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
        assert_eq!((year, month, day), (2701, 1, 1));
    }

    #[test]
    fn leap_years() {
        for (year, days) in [(1900, 28), (1999, 28), (2000, 29), (2023, 28), (2024, 29), (2100, 28)]
        {
            assert_eq!(last_day(year, 2), days, "{year}");
        }
    }
}
