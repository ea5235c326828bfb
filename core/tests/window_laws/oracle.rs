//! A window as anybody would first write it: the list of what was charged, walked on each question.

use redis_limiter_core::law::Usage;

/// How a mode places a charge in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    Fixed,
    Sliding,
    Log,
}

#[derive(Clone, Debug)]
pub struct Oracle {
    rules: Rules,
    length_us: i128,
    /// Place (start, index or stamp) and units of each charge, oldest first. What is free stays in
    /// it until something is written, as it does in what is stored.
    charges: Vec<(i128, u64)>,
    now_us: i128,
}

impl Oracle {
    pub fn new(rules: Rules, length_ms: u64) -> Self {
        let length_us = i128::from(length_ms) * 1000;
        Self { rules, length_us, charges: Vec::new(), now_us: 0 }
    }

    fn step_us(&self) -> i128 {
        (self.length_us + 15) / 16
    }

    /// Where a charge of now goes.
    fn place(&self) -> i128 {
        match self.rules {
            Rules::Fixed => self.now_us,
            Rules::Sliding => self.now_us / self.step_us(),
            Rules::Log => (self.now_us + 999) / 1000,
        }
    }

    fn free_us(&self, place: i128) -> i128 {
        self.length_us
            + match self.rules {
                Rules::Fixed => place,
                Rules::Sliding => (place + 1) * self.step_us(),
                Rules::Log => place * 1000,
            }
    }

    /// A write command comes by: the clock rule. Whether it moved anything.
    pub fn look(&mut self, now_us: u64) -> bool {
        self.now_us = i128::from(now_us);
        let ahead = self.charges.last().map_or(0, |(newest, _)| newest - self.place());
        if ahead <= 0 {
            return false;
        }
        for (place, _) in &mut self.charges {
            *place -= ahead;
            if self.rules == Rules::Log {
                *place = (*place).max(0);
            }
        }
        self.prune();
        true
    }

    fn live(&self) -> impl Iterator<Item = (i128, u64)> {
        self.charges.iter().copied().filter(|(place, _)| self.free_us(*place) > self.now_us)
    }

    fn prune(&mut self) {
        self.charges = self.live().collect();
    }

    pub fn charge(&mut self, units: u64) {
        self.prune();
        let open = self.charges.first().filter(|_| self.rules == Rules::Fixed);
        let place = open.map_or(self.place(), |(start, _)| *start);
        self.charges.push((place, units));
    }

    /// Whether anything changed.
    pub fn refund(&mut self, mut units: u64, age_us: u64) -> bool {
        let age_us = i128::from(age_us);
        let nothing_back = match self.rules {
            Rules::Fixed => self.live().any(|(start, _)| start > self.now_us - age_us),
            _ => age_us >= self.length_us,
        };
        if nothing_back || units == 0 || self.used() == 0 {
            return false;
        }
        self.prune();
        while units > 0 && !self.charges.is_empty() {
            units -= 1;
            self.charges[0].1 -= 1;
            if self.charges[0].1 == 0 {
                self.charges.remove(0);
            }
        }
        true
    }

    pub fn since_ms(&self) -> u64 {
        let oldest = self.live().next().map_or(0, |(place, _)| place.max(0));
        u64::try_from(match self.rules {
            Rules::Fixed => oldest / 1000,
            Rules::Sliding => oldest * self.step_us() / 1000,
            Rules::Log => oldest,
        })
        .unwrap()
    }
}

impl Usage for Oracle {
    fn used(&self) -> u64 {
        self.live().map(|(_, units)| units).sum()
    }

    fn wait_us(&self, target: u64) -> u64 {
        let mut waits: Vec<i128> =
            self.live().map(|(place, _)| self.free_us(place) - self.now_us).collect();
        waits.push(0);
        waits.sort_unstable();
        let used_after = |wait_us: i128| -> u64 {
            let still = |(place, _): &(i128, u64)| self.free_us(*place) > self.now_us + wait_us;
            self.live().filter(still).map(|(_, units)| units).sum()
        };
        let wait_us = waits.into_iter().find(|wait_us| used_after(*wait_us) <= target);
        u64::try_from(wait_us.unwrap()).unwrap()
    }

    fn reset_us(&self) -> u64 {
        self.wait_us(0)
    }
}
