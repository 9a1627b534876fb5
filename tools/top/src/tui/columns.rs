//! The columns of the table of vCPUs: what they show, in which order, and which of them fit.

use std::cmp::Ordering;

use crate::change::Promised;
use crate::protocol::VcpuId;
use crate::text;
use crate::view::{VcpuView, View};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Name,
    Core,
    State,
    Kind,
    Interface,
    Promised,
    Used,
    Extra,
    Left,
    Late,
    Throttled,
    Switches,
    Exits,
    Stolen,
}

/// All columns as they stand, with their titles, widths, and how soon they go where there is no room:
/// the higher, the sooner.
const ALL: [(Column, &str, u16, u8); 14] = [
    (Column::Name, "vCPU", 14, 0),
    (Column::Core, "core", 4, 4),
    (Column::State, "state", 6, 6),
    (Column::Kind, "kind", 14, 9),
    (Column::Interface, "promised", 27, 2),
    (Column::Promised, "prom%", 5, 3),
    (Column::Used, "used%", 5, 0),
    (Column::Extra, "beyond%", 7, 5),
    (Column::Left, "left", 8, 13),
    (Column::Late, "late", 6, 1),
    (Column::Throttled, "throt/s", 7, 7),
    (Column::Switches, "switch/s", 8, 8),
    (Column::Exits, "exits/s", 7, 10),
    (Column::Stolen, "stolen%", 7, 11),
];

impl Column {
    /// The column to the right, or the first.
    pub fn next(self) -> Self {
        let at = ALL.iter().position(|column| column.0 == self).unwrap_or(0);
        ALL[(at + 1) % ALL.len()].0
    }

    /// The column to the left, or the last.
    pub fn previous(self) -> Self {
        let at = ALL.iter().position(|column| column.0 == self).unwrap_or(0);
        ALL[(at + ALL.len() - 1) % ALL.len()].0
    }

    /// Whether small values come first: names and places, unlike what is measured.
    pub const fn is_ascending(self) -> bool {
        matches!(
            self,
            Self::Name | Self::Core | Self::State | Self::Kind | Self::Interface
        )
    }

    fn compare(self, a: &VcpuView, b: &VcpuView) -> Ordering {
        let of = |share: Option<f64>| share.unwrap_or(-1.0);
        match self {
            Self::Name => a.id.cmp(&b.id),
            Self::Core => a.cpu.cmp(&b.cpu),
            Self::State => a.doing.word().cmp(b.doing.word()),
            Self::Kind => a.kind.word().cmp(b.kind.word()),
            Self::Interface => (a.period, a.budget).cmp(&(b.period, b.budget)),
            Self::Promised => of(a.promised).total_cmp(&of(b.promised)),
            Self::Used => a.used.total_cmp(&b.used),
            Self::Extra => a.extra.total_cmp(&b.extra),
            Self::Left => a.left.cmp(&b.left),
            Self::Late => (a.late_now, a.late).cmp(&(b.late_now, b.late)),
            Self::Throttled => a.throttled_rate.total_cmp(&b.throttled_rate),
            Self::Switches => a.switches.total_cmp(&b.switches),
            Self::Exits => a.exit_rate.total_cmp(&b.exit_rate),
            Self::Stolen => a.stolen.total_cmp(&b.stolen),
        }
    }

    /// What stands in it.
    pub fn content(self, vcpu: &VcpuView) -> String {
        match self {
            Self::Name => vcpu.name.clone(),
            Self::Core => vcpu.cpu.to_string(),
            Self::State => vcpu.doing.word().to_owned(),
            Self::Kind => vcpu.kind.word().to_owned(),
            Self::Interface => Promised::of(vcpu).map_or("-".to_owned(), |now| now.words()),
            Self::Promised => vcpu.promised.map_or("-".to_owned(), text::percent),
            Self::Used => text::percent(vcpu.used),
            Self::Extra => text::percent(vcpu.extra),
            Self::Left if vcpu.kind.is_server() => text::time(vcpu.left),
            Self::Left => "-".to_owned(),
            Self::Late => match vcpu.late_now {
                0 => text::total(vcpu.late),
                now => format!("{}+{now}", text::total(vcpu.late)),
            },
            Self::Throttled => text::number(vcpu.throttled_rate),
            Self::Switches => text::number(vcpu.switches),
            Self::Exits => text::number(vcpu.exit_rate),
            Self::Stolen => text::percent(vcpu.stolen),
        }
    }

    /// Whether it has words, which begin at the left.
    pub const fn is_text(self) -> bool {
        matches!(
            self,
            Self::Name | Self::State | Self::Kind | Self::Interface
        )
    }
}

/// The vCPUs in the order of a column. Equal ones stay in the order of their numbers.
pub fn order(view: &View, column: Column, reverse: bool) -> Vec<VcpuId> {
    let mut all: Vec<_> = view.vcpus.iter().collect();
    let falls = column.is_ascending() == reverse;
    all.sort_by(|a, b| {
        let order = column.compare(a, b);
        if falls { order.reverse() } else { order }
    });
    all.into_iter().map(|vcpu| vcpu.id).collect()
}

/// The columns that fit.
pub fn fitting(width: u16) -> Vec<(Column, &'static str, u16)> {
    let mut columns: Vec<_> = ALL.to_vec();
    let needs = |columns: &[(Column, &str, u16, u8)]| {
        let widths = columns.iter().map(|column| column.2 + 1);
        widths.sum::<u16>() + 2
    };
    while needs(&columns) > width && columns.len() > 2 {
        let last = columns
            .iter()
            .enumerate()
            .max_by_key(|(_, column)| column.3);
        let Some((place, _)) = last else { break };
        columns.remove(place);
    }
    let columns = columns.into_iter();
    columns
        .map(|(column, title, width, _)| (column, title, width))
        .collect()
}
