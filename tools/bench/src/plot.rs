//! The drawings of the page, as SVG.
//!
//! Colours are classes that the page's style sheet sets for light, dark and print. Each side
//! has a shape of its own besides its colour, and every mark a tip with its value.

use crate::model::Side;
use hanok_draw::markup::{Element, el};
use hanok_draw::shapes::{circle, rect};

pub(crate) mod bars;
pub(crate) mod costs;
pub(crate) mod lines;

/// The mark of `side` at a place: a disc, a square, or a triangle.
fn mark(side: Side, x: f64, y: f64) -> Element {
    let shape = match side {
        Side::Native | Side::Hanok => circle((x, y), 4.8),
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
