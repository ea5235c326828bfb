//! Amounts, durations, rates, periods, anchors and zones from any text.
#![no_main]

#[path = "../../core/tests/fuzz_laws/laws.rs"]
#[allow(dead_code)]
mod laws;
#[path = "../../core/tests/fuzz_laws/reader.rs"]
#[allow(dead_code)]
mod reader;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| laws::units(bytes));
