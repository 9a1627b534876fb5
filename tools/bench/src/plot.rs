//! The drawings of the page, as SVG.
//!
//! Colours are classes that the page's style sheet sets for light, dark and print. Each side
//! has a shape of its own besides its colour, and every mark a tip with its value.

pub(crate) mod bars;
pub(crate) mod costs;
pub(crate) mod lines;
mod mark;
