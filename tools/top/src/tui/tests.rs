use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::change::Fate;
use crate::protocol::{Heard, parse};
use crate::report::Report;
use crate::state::{Command, Outcome, Speaker};
use crate::view::View;

/// Two reports of a board with a second between them, in ticks of a microsecond.
const BEFORE: &str = "\
board 1000000 10000000 3 4
vm 0 linux
vm 1 axes
vm 2 \u{1b}[31mred<b>
core 0 deadline share 10000000 1000000 1000 5000 3000
core 2 turns - 10000000 1000000 1000 5000 3000
vcpu 0 0 0 - runs deferrable 10000 6000 10000 0 1000 5000000 100000 5 0 100 1000
vcpu 0 1 0 - waits bandwidth 10000 2000 10000 0 1000 2000000 0 0 0 100 0
vcpu 1 0 0 - ready periodic 5000 1000 4000 0 0 900000 0 10 1 2000 0
vcpu 2 0 2 - runs credit 512 40 0 0 0 4000000 0 0 0 100 0
exits 0 0 timer 1000 130000
exits 0 0 device 50 0";
const AFTER: &str = "\
board 1000000 11000000 3 4
vm 0 linux
vm 1 axes
vm 2 \u{1b}[31mred<b>
core 0 deadline share 11000000 1200000 1812 9060 5000
core 2 turns - 11000000 1500000 1100 5500 3300
vcpu 0 0 0 - runs deferrable 10000 6000 10000 0 1250 5550000 150000 9 0 200 21000
vcpu 0 1 0 - waits bandwidth 10000 2000 10000 0 1000 2050000 0 0 0 150 0
vcpu 1 0 0 - ready periodic 5000 1000 4000 0 0 1100000 0 12 3 2200 0
vcpu 2 0 2 - runs credit 512 40 0 0 0 4500000 0 0 0 150 0
exits 0 0 timer 2000 260000
exits 0 0 device 75 0
ran 0 0 0 10500000 10600000
ran 0 1 0 10600000 10750000
ran 0 - - 10750000 10800000
ran 0 0 1 10900000 11000000
ran 2 2 0 10500000 10800000
ran 2 - - 10800000 11000000";

fn report(lines: &str) -> Report {
    let mut report = Report::default();
    for line in lines.lines() {
        let Some(Heard::Item(_, item)) = parse(&format!("{line} 1")) else {
            panic!("{line}");
        };
        report.add(item);
    }
    report
}

struct World {
    shared: Shared,
    commands: std::sync::mpsc::Receiver<Command>,
    app: App,
}

impl World {
    fn new(theme: Theme) -> Self {
        let (shared, commands) = Shared::new("demo-4711");
        let (before, after) = (report(BEFORE), report(AFTER));
        shared.update(|state| {
            state.view = Arc::new(View::of(Some(&before), &after));
            state.timeline.add(&after);
            state.report = Arc::new(after);
            state.status = Status::Live;
            state.log.add(
                Speaker::Vm(0),
                b"linux:~# ls\r\nbin \x1b[31mdev\x1b[0m\r\nlinux:~# ",
            );
            state.log.add(Speaker::Hypervisor, b"vm axes: reset\n");
        });
        let mut app = App::new(theme, None);
        app.tick(&shared);
        Self {
            shared,
            commands,
            app,
        }
    }

    fn keys(&mut self, codes: &[KeyCode]) {
        for code in codes {
            let key = KeyEvent::new(*code, KeyModifiers::NONE);
            assert!(self.app.key(key, &self.shared).is_continue());
            self.app.tick(&self.shared);
        }
    }

    fn typed(&mut self, text: &str) {
        let codes: Vec<_> = text.chars().map(KeyCode::Char).collect();
        self.keys(&codes);
    }

    fn screen(&mut self, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let draw = |frame: &mut ratatui::Frame<'_>| {
            draw::screen(frame, &mut self.app, &self.shared.lock());
        };
        terminal.draw(draw).unwrap();
        text_of(terminal.backend().buffer())
    }

    /// Waits for what another thread reckons.
    fn reckoned(&mut self) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.app.tick(&self.shared) {
            assert!(Instant::now() < end, "nothing was reckoned");
            std::thread::yield_now();
        }
    }
}

/// Compares a screen with the one that was looked at; `HANOK_SNAPSHOTS=write` writes it anew.
fn is_as_before(name: &str, screen: &str) {
    let path = format!("{}/src/tui/screens/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("HANOK_SNAPSHOTS").is_some_and(|value| value == "write") {
        std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
        std::fs::write(&path, format!("{screen}\n")).unwrap();
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        before.trim_end(),
        screen.trim_end(),
        "{name}: now it is\n{screen}"
    );
}

#[test]
fn a_wide_screen_shows_all() {
    let mut world = World::new(Theme::plain());
    is_as_before("wide", &world.screen(140, 36));
}

#[test]
fn a_usual_terminal_shows_what_matters() {
    let mut world = World::new(Theme::coloured());
    is_as_before("usual", &world.screen(80, 24));
}

#[test]
fn a_narrow_one_shows_what_fits() {
    let mut world = World::new(Theme::plain());
    is_as_before("narrow", &world.screen(40, 14));
    for (width, height) in [(1, 1), (24, 5), (30, 6), (60, 3), (300, 100)] {
        world.screen(width, height);
        world.app.mode = app::Mode::Help;
        world.screen(width, height);
        world.app.mode = app::Mode::Look;
    }
}

#[test]
fn nothing_of_a_name_moves_the_terminal() {
    let mut world = World::new(Theme::plain());
    let screen = world.screen(140, 36);
    assert!(screen.contains("\\x1b[31mred<b>"), "{screen}");
    assert!(!screen.contains('\u{1b}'));
}

#[test]
fn a_person_sorts_and_chooses() {
    let mut world = World::new(Theme::plain());
    assert_eq!(world.app.chosen.map(|id| (id.vm, id.vcpu)), Some((0, 0)));
    // By the used share: the largest first, the least with `r`.
    world.app.sort = columns::Column::Used;
    let view = Arc::clone(&world.shared.lock().view);
    let first = |app: &App| app.order(&view)[0].vm;
    assert_eq!(first(&world.app), 0);
    world.keys(&[KeyCode::Char('r')]);
    let order: Vec<_> = world
        .app
        .order(&view)
        .iter()
        .map(|id| (id.vm, id.vcpu))
        .collect();
    assert_eq!(order, [(0, 1), (1, 0), (2, 0), (0, 0)]);
    world.keys(&[KeyCode::Home, KeyCode::Down]);
    assert_eq!(world.app.chosen.map(|id| id.vm), Some(1));
}

#[test]
fn a_change_is_shown_before_it_is_made() {
    let mut world = World::new(Theme::plain());
    world.keys(&[KeyCode::Char('e'), KeyCode::Down]);
    world.typed("5ms");
    is_as_before("edit", &world.screen(80, 24));
    world.keys(&[KeyCode::Enter]);
    world.reckoned();
    is_as_before("preview", &world.screen(100, 30));
    assert!(world.commands.try_recv().is_err(), "nothing is asked yet");
    world.keys(&[KeyCode::Enter]);
    let Ok(Command::Change(number, change)) = world.commands.try_recv() else {
        panic!("nothing was asked");
    };
    assert_eq!(change.request(), "change 0 0 10000000 5000000 10000000");
    world.shared.update(|state| {
        let words = "changed; it takes effect within 2ms".to_owned();
        let fate = Fate::Changed(0);
        state.decided(number, Outcome { fate, words });
    });
    world.app.tick(&world.shared);
    assert!(
        world
            .screen(80, 24)
            .contains("linux.0: changed; it takes effect within 2ms")
    );
}

#[test]
fn a_no_is_not_applied_by_enter() {
    let mut world = World::new(Theme::plain());
    world.keys(&[KeyCode::Enter, KeyCode::Down]);
    world.typed("9ms");
    world.keys(&[KeyCode::Enter]);
    world.reckoned();
    is_as_before("refused", &world.screen(100, 30));
    world.keys(&[KeyCode::Enter]);
    assert!(world.commands.try_recv().is_err());
    world.keys(&[KeyCode::Char('!')]);
    assert!(world.commands.try_recv().is_ok());
}

#[test]
fn what_no_board_can_take_is_said_at_once() {
    let mut world = World::new(Theme::plain());
    for (typed, why) in [
        ("0ms", "must be more than 0"),
        ("99999999999s", "a time is a number"),
        ("5h", "a time is a number"),
        ("20ms", "must fit into the deadline"),
    ] {
        world.keys(&[KeyCode::Char('e'), KeyCode::Down]);
        world.typed(typed);
        world.keys(&[KeyCode::Enter]);
        if matches!(world.app.mode, app::Mode::Preview(..)) {
            world.reckoned();
        }
        let screen = world.screen(80, 24);
        assert!(screen.contains(why), "{typed}: {screen}");
        world.keys(&[KeyCode::Esc]);
    }
}

#[test]
fn promises_that_changed_meanwhile_are_looked_at_anew() {
    let mut world = World::new(Theme::plain());
    world.keys(&[KeyCode::Char('e'), KeyCode::Down]);
    world.typed("5ms");
    world.keys(&[KeyCode::Enter]);
    world.reckoned();
    let other = AFTER.replace("periodic 5000 1000", "periodic 5000 900");
    world.shared.update(|state| {
        state.report = Arc::new(report(&other));
        state.view = Arc::new(View::of(None, &state.report));
    });
    world.keys(&[KeyCode::Enter]);
    assert!(world.commands.try_recv().is_err());
    world.reckoned();
    let screen = world.screen(100, 30);
    assert!(
        screen.contains("Promises have changed meanwhile"),
        "{screen}"
    );
    world.keys(&[KeyCode::Enter]);
    assert!(world.commands.try_recv().is_ok());
}

#[test]
fn a_console_gets_all_keys() {
    let mut world = World::new(Theme::plain());
    world.keys(&[KeyCode::Char('c')]);
    world.typed("q");
    world.keys(&[KeyCode::Enter, KeyCode::Up]);
    let mut bytes = Vec::new();
    while let Ok(Command::Keys(0, more)) = world.commands.try_recv() {
        bytes.extend(more);
    }
    assert_eq!(bytes, b"q\r\x1b[A");
    let screen = world.screen(80, 24);
    assert!(
        screen.contains("linux:~# _") && screen.contains("bin dev"),
        "{screen}"
    );
    let leave = KeyEvent::new(KeyCode::Char('5'), KeyModifiers::CONTROL);
    assert!(world.app.key(leave, &world.shared).is_continue());
    let quit = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
    assert!(world.app.key(quit, &world.shared).is_break());
}

#[test]
fn a_board_without_an_answer_is_shown_as_such() {
    let (shared, _commands) = Shared::new("old");
    let text = once(&shared, 60, 10).unwrap();
    assert!(text.starts_with("hanok top old  waiting"), "{text}");
    shared.update(|state| state.status = Status::Silent("an older one".to_owned()));
    let text = once(&shared, 60, 10).unwrap();
    assert!(text.contains("no answer  an older one"), "{text}");
}
