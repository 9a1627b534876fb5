//! What a person has chosen to see, and is about to change.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use hanok_system::Schedule;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};

use super::columns::{self, Column};
use super::edit::Edit;
use super::{Key, Theme, bytes};
use crate::change::Change;
use crate::protocol::VcpuId;
use crate::report::Report;
use crate::state::{Shared, State, Status};
use crate::timeline::Timeline;
use crate::view::View;
use crate::what_if::{self, Answer, Preview};

/// How much time the timeline shows, in nanoseconds.
const WINDOWS: [u64; 9] = [
    5_000_000,
    20_000_000,
    50_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// What is below the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lower {
    /// The exits of the chosen vCPU.
    Exits,
    /// What all VMs and the hypervisor say.
    Log,
    /// The console of the chosen vCPU's VM.
    Console,
}

/// What keys mean.
#[derive(Debug)]
pub enum Mode {
    /// Choosing.
    Look,
    /// The keys are shown.
    Help,
    /// Typing another promise.
    Edit(Edit),
    /// Looking at what would follow.
    Preview(Box<Edit>, Reckoned),
    /// Typing at a VM's console.
    Console(u32),
}

/// What would follow, once it is known.
#[derive(Debug)]
pub enum Reckoned {
    /// The analysis is at it.
    Awaited(Receiver<Result<Preview, String>>),
    /// It is done.
    Done(Box<Preview>),
}

/// What is shown, while nothing new is.
pub struct Frozen {
    pub(super) view: Arc<View>,
    pub(super) timeline: Timeline,
}

/// What a person has chosen.
pub struct App {
    pub(super) theme: Theme,
    pub(super) mode: Mode,
    pub(super) sort: Column,
    pub(super) reverse: bool,
    pub(super) lower: Lower,
    pub(super) chosen: Option<VcpuId>,
    pub(super) frozen: Option<Frozen>,
    /// What came of the last change, and whether it is good.
    pub(super) message: Option<(String, bool)>,
    window: usize,
    description: Option<Arc<Schedule>>,
    /// The change whose outcome is awaited, with its vCPU's name.
    pending: Option<(u64, String)>,
}

impl App {
    /// What is seen at first.
    pub fn new(theme: Theme, description: Option<Arc<Schedule>>) -> Self {
        Self {
            theme,
            mode: Mode::Look,
            sort: Column::Name,
            reverse: false,
            lower: Lower::Exits,
            chosen: None,
            frozen: None,
            message: None,
            // A report has 64 turns of a core, which are soon over.
            window: 2,
            description,
            pending: None,
        }
    }

    /// How much time the timeline shows, in nanoseconds.
    pub(super) fn window(&self) -> u64 {
        WINDOWS[self.window]
    }

    /// Whether the view stays although the board has gone: a person looks at what there was.
    pub(super) fn stays(&self) -> bool {
        self.frozen.is_some()
    }

    /// What is shown of the board.
    pub(super) fn view(&self, state: &State) -> Arc<View> {
        let frozen = self.frozen.as_ref();
        Arc::clone(frozen.map_or(&state.view, |frozen| &frozen.view))
    }

    /// The vCPUs in the order of the table.
    pub(super) fn order(&self, view: &View) -> Vec<VcpuId> {
        columns::order(view, self.sort, self.reverse)
    }

    /// Takes what has come: the answer is whether the screen has changed.
    pub fn tick(&mut self, shared: &Shared) -> bool {
        let mut moved = self.reckoned();
        let state = shared.lock();
        if let Some((number, name)) = &self.pending
            && let Some(outcome) = state.outcome(*number)
        {
            let words = format!("{name}: {}", outcome.words);
            self.message = Some((words, outcome.changed()));
            self.pending = None;
            moved = true;
        }
        let view = self.view(&state);
        if self.chosen.is_none_or(|id| view.vcpu(id).is_none()) {
            let first = self.order(&view).first().copied();
            moved |= first != self.chosen;
            self.chosen = first;
        }
        moved
    }

    fn reckoned(&mut self) -> bool {
        let Mode::Preview(edit, reckoned) = &mut self.mode else {
            return false;
        };
        let Reckoned::Awaited(answer) = reckoned else {
            return false;
        };
        match answer.try_recv() {
            Ok(Ok(preview)) => *reckoned = Reckoned::Done(Box::new(preview)),
            Ok(Err(wrong)) => {
                let mut edit = edit.clone();
                edit.wrong = Some(wrong);
                self.mode = Mode::Edit(*edit);
            }
            Err(TryRecvError::Disconnected) => self.mode = Mode::Look,
            Err(TryRecvError::Empty) => return false,
        }
        true
    }

    /// Handles a key; the answer is whether the person leaves.
    pub fn key(&mut self, key: Key, shared: &Shared) -> ControlFlow<()> {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if let Mode::Console(vm) = self.mode {
            // Ctrl-] is also what terminals send for Ctrl-5.
            if control && matches!(key.code, KeyCode::Char(']' | '5')) {
                self.mode = Mode::Look;
            } else {
                shared.keys(vm, &bytes::of(key));
            }
            return ControlFlow::Continue(());
        }
        if control && matches!(key.code, KeyCode::Char('c')) {
            return ControlFlow::Break(());
        }
        match self.mode {
            Mode::Help => self.mode = Mode::Look,
            Mode::Edit(_) => self.key_of_edit(key, shared),
            Mode::Preview(..) => self.key_of_preview(key, shared),
            Mode::Look | Mode::Console(_) => return self.key_of_look(key, shared),
        }
        ControlFlow::Continue(())
    }

    fn key_of_look(&mut self, key: Key, shared: &Shared) -> ControlFlow<()> {
        let state = shared.lock();
        let view = self.view(&state);
        self.message = None;
        match key.code {
            KeyCode::Char('q') => return ControlFlow::Break(()),
            KeyCode::Char('h' | '?') | KeyCode::F(1) => self.mode = Mode::Help,
            KeyCode::Up | KeyCode::Char('k') => self.choose(&view, -1),
            KeyCode::Down | KeyCode::Char('j') => self.choose(&view, 1),
            KeyCode::PageUp => self.choose(&view, -10),
            KeyCode::PageDown => self.choose(&view, 10),
            KeyCode::Home => self.choose(&view, isize::MIN),
            KeyCode::End => self.choose(&view, isize::MAX),
            KeyCode::Char('>' | 's') | KeyCode::Right => self.sort = self.sort.next(),
            KeyCode::Char('<') | KeyCode::Left => self.sort = self.sort.previous(),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char('+' | '=') => self.window = self.window.saturating_sub(1),
            KeyCode::Char('-') => self.window = (self.window + 1).min(WINDOWS.len() - 1),
            KeyCode::Tab => self.lower = other(self.lower),
            KeyCode::Char('l') => self.lower = Lower::Log,
            KeyCode::Char('x') => self.lower = Lower::Exits,
            KeyCode::Char('c') => {
                if let Some(id) = self.chosen {
                    self.lower = Lower::Console;
                    self.mode = Mode::Console(id.vm);
                }
            }
            KeyCode::Char(' ') => self.freeze(&state),
            KeyCode::Char('e') | KeyCode::Enter => self.begin_edit(&state),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn choose(&mut self, view: &View, by: isize) {
        let order = self.order(view);
        let at = order.iter().position(|id| Some(*id) == self.chosen);
        let last = order.len().saturating_sub(1);
        let at = at.unwrap_or(0).saturating_add_signed(by).min(last);
        self.chosen = order.get(at).copied();
    }

    fn freeze(&mut self, state: &State) {
        self.frozen = match self.frozen {
            Some(_) => None,
            None => Some(Frozen {
                view: Arc::clone(&state.view),
                timeline: state.timeline.clone(),
            }),
        };
    }

    fn begin_edit(&mut self, state: &State) {
        // What is edited is what there is, not what is looked at.
        self.frozen = None;
        let vcpu = self.chosen.and_then(|id| state.view.vcpu(id));
        let Some(vcpu) = vcpu.filter(|_| state.status == Status::Live) else {
            self.message = Some(("the board does not answer now".to_owned(), false));
            return;
        };
        match Edit::new(vcpu) {
            Some(edit) => self.mode = Mode::Edit(edit),
            None => {
                let words = format!("{} takes turns: there is no promise to change", vcpu.name);
                self.message = Some((words, false));
            }
        }
    }

    fn key_of_edit(&mut self, key: Key, shared: &Shared) {
        let Mode::Edit(edit) = &mut self.mode else {
            return;
        };
        match key.code {
            KeyCode::Esc => self.mode = Mode::Look,
            KeyCode::Tab | KeyCode::Down => edit.go(1),
            KeyCode::BackTab | KeyCode::Up => edit.back(),
            KeyCode::Backspace => edit.erase(),
            KeyCode::Char(character) => edit.typed(character),
            KeyCode::Enter => {
                let (view, report) = {
                    let state = shared.lock();
                    (Arc::clone(&state.view), Arc::clone(&state.report))
                };
                let Some(vcpu) = view.vcpu(edit.id) else {
                    edit.wrong = Some("the board has no such vCPU now".to_owned());
                    return;
                };
                if let Some(change) = edit.change(vcpu) {
                    let edit = edit.clone();
                    self.reckon(edit, change, &view, &report);
                }
            }
            _ => {}
        }
    }

    /// Begins the analysis. It may take a while, and the board goes on meanwhile.
    fn reckon(&mut self, edit: Edit, change: Change, view: &Arc<View>, report: &Arc<Report>) {
        let (tell, answer) = channel();
        let (view, report) = (Arc::clone(view), Arc::clone(report));
        let description = self.description.clone();
        std::thread::spawn(move || {
            let preview = what_if::preview(description.as_deref(), &report, &view, change);
            let _ = tell.send(preview.map_err(|error| error.to_string()));
        });
        let reckoned = Reckoned::Awaited(answer);
        self.mode = Mode::Preview(Box::new(edit), reckoned);
    }

    fn key_of_preview(&mut self, key: Key, shared: &Shared) {
        let Mode::Preview(edit, reckoned) = &self.mode else {
            return;
        };
        let edit = Edit::clone(edit);
        let Reckoned::Done(preview) = reckoned else {
            if key.code == KeyCode::Esc {
                self.mode = Mode::Edit(edit);
            }
            return;
        };
        let is_no = preview.answer == Answer::NotShown;
        match key.code {
            KeyCode::Esc => self.mode = Mode::Edit(edit),
            KeyCode::Enter if !is_no => self.apply(edit, shared),
            KeyCode::Char('!') if is_no => self.apply(edit, shared),
            _ => {}
        }
    }

    /// Applies what was previewed, if it is still about what there is.
    fn apply(&mut self, edit: Edit, shared: &Shared) {
        let Mode::Preview(_, reckoned) = &self.mode else {
            return;
        };
        let Reckoned::Done(preview) = reckoned else {
            return;
        };
        let (change, name) = (preview.change, preview.name.clone());
        let (view, report) = {
            let state = shared.lock();
            (Arc::clone(&state.view), Arc::clone(&state.report))
        };
        if !preview.is_current(&view) {
            self.message = Some((
                "Promises have changed meanwhile: this is what would follow now".to_owned(),
                false,
            ));
            return self.reckon(edit, change, &view, &report);
        }
        self.pending = Some((shared.change(change), name.clone()));
        self.message = Some((format!("{name}: asked the board"), true));
        self.mode = Mode::Look;
    }
}

const fn other(lower: Lower) -> Lower {
    match lower {
        Lower::Exits => Lower::Log,
        Lower::Log => Lower::Console,
        Lower::Console => Lower::Exits,
    }
}
