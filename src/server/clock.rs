//! The one clock.

use super::api::optional;
use redis_limiter_core::units::MAX_INSTANT_US;

/// Microseconds since the Unix epoch, at most [`MAX_INSTANT_US`].
///
/// The server's command clock where it offers one (Redis 7.2 and later, Valkey): it stands still
/// within a transaction or script. On Redis 7.0 the system's clock, read anew on each call: read it
/// once in a command, since two readings could hand out the same tokens twice.
#[must_use]
#[inline]
pub fn now_us() -> u64 {
    // SAFETY: the function table is only read once the module has loaded.
    let micros = match unsafe { optional!(RedisModule_CachedMicroseconds) } {
        // SAFETY: takes nothing and only reads a number of the server's.
        Some(cached) => u64::try_from(unsafe { cached() }).unwrap_or(0),
        None => system_us(),
    };
    micros.min(MAX_INSTANT_US)
}

/// 0 before the epoch.
fn system_us() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists and the pointer is good, so it cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    let micros = time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1000);
    u64::try_from(micros).unwrap_or(0)
}
