//! Being written.
#![no_std]
