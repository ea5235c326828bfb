//! The arguments that commands share: positional values, and options in any order, each at most once.

use crate::args::Cursor;
use crate::error::{self, Error};
use redis_limiter_core::calendar::{Anchor, Period, Zone};
use redis_limiter_core::law::{Ask, Charging};
use redis_limiter_core::limit::MAX_NAME;
use redis_limiter_core::units::{
    MAX_MAXWAIT_MS, MIN_WINDOW_MS, Rate, parse_amount, parse_duration_ms,
};
use redis_limiter_core::window::WindowMode;

/// The options that one command or layer takes; an option that is not allowed is left unread.
#[derive(Clone, Copy, Default)]
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
    /// Reads options until something else, or the end, comes.
    pub fn read(cursor: &mut Cursor<'a>, allowed: Allowed) -> Result<Self, Error> {
        let mut options = Self::default();
        while options.read_one(cursor, allowed)? {}
        if options.charging == Some(Charging::Force) && options.leave.is_some() {
            return Err(error::FORCE_WITH_LEAVE);
        }
        Ok(options)
    }

    fn read_one(&mut self, cursor: &mut Cursor<'a>, allowed: Allowed) -> Result<bool, Error> {
        if cursor.keyword(b"AS") {
            once(&mut self.name, name(cursor)?)?;
        } else if allowed.cost && cursor.keyword(b"COST") {
            once(&mut self.cost, amount(cursor, error::COST)?)?;
        } else if allowed.leave && cursor.keyword(b"LEAVE") {
            once(&mut self.leave, amount(cursor, error::LEAVE)?)?;
        } else if allowed.charging && cursor.keyword(b"FORCE") {
            self.charge(Charging::Force)?;
        } else if allowed.charging && cursor.keyword(b"UPTO") {
            self.charge(Charging::UpTo)?;
        } else if allowed.maxwait && cursor.keyword(b"MAXWAIT") {
            self.charge(Charging::MaxWait { ms: maxwait_ms(cursor)? })?;
        } else if allowed.calendar && cursor.keyword(b"TZ") {
            once(&mut self.zone, cursor.next().ok_or(error::ZONE)?)?;
        } else if allowed.calendar && cursor.keyword(b"ANCHOR") {
            once(&mut self.anchor, cursor.next().ok_or(error::ANCHOR)?)?;
        } else if allowed.id && cursor.keyword(b"ID") {
            once(&mut self.id, id(cursor)?)?;
        } else if allowed.nx && cursor.keyword(b"NX") {
            if std::mem::replace(&mut self.nx, true) {
                return Err(error::REPEATED);
            }
        } else if let Some(mode) = cursor.peek().and_then(mode).filter(|_| allowed.mode) {
            cursor.next();
            if self.mode.replace(mode).is_some() {
                return Err(error::TWO_MODES);
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn charge(&mut self, charging: Charging) -> Result<(), Error> {
        match self.charging.replace(charging) {
            None => Ok(()),
            Some(_) => Err(error::TWO_CHARGINGS),
        }
    }

    /// What a command on one limit asks, with its positional `cost`.
    pub fn ask(&self, cost: u64) -> Result<Ask, Error> {
        let charging = self.charging.unwrap_or(Charging::Whole);
        if charging == Charging::UpTo && cost == 0 {
            return Err(error::UPTO_COST);
        }
        Ok(Ask { cost, leave: self.leave.unwrap_or(0), charging })
    }
}

fn once<T>(option: &mut Option<T>, value: T) -> Result<(), Error> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(error::REPEATED),
    }
}

fn mode(word: &[u8]) -> Option<WindowMode> {
    [
        (&b"SLIDING"[..], WindowMode::Sliding),
        (b"FIXED", WindowMode::Fixed),
        (b"LOG", WindowMode::Log),
    ]
    .into_iter()
    .find(|(keyword, _)| word.eq_ignore_ascii_case(keyword))
    .map(|(_, mode)| mode)
}

/// An amount, or `error`, which names the argument.
pub fn amount(cursor: &mut Cursor, error: Error) -> Result<u64, Error> {
    cursor.next().and_then(parse_amount).ok_or(error)
}

/// The optional positional `cost`: whatever is no keyword of an option is meant as the cost.
pub fn cost<'a>(cursor: &mut Cursor<'a>, error: Error) -> Result<u64, Error> {
    const KEYWORDS: [&[u8]; 11] = [
        b"AS", b"LEAVE", b"FORCE", b"UPTO", b"MAXWAIT", b"TZ", b"ANCHOR", b"ID", b"NX", b"SLIDING",
        b"FIXED",
    ];
    match cursor.peek() {
        None => Ok(1),
        Some(word) if KEYWORDS.iter().any(|keyword| word.eq_ignore_ascii_case(keyword)) => Ok(1),
        Some(word) if word.eq_ignore_ascii_case(b"LOG") => Ok(1),
        Some(_) => amount(cursor, error),
    }
}

/// `rate`
pub fn rate(cursor: &mut Cursor) -> Result<Rate, Error> {
    cursor.next().and_then(Rate::parse).ok_or(error::RATE)
}

/// `window`
pub fn window_ms(cursor: &mut Cursor) -> Result<u64, Error> {
    let length_ms = cursor.next().and_then(parse_duration_ms);
    length_ms.filter(|&length_ms| length_ms >= MIN_WINDOW_MS).ok_or(error::WINDOW)
}

/// `period`
pub fn period(cursor: &mut Cursor) -> Result<Period, Error> {
    cursor.next().and_then(Period::parse).ok_or(error::PERIOD)
}

/// A duration, or `error`, which names the argument.
pub fn duration_ms(cursor: &mut Cursor, error: Error) -> Result<u64, Error> {
    cursor.next().and_then(parse_duration_ms).ok_or(error)
}

fn maxwait_ms(cursor: &mut Cursor) -> Result<u64, Error> {
    let ms = duration_ms(cursor, error::MAXWAIT)?;
    if ms <= MAX_MAXWAIT_MS { Ok(ms) } else { Err(error::MAXWAIT) }
}

fn name<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], Error> {
    short(cursor.next()).ok_or(error::NAME)
}

/// A lease id.
pub fn id<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8], Error> {
    short(cursor.next()).ok_or(error::ID)
}

fn short(bytes: Option<&[u8]>) -> Option<&[u8]> {
    bytes.filter(|bytes| (1..=MAX_NAME).contains(&bytes.len()))
}
