//! The calendar of this server: zones and periods that calls have asked for, kept for the next ones.

use redis_limiter_core::calendar::{Anchor, Calendar, Period, Periods, Zone};
use std::cell::RefCell;

thread_local! {
    // Commands run on one thread; a thread of its own would only fill a cache of its own.
    static CALENDAR: RefCell<Calendar> = const { RefCell::new(Calendar::new()) };
}

/// The zone of an IANA name.
pub fn zone(name: &[u8]) -> Option<Zone> {
    CALENDAR.with_borrow_mut(|calendar| calendar.zone(name))
}

/// The calendar as the core asks it: only a call that opens a new period does.
pub struct ServerCalendar;

impl Periods for ServerCalendar {
    fn bounds(&mut self, zone: &Zone, period: Period, anchor: Anchor, now_us: u64) -> (u64, u64) {
        CALENDAR.with_borrow_mut(|calendar| calendar.bounds(zone, period, anchor, now_us))
    }
}
