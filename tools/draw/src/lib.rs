//! Drawings and pages that the tools write: SVG and HTML, each one a single file that needs no
//! other.

#![forbid(unsafe_code)]

pub mod axis;
pub mod labels;
pub mod markup;
pub mod shapes;
