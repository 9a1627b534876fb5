//! The shapes of which drawings are made.

use crate::labels::Point;
use crate::markup::{Element, el, tell};

/// A drawing `width` by `height`, with `title` for readers who cannot see it.
pub fn drawing(width: f64, height: f64, title: &str) -> Element {
    el("svg")
        .attr("xmlns", "http://www.w3.org/2000/svg")
        .attr("viewBox", format!("0 0 {width} {height}"))
        .attr("role", "img")
        .attr("aria-label", title)
}

/// A text whose base line starts at a place.
pub fn text(x: f64, y: f64, text: impl Into<String>) -> Element {
    tell("text", text).at("x", x).at("y", y)
}

/// A line between two places.
pub fn line((x1, y1): Point, (x2, y2): Point) -> Element {
    el("line")
        .at("x1", x1)
        .at("y1", y1)
        .at("x2", x2)
        .at("y2", y2)
}

/// A rectangle; a negative width is drawn as zero.
pub fn rect((x, y): Point, (width, height): (f64, f64)) -> Element {
    el("rect")
        .at("x", x)
        .at("y", y)
        .at("width", width.max(0.0))
        .at("height", height)
}

/// A line through all of `places`.
pub fn course(places: &[Point]) -> Element {
    let points = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
    el("polyline").attr("points", points.collect::<Vec<_>>().join(" "))
}

/// A disc or a ring around a place.
pub fn circle((x, y): Point, radius: f64) -> Element {
    el("circle").at("cx", x).at("cy", y).at("r", radius)
}

/// `element` with a tip.
pub fn tipped(element: Element, tip: impl Into<String>) -> Element {
    element.child(tell("title", tip))
}
