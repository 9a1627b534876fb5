//! Who is told of what is typed and pointed at: two clients of a screen with a PS/2 keyboard and mouse.

use super::Screen;
use super::keyboard::{Event, KEY, RELATIVE};
use crate::fake::client::{Client, leaked};
use crate::fake::{Registers, install, renew};
use crate::memory::{InputMemory, PLACES, SCREENS};
use crate::wanted::{BoardDevice, Served, WantedScreen};
use core::sync::atomic::Ordering::Relaxed;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Where the board's devices are, and their interrupts.
const KEYBOARD: BoardDevice = BoardDevice {
    registers: 0x1c06_0000,
    interrupt: 44,
};
const MOUSE: BoardDevice = BoardDevice {
    registers: 0x1c07_0000,
    interrupt: 45,
};
const DISPLAY: BoardDevice = BoardDevice {
    registers: 0x1c1f_0000,
    interrupt: 46,
};
/// Codes of set 2.
const CTRL: u8 = 0x14;
const ALT: u8 = 0x11;
const SHIFT: u8 = 0x12;
const DIGIT_1: u8 = 0x16;
const DIGIT_2: u8 = 0x1e;
const LETTER_A: u8 = 0x1c;
const RELEASE: u8 = 0xf0;
/// What a mouse's first byte has always, and its left button.
const FIRST: u8 = 8;
const LEFT: u8 = 1;
/// The same for a client.
const BUTTON_LEFT: u16 = 0x110;
const KEY_A: u16 = 30;
const KEY_CTRL: u16 = 29;
const KEY_ALT: u16 = 56;

/// A PL050: bytes that have come, those that were sent, and the kind of a mouse behind it.
#[derive(Default)]
struct Port {
    come: VecDeque<u8>,
    sent: Vec<u8>,
    kind: Option<u8>,
}

impl Registers for Port {
    fn read(&mut self, offset: u64) -> u32 {
        match offset {
            // It can always send.
            0x04 => u32::from(!self.come.is_empty()) << 4 | 1 << 6,
            0x08 => self.come.pop_front().unwrap_or(0).into(),
            _ => 0,
        }
    }

    fn write(&mut self, offset: u64, value: u32) {
        let (0x08, Some(kind)) = (offset, self.kind) else {
            return;
        };
        self.sent.push(value as u8);
        self.come.push_back(0xfa);
        if value == 0xf2 {
            let told = self.sent.ends_with(&[0xf3, 200, 0xf3, 100, 0xf3, 80, 0xf2]);
            self.come.push_back(if told { kind } else { 0 });
        }
    }
}

/// A PL050 of the board, with a mouse of this kind.
fn port(device: BoardDevice, kind: Option<u8>) -> Rc<RefCell<Port>> {
    let port = Port {
        kind,
        ..Port::default()
    };
    let port = Rc::new(RefCell::new(port));
    let end = device.registers + 0x1000;
    install(device.registers..end, port.clone());
    port
}

/// A PL111: what its base and its control were set to.
#[derive(Default)]
struct Panel(Vec<(u64, u32)>);

const BASE: u64 = 0x10;
const CONTROL: u64 = 0x18;

impl Registers for Panel {
    fn read(&mut self, offset: u64) -> u32 {
        match offset {
            0xfe0 | 0xfe4 => 0x11,
            _ => 0,
        }
    }

    fn write(&mut self, offset: u64, value: u32) {
        if offset == BASE || offset == CONTROL {
            self.0.push((offset, value));
        }
    }
}

struct Setup {
    screen: Screen,
    panel: Rc<RefCell<Panel>>,
    keyboard: Rc<RefCell<Port>>,
    mouse: Rc<RefCell<Port>>,
    clients: [(Client, &'static InputMemory); 2],
}

impl Setup {
    /// The mouse has no wheel.
    fn new() -> Self {
        Self::of(Some(0), &[])
    }

    /// With a mouse of this kind, or none that answers. It had told this before anybody asked. The first client is in front.
    fn of(kind: Option<u8>, told: &[u8]) -> Self {
        renew();
        let (keyboard, mouse) = (port(KEYBOARD, None), port(MOUSE, kind));
        mouse.borrow_mut().come.extend(told);
        let panel = Rc::new(RefCell::new(Panel::default()));
        let registers = DISPLAY.registers;
        install(registers..registers + 0x1000, panel.clone());
        let mut screen = started();
        let names = ["left", "right"];
        let clients = core::array::from_fn(|number| {
            let memory = leaked(InputMemory::new());
            let rings = memory.rings.each_ref();
            let mut client = Client::new(number as u32, rings, PLACES as u16);
            client.wanted.client = names[number];
            screen.connect(&client.wanted, memory).expect("it starts");
            (client, memory)
        });
        let setup = Self {
            screen,
            panel,
            keyboard,
            mouse,
            clients,
        };
        for (client, memory) in &setup.clients {
            (0..PLACES as u16).for_each(|place| give(client, memory, place));
        }
        setup
    }

    /// Once the mouse has told of its buttons.
    fn knows_buttons(mut self) -> Self {
        self.points(&[FIRST, 0, 0]);
        let released = [0x110, 0x111, 0x112].map(|code| key(code, false));
        assert_eq!(self.told(0), released);
        self
    }

    fn comes_to_rest(&mut self) {
        const PASSES: usize = 1000;
        assert!((0..PASSES).any(|_| self.screen.work()), "it comes to rest");
    }

    /// A person types, which gives these bytes.
    fn types(&mut self, bytes: &[u8]) {
        self.keyboard.borrow_mut().come.extend(bytes);
        self.screen.interrupted(KEYBOARD.interrupt);
        self.comes_to_rest();
    }

    /// A person moves the mouse, or its buttons change.
    fn points(&mut self, bytes: &[u8]) {
        self.mouse.borrow_mut().come.extend(bytes);
        self.screen.interrupted(MOUSE.interrupt);
        self.comes_to_rest();
    }

    /// What a client was told since the last call, but the ends of what belongs together.
    fn told(&self, number: usize) -> Vec<Event> {
        let (client, memory) = &self.clients[number];
        let answers = client.answers(0).into_iter();
        let events = answers.map(|(place, written)| {
            assert_eq!(written, 8);
            let event = memory.events[usize::from(place)][2].load(Relaxed);
            give(client, memory, place);
            Event::of_word(event)
        });
        events.filter(|event| *event != Event::END).collect()
    }
}

/// A screen for two clients, on a PL111.
fn started() -> Screen {
    let (width, height) = (64, 32);
    let wanted = WantedScreen {
        registers: 0x2000_0000,
        interrupt: 40,
        frames: 0x7000_0000,
        board: 0x7000_0000,
        bytes: 2 * 2 * u64::from(width * height),
        clients: 2,
        members: b"drivers\0left\0right\0",
        width,
        height,
        stride: 2 * width,
        front: 1,
        device: DISPLAY,
        keyboard: Some(KEYBOARD),
        mouse: Some(MOUSE),
    };
    let served = Served {
        to_board: Some(0),
        back_ends: heapless::Vec::new(),
        screens: heapless::Vec::new(),
    };
    Screen::start(&wanted, &served, &SCREENS[0]).expect("it starts")
}

/// A client gives a place for an event.
fn give(client: &Client, memory: &InputMemory, place: u16) {
    const MAY_BE_WRITTEN: u64 = 2 << 32;
    memory.events[usize::from(place)][1].store(MAY_BE_WRITTEN | 8, Relaxed);
    client.give(0, place, 16);
}

fn moved(code: u16, by: i32) -> Event {
    let (kind, value) = (RELATIVE, by as u32);
    Event { kind, code, value }
}

fn key(code: u16, down: bool) -> Event {
    let (kind, value) = (KEY, down.into());
    Event { kind, code, value }
}

#[test]
fn a_mouse_s_moves_have_signs_and_its_buttons_are_told_one_by_one() {
    let mut setup = Setup::new().knows_buttons();
    // Right and up; left and down, as far as it goes.
    setup.points(&[FIRST, 5, 3]);
    assert_eq!(setup.told(0), [moved(0, 5), moved(1, -3)]);
    setup.points(&[FIRST | 0x10 | 0x20, 0x9c, 0x9b]);
    assert_eq!(setup.told(0), [moved(0, -100), moved(1, 101)]);
    setup.points(&[FIRST | 0x10 | 0x20, 0, 0]);
    assert_eq!(setup.told(0), [moved(0, -256), moved(1, 256)]);
    // A packet may come byte by byte.
    for byte in [FIRST | LEFT, 0, 0] {
        assert_eq!(setup.told(0), []);
        setup.points(&[byte]);
    }
    assert_eq!(setup.told(0), [key(BUTTON_LEFT, true)]);
    setup.points(&[FIRST | 2, 0, 0, FIRST | 4, 1, 0]);
    let buttons = [key(0x110, false), key(0x111, true)];
    let others = [moved(0, 1), key(0x111, false), key(0x112, true)];
    assert_eq!(setup.told(0), [&buttons[..], &others].concat());
    assert_eq!(setup.told(1), []);
}

#[test]
fn a_wheel_is_told_of_by_a_mouse_that_has_one() {
    // An earlier life has left a packet behind, in which something looks like an answer.
    let mut setup = Setup::of(Some(3), &[FIRST, 0xfa, 1]);
    let sent = setup.mouse.borrow().sent.clone();
    assert_eq!(sent, [0xf5, 0xf3, 200, 0xf3, 100, 0xf3, 80, 0xf2, 0xf4]);
    setup.points(&[FIRST, 0, 0, 0]);
    assert_eq!(setup.told(0).len(), 3, "no button is pressed");
    // Away from the person, towards, and a move without it.
    setup.points(&[FIRST, 0, 0, 0xff, FIRST, 0, 0, 2, FIRST | LEFT, 4, 0, 0]);
    let wheel = [moved(8, 1), moved(8, -2)];
    let others = [moved(0, 4), key(BUTTON_LEFT, true)];
    assert_eq!(setup.told(0), [wheel, others].concat());
    // One that has none, and one that does not answer, have three bytes.
    for kind in [Some(0), None] {
        let mut setup = Setup::of(kind, &[]).knows_buttons();
        setup.points(&[FIRST, 1, 0, FIRST, 2, 0]);
        assert_eq!(setup.told(0), [moved(0, 1), moved(0, 2)]);
    }
}

#[test]
fn what_is_held_while_another_comes_to_the_front_is_held_for_nobody() {
    let mut setup = Setup::new().knows_buttons();
    setup.points(&[FIRST | LEFT, 0, 0]);
    setup.types(&[LETTER_A]);
    assert_eq!(setup.told(0), [key(BUTTON_LEFT, true), key(KEY_A, true)]);
    setup.types(&[CTRL, ALT, DIGIT_2]);
    let combination = [key(KEY_CTRL, true), key(KEY_ALT, true)];
    let released = [KEY_CTRL, KEY_A, KEY_ALT, BUTTON_LEFT].map(|code| key(code, false));
    assert_eq!(setup.told(0), [&combination[..], &released].concat());
    // Moved on with the button held, and released then: the other one has seen none pressed.
    setup.points(&[FIRST | LEFT, 7, 0]);
    setup.points(&[FIRST, 0, 0]);
    setup.types(&[
        RELEASE, DIGIT_2, RELEASE, ALT, RELEASE, CTRL, RELEASE, LETTER_A,
    ]);
    assert_eq!(setup.told(1), [moved(0, 7)]);
    // What is pressed there is its own.
    setup.points(&[FIRST | LEFT, 0, 0, FIRST, 0, 0]);
    let button = [key(BUTTON_LEFT, true), key(BUTTON_LEFT, false)];
    assert_eq!(setup.told(1), button);
    assert_eq!(setup.told(0), []);
}

#[test]
fn a_combination_has_ctrl_and_alt_or_shift() {
    let mut setup = Setup::new();
    setup.types(&[LETTER_A, ALT, SHIFT, DIGIT_2, RELEASE, ALT, RELEASE, SHIFT]);
    setup.types(&[CTRL, DIGIT_2, RELEASE, CTRL]);
    assert_eq!(setup.told(0).len(), 9);
    for shift in [SHIFT, 0x59, ALT] {
        setup.types(&[CTRL, shift, DIGIT_2, RELEASE, DIGIT_2, RELEASE, shift]);
        setup.types(&[RELEASE, CTRL, LETTER_A]);
        assert_eq!(setup.told(1), [key(KEY_A, true)]);
        setup.types(&[shift, CTRL, DIGIT_1, RELEASE, DIGIT_1, RELEASE, shift]);
        setup.types(&[RELEASE, CTRL, LETTER_A]);
        assert_eq!(setup.told(0).last(), Some(&key(KEY_A, true)));
        setup.told(1);
    }
}

#[test]
fn what_is_typed_after_a_combination_is_not_for_the_one_before_it() {
    let mut setup = Setup::new();
    // All of it before anybody looks.
    setup.types(&[
        CTRL, ALT, DIGIT_2, RELEASE, DIGIT_2, RELEASE, ALT, RELEASE, CTRL, LETTER_A, RELEASE,
        LETTER_A, CTRL, ALT, DIGIT_1,
    ]);
    let combination = [key(KEY_CTRL, true), key(KEY_ALT, true)];
    let released = [key(KEY_CTRL, false), key(KEY_ALT, false)];
    assert_eq!(setup.told(0), [combination, released].concat());
    let typed = [key(KEY_A, true), key(KEY_A, false)];
    assert_eq!(setup.told(1), [typed, combination, released].concat());
    setup.types(&[RELEASE, DIGIT_1, RELEASE, CTRL, RELEASE, ALT, LETTER_A]);
    assert_eq!(setup.told(0), [key(KEY_A, true)]);
}

#[test]
fn what_was_held_as_this_vm_was_reset_is_released() {
    // Pressed in an earlier life, released in this one.
    let mut setup = Setup::new();
    setup.types(&[RELEASE, LETTER_A]);
    assert_eq!(setup.told(0), [key(KEY_A, false)]);
    // Once; and never by one that has come to the front since.
    setup.types(&[RELEASE, LETTER_A, CTRL, ALT, DIGIT_2]);
    setup.types(&[RELEASE, DIGIT_2, RELEASE, ALT, RELEASE, CTRL]);
    setup.types(&[RELEASE, 0x32, RELEASE, LETTER_A]);
    assert_eq!(setup.told(1), []);
    assert_eq!(setup.told(0).len(), 4);
}

#[test]
fn a_panel_is_turned_on_last_and_told_twice_of_each_picture() {
    let mut setup = Setup::new();
    let panel = setup.panel.clone();
    let writes = || std::mem::take(&mut panel.borrow_mut().0);
    let started = writes();
    let on = started.iter().position(|(offset, _)| *offset == CONTROL);
    assert_eq!(on, Some(started.len() - 1), "{started:x?}");
    let first = (BASE, 0x7000_0000);
    assert_eq!(started[on.unwrap() - 1], first);
    // QEMU's may be drawing when it is told.
    let second = (BASE, 0x7000_0000 + 2 * 64 * 32);
    setup.types(&[CTRL, SHIFT]);
    assert_eq!(writes(), [first]);
    setup.types(&[DIGIT_2]);
    assert_eq!(writes(), [second]);
    setup.types(&[RELEASE, DIGIT_2]);
    assert_eq!(writes(), [second]);
    setup.types(&[RELEASE, SHIFT, RELEASE, CTRL]);
    assert_eq!(writes(), []);
}
