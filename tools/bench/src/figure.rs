//! A figure of the bench: what it counts, its limit, and published values.

use serde::{Deserialize, Serialize};

use crate::machine::{Machine, Side};

/// What a value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Instructions executed.
    #[serde(rename = "instructions")]
    Instructions,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Nanoseconds of virtual time.
    #[serde(rename = "ns")]
    Nanoseconds,
    /// Microseconds of virtual time, as lmbench prints them.
    #[serde(rename = "us")]
    Microseconds,
    /// Megabytes a second of virtual time, as lmbench prints them.
    #[serde(rename = "MB/s")]
    MegabytesPerSecond,
}

impl Unit {
    /// The unit's name, as in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Bytes => "bytes",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::MegabytesPerSecond => "MB/s",
        }
    }
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Less is better: times, sizes, counts.
    Lower,
    /// More is better: rates.
    Higher,
}

/// Which part of the bench a figure belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Single mechanisms of a hypervisor.
    Micro,
    /// lmbench in a Linux guest.
    Lmbench,
}

/// The limit of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// The cost is at most this multiple of native's (see [`crate::cost`]).
    RatioToNative(f64),
    /// The value is at most this, in the figure's unit.
    AtMost(f64),
    /// The value exceeds native's by at most this, in the figure's unit.
    BeyondNative(f64),
    /// Measured for the record alone.
    None,
}

/// In what terms a published value is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PublishedAs {
    /// In the figure's unit.
    Value,
    /// In the figure's unit, beyond native.
    BeyondNative,
    /// Cost as a multiple of native.
    Ratio,
    /// In a unit that cannot be compared with the figure's; this is its name.
    Other(&'static str),
}

/// A value that others published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The system.
    pub system: &'static str,
    /// The side of this bench that the system is, if it is one.
    pub side: Option<Side>,
    /// The machines' number of bits; `None` where it holds for any.
    pub bits: Option<u32>,
    /// In what terms.
    pub given: PublishedAs,
    /// The least value.
    pub low: f64,
    /// The greatest; the same as `low` where one value was published.
    pub high: f64,
    /// Who measured it, on what.
    pub source: &'static str,
}

impl Published {
    /// Whether it is in the terms of `figure`, so that both fit on one scale.
    pub fn fits(&self, figure: &Figure) -> bool {
        matches!(
            (self.given, figure.terms()),
            (PublishedAs::Value, Terms::Value)
                | (PublishedAs::BeyondNative, Terms::BeyondNative)
                | (PublishedAs::Ratio, Terms::Ratio)
        )
    }
}

/// A figure of the bench.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The name in results and on the command line.
    pub id: &'static str,
    /// The name for a reader.
    pub title: &'static str,
    /// What it means and how it is measured, in a sentence or two.
    pub about: &'static str,
    /// The part of the bench.
    pub group: Group,
    /// What its values count.
    pub unit: Unit,
    /// Another unit for readers, and how many of the figure's own make one.
    pub shown_in: Option<(&'static str, f64)>,
    /// Which way is better.
    pub better: Better,
    /// What is to reach.
    pub limit: Limit,
    /// What others reach.
    pub published: &'static [Published],
}

impl Figure {
    /// What others reach on machines like `machine`.
    pub fn published_on(&self, machine: &Machine) -> impl Iterator<Item = &'static Published> {
        let bits = machine.bits;
        let all: &'static [Published] = self.published;
        all.iter()
            .filter(move |one| one.bits.is_none_or(|of| of == bits))
    }
}

/// In what terms a figure is judged and compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// By its value, in its unit.
    Value,
    /// By what it has beyond native, in its unit.
    BeyondNative,
    /// By its cost as a multiple of native's.
    Ratio,
}

impl Figure {
    /// In what terms it is judged; one without a limit, in those that its group has.
    pub fn terms(&self) -> Terms {
        match (self.limit, self.group) {
            (Limit::RatioToNative(_), _) | (Limit::None, Group::Lmbench) => Terms::Ratio,
            (Limit::BeyondNative(_), _) => Terms::BeyondNative,
            (Limit::AtMost(_), _) | (Limit::None, Group::Micro) => Terms::Value,
        }
    }

    /// What is to reach, in these terms.
    pub fn to_reach(&self) -> Option<f64> {
        match self.limit {
            Limit::AtMost(most) | Limit::BeyondNative(most) | Limit::RatioToNative(most) => {
                Some(most)
            }
            Limit::None => None,
        }
    }
}
