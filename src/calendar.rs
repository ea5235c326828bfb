//! The calendar of this server: zones and periods that calls have asked for, kept for the next ones.

use redis_limiter_core::calendar::Calendar;
use std::cell::RefCell;

thread_local! {
    // Commands run on one thread; a thread of its own would only fill a cache of its own.
    static CALENDAR: RefCell<Calendar> = const { RefCell::new(Calendar::new()) };
}

/// Lends the calendar. `body` must not ask for it again.
pub fn with<T>(body: impl FnOnce(&mut Calendar) -> T) -> T {
    CALENDAR.with_borrow_mut(body)
}
