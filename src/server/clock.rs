//! The one clock.

use super::api::optional;
use redis_limiter_core::units::MAX_INSTANT_US;
use std::time::{SystemTime, UNIX_EPOCH};

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
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}
