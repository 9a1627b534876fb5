//! See `hanok_fuzz_targets::virtio`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| hanok_fuzz_targets::virtio(data));
