//! The view in a terminal.
//!
//! [`App`] is what a person has chosen, and changes by keys; [`draw`] makes a screen of it and of what is
//! known of the board. Neither does input or output, so that tests have both without a terminal.

mod app;
mod board;
mod bytes;
mod columns;
mod draw;
mod edit;
mod lower;
mod overlay;
mod seen;
mod table;
#[cfg(test)]
mod tests;
mod theme;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use hanok_base::signals;
use hanok_system::Schedule;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::{Terminal, crossterm};

use crate::state::{Shared, Status};
use crate::what_if::Preview;
pub use app::App;
pub use theme::Theme;

/// How long a key is awaited before the screen is looked at again.
const LOOK: Duration = Duration::from_millis(100);

/// Shows the board until the person leaves; the answer says why it ended, if not by that.
pub fn run(shared: &Shared, description: Option<Arc<Schedule>>) -> Result<Option<String>> {
    signals::at_end(restore);
    let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
    let mut app = App::new(Theme::of_terminal(), description);
    let ended = serve(&mut terminal, shared, &mut app);
    restore();
    ended
}

fn restore() {
    let _ = ratatui::try_restore();
}

fn serve(
    terminal: &mut ratatui::DefaultTerminal,
    shared: &Shared,
    app: &mut App,
) -> Result<Option<String>> {
    let mut seen = None;
    loop {
        let generation = shared.generation();
        let moved = app.tick(shared);
        if seen != Some(generation) || moved {
            terminal.draw(|frame| draw::screen(frame, app, &shared.lock()))?;
            seen = Some(generation);
        }
        if let (Status::Gone(why), false) = (&shared.lock().status, app.stays()) {
            return Ok(Some(why.clone()));
        }
        if !event::poll(LOOK)? {
            continue;
        }
        // All keys that wait are handled before the screen is made anew: a paste is one.
        while event::poll(Duration::ZERO)? {
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && app.key(key, shared).is_break()
            {
                return Ok(None);
            }
        }
        seen = None;
    }
}

/// One screen as text, for those who have no terminal.
pub fn once(shared: &Shared, width: u16, height: u16) -> Result<String> {
    let mut app = App::new(Theme::plain(), None);
    app.tick(shared);
    let mut terminal = Terminal::new(TestBackend::new(width, height))?;
    terminal.draw(|frame| draw::screen(frame, &mut app, &shared.lock()))?;
    Ok(without_gaps(&text_of(terminal.backend().buffer())))
}

/// What would follow from a change, as text.
pub fn preview(preview: &Preview) -> String {
    overlay::text_of(preview)
}

/// A screen's text with one line in place of several that are empty.
fn without_gaps(text: &str) -> String {
    let mut lines: Vec<_> = text.lines().collect();
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    lines.join("\n")
}

/// The characters of a screen, without what is empty at the ends of its lines.
fn text_of(buffer: &ratatui::buffer::Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let rows = buffer.content.chunks(width).map(|row| {
        let row: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
        row.trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

/// The kind of key events that the application gets.
pub type Key = crossterm::event::KeyEvent;
