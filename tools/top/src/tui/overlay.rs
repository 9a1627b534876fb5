//! What lies over the screen: help, the fields of a change, and what would follow from it.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Wrap};

use super::app::{Mode, Reckoned};
use super::edit::Edit;
use super::seen::Seen;
use super::theme::Theme;
use crate::text;
use crate::what_if::{Answer, Completion, Preview};

/// The most tasks, and the most reasons, that a window lists.
const MOST_TASKS: usize = 12;
const MOST_REASONS: usize = 4;

const HELP: &str = "\
up, down, PgUp, PgDn   choose a vCPU
e or Enter             change what it is promised: see first what would follow
< >                    sort by the column to the left or right; r reverses
+ -                    show less or more time
Tab                    exits of the chosen vCPU, the log, its console; x and l: at once
c                      type at the console of the chosen VM; Ctrl-] leaves it
space                  hold the screen, and go on
q or Ctrl-C            leave; the board runs on

late     promises that were not kept: budget not given within its deadline
beyond%  CPU time beyond the budget, that others left or nobody was promised
throt/s  how often the budget was used up while there was work
stolen%  the time for which it had work and did not run";

/// Draws what the mode has.
pub fn overlay(frame: &mut Frame<'_>, area: Rect, seen: &Seen<'_>) {
    let theme = seen.app.theme;
    match &seen.app.mode {
        Mode::Look | Mode::Console(_) => {}
        Mode::Help => {
            let lines = HELP.lines().map(Line::raw).collect();
            window(frame, area, ("hanok top", 82), lines);
        }
        Mode::Edit(edit) => {
            let title = format!("change {}", edit.name);
            window(frame, area, (&title, 60), fields(edit, theme));
        }
        Mode::Preview(edit, reckoned) => match reckoned {
            Reckoned::Awaited(..) => {
                let title = format!("change {}", edit.name);
                let lines = vec![Line::raw("reckoning ...")];
                window(frame, area, (&title, 60), lines);
            }
            Reckoned::Done(preview) => {
                let title = format!("what would follow for {}", preview.name);
                let mut lines = followed(preview, theme, [MOST_REASONS, MOST_TASKS]);
                let keys = match preview.answer {
                    Answer::NotShown => "!  apply it all the same    Esc  back",
                    Answer::Kept | Answer::NotAnalysed => "Enter  apply    Esc  back",
                };
                lines.push(Line::raw(""));
                lines.push(Line::styled(keys, theme.title()));
                window(frame, area, (&title, 92), lines);
            }
        },
    }
}

/// A window in the middle, as high as it must be and as there is room.
fn window(frame: &mut Frame<'_>, area: Rect, (title, width): (&str, u16), lines: Vec<Line<'_>>) {
    let width = width.min(area.width);
    let inside = usize::from(width.saturating_sub(2)).max(1);
    let rows = |line: &Line<'_>| match line.width() {
        short if short <= inside => 1,
        // Words do not fill their lines.
        long => long.div_ceil(inside.saturating_sub(10).max(1)),
    };
    let needed: usize = lines.iter().map(rows).sum();
    let paragraph = Paragraph::new(lines).wrap(Wrap { trim: false });
    let block = Block::bordered().title(format!(" {title} "));
    let height = u16::try_from(needed).unwrap_or(u16::MAX).saturating_add(2);
    let height = height.min(area.height);
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    frame.render_widget(paragraph.block(block), place);
}

fn fields<'a>(edit: &Edit, theme: Theme) -> Vec<Line<'a>> {
    let mut lines: Vec<_> = edit
        .fields
        .iter()
        .enumerate()
        .map(|(place, field)| {
            let here = place == edit.focus;
            let style = if here { theme.chosen() } else { Style::new() };
            let sign = if here { ">" } else { " " };
            Line::from(vec![
                Span::raw(format!("{sign} {:<10}", field.name)),
                Span::styled(format!(" {:<20} ", field.content), style),
            ])
        })
        .collect();
    lines.push(Line::raw(""));
    match &edit.wrong {
        Some(wrong) => lines.push(Line::styled(wrong.clone(), theme.alarm())),
        None => lines.push(Line::styled(
            "Times have ns, us, ms or s. Enter shows what would follow; nothing is applied yet.",
            theme.dim(),
        )),
    }
    lines
}

/// What would follow, as text: with all reasons, and all tasks.
pub fn text_of(preview: &Preview) -> String {
    let lines = followed(preview, Theme::plain(), [usize::MAX; 2]);
    let lines = lines.iter().map(|line| line.to_string() + "\n");
    lines.collect()
}

/// What would follow, with at most so many reasons and tasks.
fn followed<'a>(
    preview: &Preview,
    theme: Theme,
    [most_reasons, most_tasks]: [usize; 2],
) -> Vec<Line<'a>> {
    let mut lines = vec![Line::raw(format!("{}  ->  {}", preview.from, preview.to))];
    let (words, style) = match preview.answer {
        Answer::Kept => (
            "All deadlines are kept; the certificate was checked.",
            theme.good(),
        ),
        Answer::NotShown => ("NO: not every deadline is shown to be kept.", theme.alarm()),
        Answer::NotAnalysed => ("Nothing here is analysed.", theme.warning()),
    };
    lines.push(Line::styled(words, style));
    lines.extend(
        preview
            .reasons
            .iter()
            .take(most_reasons)
            .map(|why| Line::raw(format!("  {why}"))),
    );
    if !preview.help.is_empty() {
        let help = preview.help.iter().take(most_reasons).cloned();
        let help = help.collect::<Vec<_>>().join("; ");
        lines.push(Line::raw(format!("  would help: {help}")));
    }
    lines.extend(
        preview
            .notes
            .iter()
            .map(|note| Line::styled(note.clone(), theme.warning())),
    );
    lines.push(Line::raw(""));
    for row in &preview.shares {
        lines.push(Line::raw(format!(
            "{:<34} {:>6} %  ->  {:>6} %",
            row.name,
            text::percent(row.before),
            text::percent(row.after)
        )));
    }
    if !preview.tasks.is_empty() {
        lines.push(Line::raw(""));
        let title = "task         of           deadline   response now/then      slack now/then";
        lines.push(Line::styled(title, theme.title()));
    }
    for row in preview.tasks.iter().take(most_tasks) {
        let of = |side: Option<Completion>, of: fn(Completion) -> u64| {
            side.map_or("not shown".to_owned(), |side| text::time(of(side)))
        };
        let response = [row.before, row.after].map(|side| of(side, |side| side.response));
        let slack = [row.before, row.after].map(|side| of(side, |side| side.slack));
        let style = match (row.before == row.after, row.after) {
            (true, _) => Style::new(),
            (false, None) => theme.alarm(),
            (false, Some(_)) => theme.warning(),
        };
        lines.push(Line::styled(
            format!(
                "{:<12} {:<12} {:<9} {:>10} {:>10} {:>10} {:>10}",
                row.name,
                row.of,
                text::time(row.deadline),
                response[0],
                response[1],
                slack[0],
                slack[1]
            ),
            style,
        ));
    }
    if preview.tasks.len() > most_tasks {
        let more = preview.tasks.len() - most_tasks;
        lines.push(Line::styled(
            format!("... and {more} tasks more"),
            theme.dim(),
        ));
    }
    lines
}
