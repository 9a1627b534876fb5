//! The mark of a side.

use crate::machine::Side;
use hanok_draw::markup::{Element, el};
use hanok_draw::shapes::{circle, rect};

/// The mark of `side` at a place: a disc, a square, or a triangle.
pub(super) fn mark(side: Side, x: f64, y: f64) -> Element {
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
