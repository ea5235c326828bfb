//! The native type `rl-limits`: what the server's callbacks mean for a [`Subject`].

use crate::server::{NativeType, TypeSlot};
use crate::store::EFFECT_COMMAND;
use redis_limiter_core::codec;
use redis_limiter_core::subject::Subject;
use std::ffi::{CStr, c_int};

/// The version in an RDB. The bytes name their own format, so this changes only if they no longer do.
const ENCODING: c_int = 1;

static SLOT: TypeSlot<Subject> = TypeSlot::new();

impl NativeType for Subject {
    const NAME: &'static CStr = c"rl-limits";
    const ENCODING: c_int = ENCODING;
    const AOF_COMMAND: &'static CStr = EFFECT_COMMAND;

    fn slot() -> &'static TypeSlot<Self> {
        &SLOT
    }

    fn encode(&self, out: &mut Vec<u8>) {
        codec::encode_whole(self, out);
    }

    fn decode(bytes: &[u8], encoding: c_int) -> Option<Self> {
        if encoding == ENCODING { codec::decode_whole(bytes).ok() } else { None }
    }

    fn rewrite(&self, out: &mut Vec<u8>) {
        codec::encode_whole(self, out);
    }

    fn heap_bytes(&self) -> usize {
        Self::heap_bytes(self)
    }

    fn free_effort(&self) -> usize {
        Self::free_effort(self)
    }
}
