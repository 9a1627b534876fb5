//! See `hanok_fuzz_targets::apt_packages`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hanok_fuzz_targets::apt_packages(data));
