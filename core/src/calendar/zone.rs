//! A time zone: when does a local date start?

use core::fmt;
use core::hash::{Hash, Hasher};
use jiff::Timestamp;
use jiff::tz::{TimeZone, TimeZoneDatabase};

pub(super) const DAY_S: i64 = 86_400;

/// No IANA name is longer (the longest has 32 bytes); longer arguments need no look-up.
const MAX_NAME_BYTES: usize = 64;

/// A time zone of the compiled-in IANA database. Cheap to clone and to compare.
#[derive(Clone)]
pub struct Zone(
    /// None: UTC, for which no database is asked.
    Option<TimeZone>,
);

impl Zone {
    /// Coordinated Universal Time, the default.
    pub const UTC: Self = Self(None);

    /// The zone of an IANA name in any case (`Europe/Berlin`); `None` when there is none.
    pub(super) fn from_name(name: &[u8]) -> Option<Self> {
        if name.eq_ignore_ascii_case(b"UTC") {
            return Some(Self::UTC);
        }
        if name.len() > MAX_NAME_BYTES {
            return None;
        }
        let name = core::str::from_utf8(name).ok()?;
        let zone = TimeZoneDatabase::bundled().get(name).ok()?;
        // The library's own placeholder for "unknown" has no IANA name and is no zone to us.
        zone.iana_name()?;
        Some(Self(Some(zone)))
    }

    /// The IANA name in its usual spelling.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.as_ref().and_then(TimeZone::iana_name).unwrap_or("UTC")
    }

    pub(super) const fn is_utc(&self) -> bool {
        self.0.is_none()
    }

    /// The local date at an instant, as days since 1970-01-01.
    pub(super) fn date(&self, at_s: i64) -> i64 {
        let offset_s = self.0.as_ref().map_or(0, |zone| offset_s(zone, at_s));
        (at_s + offset_s).div_euclid(DAY_S)
    }

    /// The instant (Unix seconds) at which a local date starts: the first at which local clocks show
    /// its midnight or later.
    ///
    /// That is midnight; where clocks jump over midnight, the jump; where they show it twice, the
    /// first time. A date that is skipped starts (and ends) when the one after it starts.
    pub(super) fn start_of_date_s(&self, date: i64) -> i64 {
        let midnight_s = date * DAY_S;
        let Some(zone) = &self.0 else { return midnight_s };
        // No offset reaches 26 hours, so here clocks show the day before at the latest. From here
        // on, each stretch of constant offset either reaches midnight or ends before.
        let mut since_s = midnight_s - 26 * 3600;
        let mut offset = offset_s(zone, since_s);
        for transition in zone.following(timestamp(since_s)) {
            let until_s = transition.timestamp().as_second();
            if midnight_s - offset < until_s {
                break;
            }
            since_s = until_s;
            offset = i64::from(transition.offset().seconds());
        }
        since_s.max(midnight_s - offset)
    }
}

fn offset_s(zone: &TimeZone, at_s: i64) -> i64 {
    i64::from(zone.to_offset(timestamp(at_s)).seconds())
}

/// Instants end in the year 2540 here and in 9999 there, so none is out of range.
fn timestamp(at_s: i64) -> Timestamp {
    Timestamp::from_second(at_s).unwrap_or(Timestamp::MAX)
}

impl PartialEq for Zone {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Zone {}

impl Hash for Zone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("Zone").field(&self.name()).finish()
    }
}
