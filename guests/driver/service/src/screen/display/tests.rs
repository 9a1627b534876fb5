//! Each command against what virtio 1.2 says of it (5.7.6.8): it has an answer, and nothing is read that is not of a backing.

use super::{Display, FENCE};
use crate::fake::client::{Client, leaked};
use crate::fake::{mmio, renew};
use crate::memory::{DISPLAY_DESCRIPTORS, DISPLAY_PLACES, DisplayMemory};
use crate::wanted::{BoardDevice, WantedScreen};
use core::sync::atomic::Ordering::Relaxed;
use hanok_abi::back_end::DISPLAY_STATE;

/// Commands (5.7.6.7).
const GET_DISPLAY_INFO: u32 = 0x0100;
const CREATE: u32 = 0x0101;
const UNREF: u32 = 0x0102;
const SET_SCANOUT: u32 = 0x0103;
const FLUSH: u32 = 0x0104;
const TRANSFER: u32 = 0x0105;
const ATTACH: u32 = 0x0106;
const DETACH: u32 = 0x0107;
/// Answers.
const OK: u32 = 0x1100;
const OK_DISPLAY_INFO: u32 = 0x1101;
const UNSPECIFIC: u32 = 0x1200;
const OUT_OF_MEMORY: u32 = 0x1201;
const INVALID_SCANOUT: u32 = 0x1202;
const INVALID_RESOURCE: u32 = 0x1203;
const INVALID_PARAMETER: u32 = 0x1205;

/// The screen's size, and where its picture is.
const WIDTH: u32 = 64;
const HEIGHT: u32 = 32;
const PICTURE: u64 = 0x7000_0000;
/// The bytes of a client's memory, and of a picture.
const MEMORY: u64 = 1 << 30;
const WHOLE: u32 = 4 * WIDTH * HEIGHT;
/// A format: blue in the lowest byte.
const XRGB: u32 = 2;
/// All of a picture.
const ALL: [u32; 4] = [0, 0, WIDTH, HEIGHT];

struct Setup {
    display: Display,
    client: Client,
    memory: &'static DisplayMemory,
    head: u16,
}

impl Setup {
    fn new() -> Self {
        renew();
        let memory = leaked(DisplayMemory::new());
        let rings = memory.rings.each_ref();
        let client = Client::new(0, rings, DISPLAY_PLACES as u16);
        client.has_memory(MEMORY);
        let device = BoardDevice {
            registers: 0x1c1f_0000,
            interrupt: 46,
        };
        let screen = WantedScreen {
            registers: 0,
            interrupt: 0,
            frames: PICTURE,
            board: PICTURE,
            bytes: u64::from(WHOLE) + DISPLAY_STATE,
            clients: 1,
            members: b"drivers\0client\0",
            width: WIDTH,
            height: HEIGHT,
            stride: 4 * WIDTH,
            front: 1,
            device,
            keyboard: None,
            mouse: None,
        };
        let display = Display::start(&client.wanted, &screen, 0, memory);
        Self {
            display: display.expect("it starts"),
            client,
            memory,
            head: 0,
        }
    }

    /// Gives a command of these words, the first ones of which are the header's, with `room` bytes for its answer, and returns the answer.
    fn give(&mut self, words: &[u32], room: u32) -> Vec<u32> {
        let head = self.head;
        self.head = (head + 1) % DISPLAY_PLACES as u16;
        let slot = &self.memory.commands[usize::from(head)];
        let bytes = 4 * words.len() as u32;
        for (place, word) in slot.iter().zip([1, 0, bytes, 0, 2, 0, room, 2]) {
            place.store(word, Relaxed);
        }
        let data = &slot[4 * DISPLAY_DESCRIPTORS..];
        for (place, word) in data.iter().zip(words) {
            place.store(*word, Relaxed);
        }
        self.client.give(0, head, 32);
        const PASSES: usize = 1000;
        assert!((0..PASSES).any(|_| self.display.work()), "it comes to rest");
        let answers = self.client.answers(0);
        let [(answered, written)] = answers[..] else {
            panic!("{words:x?} has the answers {answers:?}");
        };
        assert_eq!(answered, head);
        let answer = data.iter().skip(words.len()).take(written as usize / 4);
        answer.map(|word| word.load(Relaxed)).collect()
    }

    /// What is answered to a command with these parameters.
    fn command(&mut self, kind: u32, parameters: &[u32]) -> u32 {
        let mut words = vec![kind, 0, 0, 0, 0, 0];
        words.extend(parameters);
        let answer = self.give(&words, 24);
        assert_eq!(answer.len(), 6, "a header, and no more");
        answer[0]
    }

    fn create(&mut self, id: u32, [width, height]: [u32; 2]) -> u32 {
        self.command(CREATE, &[id, XRGB, width, height])
    }

    /// Gives a resource pieces of memory: their addresses and bytes.
    fn attach(&mut self, id: u32, pieces: &[(u64, u32)]) -> u32 {
        let words = pieces
            .iter()
            .flat_map(|(at, bytes)| [*at as u32, (at >> 32) as u32, *bytes, 0]);
        let parameters: Vec<u32> = [id, pieces.len() as u32].into_iter().chain(words).collect();
        self.command(ATTACH, &parameters)
    }

    fn scanout(&mut self, [x, y, width, height]: [u32; 4], scanout: u32, id: u32) -> u32 {
        self.command(SET_SCANOUT, &[x, y, width, height, scanout, id])
    }

    fn flush(&mut self, id: u32, [x, y, width, height]: [u32; 4]) -> u32 {
        self.command(FLUSH, &[x, y, width, height, id, 0])
    }

    fn transfer(&mut self, id: u32, [x, y, width, height]: [u32; 4], offset: u64) -> u32 {
        let [low, high] = [offset as u32, (offset >> 32) as u32];
        self.command(TRANSFER, &[x, y, width, height, low, high, id, 0])
    }

    /// What of the client's memory was read since the last call: how many bytes, if all of it is of these pieces.
    fn read_of(&self, pieces: &[(u64, u32)]) -> u32 {
        let read = self.client.fetched();
        for (at, bytes) in &read {
            let is_of = |(start, len): &(u64, u32)| {
                let end = u128::from(*start) + u128::from(*len);
                at >= start && u128::from(*at) + u128::from(*bytes) <= end
            };
            assert!(
                pieces.iter().any(is_of),
                "{bytes} bytes at {at:#x} were read"
            );
        }
        read.iter().map(|(_, bytes)| bytes).sum()
    }

    /// A display that shows resource 1, of the screen's size, with this backing.
    fn shown(pieces: &[(u64, u32)]) -> Self {
        let mut setup = Self::new();
        assert_eq!(setup.create(1, [WIDTH, HEIGHT]), OK);
        assert_eq!(setup.attach(1, pieces), OK);
        let _shown = setup.scanout(ALL, 0, 1);
        setup.client.fetched();
        setup
    }
}

#[test]
fn the_display_is_told_and_commands_that_are_none_are_refused() {
    let mut setup = Setup::new();
    let answer = setup.give(&[GET_DISPLAY_INFO, 0, 0, 0, 0, 0], 408);
    assert_eq!(answer.len(), 102);
    assert_eq!(
        answer[..12],
        [OK_DISPLAY_INFO, 0, 0, 0, 0, 0, 0, 0, WIDTH, HEIGHT, 1, 0]
    );
    assert!(
        answer[12..].iter().all(|word| *word == 0),
        "15 more displays are not there"
    );
    // An answer with less room than it has is not begun.
    assert_eq!(setup.give(&[GET_DISPLAY_INFO, 0, 0, 0, 0, 0], 407), []);
    assert_eq!(setup.give(&[FLUSH, 0, 0, 0, 0, 0], 23), []);
    for kind in [0, 0x00ff, 0x0108, 0x010a, 0x0200, 0x0300, OK, u32::MAX] {
        assert_eq!(setup.command(kind, &[0; 8]), UNSPECIFIC, "{kind:#x}");
    }
    // A command that is cut, down to nothing.
    for len in 0..6 {
        let words = [FLUSH, 0, 0, 0, 0, 0];
        let kind = setup.give(&words[..len], 24)[0];
        assert!([UNSPECIFIC, INVALID_RESOURCE].contains(&kind), "{len}");
    }
}

#[test]
fn a_fence_comes_back_with_its_answer_and_no_other_flag() {
    let mut setup = Setup::new();
    let answer = setup.give(&[FLUSH, FENCE, 7, 8, 9, 10], 24);
    assert_eq!(answer, [INVALID_RESOURCE, FENCE, 7, 8, 9, 0]);
    let answer = setup.give(&[FLUSH, !FENCE, 7, 8, 9, 10], 24);
    assert_eq!(answer, [INVALID_RESOURCE, 0, 0, 0, 0, 0]);
}

#[test]
fn a_resource_has_a_number_a_format_and_a_size() {
    let mut setup = Setup::new();
    assert_eq!(setup.create(0, [16, 16]), INVALID_RESOURCE);
    for size in [
        [0, 16],
        [16, 0],
        [0, 0],
        [16385, 1],
        [1, 16385],
        [u32::MAX; 2],
        [1 << 31, 2],
    ] {
        assert_eq!(setup.create(1, size), INVALID_PARAMETER, "{size:?}");
    }
    for format in [0, 3, 67, 121, u32::MAX] {
        let parameters = [1, format, 16, 16];
        assert_eq!(setup.command(CREATE, &parameters), INVALID_PARAMETER);
    }
    assert_eq!(
        setup.flush(1, [0, 0, 1, 1]),
        INVALID_RESOURCE,
        "none of these is there"
    );
    assert_eq!(setup.create(1, [16384, 16384]), OK);
    assert_eq!(setup.create(1, [16, 16]), INVALID_RESOURCE, "it is there");
    assert_eq!(setup.flush(1, [16383, 16383, 1, 1]), OK, "and is as it was");
    for id in 2..=8 {
        assert_eq!(setup.create(id << 24, [16, 16]), OK);
    }
    assert_eq!(setup.create(9, [16, 16]), OUT_OF_MEMORY);
    assert_eq!(setup.command(UNREF, &[1, 0]), OK);
    assert_eq!(setup.create(9, [16, 16]), OK);
    for kind in [UNREF, DETACH] {
        for id in [0, 1, 77, u32::MAX] {
            assert_eq!(setup.command(kind, &[id, 0]), INVALID_RESOURCE);
        }
    }
}

#[test]
fn a_rectangle_is_within_its_resource_and_not_empty() {
    let pieces = [(0x1000, WHOLE)];
    let mut setup = Setup::shown(&pieces);
    for area in [
        [0, 0, WIDTH + 1, HEIGHT],
        [0, 0, WIDTH, HEIGHT + 1],
        [1, 0, WIDTH, HEIGHT],
        [0, 1, WIDTH, HEIGHT],
        [WIDTH, 0, 1, 1],
        [0, HEIGHT, 1, 1],
        [u32::MAX, 0, 1, 1],
        [0, u32::MAX, 1, 1],
        [u32::MAX, 0, 2, 1],
        [0, u32::MAX, 1, 2],
        [1, 1, u32::MAX, u32::MAX],
        [u32::MAX; 4],
        [0, 0, 0, 1],
        [0, 0, 1, 0],
    ] {
        assert_eq!(setup.flush(1, area), INVALID_PARAMETER, "{area:?}");
        assert_eq!(setup.transfer(1, area, 0), INVALID_PARAMETER, "{area:?}");
        assert_eq!(setup.scanout(area, 0, 1), INVALID_PARAMETER, "{area:?}");
        for id in [0, 2, u32::MAX] {
            assert_eq!(setup.flush(id, area), INVALID_RESOURCE);
            assert_eq!(setup.transfer(id, area, 0), INVALID_RESOURCE);
        }
    }
    assert_eq!(setup.client.fetched(), []);
    assert_eq!(setup.flush(1, ALL), OK);
    assert_eq!(setup.transfer(1, [WIDTH - 1, HEIGHT - 1, 1, 1], 0), OK);
    assert_eq!(setup.read_of(&pieces), 4);
}

#[test]
fn there_is_one_scanout_and_it_shows_no_more_than_the_screen_has() {
    let mut setup = Setup::new();
    assert_eq!(setup.create(1, [WIDTH + 1, HEIGHT + 1]), OK);
    for scanout in [1, 15, 16, u32::MAX] {
        for id in [0, 1, 2] {
            assert_eq!(setup.scanout(ALL, scanout, id), INVALID_SCANOUT);
        }
    }
    assert_eq!(setup.scanout(ALL, 0, 2), INVALID_RESOURCE);
    for area in [[0, 0, WIDTH + 1, HEIGHT], [0, 0, WIDTH, HEIGHT + 1]] {
        assert_eq!(setup.scanout(area, 0, 1), INVALID_PARAMETER);
    }
    assert_eq!(setup.scanout([1, 1, WIDTH, HEIGHT], 0, 1), OK);
    assert_eq!(setup.client.fetched(), [], "it has no backing");
    // Without a resource the picture is black.
    mmio::write32(PICTURE, 0xff_ffff);
    assert_eq!(setup.scanout(ALL, 0, 0), OK);
    assert_eq!(mmio::read32(PICTURE), 0);
}

#[test]
fn a_backing_has_the_pieces_that_are_there() {
    let mut setup = Setup::new();
    assert_eq!(setup.attach(1, &[(0x1000, 4096)]), INVALID_RESOURCE);
    assert_eq!(setup.create(1, [WIDTH, HEIGHT]), OK);
    // More than the command has, up to what would be more than an address space.
    for count in [2, 1024, 1 << 28, 1 << 30, u32::MAX] {
        let parameters = [1, count, 0x1000, 0, WHOLE, 0];
        assert_eq!(
            setup.command(ATTACH, &parameters),
            INVALID_PARAMETER,
            "{count}"
        );
    }
    assert_eq!(
        setup.command(ATTACH, &[1, 1, 0x1000, 0, WHOLE]),
        INVALID_PARAMETER,
        "one word is missing"
    );
    let many: Vec<_> = (0..1025).map(|page| (0x1000 * page, 4096)).collect();
    assert_eq!(setup.attach(1, &many), OUT_OF_MEMORY);
    assert_eq!(
        setup.transfer(1, ALL, 0),
        INVALID_PARAMETER,
        "it has no backing"
    );
    assert_eq!(setup.attach(1, &many[..1024]), OK);
    assert_eq!(setup.scanout(ALL, 0, 1), OK);
    assert_eq!(setup.read_of(&many[..2]), WHOLE);
    // None: it has no backing then, and what it had is not read any more.
    assert_eq!(setup.attach(1, &[]), OK);
    assert_eq!(setup.transfer(1, ALL, 0), INVALID_PARAMETER);
    assert_eq!(setup.attach(1, &many[..2]), OK);
    assert_eq!(setup.command(DETACH, &[1, 0]), OK);
    assert_eq!(setup.transfer(1, ALL, 0), INVALID_PARAMETER);
    assert_eq!(setup.client.fetched(), []);
}

#[test]
fn nothing_is_read_beyond_a_backing() {
    let pieces = [(0x1000, 3000), (0x9000, 0), (0x5000, 2000), (0x8000, 3192)];
    let mut setup = Setup::shown(&pieces);
    assert_eq!(pieces.iter().map(|(_, len)| len).sum::<u32>(), WHOLE);
    assert_eq!(setup.transfer(1, ALL, 0), OK);
    assert_eq!(setup.read_of(&pieces), WHOLE);
    // By a byte, a pixel, a line, far; where 32 and 64 bits end.
    let line = u64::from(4 * WIDTH);
    for offset in [
        1,
        4,
        line,
        WHOLE.into(),
        (1 << 32) - line,
        (1 << 32) - 1,
        1 << 32,
        u64::MAX - 3,
        u64::MAX,
    ] {
        assert_eq!(
            setup.transfer(1, ALL, offset),
            INVALID_PARAMETER,
            "{offset:#x}"
        );
        setup.read_of(&pieces);
    }
    // The last pixel, whose place is by the offset, and the one behind it.
    let last = u64::from(WHOLE) - 4;
    assert_eq!(setup.transfer(1, [3, 5, 1, 1], last), OK);
    assert_eq!(setup.read_of(&pieces), 4);
    for offset in [last + 1, last + 4] {
        assert_eq!(setup.transfer(1, [3, 5, 1, 1], offset), INVALID_PARAMETER);
        setup.read_of(&pieces);
    }
}

#[test]
fn a_backing_that_is_not_in_the_client_s_memory_is_an_error() {
    for pieces in [
        [(MEMORY - 4096, 4096), (MEMORY, 4096)],
        [(0, 4096), (u64::MAX - 99, 4096)],
        [(u64::MAX - 99, WHOLE), (0, 4096)],
        [(u64::MAX, u32::MAX), (0, 4096)],
        [(u64::MAX - u64::from(u32::MAX), u32::MAX), (0, 4096)],
        [(1 << 40, u32::MAX), (0, 4096)],
    ] {
        let mut setup = Setup::shown(&pieces);
        assert_eq!(setup.transfer(1, ALL, 0), INVALID_PARAMETER, "{pieces:x?}");
        setup.read_of(&pieces);
        // What comes next is answered as ever.
        assert_eq!(setup.flush(1, ALL), OK);
    }
    // Behind the end of an address space nothing begins anew.
    let mut setup = Setup::shown(&[(u64::MAX - 99, WHOLE)]);
    assert_eq!(setup.transfer(1, [0, 0, WIDTH, 1], 256), INVALID_PARAMETER);
    assert_eq!(setup.client.fetched(), []);
}

#[test]
fn a_resource_in_use_can_be_taken_away() {
    let pieces = [(0x1000, WHOLE)];
    let mut setup = Setup::shown(&pieces);
    assert_eq!(setup.command(UNREF, &[1, 0]), OK);
    for area in [ALL, [0, 0, 1, 1]] {
        assert_eq!(setup.flush(1, area), INVALID_RESOURCE);
        assert_eq!(setup.transfer(1, area, 0), INVALID_RESOURCE);
    }
    // Another one with its number is not shown, and has no backing.
    assert_eq!(setup.create(1, [WIDTH, HEIGHT]), OK);
    assert_eq!(setup.transfer(1, ALL, 0), INVALID_PARAMETER);
    assert_eq!(setup.attach(1, &pieces), OK);
    assert_eq!(setup.transfer(1, ALL, 0), OK);
    assert_eq!(setup.client.fetched(), [], "it is not shown");
}

#[test]
fn a_smaller_resource_is_read_by_its_own_lines() {
    // 16 of 32 pixels in the middle of a line, from an offset on; the screen shows a part of it.
    let pieces = [(0x1000, 4 * 32 * 8)];
    let mut setup = Setup::new();
    assert_eq!(setup.create(1, [32, 8]), OK);
    assert_eq!(setup.attach(1, &pieces), OK);
    assert_eq!(setup.scanout([8, 2, 16, 4], 0, 1), OK);
    let line = |number: u64| (0x1000 + 4 * (32 * number + 8), 64);
    assert_eq!(setup.client.fetched(), [line(2), line(3), line(4), line(5)]);
    // Of what is transferred, what is shown: two pixels of each of two lines.
    assert_eq!(setup.transfer(1, [22, 0, 10, 4], 4 * 22), OK);
    let part = |number: u64| (0x1000 + 4 * (32 * number + 22), 8);
    assert_eq!(setup.client.fetched(), [part(2), part(3)]);
}

#[test]
fn a_client_s_reset_forgets_its_resources() {
    let mut setup = Setup::shown(&[(0x1000, WHOLE)]);
    setup.client.reset(false);
    setup.display.interrupted(setup.display.interrupt);
    setup.display.work();
    setup.client.reset(true);
    assert_eq!(setup.flush(1, ALL), INVALID_RESOURCE);
    assert_eq!(setup.create(1, [16, 16]), OK);
}
