//! Divides the screen.

use hanok_base::ui;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::app::{App, Lower, Mode};
use super::seen::Seen;
use super::{board, lower, overlay, table};
use crate::state::{State, Status};
use crate::text;

/// The least height at which the timeline is shown, and at which the lower part is.
const WITH_TIMELINE: u16 = 16;
const WITH_LOWER: u16 = 22;
/// The least size at which anything is.
const LEAST: (u16, u16) = (24, 5);

/// Draws the screen.
pub fn screen(frame: &mut Frame<'_>, app: &mut App, state: &State) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        frame.render_widget(Paragraph::new("too small"), area);
        return;
    }
    let view = app.view(state);
    let frozen = app.frozen.as_ref();
    let seen = Seen {
        app,
        state,
        view: &view,
        timeline: frozen.map_or(&state.timeline, |frozen| &frozen.timeline),
    };
    let cores = u16::try_from(view.cores.len()).unwrap_or(u16::MAX).max(1);
    let rows = cores.min((area.height / 4).max(1));
    let timeline = if area.height >= WITH_TIMELINE {
        rows + 2
    } else {
        0
    };
    let below = match (area.height >= WITH_LOWER, app.lower) {
        (false, Lower::Exits) => 0,
        (true, Lower::Exits) => 6,
        _ => (area.height / 3).max(4),
    };
    let [head, of_cores, of_timeline, of_table, of_lower, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(rows + 1),
        Constraint::Length(timeline),
        Constraint::Min(2),
        Constraint::Length(below),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(header(&seen, head.width)), head);
    board::cores(frame, of_cores, &seen);
    if timeline > 0 {
        board::timeline(frame, of_timeline, &seen);
    }
    table::table(frame, of_table, &seen);
    if below > 0 {
        lower::lower(frame, of_lower, &seen);
    }
    frame.render_widget(Paragraph::new(footer(&seen, foot)), foot);
    overlay::overlay(frame, area, &seen);
}

fn header<'a>(seen: &Seen<'a>, width: u16) -> Line<'a> {
    let theme = seen.app.theme;
    let (state, view) = (seen.state, seen.view);
    let mut spans = vec![
        Span::styled("hanok top ", theme.title()),
        Span::styled(state.title.clone(), theme.title()),
    ];
    let (word, style) = match &state.status {
        Status::Waiting => ("waiting", theme.warning()),
        Status::Live if seen.app.frozen.is_some() => ("held", theme.warning()),
        Status::Live => ("live", theme.good()),
        Status::Silent(_) => ("no answer", theme.alarm()),
        Status::Gone(_) => ("gone", theme.alarm()),
    };
    spans.push(Span::raw("  "));
    spans.push(Span::styled(word, style));
    if let Status::Silent(why) | Status::Gone(why) = &state.status {
        spans.push(Span::raw(format!("  {why}")));
        return Line::from(spans);
    }
    let late: u64 = view.vcpus.iter().map(|vcpu| vcpu.late_now).sum();
    if late > 0 {
        spans.push(Span::styled(format!("  {late} LATE"), theme.alarm()));
    }
    if state.garbled > 0 {
        let words = format!("  {} lines not understood", text::total(state.garbled));
        spans.push(Span::styled(words, theme.warning()));
    }
    if view.missing > 0 {
        let words = format!("  {} vCPUs not heard of", view.missing);
        spans.push(Span::styled(words, theme.warning()));
    }
    let mut facts = vec![
        format!("up {}", up(view.now)),
        format!(
            "{} on {}",
            ui::counted(view.vcpus.len() as u64, "vCPU"),
            ui::counted(view.cores.len() as u64, "core")
        ),
    ];
    let all = view.cores.len().max(1) as f64;
    let sum = |of: fn(&crate::view::CoreView) -> f64| view.cores.iter().map(of).sum::<f64>();
    facts.push(format!(
        "used {} %",
        text::percent(sum(|core| core.used) / all)
    ));
    facts.push(format!(
        "promised {} %",
        text::percent(sum(|core| core.promised) / all)
    ));
    facts.push(format!(
        "{} switches/s",
        text::number(sum(|core| core.switches))
    ));
    let exits: f64 = view.vcpus.iter().map(|vcpu| vcpu.exit_rate).sum();
    facts.push(format!("{} exits/s", text::number(exits)));
    let mut line = Line::from(spans);
    // A number that is cut off would be another one.
    for fact in facts {
        let fact = Span::raw(format!("  {fact}"));
        if line.width() + fact.width() > usize::from(width) {
            break;
        }
        line.push_span(fact);
    }
    line
}

/// The board's time in whole seconds.
fn up(nanos: u64) -> String {
    match nanos / 1_000_000_000 {
        0 => "0s".to_owned(),
        seconds => text::time(seconds * 1_000_000_000),
    }
}

fn footer<'a>(seen: &Seen<'a>, area: Rect) -> Line<'a> {
    let theme = seen.app.theme;
    if let Some((words, good)) = &seen.app.message {
        let style = if *good { theme.good() } else { theme.warning() };
        return Line::styled(words.clone(), style.add_modifier(Modifier::BOLD));
    }
    let keys: &[(&str, &str)] = match &seen.app.mode {
        Mode::Console(_) => &[("Ctrl-]", "leaves the console; all other keys go to the VM")],
        Mode::Edit(_) => &[
            ("Enter", "what would follow"),
            ("Tab", "next field"),
            ("Esc", "leave"),
        ],
        Mode::Preview(..) => &[("Esc", "back")],
        Mode::Help => &[("any key", "back")],
        Mode::Look => &[
            ("h", "help"),
            ("q", "quit"),
            ("e", "change"),
            ("< >", "sort"),
            ("r", "reverse"),
            ("+ -", "time"),
            ("Tab", "exits/log/console"),
            ("c", "type at console"),
            ("space", "hold"),
        ],
    };
    let mut spans = Vec::new();
    let mut width = 0;
    for (key, what) in keys {
        width += key.len() + what.len() + 3;
        if width > usize::from(area.width) {
            break;
        }
        spans.push(Span::styled(*key, theme.title()));
        spans.push(Span::raw(format!(" {what}  ")));
    }
    Line::from(spans)
}
