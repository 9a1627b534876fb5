//! The table of vCPUs.

use std::cmp::Ordering;

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Modifier;
use ratatui::text::Span;
use ratatui::widgets::{Cell, Row, Table, TableState};

use super::draw::Seen;
use super::theme::mark;
use crate::change::Promised;
use crate::protocol::{Doing, VcpuId};
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
    const fn is_ascending(self) -> bool {
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

    fn content(self, vcpu: &VcpuView) -> String {
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

    const fn is_text(self) -> bool {
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
fn fitting(width: u16) -> Vec<(Column, &'static str, u16)> {
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

/// Draws the table.
pub fn table(frame: &mut Frame<'_>, area: Rect, seen: &Seen<'_>) {
    let (app, view) = (seen.app, seen.view);
    let theme = app.theme;
    let columns = fitting(area.width);
    let order = order(view, app.sort, app.reverse);
    let title = |(column, title, width): &(Column, &'static str, u16)| {
        let sign = match (*column == app.sort, column.is_ascending() == app.reverse) {
            (false, _) => "",
            (true, true) => "v",
            (true, false) => "^",
        };
        let width = usize::from(*width);
        let text = if column.is_text() {
            format!("{:<width$}", format!("{title}{sign}"))
        } else {
            format!("{:>width$}", format!("{title}{sign}"))
        };
        Cell::from(text)
    };
    let header = [Cell::from(" ")]
        .into_iter()
        .chain(columns.iter().map(title));
    let header = Row::new(header).style(theme.title().add_modifier(Modifier::UNDERLINED));
    let rows = order.iter().filter_map(|id| view.vcpu(*id)).map(|vcpu| {
        let place = seen.place(vcpu.id);
        let key = Cell::from(Span::styled(mark(place).to_string(), theme.key(place)));
        let cells = columns
            .iter()
            .map(|(column, _, width)| cell(*column, vcpu, *width, seen));
        let row = Row::new([key].into_iter().chain(cells));
        match vcpu.doing {
            Doing::Off | Doing::Paused => row.style(theme.dim()),
            _ => row,
        }
    });
    let widths = [Constraint::Length(1)]
        .into_iter()
        .chain(columns.iter().map(|column| Constraint::Length(column.2)));
    let mut chosen = TableState::default();
    chosen.select(order.iter().position(|id| Some(*id) == app.chosen));
    let table = Table::new(rows, widths)
        .header(header)
        .column_spacing(1)
        .row_highlight_style(theme.chosen());
    frame.render_stateful_widget(table, area, &mut chosen);
}

fn cell<'a>(column: Column, vcpu: &VcpuView, width: u16, seen: &Seen<'_>) -> Cell<'a> {
    let theme = seen.app.theme;
    let width = usize::from(width);
    let content = column.content(vcpu);
    let text = if column.is_text() {
        content
    } else {
        format!("{content:>width$}")
    };
    let short = vcpu
        .promised
        .is_some_and(|promised| vcpu.used > promised + 0.01);
    let style = match column {
        Column::Late if vcpu.late_now > 0 => theme.alarm(),
        Column::Late if vcpu.late > 0 => theme.warning(),
        Column::Extra if vcpu.extra > 0.001 => theme.extra(),
        Column::Used if short => theme.extra(),
        Column::Throttled if vcpu.throttled_rate > 0.5 => theme.warning(),
        _ => return Cell::from(text),
    };
    Cell::from(Span::styled(text, style))
}
