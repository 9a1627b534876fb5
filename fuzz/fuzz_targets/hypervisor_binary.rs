//! See `hanok_fuzz_targets::hypervisor_binary`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hanok_fuzz_targets::hypervisor_binary(data));
