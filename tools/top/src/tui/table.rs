//! The table of vCPUs.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::style::Modifier;
use ratatui::text::Span;
use ratatui::widgets::{Cell, Row, Table, TableState};

use super::columns::{Column, fitting, order};
use super::seen::Seen;
use super::theme::mark;
use crate::protocol::Doing;
use crate::view::VcpuView;

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
