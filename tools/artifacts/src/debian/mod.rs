//! Debian's own files: lists of packages, and where archives are.

pub mod index;
mod paragraphs;
pub mod sources;
