//! The layer grammar that RL.TAKE, RL.PEEK, RL.REFUND and their many-key forms share.
//!
//! ```text
//! layer =  BUCKET rate burst
//!       |  WINDOW window limit [SLIDING | FIXED | LOG]
//!       |  QUOTA  period limit [TZ zone] [ANCHOR n]
//!       |  LEASE  limit ttl [ID id]
//!    then, in any order, [AS name] [COST n] [LEAVE n]
//! ```

use crate::args::{ArgSource, Cursor, words};
use crate::error::Error;
use crate::options::{self, Allowed, Options};
use arrayvec::ArrayVec;
use redis_limiter_core::law::{Ask, Charging};
use redis_limiter_core::limit::{Layer, MAX_LAYERS, Params};

/// Which of the family is called: they differ in the options of the call and in what a layer may be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// RL.TAKE, RL.MTAKE
    Take,
    /// RL.PEEK, RL.MPEEK
    Peek,
    /// RL.REFUND, RL.MREFUND
    Refund,
}

/// The options of the call, before its first layer.
pub struct Call {
    /// What every layer costs that has no COST of its own and is not a LEASE.
    pub cost: u64,
    /// Charge in any case.
    pub force: bool,
    /// How long ago the charge was made that a refund undoes.
    pub age_us: u64,
    /// Answer every layer's integers too.
    pub detail: bool,
}

impl Call {
    /// Reads `[COST n] [FORCE | AGE duration] [DETAIL]` in any order.
    pub fn read<'a>(
        cursor: &mut Cursor<'a, impl ArgSource<'a>>,
        form: Form,
    ) -> Result<Self, Error> {
        let (mut cost, mut force, mut age_ms, mut detail) = (None, None, None, None);
        loop {
            let word = cursor.word();
            let known = match word {
                words::COST | words::DETAIL => true,
                words::FORCE => form == Form::Take,
                words::AGE => form == Form::Refund,
                _ => false,
            };
            if !known {
                break;
            }
            cursor.take();
            let repeated = match word {
                words::COST => cost.replace(options::amount(cursor, Error::COST)?).is_some(),
                words::FORCE => force.replace(true).is_some(),
                words::AGE => age_ms.replace(options::age_ms(cursor)?).is_some(),
                _ => detail.replace(true).is_some(),
            };
            if repeated {
                return Err(Error::REPEATED);
            }
        }
        Ok(Self {
            cost: cost.unwrap_or(1),
            force: force.unwrap_or(false),
            age_us: age_ms.unwrap_or(0) * 1000,
            detail: detail.unwrap_or(false),
        })
    }
}

/// The layers of a call, key after key.
pub type Layers<'a> = ArrayVec<Layer<'a>, MAX_LAYERS>;

/// Reads the layers of one key, at least one, up to the end or the next `KEY`, and appends them to
/// those of the keys before.
pub fn read_layers<'a>(
    cursor: &mut Cursor<'a, impl ArgSource<'a>>,
    form: Form,
    call: &Call,
    layers: &mut Layers<'a>,
) -> Result<(), Error> {
    let first = layers.len();
    while read_layer(cursor, form, call, layers)? {
        if let [others @ .., new] = &layers[first..]
            && others.iter().any(|other| other.identity() == new.identity())
        {
            return Err(Error::SAME_LIMIT);
        }
    }
    if layers.len() == first { Err(Error::LAYER) } else { Ok(()) }
}

/// Reads one more layer, if there is one. It is put in its place piece by piece: to move it there
/// whole costs more than to read it.
#[inline(always)]
fn read_layer<'a>(
    cursor: &mut Cursor<'a, impl ArgSource<'a>>,
    form: Form,
    call: &Call,
    layers: &mut Layers<'a>,
) -> Result<bool, Error> {
    let common = Allowed { cost: true, leave: true, ..Allowed::NONE };
    let word = cursor.word();
    if !matches!(word, words::BUCKET | words::WINDOW | words::QUOTA | words::LEASE) {
        return Ok(false);
    }
    if layers.is_full() {
        return Err(Error::TOO_MANY_LAYERS);
    }
    cursor.take();
    if word == words::BUCKET {
        let (rate, burst) = (options::rate(cursor)?, options::amount(cursor, Error::BURST)?);
        let options = Options::read(cursor, common)?;
        let (name, ask) = (options.name, ask(&options, call, call.cost)?);
        layers.push(Layer { params: Params::Bucket { rate, burst }, name, ask });
    } else if word == words::WINDOW {
        let (length_ms, limit) =
            (options::window_ms(cursor)?, options::amount(cursor, Error::LIMIT)?);
        let options = Options::read(cursor, Allowed { mode: true, ..common })?;
        let params = options::window_params(length_ms, limit, &options)?;
        let (name, ask) = (options.name, ask(&options, call, call.cost)?);
        layers.push(Layer { params, name, ask });
    } else if word == words::QUOTA {
        let (period, limit) = (options::period(cursor)?, options::amount(cursor, Error::LIMIT)?);
        let options = Options::read(cursor, Allowed { calendar: true, ..common })?;
        let params = options::quota_params(period, limit, &options)?;
        let (name, ask) = (options.name, ask(&options, call, call.cost)?);
        layers.push(Layer { params, name, ask });
    } else {
        if form == Form::Refund {
            return Err(Error::REFUND_LEASE);
        }
        let limit = options::amount(cursor, Error::LIMIT)?;
        let ttl_ms = options::duration_ms(cursor, Error::TTL)?;
        let options = Options::read(cursor, Allowed { id: true, ..common })?;
        if form == Form::Take && options.id.is_none() {
            return Err(Error::TAKE_LEASE_ID);
        }
        let params = Params::Lease { limit, ttl_ms, id: options.id, nx: false };
        let (name, ask) = (options.name, ask(&options, call, 1)?);
        layers.push(Layer { params, name, ask });
    }
    Ok(true)
}

#[inline(always)]
fn ask(options: &Options, call: &Call, cost: u64) -> Result<Ask, Error> {
    if call.force && options.leave.is_some() {
        return Err(Error::FORCE_WITH_LEAVE);
    }
    let charging = if call.force { Charging::Force } else { Charging::Whole };
    Ok(Ask { cost: options.cost.unwrap_or(cost), leave: options.leave.unwrap_or(0), charging })
}

#[cfg(test)]
mod grammar;
