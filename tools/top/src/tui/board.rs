//! The cores: what each is used for, and who ran on it when.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::seen::Seen;
use super::theme::{Theme, mark};
use crate::protocol::{Policy, Slack};
use crate::text;
use crate::timeline::Cell;
use crate::view::CoreView;

/// The width of what stands before the timeline.
const BEFORE: usize = 8;

/// Draws a bar for each core.
pub fn cores(frame: &mut Frame<'_>, area: Rect, seen: &Seen<'_>) {
    let theme = seen.app.theme;
    let width = usize::from(area.width);
    let legend = if width >= 70 {
        "cores    █ used by promise  ▒ beyond budgets  | promised"
    } else {
        "cores  █ promise ▒ beyond | promised"
    };
    let mut lines = vec![Line::styled(legend, theme.title())];
    let room = usize::from(area.height).saturating_sub(1);
    let all = &seen.view.cores;
    let shown = if all.len() > room {
        room.saturating_sub(1)
    } else {
        room
    };
    lines.extend(
        all.iter()
            .take(shown)
            .map(|core| bar_line(core, width, theme)),
    );
    if all.len() > shown {
        let words = format!("... and {} cores more", all.len() - shown);
        lines.push(Line::styled(words, theme.dim()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn bar_line<'a>(core: &CoreView, width: usize, theme: Theme) -> Line<'a> {
    let name = format!("core {:<3}", core.cpu);
    if !core.answered {
        let words = Span::styled("does not answer", theme.alarm());
        return Line::from(vec![Span::raw(name), words]);
    }
    let policy = match core.policy {
        Some(Policy::Turns) => "turns",
        Some(Policy::Deadline) => "deadline",
        Some(Policy::Priority) => "priority",
        None => "",
    };
    let slack = match core.slack {
        Slack::Idle => "idle",
        Slack::Share => "share",
        Slack::Reclaim => "reclaim",
        Slack::None => "-",
    };
    let mut after = format!(" {:>5} %", text::percent(core.used));
    if width >= 60 {
        after += &format!("  promised {:>5}", text::percent(core.promised));
    }
    if width >= 80 {
        after += &format!("  beyond {:>5}", text::percent(core.extra));
    }
    if width >= 110 {
        let cost = text::time(core.switch_cost);
        let switches = text::number(core.switches);
        after += &format!("  {switches:>5} switches/s, {cost:>7} each");
    }
    if width >= 130 {
        after += &format!("  {:<16}", format!("{policy}/{slack}"));
    }
    let room = width
        .saturating_sub(name.len() + after.len() + 2)
        .clamp(4, 60);
    let mut spans = vec![Span::raw(name), Span::raw("[")];
    spans.extend(bar(core, room, theme));
    spans.push(Span::raw("]"));
    let style = if core.promised > 1.0 {
        theme.alarm()
    } else {
        theme.dim()
    };
    let style = if core.used > 0.0 {
        ratatui::style::Style::new()
    } else {
        style
    };
    spans.push(Span::styled(after, style));
    Line::from(spans)
}

fn bar<'a>(core: &CoreView, room: usize, theme: Theme) -> Vec<Span<'a>> {
    let cells = |share: f64| (share.clamp(0.0, 1.0) * room as f64).round() as usize;
    let (used, promised) = (cells(core.used), cells(core.promised));
    let own = cells(core.used - core.extra).min(used);
    let of = |place: usize| match place {
        place if place + 1 == promised && place >= used => ("|", theme.warning()),
        place if place < own => ("█", theme.good()),
        place if place < used => ("▒", theme.extra()),
        _ => (" ", theme.dim()),
    };
    (0..room)
        .map(of)
        .map(|(symbol, style)| Span::styled(symbol, style))
        .collect()
}

/// Draws who ran when.
pub fn timeline(frame: &mut Frame<'_>, area: Rect, seen: &Seen<'_>) {
    let theme = seen.app.theme;
    let room = usize::from(area.width).saturating_sub(BEFORE);
    let window = seen.app.window();
    let frequency = seen.view.frequency.max(1);
    let ticks = u128::from(window) * u128::from(frequency) / 1_000_000_000;
    let ticks = u64::try_from(ticks).unwrap_or(u64::MAX).max(1);
    // Up to when all cores are known, so that all are seen at the same time.
    let cores = seen.view.cores.iter().filter(|core| core.answered);
    let ends = cores.filter_map(|core| seen.timeline.end(core.cpu));
    let end = ends.min().unwrap_or(0);
    let title = format!(
        "the last {}, {} a column; . nobody, blank: not told",
        text::time(window),
        text::time(window / room.max(1) as u64)
    );
    let mut lines = vec![Line::styled(title, theme.title())];
    let rows = usize::from(area.height).saturating_sub(2);
    for core in seen.view.cores.iter().take(rows) {
        let mut spans = vec![Span::raw(format!("core {:<3}", core.cpu))];
        let from = end.saturating_sub(ticks);
        let cells = seen.timeline.cells(core.cpu, from, end, room);
        spans.extend(cells.into_iter().map(|cell| cell_span(cell, seen)));
        lines.push(Line::from(spans));
    }
    lines.push(axis(room, window, theme));
    frame.render_widget(Paragraph::new(lines), area);
}

fn cell_span<'a>(cell: Cell, seen: &Seen<'_>) -> Span<'a> {
    let theme = seen.app.theme;
    match cell {
        Cell::Unknown => Span::raw(" "),
        Cell::Idle => Span::styled(".", theme.dim()),
        Cell::Ran(id) => {
            let place = seen.place(id);
            let style = if Some(id) == seen.app.chosen {
                theme.vcpu(place).patch(theme.chosen())
            } else {
                theme.vcpu(place)
            };
            Span::styled(mark(place).to_string(), style)
        }
    }
}

fn axis<'a>(room: usize, window: u64, theme: Theme) -> Line<'a> {
    let begin = format!("-{}", text::time(window));
    let middle = format!("-{}", text::time(window / 2));
    let half = (room / 2).saturating_sub(begin.len());
    let rest = room.saturating_sub(begin.len() + half + middle.len() + 3);
    let line = format!("{:BEFORE$}{begin}{:half$}{middle}{:rest$}now", "", "", "");
    Line::styled(line, theme.dim())
}
