//! The words on the command line.

use crate::Figures;
use core::fmt;

/// The default number of samples of each stretch, unless `bench.repeat` says otherwise.
pub const DEFAULT_REPEAT: u32 = 16;
/// The largest number of samples. More is a mistake: it would take hours.
const MOST: u32 = 100_000;

/// The options from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// `bench.figures`: the figures to measure.
    pub figures: Figures,
    /// `bench.repeat`: the number of samples of each stretch.
    pub repeat: u32,
    /// `bench.role`: what this VM does.
    pub role: Role,
    /// `bench.ipi`: how the vCPU that gets interrupts waits for them.
    pub waiting: Waiting,
    /// `bench.device`: the PL061 that interrupts; `None` where a VM that has it for itself finds it
    /// in the tree.
    pub device: Option<Device>,
}

/// A device that interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// The address of its registers.
    pub registers: u64,
    /// The number of its interrupt.
    pub interrupt: u32,
}

/// What a VM does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It measures.
    Measure,
    /// It yields to the VM that measures switches.
    Yield,
    /// All its vCPUs sleep by WFI, for ever.
    Sleep,
    /// All its vCPUs run, for ever.
    Spin,
    /// It tells the hypervisor the time, for ever.
    Stamp,
}

/// How a vCPU waits for an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It runs in a loop.
    Spin,
    /// It sleeps by WFI.
    Wfi,
}

/// A word that is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mistake<'a>(pub &'a str);

impl fmt::Display for Mistake<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot understand '{}'; bench.figures is some of",
            self.0
        )?;
        for figure in crate::Figure::ALL {
            write!(f, " {}", figure.name())?;
        }
        write!(f, ", with commas; bench.repeat is 1 to {MOST}; ")?;
        f.write_str(
            "bench.role is measure, yield, sleep, spin or stamp; bench.ipi is spin or wfi; ",
        )?;
        f.write_str("bench.device is ADDRESS/INTERRUPT, the first hexadecimal, without 0x")
    }
}

impl Options {
    /// Reads the words that begin with `bench.`. If one occurs twice, the last counts.
    pub fn parse(words: &str) -> Result<Self, Mistake<'_>> {
        let mut options = Self {
            figures: Figures::ALONE,
            repeat: DEFAULT_REPEAT,
            role: Role::Measure,
            waiting: Waiting::Spin,
            device: None,
        };
        for word in words.split_ascii_whitespace() {
            if let Some(rest) = word.strip_prefix("bench.") {
                options.word(rest).ok_or(Mistake(word))?;
            }
        }
        Ok(options)
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        match (name, value) {
            ("figures", names) => self.figures = Figures::named(names)?,
            ("repeat", number) => self.repeat = repeat(number)?,
            ("role", "measure") => self.role = Role::Measure,
            ("role", "yield") => self.role = Role::Yield,
            ("role", "sleep") => self.role = Role::Sleep,
            ("role", "spin") => self.role = Role::Spin,
            ("role", "stamp") => self.role = Role::Stamp,
            ("device", place) => self.device = Some(device(place)?),
            ("ipi", "spin") => self.waiting = Waiting::Spin,
            ("ipi", "wfi") => self.waiting = Waiting::Wfi,
            _ => return None,
        }
        Some(())
    }
}

fn repeat(number: &str) -> Option<u32> {
    number
        .parse()
        .ok()
        .filter(|repeat| (1..=MOST).contains(repeat))
}

fn device(place: &str) -> Option<Device> {
    let (registers, interrupt) = place.split_once('/')?;
    Some(Device {
        registers: u64::from_str_radix(registers, 16).ok()?,
        interrupt: interrupt.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::Figure;
    use std::string::ToString;

    #[test]
    fn nothing_said_is_what_needs_nobody() {
        let options = Options::parse("console=ttyAMA0 quiet").unwrap();
        assert_eq!(options.figures, Figures::ALONE);
        assert_eq!(options.repeat, DEFAULT_REPEAT);
        assert_eq!(options.role, Role::Measure);
    }

    #[test]
    fn the_last_word_counts() {
        let words = "bench.repeat=3 bench.figures=ipi bench.ipi=wfi bench.repeat=5";
        let options = Options::parse(words).unwrap();
        assert_eq!(options.repeat, 5);
        assert!(options.figures.contains(Figure::Ipi));
        assert!(!options.figures.contains(Figure::Switch));
        assert_eq!(options.waiting, Waiting::Wfi);
    }

    #[test]
    fn a_device_is_an_address_and_an_interrupt() {
        let options = Options::parse("bench.device=9030000/39 bench.role=sleep").unwrap();
        let device = Device {
            registers: 0x903_0000,
            interrupt: 39,
        };
        assert_eq!((options.device, options.role), (Some(device), Role::Sleep));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for word in [
            "bench.figures=",
            "bench.figure=ipi",
            "bench.repeat=0",
            "bench.repeat=100001",
            "bench.repeat=x",
            "bench.role=",
            "bench.role",
            "bench.ipi=sleep",
            "bench.device=9030000",
            "bench.device=x/39",
            "bench.device=9030000/x",
        ] {
            assert_eq!(Options::parse(word), Err(Mistake(word)));
        }
        let text = Mistake("bench.x").to_string();
        assert!(text.starts_with("cannot understand 'bench.x'; "), "{text}");
        assert!(text.contains(" smccc-version gicd-read "), "{text}");
    }
}
