//! Whether a certificate of the analysis is true.
#![no_std]
#![forbid(unsafe_code)]
