//! Every error text a client can get. All are static: a client's bytes are never echoed.

use redis_limiter_core::state::Fault;
use std::ffi::CStr;

/// An error reply: its code, then a sentence that names the argument and shows a right example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(&'static CStr);

impl Error {
    /// The whole reply.
    #[must_use]
    pub const fn text(self) -> &'static CStr {
        self.0
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Overflow => Self::OVERFLOW,
            Fault::OtherSlots => Self::OTHER_SLOTS,
            Fault::TooManyLeases => Self::TOO_MANY_LEASES,
        }
    }
}

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        impl Error {
            $($(#[$doc])* pub const $name: Self = Self($text);)*
        }
    };
}

errors! {
    /// The key holds a value of another type.
    WRONG_TYPE = c"WRONGTYPE Operation against a key holding the wrong kind of value";
    /// The server is above `maxmemory` and the call would need more.
    OUT_OF_MEMORY = c"OOM command not allowed when used memory > 'maxmemory'.";
    /// A bug of ours, caught.
    INTERNAL = c"ERR internal error in redis-limiter, nothing was changed; see the server log";

    /// `rate`
    RATE = c"ERR rate must be a count per second or per duration, from 1/366d to 1000000000, such as 50, 0.5, 300/m or 10/100ms";
    /// `burst`
    BURST = c"ERR burst must be an integer from 0 to 9007199254740991, such as 100";
    /// `limit`
    LIMIT = c"ERR limit must be an integer from 0 to 9007199254740991, such as 100";
    /// `limit` of a LOG window
    LOG_LIMIT = c"ERR limit of a LOG window must be an integer from 0 to 65536, such as 100; use SLIDING for more";
    /// `cost`
    COST = c"ERR cost must be an integer from 0 to 9007199254740991, such as 1";
    /// `slots`
    SLOTS = c"ERR slots must be an integer from 0 to 9007199254740991, such as 1";
    /// `LEAVE`
    LEAVE = c"ERR LEAVE must be followed by an integer from 0 to 9007199254740991, such as LEAVE 20";
    /// `window`
    WINDOW = c"ERR window must be an integer with a unit (ms, s, m, h, d, w) from 16ms to 366d, such as 30s";
    /// `period`
    PERIOD = c"ERR period must be minute, hour, day, week, month or year, such as month";
    /// `ttl`
    TTL = c"ERR ttl must be an integer with a unit (ms, s, m, h, d, w) from 1ms to 366d, such as 30s";
    /// `MAXWAIT`
    MAXWAIT = c"ERR MAXWAIT must be followed by an integer with a unit (ms, s, m, h) from 1ms to 1h, such as MAXWAIT 2s";
    /// `AGE`
    AGE = c"ERR AGE must be followed by 0 or an integer with a unit (ms, s, m, h, d, w) up to 366d, such as AGE 250ms";
    /// `AS`
    NAME = c"ERR AS must be followed by a name of 1 to 128 bytes, such as AS reports";
    /// A lease id
    ID = c"ERR id must have 1 to 128 bytes, such as job-42";
    /// `TZ`
    ZONE = c"ERR TZ must be followed by the IANA name of a known time zone, such as TZ Europe/Berlin";
    /// `TZ` where there is no zone
    ZONE_PERIOD = c"ERR TZ belongs to the periods day, week, month and year, such as day 100 TZ Europe/Berlin";
    /// `ANCHOR` of a week
    WEEK_ANCHOR = c"ERR ANCHOR of a week must be mon, tue, wed, thu, fri, sat or sun, such as ANCHOR sun";
    /// `ANCHOR` of a month
    MONTH_ANCHOR = c"ERR ANCHOR of a month must be a day from 1 to 31, such as ANCHOR 15";
    /// `ANCHOR` elsewhere
    ANCHOR_PERIOD = c"ERR ANCHOR belongs to the periods week and month, such as month 1000 ANCHOR 15";
    /// An option is left without its value
    ANCHOR = c"ERR ANCHOR must be followed by a weekday or a day of the month, such as ANCHOR sun or ANCHOR 15";

    /// `max_burst` of CL.THROTTLE
    MAX_BURST = c"ERR max_burst must be an integer up to 9007199254740990, such as 15";
    /// `count` and `period` of CL.THROTTLE
    COUNT_PER_PERIOD = c"ERR count and period (seconds) must be integers of at least 1 that make one unit in 292 years to 1000000000 a second, such as 30 60";
    /// `quantity` of CL.THROTTLE
    QUANTITY = c"ERR quantity must be an integer from -9223372036854775808 to 9223372036854775807, such as 1";

    /// An option stands twice.
    REPEATED = c"ERR each option may stand only once, such as LEAVE 20";
    /// FORCE, UPTO and MAXWAIT together
    TWO_CHARGINGS = c"ERR FORCE, UPTO and MAXWAIT exclude one another and stand only once, such as 50/s 100 10 UPTO";
    /// SLIDING, FIXED and LOG together
    TWO_MODES = c"ERR SLIDING, FIXED and LOG exclude one another and stand only once, such as 1m 100 1 FIXED";
    /// FORCE with LEAVE
    FORCE_WITH_LEAVE = c"ERR FORCE charges in any case and excludes LEAVE, such as FORCE alone";
    /// UPTO with cost 0
    UPTO_COST = c"ERR UPTO needs a cost of at least 1, such as 10 UPTO";
    /// NX without ID
    NX_WITHOUT_ID = c"ERR NX refuses an id that is held and needs one, such as ID job-42 NX";

    /// Left-over arguments of RL.BUCKET
    BUCKET_SYNTAX = c"ERR syntax error, usage: RL.BUCKET key rate burst [cost] [AS name] [FORCE | UPTO | MAXWAIT duration] [LEAVE n], such as RL.BUCKET user:42 50/s 100 1";
    /// Left-over arguments of RL.WINDOW
    WINDOW_SYNTAX = c"ERR syntax error, usage: RL.WINDOW key window limit [cost] [SLIDING | FIXED | LOG] [AS name] [FORCE | UPTO] [LEAVE n], such as RL.WINDOW user:42 1m 100 1 SLIDING";
    /// Left-over arguments of RL.QUOTA
    QUOTA_SYNTAX = c"ERR syntax error, usage: RL.QUOTA tenant period limit [cost] [TZ zone] [ANCHOR n] [AS name] [FORCE | UPTO] [LEAVE n], such as RL.QUOTA acme month 100000 1 TZ Europe/Berlin";
    /// Left-over arguments of RL.ACQUIRE
    ACQUIRE_SYNTAX = c"ERR syntax error, usage: RL.ACQUIRE key limit ttl [slots] [ID id] [NX] [AS name], such as RL.ACQUIRE acme 10 30s ID job-42";
    /// Left-over arguments of RL.RENEW
    RENEW_SYNTAX = c"ERR syntax error, usage: RL.RENEW key id ttl, such as RL.RENEW acme job-42 30s";
    /// Left-over arguments of RL.RESET
    RESET_SYNTAX = c"ERR syntax error, usage: RL.RESET key BUCKET | WINDOW window [SLIDING | FIXED | LOG] | QUOTA period | LEASE, then [AS name], such as RL.RESET acme QUOTA month";
    /// Left-over arguments of CL.THROTTLE
    THROTTLE_SYNTAX = c"ERR syntax error, usage: CL.THROTTLE key max_burst count period [quantity], such as CL.THROTTLE user:42 15 30 60 1";
    /// A layer, or the options before the first, cannot be read
    LAYER = c"ERR syntax error, a layer is BUCKET rate burst, WINDOW window limit [mode], QUOTA period limit [TZ zone] [ANCHOR n] or LEASE limit ttl [ID id], then [AS name] [COST n] [LEAVE n]; options of the whole call stand before it, such as DETAIL BUCKET 50/s 100 QUOTA day 10000";
    /// `KEY` is missing
    KEY = c"ERR each key must be introduced by KEY and followed by its layers, such as KEY {acme}:k1 BUCKET 50/s 100 KEY {acme} QUOTA day 10000";
    /// The same key twice
    SAME_KEY = c"ERR each key may stand only once, such as KEY {acme}:k1 BUCKET 50/s 100 QUOTA day 10000";
    /// Two layers for the same limit
    SAME_LIMIT = c"ERR two layers name the same limit; tell them apart by AS, such as BUCKET 50/s 100 BUCKET 5/s 10 AS reports";
    /// More than 32 layers
    TOO_MANY_LAYERS = c"ERR a call has at most 32 layers, such as BUCKET 50/s 100 QUOTA day 10000";
    /// A LEASE layer in a refund
    REFUND_LEASE = c"ERR a LEASE layer cannot be refunded, use RL.RELEASE, such as RL.RELEASE acme job-42";
    /// A LEASE layer without ID where it would be charged
    TAKE_LEASE_ID = c"ERR a LEASE layer needs an ID here, such as LEASE 10 30s ID job-42";

    /// What is used would pass 2^53 − 1.
    OVERFLOW = c"ERR the charge would lift what is used above 9007199254740991; forget what is used first, such as RL.RESET user:42 BUCKET";
    /// The id is held with another number of slots.
    OTHER_SLOTS = c"ERR the id is held with another number of slots; an id is unique per attempt, such as job-42";
    /// A forced lease beyond 65,536
    TOO_MANY_LEASES = c"ERR a limit holds at most 65536 leases, such as 10";
    /// More than 64 limits
    TOO_MANY_LIMITS = c"ERR a key holds at most 64 limits; use another key or forget one, such as RL.RESET acme QUOTA month";
    /// A blob that RL.E cannot have been sent by a primary
    EFFECT = c"ERR not a valid effect: RL.E is for replication and the AOF only";
}
