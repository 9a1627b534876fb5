//! Places a drawing's label: near its point, and on no line.

/// A place in a drawing, in pixels.
pub type Point = (f64, f64);

/// The height of a label, of 13 pixels of type.
const HEIGHT: f64 = 15.0;
/// The mean width of a character of bold type, on the wide side.
const CHARACTER: f64 = 8.2;
/// How far a label stays from every line.
const CLEAR: f64 = 4.0;
/// The greatest distance of a label from its point, and the distance from which on a line connects
/// them.
const FAR: f64 = 240.0;
const NEAR: f64 = 16.0;

/// A rectangle: its upper left and its lower right corner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rectangle {
    /// The upper left corner.
    pub from: Point,
    /// The lower right corner.
    pub to: Point,
}

/// A place for a label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Label {
    /// The rectangle that it covers.
    pub covers: Rectangle,
    /// The label's nearest corner or edge to its point, where a line has to connect them.
    pub lead: Option<Point>,
}

impl Label {
    /// Where the text begins, on its base line.
    pub fn start(&self) -> Point {
        (self.covers.from.0, self.covers.to.1 - 3.5)
    }
}

impl Rectangle {
    fn inside(&self, other: &Self) -> bool {
        self.from.0 >= other.from.0
            && self.from.1 >= other.from.1
            && self.to.0 <= other.to.0
            && self.to.1 <= other.to.1
    }

    fn nearest(&self, (x, y): Point) -> Point {
        (
            x.clamp(self.from.0, self.to.0),
            y.clamp(self.from.1, self.to.1),
        )
    }

    /// Returns whether the line from `a` to `b` comes nearer than [`CLEAR`] (Liang and Barsky,
    /// 1984).
    pub fn meets(&self, a: Point, b: Point) -> bool {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let sides = [
            (-dx, a.0 - self.from.0 + CLEAR),
            (dx, self.to.0 + CLEAR - a.0),
            (-dy, a.1 - self.from.1 + CLEAR),
            (dy, self.to.1 + CLEAR - a.1),
        ];
        let (mut enter, mut leave) = (0.0_f64, 1.0_f64);
        for (speed, room) in sides {
            if speed == 0.0 {
                if room < 0.0 {
                    return false;
                }
                continue;
            }
            if speed < 0.0 {
                enter = enter.max(room / speed)
            } else {
                leave = leave.min(room / speed)
            }
        }
        enter <= leave
    }

    /// Returns whether none of `lines` comes near.
    pub fn is_clear(&self, lines: &[&[Point]]) -> bool {
        !lines
            .iter()
            .flat_map(|line| line.windows(2))
            .any(|pair| matches!(pair, [a, b] if self.meets(*a, *b)))
    }
}

/// The place for a label of `characters` about `point`, inside `plot` and on none of `lines`; or,
/// where there is no such place, above the plot at its right end.
pub fn place(point: Point, characters: usize, plot: Rectangle, lines: &[&[Point]]) -> Label {
    let width = CHARACTER * characters as f64;
    let at = |left: f64, top: f64| Rectangle {
        from: (left, top),
        to: (left + width, top + HEIGHT),
    };
    let mut nearest: Option<(f64, Rectangle)> = None;
    // A label is longer than high: a few places are tried across, many up and down.
    let across =
        (0..=40).map(|step| point.0 - width - FAR / 2.0 + f64::from(step) * (width + FAR) / 40.0);
    let across = across.chain([point.0 + 8.0, point.0 - 8.0 - width]);
    for left in across {
        for step in -60..=60 {
            let covers = at(left, point.1 - HEIGHT / 2.0 + f64::from(step) * FAR / 60.0);
            let away = distance(point, covers.nearest(point));
            let better = nearest.is_none_or(|(least, _)| away < least);
            if better
                && (7.0..=FAR).contains(&away)
                && covers.inside(&plot)
                && covers.is_clear(lines)
            {
                nearest = Some((away, covers));
            }
        }
    }
    match nearest {
        Some((away, covers)) => Label {
            covers,
            lead: (away > NEAR).then(|| covers.nearest(point)),
        },
        None => Label {
            covers: at(plot.to.0 - width, plot.from.1 - HEIGHT - CLEAR - 1.0),
            lead: None,
        },
    }
}

fn distance(a: Point, b: Point) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLOT: Rectangle = Rectangle {
        from: (0.0, 20.0),
        to: (500.0, 220.0),
    };

    #[test]
    fn a_line_meets_what_it_goes_through_or_near() {
        let middle = Rectangle {
            from: (100.0, 100.0),
            to: (200.0, 120.0),
        };
        assert!(middle.meets((0.0, 110.0), (500.0, 110.0)), "through it");
        assert!(middle.meets((150.0, 105.0), (151.0, 106.0)), "inside");
        assert!(middle.meets((0.0, 97.0), (500.0, 97.0)), "a bit above");
        assert!(!middle.meets((0.0, 90.0), (500.0, 90.0)), "above");
        assert!(!middle.meets((0.0, 110.0), (90.0, 110.0)), "ends before");
        assert!(!middle.meets((0.0, 0.0), (80.0, 240.0)), "aslant beside");
    }

    /// Beside its point where that is free, else at the nearest free place.
    #[test]
    fn a_label_gives_way_to_curves() {
        let free = place((250.0, 100.0), 10, PLOT, &[]);
        assert!(free.lead.is_none() && free.covers.inside(&PLOT));
        for slope in [-3.0, -1.0, -0.2, 0.0, 0.2, 1.0, 3.0] {
            let curve: Vec<Point> = (0..=500)
                .map(f64::from)
                .map(|x| (x, (100.0 + slope * (x - 250.0)).clamp(20.0, 220.0)))
                .collect();
            let upright = [(250.0, 20.0), (250.0, 220.0)];
            let lines: [&[Point]; 2] = [&curve, &upright];
            let label = place((250.0, 100.0), 20, PLOT, &lines);
            assert!(label.covers.inside(&PLOT), "{slope}");
            assert!(label.covers.is_clear(&lines), "{slope}");
        }
    }

    /// At every edge of the plot, and where it is longer than the plot.
    #[test]
    fn a_label_stays_in_the_plot_or_above_it() {
        for point in [(0.0, 20.0), (500.0, 20.0), (0.0, 220.0), (500.0, 220.0)] {
            assert!(
                place(point, 30, PLOT, &[]).covers.inside(&PLOT),
                "{point:?}"
            );
        }
        let grey: Vec<Point> = (0..500)
            .map(|x| (f64::from(x), if x % 2 == 0 { 20.0 } else { 220.0 }))
            .collect();
        let label = place((250.0, 100.0), 20, PLOT, &[&grey]);
        assert!(label.covers.is_clear(&[&grey]) && label.covers.to.1 < 20.0);
    }
}
