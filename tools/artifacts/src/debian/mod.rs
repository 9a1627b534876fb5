//! Debian's own files: lists of packages, and where archives are.

pub mod index;
pub mod sources;
