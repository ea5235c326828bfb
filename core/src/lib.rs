//! The algorithms of redis-limiter: pure, exact, without clock or server.
//!
//! Time is an argument, in microseconds since the Unix epoch. Every kind of limit tells the one
//! [`law`] how much of it is in use; the law decides.
#![forbid(unsafe_code)]
// Narrowing is done on values whose range is known; each algorithm's tests cover its extremes.
#![allow(clippy::cast_possible_truncation)]

pub mod bucket;
pub mod calendar;
pub mod codec;
pub mod expiry;
pub mod info;
pub mod law;
pub mod layers;
pub mod lease;
pub mod limit;
pub mod quota;
pub mod redis_cell;
pub mod state;
pub mod subject;
pub mod units;
pub mod verdict;
pub mod wide;
pub mod window;
pub mod wire;
