//! Calls made of bytes. Any bytes give some call; small changes of the bytes give a similar one.

use redis_limiter_core::calendar::{Anchor, Calendar, Period, Zone};
use redis_limiter_core::law::{Ask, Charging};
use redis_limiter_core::limit::{Layer, Params};
use redis_limiter_core::units::{MAX_AMOUNT, MAX_DURATION_MS, MAX_INSTANT_US, Rate};
use redis_limiter_core::window::WindowMode;

const NAMES: [&[u8]; 3] = [b"a", b"b\0\xff", &[b'n'; 128]];
const RATES: [&[u8]; 7] =
    [b"1", b"0.5", b"300/m", b"7/13s", b"1/366d", b"1000000000", b"0.000001/1ms"];
const ZONES: [&[u8]; 8] = [
    b"UTC",
    b"Europe/Berlin",
    b"America/New_York",
    b"Pacific/Apia",
    b"America/Sao_Paulo",
    b"Africa/Cairo",
    b"Asia/Gaza",
    b"Antarctica/Troll",
];

/// Reads bytes; after the end, zeros.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.byte())
    }

    /// A number below `count`, which is small.
    pub fn below(&mut self, count: u8) -> usize {
        usize::from(self.byte() % count)
    }

    /// Any integer.
    pub fn int(&mut self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// Bytes of their own, at most 64 KiB.
    pub fn chunk(&mut self) -> &'a [u8] {
        let len = usize::from(u16::from_le_bytes(self.bytes())).min(self.0.len());
        let (chunk, rest) = self.0.split_at(len);
        self.0 = rest;
        chunk
    }

    /// Small, at the end of the range, or anything between.
    pub fn amount(&mut self) -> u64 {
        match self.below(8) {
            0 => MAX_AMOUNT - u64::from(self.byte()),
            1 => self.int() & MAX_AMOUNT,
            2 => u64::from(u16::from_le_bytes(self.bytes())),
            _ => u64::from(self.byte() % 16),
        }
    }

    fn duration_ms(&mut self, least: u64) -> u64 {
        let ms = match self.below(4) {
            0 => self.int() % MAX_DURATION_MS,
            1 => u64::from(u16::from_le_bytes(self.bytes())),
            2 => u64::from(self.byte()),
            _ => [16, 1000, 60_000, MAX_DURATION_MS][self.below(4)],
        };
        ms.clamp(least, MAX_DURATION_MS)
    }

    /// The clock after it went on, stepped back, or was set anywhere.
    pub fn instant_us(&mut self, now_us: u64) -> u64 {
        let next_us = match self.below(8) {
            0 => self.int() % MAX_INSTANT_US,
            1 => now_us.saturating_sub(self.duration_ms(1) * 1000),
            2 => now_us + self.duration_ms(1) * 1000,
            3 => now_us,
            _ => now_us + u64::from(u16::from_le_bytes(self.bytes())),
        };
        next_us.min(MAX_INSTANT_US)
    }

    /// Layers that name different limits, as the grammar demands.
    pub fn layers(&mut self, force: bool, calendar: &mut Calendar) -> Vec<Layer<'a>> {
        let mut layers: Vec<Layer> = Vec::new();
        for _ in 0..=self.below(3) {
            let layer = self.layer(force, calendar);
            if layers.iter().all(|other| other.identity() != layer.identity()) {
                layers.push(layer);
            }
        }
        layers
    }

    fn layer(&mut self, force: bool, calendar: &mut Calendar) -> Layer<'a> {
        let params = match self.below(6) {
            0 => Params::Bucket { rate: self.rate(), burst: self.amount() },
            1 => self.window(WindowMode::Fixed),
            2 => self.window(WindowMode::Sliding),
            3 => self.window(WindowMode::Log),
            4 => {
                let (period, zone, anchor) = self.calendar(calendar);
                Params::Quota { period, zone, anchor, limit: self.amount() }
            }
            _ => Params::Lease {
                limit: self.amount(),
                ttl_ms: self.duration_ms(1),
                id: Some(NAMES[self.below(3)]),
                nx: !force && self.below(4) == 0,
            },
        };
        let name = NAMES.get(self.below(8)).copied();
        let charging = if force { Charging::Force } else { Charging::Whole };
        let leave = if force || self.below(3) > 0 { 0 } else { self.amount() };
        Layer { params, name, ask: Ask { cost: self.amount(), leave, charging } }
    }

    fn window(&mut self, mode: WindowMode) -> Params<'a> {
        let limit = self.amount();
        let limit = if mode == WindowMode::Log { limit % 65_537 } else { limit };
        Params::Window { mode, length_ms: self.duration_ms(16), limit }
    }

    fn rate(&mut self) -> Rate {
        let which = self.below(8);
        let any = || {
            let (units, per) = (self.int(), self.int());
            // CL.THROTTLE takes slower ones, too.
            Rate::new(units.into(), per.into()).or_else(|| Rate::per_seconds(units, per))
        };
        let listed = RATES.get(which).and_then(|text| Rate::parse(text));
        listed.or_else(any).or_else(|| Rate::parse(b"3")).unwrap()
    }

    /// A period in a zone, from an anchor on.
    pub fn calendar(&mut self, calendar: &mut Calendar) -> (Period, Zone, Anchor) {
        let period = Period::ALL[self.below(6)];
        let zone = calendar.zone(ZONES[self.below(8)]).unwrap();
        let anchor = match period {
            Period::Week => [&b"mon"[..], b"wed", b"sun"][self.below(3)],
            Period::Month => [&b"1"[..], b"15", b"29", b"30", b"31"][self.below(5)],
            _ => b"",
        };
        let zone = if period.has_zone() { zone } else { Zone::UTC };
        (period, zone, Anchor::parse(period, anchor).unwrap_or(Anchor::FIRST))
    }
}
