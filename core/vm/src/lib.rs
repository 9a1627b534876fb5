//! Being written.
#![no_std]
#![forbid(unsafe_code)]
