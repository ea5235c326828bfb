//! Any calls on any state: decided, sent, applied on both sides, and the promised waits kept.
#![no_main]

#[path = "../../core/tests/fuzz_laws/laws.rs"]
#[allow(dead_code)]
mod laws;
#[path = "../../core/tests/fuzz_laws/reader.rs"]
#[allow(dead_code)]
mod reader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| laws::calls(bytes));
