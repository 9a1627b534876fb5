//! Drawings and pages that the tools write: SVG and HTML, each one file that needs nothing else.
//!
//! A page is a tree of [`markup::Element`]s, in which text can only get in escaped; [`shapes`] are what
//! drawings are made of, [`axis`] says where a value lies, and [`labels`] where a label hides no line.
//!
//! Why no plotting library draws: plotters and its kind write fixed colours and neither classes,
//! titles nor descriptions. These pages have one drawing for light, dark and print, a tip at each mark
//! and a text for whoever cannot see it, and labels that keep clear of curves. Libraries that draw in
//! the browser need a script. What is left to do here is small.

#![forbid(unsafe_code)]

pub mod axis;
pub mod labels;
pub mod markup;
pub mod shapes;
