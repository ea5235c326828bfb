//! The five integers that every limiting command answers.

/// The answer of a limit to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// 1 go ahead, 0 refused; with UPTO the units granted.
    pub allowed: u64,
    /// The capacity (burst or limit) as given in the call.
    pub limit: u64,
    /// Whole units left now.
    pub remaining: u64,
    /// Admitted: 0, or with MAXWAIT how long to wait before acting. Refused: the wait until this
    /// same call would succeed if nobody else consumes, rounded up; −1 when it never will.
    pub retry_after_ms: i64,
    /// Until nothing is used any more (a quota: until its period ends), rounded up.
    pub reset_after_ms: u64,
}

impl Verdict {
    /// The five integers in the order of the reply; each is at most 2^53 − 1.
    #[must_use]
    pub fn integers(&self) -> [i64; 5] {
        let int = |amount: u64| i64::try_from(amount).unwrap_or(i64::MAX);
        [
            int(self.allowed),
            int(self.limit),
            int(self.remaining),
            self.retry_after_ms,
            int(self.reset_after_ms),
        ]
    }
}
