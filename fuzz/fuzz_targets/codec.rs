//! What is decoded is encoded again as the same bytes; nothing else is accepted.
#![no_main]

#[path = "../../core/tests/fuzz_laws/laws.rs"]
#[allow(dead_code)]
mod laws;
#[path = "../../core/tests/fuzz_laws/reader.rs"]
#[allow(dead_code)]
mod reader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| laws::codec(bytes));
