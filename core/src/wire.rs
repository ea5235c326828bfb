//! The bytes that states and effects are made of: variable-length integers and byte strings.

/// Bytes that are not a valid encoding, or name a state that no call could have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// Where encoded bytes go.
pub trait Sink {
    /// Appends `bytes`.
    fn put(&mut self, bytes: &[u8]);

    /// Appends one byte.
    fn put_u8(&mut self, byte: u8) {
        self.put(&[byte]);
    }

    /// Appends an unsigned LEB128 integer: 7 bits a byte, low bits first.
    fn put_int(&mut self, value: u64) {
        let mut bytes = [0; LONGEST_INT];
        let len = write_int(value, &mut bytes);
        self.put(&bytes[..len]);
    }

    /// Appends a length and that many bytes.
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_int(bytes.len() as u64);
        self.put(bytes);
    }
}

/// Bytes of the largest integer.
const LONGEST_INT: usize = 10;
/// An integer below this takes at most 8 bytes.
const SHORT_INT: u64 = 1 << 56;

/// An integer below [`SHORT_INT`] as its bytes, the first lowest, and their number.
#[inline(always)]
const fn short_int(value: u64) -> (u64, usize) {
    // All groups of 7 bits at once: halves, quarters and eighths move apart.
    let mut spread = ((value & 0x00ff_ffff_f000_0000) << 4) | (value & 0x0fff_ffff);
    spread = ((spread & 0x0fff_c000_0fff_c000) << 2) | (spread & 0x3fff_0000_3fff);
    spread = ((spread & 0x3f80_3f80_3f80_3f80) << 1) | (spread & 0x007f_007f_007f_007f);
    let last = (63 - (spread | 1).leading_zeros()) & !7;
    let follows = 0x8080_8080_8080_8080 & ((1 << last) - 1);
    (spread | follows, last as usize / 8 + 1)
}

/// Writes an integer to the start of `bytes`; answers its length.
fn write_int(mut value: u64, bytes: &mut [u8; LONGEST_INT]) -> usize {
    if value < SHORT_INT {
        let (short, len) = short_int(value);
        bytes[..size_of::<u64>()].copy_from_slice(&short.to_le_bytes());
        return len;
    }
    let mut len = 0;
    while value > 0x7f {
        bytes[len] = (value & 0x7f) as u8 | 0x80;
        value >>= 7;
        len += 1;
    }
    bytes[len] = value as u8;
    len + 1
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// The effect of eight layers or so.
const SHORT: usize = 256;

/// Bytes on the stack, which most effects fit; longer ones move to the heap.
#[derive(Debug)]
pub struct ShortBytes {
    short: [u8; SHORT],
    /// How much of `short` is used: all of it, so that nothing more fits, once `long` is in use.
    len: usize,
    long: Vec<u8>,
}

impl ShortBytes {
    /// No bytes.
    #[must_use]
    pub const fn new() -> Self {
        Self { short: [0; SHORT], len: 0, long: Vec::new() }
    }

    /// What was put.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        if self.long.is_empty() { &self.short[..self.len] } else { &self.long }
    }

    #[cold]
    fn put_any_int(&mut self, value: u64) {
        let mut bytes = [0; LONGEST_INT];
        let len = write_int(value, &mut bytes);
        self.put(&bytes[..len]);
    }

    #[cold]
    fn put_long(&mut self, bytes: &[u8]) {
        if self.long.is_empty() {
            self.long.extend_from_slice(&self.short[..self.len]);
            self.len = SHORT;
        }
        self.long.extend_from_slice(bytes);
    }
}

impl Default for ShortBytes {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink for ShortBytes {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self.short[self.len..].get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.put_long(bytes),
        }
    }

    #[inline]
    fn put_u8(&mut self, byte: u8) {
        match self.short.get_mut(self.len) {
            Some(room) => {
                *room = byte;
                self.len += 1;
            }
            None => self.put_long(&[byte]),
        }
    }

    #[inline(never)]
    fn put_int(&mut self, value: u64) {
        // Effects are mostly integers: where there is room they are written in place.
        if value < SHORT_INT && self.len <= SHORT - size_of::<u64>() {
            let (bytes, len) = short_int(value);
            self.short[self.len..self.len + size_of::<u64>()].copy_from_slice(&bytes.to_le_bytes());
            self.len += len;
        } else {
            self.put_any_int(value);
        }
    }
}

/// Reads what a [`Sink`] was given. Total: no input panics or allocates.
#[derive(Clone, Debug)]
pub struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    /// Reads from the start of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`Invalid`] at the end of the input.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Invalid> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Invalid)?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next byte.
    ///
    /// # Errors
    /// [`Invalid`] at the end of the input.
    pub fn u8(&mut self) -> Result<u8, Invalid> {
        Ok(self.take(1)?[0])
    }

    /// The next integer, which must be at most `max` and in its one shortest form.
    ///
    /// # Errors
    /// [`Invalid`] otherwise.
    pub fn int(&mut self, max: u64) -> Result<u64, Invalid> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let low = u64::from(byte & 0x7f);
            if (low << shift) >> shift != low || (byte == 0 && shift > 0) {
                return Err(Invalid);
            }
            value |= low << shift;
            if byte & 0x80 == 0 {
                return if value <= max { Ok(value) } else { Err(Invalid) };
            }
        }
        Err(Invalid)
    }

    /// The next byte string, whose length must be in `lengths`.
    ///
    /// # Errors
    /// [`Invalid`] otherwise.
    pub fn bytes(
        &mut self,
        lengths: core::ops::RangeInclusive<usize>,
    ) -> Result<&'a [u8], Invalid> {
        let len = self.int(*lengths.end() as u64)?;
        let len = usize::try_from(len).ok().filter(|len| lengths.contains(len)).ok_or(Invalid)?;
        self.take(len)
    }

    /// Whether everything has been read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`Invalid`] when something is left over.
    pub const fn finish(self) -> Result<(), Invalid> {
        if self.0.is_empty() { Ok(()) } else { Err(Invalid) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_round_trip(value: u64, shift in 0..64u32) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            bytes.put_int(value);
            let mut source = Source::new(&bytes);
            prop_assert_eq!(source.int(u64::MAX), Ok(value));
            prop_assert_eq!(source.finish(), Ok(()));
        }

        #[test]
        fn short_and_long_bytes_are_the_same(values: Vec<(u64, u32)>) {
            let (mut short, mut long) = (ShortBytes::new(), Vec::new());
            for (value, shift) in values {
                short.put_int(value >> (shift % 64));
                long.put_int(value >> (shift % 64));
            }
            prop_assert_eq!(short.as_slice(), &long[..]);
        }

        #[test]
        fn an_integer_has_one_form(bytes: [u8; 12]) {
            let mut source = Source::new(&bytes);
            if let Ok(value) = source.int(u64::MAX) {
                let mut again = Vec::new();
                again.put_int(value);
                prop_assert!(bytes.starts_with(&again));
                prop_assert_eq!(source.0.len(), bytes.len() - again.len());
            }
        }
    }
}
