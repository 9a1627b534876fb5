//! The drawings of the page, as SVG.
//!
//! Colours are classes that the page's style sheet sets for light, dark and print. Each side also
//! has its own shape, and every mark has a tip with its value.

pub(crate) mod bars;
pub(crate) mod costs;
pub(crate) mod lines;
mod mark;
