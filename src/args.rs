//! A cursor over the arguments of a call.

use crate::error::Error;
use crate::server::Args;
use redis_limiter_core::units::first_eight;

/// A word of at most eight letters, in any case, as one integer: so keywords are told apart by one
/// comparison each. 0 for no word and for a longer one.
///
/// A byte and 0x20 together are a lower-case letter only if the byte is that letter, in either case.
#[inline]
pub const fn word(text: &[u8]) -> u64 {
    match text.len() {
        len @ 1..=8 => first_eight(text) | (0x2020_2020_2020_2020 >> (64 - 8 * len)),
        _ => 0,
    }
}

/// The keywords, as [`word`] tells them.
pub mod words {
    use super::word;

    macro_rules! words {
        ($($name:ident)*) => {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub const $name: u64 = word(stringify!($name).as_bytes());
            )*
        };
    }

    words! {
        AGE ANCHOR AS BUCKET COST DETAIL FIXED FORCE ID KEY LEASE LEAVE LOG MAXWAIT NX QUOTA SLIDING
        TZ UPTO WINDOW
    }
}

/// Where a cursor gets its arguments from: a real call, or a slice in a test.
pub trait ArgSource<'a> {
    /// The bytes of argument `index`.
    fn bytes_at(&self, index: usize) -> Option<&'a [u8]>;
}

impl<'a> ArgSource<'a> for Args<'a> {
    #[inline]
    fn bytes_at(&self, index: usize) -> Option<&'a [u8]> {
        self.get(index).map(|arg| arg.bytes())
    }
}

impl<'a> ArgSource<'a> for &'a [&'a [u8]] {
    fn bytes_at(&self, index: usize) -> Option<&'a [u8]> {
        self.get(index).copied()
    }
}

/// Reads arguments from left to right, each once; [`Cursor::finish`] rejects what is left over.
pub struct Cursor<'a, S = Args<'a>> {
    source: S,
    index: usize,
    ahead: Option<&'a [u8]>,
}

impl<'a, S: ArgSource<'a>> Cursor<'a, S> {
    /// Starts at argument `index`.
    #[inline]
    pub fn new(source: S, index: usize) -> Self {
        let ahead = source.bytes_at(index);
        Self { source, index, ahead }
    }

    /// The number of the next argument.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The next argument, not taken.
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.ahead
    }

    /// Takes the next argument, if there is one.
    #[inline]
    pub fn take(&mut self) -> Option<&'a [u8]> {
        let taken = self.ahead?;
        self.index += 1;
        self.ahead = self.source.bytes_at(self.index);
        Some(taken)
    }

    /// Takes the next argument and parses it; without one, or if it does not parse, `error`.
    #[inline]
    pub fn parsed<T>(
        &mut self,
        parse: impl FnOnce(&'a [u8]) -> Option<T>,
        error: Error,
    ) -> Result<T, Error> {
        self.take().and_then(parse).ok_or(error)
    }

    /// The next argument, not taken, as one of [`words`].
    #[inline]
    pub fn word(&self) -> u64 {
        self.ahead.map_or(0, word)
    }

    /// Takes the next argument if it is `keyword`, one of [`words`].
    #[inline]
    pub fn keyword(&mut self, keyword: u64) -> bool {
        let found = self.word() == keyword;
        if found {
            self.take();
        }
        found
    }

    /// Whether everything has been taken.
    pub fn is_done(&self) -> bool {
        self.ahead.is_none()
    }

    /// Ends the reading: `error` when something is left over.
    #[inline]
    pub fn finish(self, error: Error) -> Result<(), Error> {
        if self.ahead.is_none() { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERROR: Error = Error::LAYER;

    fn over<'a>(args: &'a [&'a [u8]]) -> Cursor<'a, &'a [&'a [u8]]> {
        Cursor::new(args, 1)
    }

    #[test]
    fn reads_in_order_and_only_once() {
        let mut cursor = over(&[b"RL.X", b"key", b"5", b"leave", b"2"]);
        assert_eq!(cursor.take(), Some(&b"key"[..]));
        let digit = |text: &[u8]| text.first().map(|byte| byte - b'0');
        assert_eq!(cursor.parsed(digit, ERROR), Ok(5));
        assert!(!cursor.keyword(words::FORCE));
        assert_eq!(cursor.peek(), Some(&b"leave"[..]));
        assert!(cursor.keyword(words::LEAVE));
        assert_eq!(cursor.index(), 4);
        assert_eq!(cursor.take(), Some(&b"2"[..]));
        assert!(cursor.is_done());
        assert_eq!(cursor.take(), None);
        assert_eq!(cursor.index(), 5);
        assert_eq!(cursor.finish(ERROR), Ok(()));
    }

    #[test]
    fn rejects_what_is_missing_malformed_or_left_over() {
        assert_eq!(over(&[b"RL.X"]).take(), None);
        assert_eq!(over(&[b"RL.X", b"a"]).parsed(|_| None::<u8>, ERROR), Err(ERROR));
        assert_eq!(over(&[b"RL.X", b""]).finish(ERROR), Err(ERROR));
    }

    #[test]
    fn a_word_is_compared_without_case() {
        for byte in 0..=u8::MAX {
            let same = byte.eq_ignore_ascii_case(&b'n');
            assert_eq!(word(&[byte, b'x']) == words::NX, same, "{byte:#x}");
        }
    }

    #[test]
    fn a_keyword_matches_whole_and_in_any_case() {
        for other in [&b"FORC"[..], b"FORCED", b"FORCE\0", b"FORCEFORCE", b"", b"F\0RCE", b"\xff"] {
            assert!(!over(&[b"RL.X", other]).keyword(words::FORCE));
        }
        assert!(over(&[b"RL.X", b"fOrCe"]).keyword(words::FORCE));
        assert!(!over(&[b"RL.X"]).keyword(words::FORCE));
    }
}
