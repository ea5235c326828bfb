//! The native type of the module's keys. A placeholder: bytes.

use crate::server::{NativeType, TypeSlot};
use std::ffi::{CStr, c_int};

/// What a key of ours holds.
#[derive(Clone)]
pub struct Stored(pub Vec<u8>);

static SLOT: TypeSlot<Stored> = TypeSlot::new();

impl NativeType for Stored {
    const NAME: &'static CStr = c"rl-limits";
    const ENCODING: c_int = 0;
    const AOF_COMMAND: &'static CStr = c"RL.E";

    fn slot() -> &'static TypeSlot<Self> {
        &SLOT
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn decode(bytes: &[u8], _encoding: c_int) -> Option<Self> {
        Some(Self(bytes.to_vec()))
    }

    fn rewrite(&self, out: &mut Vec<u8>) {
        self.encode(out);
    }

    fn heap_bytes(&self) -> usize {
        self.0.capacity()
    }
}
