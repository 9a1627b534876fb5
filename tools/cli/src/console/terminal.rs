//! The terminal in raw mode, and back again whatever happens.
//!
//! The former state is kept in one place that the guard, the panic hook and the signal
//! path all restore from: the first one to come wins, the others find nothing to do.

use std::io::{IsTerminal, stdin};
use std::sync::{Mutex, Once, PoisonError};

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

static FORMER: Mutex<Option<Termios>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Restores the terminal when dropped.
pub struct Raw(());

impl Raw {
    /// Puts the terminal at stdin into raw mode; `None` where there is no terminal.
    pub fn enter() -> Option<Self> {
        if !stdin().is_terminal() {
            return None;
        }
        let mut state = tcgetattr(stdin()).ok()?;
        *FORMER.lock().unwrap_or_else(PoisonError::into_inner) = Some(state.clone());
        HOOK.call_once(restore_on_panic);
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

/// Puts the terminal back to its former state, once.
pub fn restore() {
    let former = FORMER.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(former) = former {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &former);
    }
}

fn restore_on_panic() {
    let next = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        restore();
        next(info);
    }));
}
