//! The two encodings of what a key holds: its whole state (RDB, AOF rewrite, DUMP) and the effect of
//! one call (replicas, AOF). The first byte is the format; a format, once released, is read for ever.

use crate::limit::{Identity, MAX_LIMITS};
use crate::state::Delta;
use crate::subject::{Change, Subject};
use crate::units::{MAX_AMOUNT, MAX_INSTANT_US};
use crate::wire::{Invalid, Sink, Source};

const EFFECT_1: u8 = 1;
const WHOLE_1: u8 = 2;

/// What the bytes say.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded<'a> {
    /// The effect of one call.
    Effect {
        /// The instant of the decision, by which ended state is dropped.
        now_us: u64,
        /// The key's expiry afterwards (Unix ms).
        expire_ms: u64,
        /// What changes, in order.
        changes: Vec<Change<'a>>,
    },
    /// Everything that a key holds.
    Whole(Subject),
}

/// Appends the whole state.
pub fn encode_whole(subject: &Subject, out: &mut impl Sink) {
    out.put_u8(WHOLE_1);
    subject.encode(out);
}

/// Appends an effect. The common one, of an unnamed bucket, takes at most 44 bytes.
pub fn encode_effect(now_us: u64, expire_ms: u64, changes: &[Change], out: &mut impl Sink) {
    out.put_u8(EFFECT_1);
    out.put_int(now_us);
    out.put_int(expire_ms);
    for (identity, delta) in changes {
        identity.encode(*delta == Delta::Forget, out);
        delta.encode(out);
    }
}

/// Reads either encoding. Total: any bytes give a valid state or an error.
///
/// # Errors
/// [`Invalid`] for anything that no call could have stored.
pub fn decode(bytes: &[u8]) -> Result<Decoded<'_>, Invalid> {
    let mut source = Source::new(bytes);
    let decoded = match source.u8()? {
        EFFECT_1 => decode_effect(&mut source)?,
        WHOLE_1 => Decoded::Whole(Subject::decode(&mut source)?),
        _ => return Err(Invalid),
    };
    source.finish()?;
    Ok(decoded)
}

/// Reads a whole state only.
///
/// # Errors
/// [`Invalid`] as in [`decode`], and for an effect.
pub fn decode_whole(bytes: &[u8]) -> Result<Subject, Invalid> {
    match decode(bytes)? {
        Decoded::Whole(subject) => Ok(subject),
        Decoded::Effect { .. } => Err(Invalid),
    }
}

fn decode_effect<'a>(source: &mut Source<'a>) -> Result<Decoded<'a>, Invalid> {
    let now_us = source.int(MAX_INSTANT_US)?;
    let expire_ms = source.int(MAX_AMOUNT)?;
    let mut changes: Vec<Change> = Vec::new();
    while !source.is_empty() {
        let (identity, forget) = Identity::decode(source)?;
        let repeated = changes.iter().any(|(known, _)| *known == identity);
        if repeated || changes.len() == MAX_LIMITS {
            return Err(Invalid);
        }
        let delta = if forget { Delta::Forget } else { Delta::decode(identity.which, source)? };
        changes.push((identity, delta));
    }
    if changes.is_empty() {
        return Err(Invalid);
    }
    Ok(Decoded::Effect { now_us, expire_ms, changes })
}
