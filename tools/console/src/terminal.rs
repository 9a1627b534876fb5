//! Puts the terminal into raw mode, and restores it whatever happens.
//!
//! The former state is kept in one place, from which the guard, the panic hook and the signal path
//! restore it: the first one does, and the others find nothing to do.
//!
//! A terminal answers in order: once it has answered a question of ours, no answer to a guest's is
//! still to come.

use std::io::{IsTerminal, stdin, stdout};
use std::sync::{Mutex, Once, PoisonError};

use std::time::Duration;

use hanok_base::signals;
use rustix::termios::{
    OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcgetwinsize, tcsetattr,
};

/// DSR, the report of the state (ECMA-48), which every terminal answers.
pub const ARE_YOU_THERE: &[u8] = b"\x1b[5n";
const HERE: &[u8] = b"\x1b[0n";
/// The longest time to wait for the answer over a slow line.
pub const ANSWER: Duration = Duration::from_millis(500);

static FORMER: Mutex<Option<Termios>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Restores the terminal when it is dropped.
pub struct Raw(());

impl Raw {
    /// Puts the terminal at stdin into raw mode; `None` where stdin is no terminal.
    pub fn enter() -> Option<Self> {
        if !stdin().is_terminal() {
            return None;
        }
        let mut state = tcgetattr(stdin()).ok()?;
        *FORMER.lock().unwrap_or_else(PoisonError::into_inner) = Some(state.clone());
        HOOK.call_once(|| {
            restore_on_panic();
            signals::at_end(restore);
        });
        state.make_raw();
        let guard = Self(());
        tcsetattr(stdin(), OptionalActions::Now, &state).ok()?;
        Some(guard)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal to its former state, once.
pub fn restore() {
    let former = FORMER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(former) = former {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &former);
    }
}

/// Rows and columns of the terminal; 24 and 80 where they are not known.
pub fn size() -> (u16, u16) {
    let size = tcgetwinsize(stdout()).ok();
    let size = size.map(|size| (size.ws_row, size.ws_col));
    size.filter(|(rows, columns)| *rows > 0 && *columns > 0)
        .unwrap_or((24, 80))
}

/// The number of the terminal's columns.
pub fn columns() -> usize {
    usize::from(size().1)
}

/// The report of the text area's size, by which a terminal answers CSI 18 t (xterm, "Control
/// Sequences").
pub fn size_report() -> Vec<u8> {
    let (rows, columns) = size();
    format!("\x1b[8;{rows};{columns}t").into_bytes()
}

/// Discards input until the answer to [`ARE_YOU_THERE`] comes, or nothing more.
pub fn await_answer(mut next: impl FnMut() -> Option<Vec<u8>>) {
    let mut heard = Vec::new();
    while !heard.windows(HERE.len()).any(|window| window == HERE) {
        let Some(bytes) = next() else { return };
        // An answer may be split, so that its beginning is kept.
        let surplus = heard.len().saturating_sub(HERE.len());
        heard.drain(..surplus);
        heard.extend(bytes);
    }
}

/// Discards what was typed and not read yet.
pub fn forget_input() {
    let _ = tcflush(stdin(), QueueSelector::IFlush);
}

fn restore_on_panic() {
    let next = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        next(info);
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_before_the_answer_is_taken_and_nothing_after() {
        let mut pieces = ["\x1b[12;40R\x1b[", "0", "n", "typed"].into_iter();
        await_answer(|| pieces.next().map(|piece| piece.as_bytes().to_vec()));
        assert_eq!(pieces.next(), Some("typed"));
        await_answer(|| None);
    }
}
