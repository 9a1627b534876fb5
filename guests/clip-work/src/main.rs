//! A program of the measured Linux: plays clips to a frame buffer, as a player does that has decoded them.
//!
//! Its arguments are the frame buffer's device and the bytes of one of its lines. All frames of a clip are made in memory beforehand: a pattern
//! that moves by a pixel with each frame. To play it is to copy one frame after the other into the frame buffer, line by line, once each; nothing
//! waits for the panel. Between two marker instructions a clip is played several times, so that the kernel's ticks count as in
//! a long film. Behind them the frame buffer is compared with the last frame: another picture there ends the program with an error.

#![no_std]
#![no_main]

#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "aarch64")]
mod arm64;

use core::ffi::CStr;

use hanok_syscalls::file::{Access, open};
use hanok_syscalls::mark::{begin, end};
use hanok_syscalls::memory::Mapping;
use hanok_syscalls::{Errno, Line, Result, argument, exit};

/// Bytes of a pixel: five bits of red, six of green, five of blue.
const PIXEL: usize = 2;

/// A clip.
struct Clip {
    name: &'static [u8],
    /// In pixels.
    width: usize,
    height: usize,
    frames: usize,
    /// How often it is played.
    times: usize,
}

const CLIPS: [Clip; 3] = [
    Clip {
        name: b"clip-320x256",
        width: 320,
        height: 256,
        frames: 60,
        times: 16,
    },
    Clip {
        name: b"clip-720x576",
        width: 720,
        height: 576,
        frames: 88,
        times: 2,
    },
    Clip {
        name: b"clip-160x128",
        width: 160,
        height: 128,
        frames: 198,
        times: 20,
    },
];

impl Clip {
    /// Bytes of a line of a frame.
    const fn line(&self) -> usize {
        self.width * PIXEL
    }

    /// Bytes of a frame.
    const fn frame(&self) -> usize {
        self.line() * self.height
    }
}

/// Called by `_start`, with the stack pointer as the kernel starts a program with.
extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: `_start` passes the stack pointer as it was at the start.
    let [path, stride] = [1, 2].map(|index| unsafe { argument(stack, index) });
    let done = match (path, stride.and_then(number)) {
        (Some(path), Some(stride)) => CLIPS.iter().try_for_each(|clip| show(clip, path, stride)),
        _ => Err(Errno::INVAL),
    };
    if let Err(error) = done {
        let mut line = Line::default();
        line.text(b"clip work: error ");
        line.number(error.0.into());
        line.text(b"\n");
        line.write();
        exit(1);
    }
    exit(0)
}

/// Plays one clip to the frame buffer at `path`, whose lines have `stride` bytes.
fn show(clip: &Clip, path: &CStr, stride: usize) -> Result<()> {
    if stride < clip.line() {
        return Err(Errno::INVAL);
    }
    let mut film = Mapping::new(clip.frames * clip.frame())?;
    draw(clip, &mut film);
    let mut screen = Mapping::of(&open(path, Access::Device)?, 0, clip.height * stride)?;
    // What is done once, such as making pages, is in no film's frame.
    play(clip, &film, &mut screen, stride);
    begin();
    for _ in 0..clip.times {
        play(clip, &film, &mut screen, stride);
    }
    end();
    if !is_shown(clip, &film, &screen, stride) {
        return Err(Errno::INVAL);
    }
    let mut line = Line::default();
    line.text(b"bench-info: ");
    line.text(clip.name);
    line.text(b" 1 stretches of ");
    line.number((clip.frames * clip.times) as u64);
    line.text(b" rounds\n");
    line.write();
    Ok(())
}

/// Makes all frames.
fn draw(clip: &Clip, film: &mut Mapping) {
    let mut pixels = bytes_of(film).chunks_exact_mut(PIXEL);
    for frame in 0..clip.frames {
        for line in 0..clip.height {
            let row = pixels.by_ref().take(clip.width);
            for (column, pixel) in row.enumerate() {
                // Each differs from its neighbours, and from itself in the next frame.
                let value = ((column + frame) ^ (line + 3 * frame) << 5) as u16;
                pixel.copy_from_slice(&value.to_ne_bytes());
            }
        }
    }
}

/// Copies each frame into the frame buffer.
fn play(clip: &Clip, film: &Mapping, screen: &mut Mapping, stride: usize) {
    for frame in shared_bytes_of(film).chunks_exact(clip.frame()) {
        let lines = bytes_of(screen).chunks_exact_mut(stride);
        for (to, from) in lines.zip(frame.chunks_exact(clip.line())) {
            to[..from.len()].copy_from_slice(from);
        }
        // The next frame may not be drawn in this one's place.
        core::hint::black_box(&mut *screen);
    }
}

/// Whether the frame buffer has the last frame.
fn is_shown(clip: &Clip, film: &Mapping, screen: &Mapping, stride: usize) -> bool {
    let last = shared_bytes_of(film).chunks_exact(clip.frame()).last();
    let lines = shared_bytes_of(screen).chunks_exact(stride);
    last.is_some_and(|frame| {
        let mut both = lines.zip(frame.chunks_exact(clip.line()));
        both.all(|(shown, drawn)| shown[..drawn.len()] == *drawn)
    })
}

fn bytes_of(memory: &mut Mapping) -> &mut [u8] {
    // SAFETY: the mapping is there for as long as it is borrowed, all of it can be read and written, and nobody else in this process does.
    unsafe { core::slice::from_raw_parts_mut(memory.start().as_ptr(), memory.length()) }
}

fn shared_bytes_of(memory: &Mapping) -> &[u8] {
    // SAFETY: the mapping is there for as long as it is borrowed, and nobody writes there meanwhile.
    unsafe { core::slice::from_raw_parts(memory.start().as_ptr(), memory.length()) }
}

/// A decimal number.
fn number(text: &CStr) -> Option<usize> {
    text.to_str().ok()?.trim().parse().ok()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    exit(2)
}
