//! The drawings of the page, as SVG.
//!
//! Colours are classes that the page's style sheet sets for light, dark and print. Each side
//! has a shape of its own besides its colour, and every mark a tip with its value.

use crate::axis::{Axis, Scale};
use crate::markup::{Element, el, tell};
use crate::model::Side;

pub(crate) mod bars;
pub(crate) mod costs;
pub(crate) mod lines;

/// A drawing `width` by `height` that tells `title` to whoever cannot see it.
fn drawing(width: f64, height: f64, title: &str) -> Element {
    el("svg")
        .attr("xmlns", "http://www.w3.org/2000/svg")
        .attr("viewBox", format!("0 0 {width} {height}"))
        .attr("role", "img")
        .attr("aria-label", title)
}

/// A text whose base line starts at a place.
fn text(x: f64, y: f64, text: impl Into<String>) -> Element {
    tell("text", text).at("x", x).at("y", y)
}

/// A line between two places.
fn line((x1, y1): (f64, f64), (x2, y2): (f64, f64)) -> Element {
    el("line")
        .at("x1", x1)
        .at("y1", y1)
        .at("x2", x2)
        .at("y2", y2)
}

/// A rectangle; a negative width is none.
fn rect((x, y): (f64, f64), (width, height): (f64, f64)) -> Element {
    el("rect")
        .at("x", x)
        .at("y", y)
        .at("width", width.max(0.0))
        .at("height", height)
}

/// The mark of `side` at a place: a disc, a square, or a triangle.
fn mark(side: Side, x: f64, y: f64) -> Element {
    let shape = match side {
        Side::Native | Side::Hanok => el("circle").at("cx", x).at("cy", y).at("r", 4.8),
        Side::Xen => rect((x - 3.9, y - 3.9), (7.8, 7.8)),
        Side::Kvm => {
            let (left, right, low) = (x - 4.9, x + 4.9, y + 4.2);
            let points = format!(
                "{left:.1},{low:.1} {right:.1},{low:.1} {x:.1},{:.1}",
                y - 4.8
            );
            el("polygon").attr("points", points)
        }
    };
    shape.class(format!("mark {}", side.id()))
}

/// `mark` with a tip.
fn tipped(element: Element, tip: impl Into<String>) -> Element {
    element.child(tell("title", tip))
}
