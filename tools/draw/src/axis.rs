//! Maps values to places in a drawing, and chooses the values that get a mark.

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By their logarithm; for values above zero.
    Log,
    /// Evenly around zero up to about this value, by the logarithm beyond, on both sides: a
    /// difference of a hundredth and one of tenfold on one axis.
    Around(f64),
}

/// An axis between two places.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// From the value `low` at `from` to the value `high` at `to`.
    pub fn new(scale: Scale, (low, high): (f64, f64), (from, to): (f64, f64)) -> Self {
        Self {
            scale,
            low,
            high,
            from,
            to,
        }
    }

    fn bent(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value,
            Scale::Log => value.max(f64::MIN_POSITIVE).log10(),
            Scale::Around(unit) => (value / unit).asinh(),
        }
    }

    /// The place of `value`; a value outside of the axis is placed at its end.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high) = (self.bent(self.low), self.bent(self.high));
        let part = if high > low {
            ((self.bent(value) - low) / (high - low)).clamp(0.0, 1.0)
        } else {
            0.5
        };
        self.from + part * (self.to - self.from)
    }

    /// Values to mark, at least `apart` from each other.
    pub fn ticks(&self, apart: f64) -> Vec<f64> {
        let mut ticks: Vec<f64> = Vec::new();
        for tick in self.candidates(apart) {
            let far = |other: &f64| (self.place(*other) - self.place(tick)).abs() >= apart;
            if (self.low..=self.high).contains(&tick) && ticks.iter().all(far) {
                ticks.push(tick);
            }
        }
        ticks.sort_by(f64::total_cmp);
        ticks
    }

    /// Round values, the most important first.
    fn candidates(&self, apart: f64) -> Vec<f64> {
        match self.scale {
            Scale::Linear => self.even(apart),
            Scale::Log => by_roundness((-9..=12).map(|exponent| 10_f64.powi(exponent))),
            Scale::Around(_) => {
                let sizes = by_roundness((-4..=6).map(|exponent| 10_f64.powi(exponent)));
                let mut all = vec![0.0];
                all.extend(sizes.into_iter().flat_map(|size| [size, -size]));
                all
            }
        }
    }

    fn even(&self, apart: f64) -> Vec<f64> {
        let length = (self.to - self.from).abs();
        let least = (self.high - self.low) * apart / length.max(1.0);
        let Some(step) = round_above(least) else {
            return vec![self.low];
        };
        let first = (self.low / step).ceil();
        let count = ((self.high - self.low) / step).floor() as u32;
        (0..=count)
            .map(|at| (first + f64::from(at)) * step)
            .collect()
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below `least`.
pub fn round_above(least: f64) -> Option<f64> {
    if !(least.is_finite() && least > 0.0) {
        return None;
    }
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= least * 0.999_999)
}

/// Every power of ten, then every one times 2 and 5.
fn by_roundness(powers: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let times = [1.0, 2.0, 5.0].into_iter();
    times
        .flat_map(|times| powers.clone().map(move |power| times * power))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_and_middles() {
        let linear = Axis::new(Scale::Linear, (0.0, 10.0), (100.0, 200.0));
        assert_eq!(linear.place(5.0), 150.0);
        assert_eq!(linear.place(-3.0), 100.0);
        let log = Axis::new(Scale::Log, (1.0, 100.0), (0.0, 100.0));
        assert!((log.place(10.0) - 50.0).abs() < 1e-9);
        let around = Axis::new(Scale::Around(0.01), (-1.0, 1.0), (0.0, 100.0));
        assert_eq!(around.place(0.0), 50.0);
        assert!(around.place(0.01) > 55.0, "a hundredth can be seen");
    }

    #[test]
    fn an_axis_of_one_value_is_borne() {
        let axis = Axis::new(Scale::Linear, (3.0, 3.0), (0.0, 100.0));
        assert_eq!(axis.place(3.0), 50.0);
        assert_eq!(axis.ticks(20.0), [3.0]);
    }

    #[test]
    fn ticks_are_round_and_apart() {
        let linear = Axis::new(Scale::Linear, (0.0, 47.0), (0.0, 300.0));
        assert_eq!(linear.ticks(50.0), [0.0, 10.0, 20.0, 30.0, 40.0]);
        let down = Axis::new(Scale::Linear, (0.0, 47.0), (300.0, 0.0));
        assert_eq!(down.ticks(50.0), [0.0, 10.0, 20.0, 30.0, 40.0]);
        let log = Axis::new(Scale::Log, (80.0, 9000.0), (0.0, 300.0));
        assert_eq!(log.ticks(60.0), [100.0, 1000.0, 5000.0]);
        let around = Axis::new(Scale::Around(0.02), (-0.03, 0.12), (0.0, 600.0));
        assert_eq!(
            around.ticks(46.0),
            [-0.02, -0.01, 0.0, 0.01, 0.02, 0.05, 0.1]
        );
    }
}
