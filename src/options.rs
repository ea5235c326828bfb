//! The arguments that commands share: positional values, and options in any order, each at most once.

use crate::args::{ArgSource, Cursor, words};
use crate::calendar;
use crate::error::Error;
use redis_limiter_core::calendar::{Anchor, Period, Zone};
use redis_limiter_core::law::{Ask, Charging};
use redis_limiter_core::limit::{MAX_NAME, Params};
use redis_limiter_core::units::{
    MAX_MAXWAIT_MS, MIN_WINDOW_MS, Rate, parse_amount, parse_duration_ms,
};
use redis_limiter_core::window::{MAX_ENTRIES, WindowMode};

/// The options that one command or layer takes; an option that is not allowed is left unread.
#[derive(Clone, Copy)]
pub struct Allowed {
    /// `FORCE`, `UPTO`.
    pub charging: bool,
    /// `MAXWAIT`.
    pub maxwait: bool,
    /// `COST` and `LEAVE` as layers have them.
    pub cost: bool,
    /// `LEAVE`.
    pub leave: bool,
    /// `SLIDING`, `FIXED`, `LOG`.
    pub mode: bool,
    /// `TZ`, `ANCHOR`.
    pub calendar: bool,
    /// `ID`.
    pub id: bool,
    /// `NX`.
    pub nx: bool,
}

impl Allowed {
    /// Only `AS`, which every limit takes.
    pub const NONE: Self = Self {
        charging: false,
        maxwait: false,
        cost: false,
        leave: false,
        mode: false,
        calendar: false,
        id: false,
        nx: false,
    };
}

impl Allowed {
    /// Whether `word` is one of these options.
    #[inline]
    const fn allows(&self, word: u64) -> bool {
        match word {
            words::AS => true,
            words::COST => self.cost,
            words::LEAVE => self.leave,
            words::FORCE | words::UPTO => self.charging,
            words::MAXWAIT => self.maxwait,
            words::TZ | words::ANCHOR => self.calendar,
            words::ID => self.id,
            words::NX => self.nx,
            words::SLIDING | words::FIXED | words::LOG => self.mode,
            _ => false,
        }
    }
}

/// What the options said.
#[derive(Default)]
pub struct Options<'a> {
    /// `AS name`
    pub name: Option<&'a [u8]>,
    /// `COST n`
    pub cost: Option<u64>,
    /// `LEAVE n`
    pub leave: Option<u64>,
    /// `FORCE`, `UPTO` or `MAXWAIT duration`
    pub charging: Option<Charging>,
    /// `SLIDING`, `FIXED` or `LOG`
    pub mode: Option<WindowMode>,
    /// `TZ zone`
    pub zone: Option<&'a [u8]>,
    /// `ANCHOR n`
    pub anchor: Option<&'a [u8]>,
    /// `ID id`
    pub id: Option<&'a [u8]>,
    /// `NX`
    pub nx: bool,
}

impl<'a> Options<'a> {
    /// Reads options until something else, or the end, comes. Inlined, as most calls have none.
    #[inline(always)]
    pub fn read(
        cursor: &mut Cursor<'a, impl ArgSource<'a>>,
        allowed: Allowed,
    ) -> Result<Self, Error> {
        let mut options = Self::default();
        if allowed.allows(cursor.word()) {
            options.read_all(cursor, allowed)?;
        }
        Ok(options)
    }

    fn read_all(
        &mut self,
        cursor: &mut Cursor<'a, impl ArgSource<'a>>,
        allowed: Allowed,
    ) -> Result<(), Error> {
        loop {
            let word = cursor.word();
            if !allowed.allows(word) {
                break;
            }
            cursor.take();
            self.read_one(word, cursor)?;
        }
        if self.charging == Some(Charging::Force) && self.leave.is_some() {
            return Err(Error::FORCE_WITH_LEAVE);
        }
        Ok(())
    }

    /// Reads what follows the option `word`.
    fn read_one(
        &mut self,
        word: u64,
        cursor: &mut Cursor<'a, impl ArgSource<'a>>,
    ) -> Result<(), Error> {
        match word {
            words::AS => once(&mut self.name, name(cursor)?),
            words::COST => once(&mut self.cost, amount(cursor, Error::COST)?),
            words::LEAVE => once(&mut self.leave, amount(cursor, Error::LEAVE)?),
            words::FORCE => self.charge(Charging::Force),
            words::UPTO => self.charge(Charging::UpTo),
            words::MAXWAIT => self.charge(Charging::MaxWait { ms: maxwait_ms(cursor)? }),
            words::TZ => once(&mut self.zone, cursor.take().ok_or(Error::ZONE)?),
            words::ANCHOR => once(&mut self.anchor, cursor.take().ok_or(Error::ANCHOR)?),
            words::ID => once(&mut self.id, id(cursor)?),
            words::NX if std::mem::replace(&mut self.nx, true) => Err(Error::REPEATED),
            words::NX => Ok(()),
            words::SLIDING => self.mode(WindowMode::Sliding),
            words::FIXED => self.mode(WindowMode::Fixed),
            words::LOG => self.mode(WindowMode::Log),
            _ => Err(Error::INTERNAL),
        }
    }

    fn mode(&mut self, mode: WindowMode) -> Result<(), Error> {
        match self.mode.replace(mode) {
            None => Ok(()),
            Some(_) => Err(Error::TWO_MODES),
        }
    }

    fn charge(&mut self, charging: Charging) -> Result<(), Error> {
        match self.charging.replace(charging) {
            None => Ok(()),
            Some(_) => Err(Error::TWO_CHARGINGS),
        }
    }

    /// What a command on one limit asks, with its positional `cost`.
    pub fn ask(&self, cost: u64) -> Result<Ask, Error> {
        let charging = self.charging.unwrap_or(Charging::Whole);
        if charging == Charging::UpTo && cost == 0 {
            return Err(Error::UPTO_COST);
        }
        Ok(Ask { cost, leave: self.leave.unwrap_or(0), charging })
    }
}

fn once<T>(option: &mut Option<T>, value: T) -> Result<(), Error> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::REPEATED),
    }
}

/// An amount, or `error`, which names the argument.
pub fn amount<'a>(cursor: &mut Cursor<'a, impl ArgSource<'a>>, error: Error) -> Result<u64, Error> {
    cursor.take().and_then(parse_amount).ok_or(error)
}

/// The optional positional `cost`: a word is no cost but an option, known or not.
pub fn cost<'a>(cursor: &mut Cursor<'a, impl ArgSource<'a>>, error: Error) -> Result<u64, Error> {
    match cursor.peek() {
        Some([b'a'..=b'z' | b'A'..=b'Z', ..]) | None => Ok(1),
        Some(_) => amount(cursor, error),
    }
}

/// `rate`
#[inline(always)]
pub fn rate<'a>(cursor: &mut Cursor<'a, impl ArgSource<'a>>) -> Result<Rate, Error> {
    cursor.take().and_then(Rate::parse).ok_or(Error::RATE)
}

/// `window`
pub fn window_ms<'a>(cursor: &mut Cursor<'a, impl ArgSource<'a>>) -> Result<u64, Error> {
    let length_ms = cursor.take().and_then(parse_duration_ms);
    length_ms.filter(|&length_ms| length_ms >= MIN_WINDOW_MS).ok_or(Error::WINDOW)
}

/// `period`
pub fn period<'a>(cursor: &mut Cursor<'a, impl ArgSource<'a>>) -> Result<Period, Error> {
    cursor.take().and_then(Period::parse).ok_or(Error::PERIOD)
}

/// A duration, or `error`, which names the argument.
pub fn duration_ms<'a>(
    cursor: &mut Cursor<'a, impl ArgSource<'a>>,
    error: Error,
) -> Result<u64, Error> {
    cursor.take().and_then(parse_duration_ms).ok_or(error)
}

/// How long ago a charge was made: a duration, or 0.
pub fn age_ms<'a>(cursor: &mut Cursor<'a, impl ArgSource<'a>>) -> Result<u64, Error> {
    let parse = |text: &[u8]| {
        let unit_at = text.iter().position(|&byte| byte != b'0').unwrap_or(text.len());
        let is_zero = unit_at > 0
            && matches!(&text[unit_at..], b"" | b"ms" | b"s" | b"m" | b"h" | b"d" | b"w");
        if is_zero { Some(0) } else { parse_duration_ms(text) }
    };
    cursor.parsed(parse, Error::AGE)
}

/// A window in its mode, whose limit may be smaller for it.
#[inline(always)]
pub fn window_params<'a>(
    length_ms: u64,
    limit: u64,
    options: &Options,
) -> Result<Params<'a>, Error> {
    let mode = options.mode.unwrap_or_default();
    if mode == WindowMode::Log && limit > MAX_ENTRIES as u64 {
        return Err(Error::LOG_LIMIT);
    }
    Ok(Params::Window { mode, length_ms, limit })
}

/// A quota in its zone, from its anchor on.
#[inline(always)]
pub fn quota_params<'a>(
    period: Period,
    limit: u64,
    options: &Options,
) -> Result<Params<'a>, Error> {
    let zone = match options.zone {
        None => Zone::UTC,
        Some(_) if !period.has_zone() => return Err(Error::ZONE_PERIOD),
        Some(name) => calendar::zone(name).ok_or(Error::ZONE)?,
    };
    let anchor = match options.anchor {
        None => Anchor::FIRST,
        Some(text) => Anchor::parse(period, text).ok_or(match period {
            Period::Week => Error::WEEK_ANCHOR,
            Period::Month => Error::MONTH_ANCHOR,
            _ => Error::ANCHOR_PERIOD,
        })?,
    };
    Ok(Params::Quota { period, zone, anchor, limit })
}

fn maxwait_ms<'a>(cursor: &mut Cursor<'a, impl ArgSource<'a>>) -> Result<u64, Error> {
    let ms = duration_ms(cursor, Error::MAXWAIT)?;
    if ms <= MAX_MAXWAIT_MS { Ok(ms) } else { Err(Error::MAXWAIT) }
}

fn name<'a>(cursor: &mut Cursor<'a, impl ArgSource<'a>>) -> Result<&'a [u8], Error> {
    short(cursor.take()).ok_or(Error::NAME)
}

/// A lease id.
pub fn id<'a>(cursor: &mut Cursor<'a, impl ArgSource<'a>>) -> Result<&'a [u8], Error> {
    short(cursor.take()).ok_or(Error::ID)
}

fn short(bytes: Option<&[u8]>) -> Option<&[u8]> {
    bytes.filter(|bytes| (1..=MAX_NAME).contains(&bytes.len()))
}
