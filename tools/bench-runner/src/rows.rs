//! Converts what the boards print to values in the units of the figures.
//!
//! Each of lmbench's programs has its own form of output; the script in the guest puts it between
//! two lines of ours (`bench: begin NAME`, `bench: end NAME STATUS`). Consoles may have other lines
//! between, a hypervisor's among them.

use std::collections::BTreeMap;

use hanok_bench::{Figure, Unit};

/// The counter as init read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Ticks.
    pub count: u64,
    /// Ticks a second.
    pub frequency: u64,
}

impl Clock {
    /// Nanoseconds since the reset, of a guest whose counter is `offset` ticks behind.
    pub fn nanoseconds(self, offset: u64) -> f64 {
        let ticks = self.count.wrapping_add(offset);
        ticks as f64 * 1e9 / self.frequency as f64
    }
}

/// What a console says.
#[derive(Debug, Default, PartialEq)]
pub struct Found {
    /// Values by the figure's name.
    pub values: BTreeMap<String, f64>,
    /// What a row printed that failed, or that is not understood.
    pub bad: BTreeMap<String, String>,
    /// What lat_ctx took off its values, in microseconds: what a process does in its turn without a switch.
    pub overheads: BTreeMap<String, f64>,
    /// The counter at the start of the measured guest's init.
    pub clock: Option<Clock>,
}

/// Everything of ours on a console.
pub fn read(console: &str) -> Found {
    let mut found = Found::default();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in console.lines().map(str::trim) {
        let words = line.strip_prefix("bench: ").map(words).unwrap_or_default();
        match (words.as_slice(), &mut open) {
            (["begin", name], _) => open = Some((name, Vec::new())),
            (["end", name, status], Some((opened, said))) if name == opened => {
                found.row(name, status, said);
                open = None;
            }
            (["clock", "init", count, frequency], _) => found.clock = clock(count, frequency),
            ([figure, value, unit], None) => found.direct(figure, value, unit),
            (_, Some((_, said))) => said.push(line),
            _ => {}
        }
    }
    found
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn clock(count: &str, frequency: &str) -> Option<Clock> {
    let (count, frequency) = (count.parse().ok()?, frequency.parse().ok()?);
    (frequency > 0).then_some(Clock { count, frequency })
}

impl Found {
    fn row(&mut self, name: &str, status: &str, said: &[&str]) {
        let value = (status == "0").then(|| value(name, said)).flatten();
        match value {
            Some(value) => {
                self.values.insert(name.to_owned(), value);
                let overhead = after(said, "ovr=");
                self.overheads
                    .extend(overhead.map(|overhead| (name.to_owned(), overhead)));
            }
            None => {
                let words = format!("ended with {status}: {}", said.join(" / "));
                self.bad.insert(name.to_owned(), words);
            }
        }
    }

    /// A line of the payload: figure, value and unit.
    fn direct(&mut self, name: &str, value: &str, unit: &str) {
        let known = Figure::find(name).filter(|figure| figure.unit.name() == unit);
        if let (Some(_), Ok(value)) = (known, value.parse()) {
            self.values.insert(name.to_owned(), value);
        }
    }
}

/// The value in what the program for the figure `name` said.
fn value(name: &str, said: &[&str]) -> Option<f64> {
    let figure = Figure::find(name)?;
    match (name, figure.unit) {
        ("nanosleep", _) => after(said, "Min:"),
        ("bw-pipe", _) => before(said, "MB/sec"),
        ("mmap" | "mem-rd", _) => second_of_two(said),
        (_, Unit::MegabytesPerSecond) => second_of_two(said),
        _ if name.starts_with("ctx-") => second_of_two(said),
        (_, Unit::Microseconds) => before(said, "microseconds"),
        (_, Unit::Nanoseconds) => before(said, "nanoseconds"),
        _ => None,
    }
}

/// The number before `word`, in the last line that has it.
fn before(said: &[&str], word: &str) -> Option<f64> {
    let line = said.iter().rev().find(|line| line.contains(word))?;
    line.split(word)
        .next()?
        .split_whitespace()
        .last()?
        .parse()
        .ok()
}

/// The number behind `word`, in the last line that has it.
fn after(said: &[&str], word: &str) -> Option<f64> {
    let line = said.iter().rev().find(|line| line.contains(word))?;
    let (_, rest) = line.split_once(word)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// The second number of the last line that is two numbers: size and value.
fn second_of_two(said: &[&str]) -> Option<f64> {
    let two = |line: &&str| {
        let numbers: Vec<f64> = words(line)
            .into_iter()
            .map_while(|w| w.parse().ok())
            .collect();
        (numbers.len() == 2 && words(line).len() == 2).then(|| numbers[1])
    };
    said.iter().rev().find_map(two)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a guest printed it.
    const CONSOLE: &str = "\
bench: clock init 55225592 62500000\r
bench: begin syscall-null\r
Simple syscall: 0.4570 microseconds\r
(XEN) d0v0: something\r
bench: end syscall-null 0\r
bench: begin mmap\r
1.048576 40\r
bench: end mmap 0\r
bench: begin bw-pipe\r
Pipe bandwidth: 1603.22 MB/sec\r
bench: end bw-pipe 0\r
bench: begin mem-rd\r
\"stride=128\r
0.75000 1.032\r
1.00000 1.031\r
\r
bench: end mem-rd 0\r
bench: begin ctx-16\r
\"size=32k ovr=11.19\r
16 4.90\r
bench: end ctx-16 0\r
bench: begin integer\r
integer work: 612.345 nanoseconds (99)\r
bench: end integer 0\r
bench: begin sem\r
Semaphore latency: 4.3210 microseconds\r
bench: end sem 0\r
bench: begin fcntl\r
Fcntl lock latency: 9.8700 microseconds\r
bench: end fcntl 0\r
bench: begin select-100\r
lat_select: error while loading shared libraries\r
bench: end select-100 127\r
bench: begin nanosleep\r
T: 0 (  281) P:80 I:200 C:   1000 Min:   4480 Act:    4496 Avg:    4622 Max:    9040\r
bench: end nanosleep 0\r
bench: begin fork\r
nonsense\r
bench: end fork 0\r
bench: hypercall 423.25 instructions\r
bench: gicd-read 10 ns\r
bench: done\r
";

    #[test]
    fn every_form_of_row_is_read() {
        let found = read(CONSOLE);
        let wanted = [
            ("bw-pipe", 1603.22),
            ("ctx-16", 4.90),
            ("fcntl", 9.87),
            ("hypercall", 423.25),
            ("integer", 612.345),
            ("mem-rd", 1.031),
            ("mmap", 40.0),
            ("nanosleep", 4480.0),
            ("sem", 4.321),
            ("syscall-null", 0.457),
        ];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(found.values, wanted.into_iter().collect());
        assert_eq!(found.overheads, [("ctx-16".to_owned(), 11.19)].into());
        let bad: Vec<_> = found.bad.keys().collect();
        assert_eq!(bad, ["fork", "select-100"]);
        assert!(found.bad["select-100"].starts_with("ended with 127: lat_select"));
    }

    #[test]
    fn the_counter_s_offset_is_added() {
        let clock = read(CONSOLE).clock.unwrap();
        assert_eq!(clock.nanoseconds(0), 883_609_472.0);
        assert_eq!(clock.nanoseconds(62_500_000), 1_883_609_472.0);
    }

    #[test]
    fn a_row_that_never_ends_has_no_value() {
        let found = read("bench: begin pipe\nPipe latency: 1.0 microseconds\n");
        assert_eq!(found, Found::default());
    }
}
