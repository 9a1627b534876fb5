//! See `hanok_fuzz_targets::back_end`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hanok_fuzz_targets::back_end(data));
