//! Where a run's time went.

use std::fmt::Write;
use std::time::Duration;

use hanok_base::ui;

/// How many of the slowest are named.
const NAMED: usize = 10;

/// How long everything took, by name.
#[derive(Debug, Default)]
pub struct Times(Vec<(String, Duration)>);

impl Times {
    /// Adds a step or a scenario.
    pub fn add(&mut self, name: &str, time: Duration) {
        self.0.push((name.to_owned(), time));
    }

    /// Prints the slowest, if there is more than a few of them. `whole` is what a clock showed, `cpu` how long
    /// programs had a CPU.
    pub fn told(&self, whole: Duration, cpu: Duration) {
        if self.0.len() > NAMED {
            ui::line(format_args!("{}", self.words(whole, cpu)));
        }
    }

    fn words(&self, whole: Duration, cpu: Duration) -> String {
        let mut slowest: Vec<_> = self.0.iter().collect();
        slowest.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
        let sum: Duration = self.0.iter().map(|(_, time)| *time).sum();
        let mut words = format!(
            "--   {:.0} s, in all lanes together {:.0} s, CPU {:.0} s; the slowest:",
            whole.as_secs_f64(),
            sum.as_secs_f64(),
            cpu.as_secs_f64()
        );
        for (name, time) in slowest.iter().take(NAMED) {
            // Writing to a String does not fail.
            let _ = write!(words, "\n     {:>7.1} s  {name}", time.as_secs_f64());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_come_first_and_only_ten() {
        let mut times = Times::default();
        for number in 0..12 {
            times.add(&format!("step {number}"), Duration::from_secs(number));
        }
        let words = times.words(Duration::from_secs(40), Duration::from_secs(70));
        let lines: Vec<_> = words.lines().collect();
        assert_eq!(
            lines[0],
            "--   40 s, in all lanes together 66 s, CPU 70 s; the slowest:"
        );
        assert!(lines[1].ends_with("11.0 s  step 11"), "{words}");
        assert_eq!(lines.len(), 1 + NAMED);
    }
}
