//! A program of the measured Linux: frames with 1,500 bytes of data, by packet sockets, without a protocol of the network's.
//!
//! It is at one end of a wire or at the other: `send` with the number of the interface, or `receive` with that; or `take`, whose other end is outside
//! the board. The sender has two rows.
//! In `frames-out` frames go to an address that nobody has, so they leave by whatever leads out; the kernel's own limit says how many are
//! under way. In `frames-between` they go to the receiver, 32 at a time, which then answers with a short one. The receiver looks at the number
//! of each frame: one that is lost or comes twice ends the program with an error. Who takes has the row `frames-in`: it asks for 32 frames by a short
//! one, and looks at their numbers.
//!
//! Who has rows does each row after a tenth as many frames that are not measured. Between two marker instructions are a row's frames alone, for whoever
//! counts instructions from outside. After each row it says how many frames there were.

#![no_std]
#![no_main]

#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "aarch64")]
mod arm64;

use core::ffi::CStr;

use hanok_syscalls::mark::{begin, end};
use hanok_syscalls::{Descriptor, Errno, Line, Result, argument, exit, packet};

/// An EtherType for experiments (IEEE 802).
const ETHER_TYPE: u16 = 0x88b5;
/// The addresses of both ends, and one that nobody has.
const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 0x10];
const RECEIVER: [u8; 6] = [2, 0, 0, 0, 0, 0x11];
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 0x12];
/// The header, and the bytes of a frame with it.
const HEADER: usize = 14;
const LONG: usize = HEADER + 1500;
const SHORT: usize = 60;
/// How many frames the sender begins together.
const WINDOW: u32 = 32;
/// Frames of a row.
const ROUNDS: u32 = 4096;
/// Frames before, which are not measured: whole windows.
const BEFORE: u32 = ROUNDS / 8;
/// How long an answer may take, in seconds, and how often the other end is called until it is there.
const PATIENCE: usize = 20;
const CALLS: u32 = 600;
/// The number of the frame with which the sender calls the receiver.
const HELLO: u32 = u32::MAX;

/// Called by `_start`, with the stack pointer as the kernel starts a program with.
extern "C" fn main(stack: *const usize) -> ! {
    // SAFETY: `_start` passes the stack pointer as it was at the start.
    let [role, interface] = [1, 2].map(|index| unsafe { argument(stack, index) });
    let interface = interface.and_then(number).unwrap_or(0);
    let done = if role == Some(c"receive") {
        receive(interface)
    } else if role == Some(c"take") {
        take(interface)
    } else {
        send(interface)
    };
    if let Err(error) = done {
        let mut line = Line::default();
        line.text(b"frame work: error ");
        line.number(error.0.into());
        line.text(b"\n");
        line.write();
        exit(1);
    }
    exit(0)
}

fn send(interface: i32) -> Result<()> {
    call(interface)?;
    let socket = packet::open(interface, ETHER_TYPE, PATIENCE)?;
    let mut next = 0;
    windows(&socket, &mut next, BEFORE)?;
    begin();
    let done = windows(&socket, &mut next, ROUNDS);
    end();
    done?;
    say(b"frames-between");
    out(&socket, BEFORE)?;
    begin();
    let done = out(&socket, ROUNDS);
    end();
    done?;
    say(b"frames-out");
    Ok(())
}

/// Takes windows from outside.
fn take(interface: i32) -> Result<()> {
    call(interface)?;
    let socket = packet::open(interface, ETHER_TYPE, PATIENCE)?;
    let mut next = 0;
    asked(&socket, &mut next, BEFORE)?;
    begin();
    let done = asked(&socket, &mut next, ROUNDS);
    end();
    done?;
    say(b"frames-in");
    Ok(())
}

/// Asks for so many frames, a window at a time, and reads them.
fn asked(socket: &Descriptor, next: &mut u32, frames: u32) -> Result<()> {
    let mut question = frame(NOBODY, SENDER);
    let mut bytes = [0; LONG];
    for _ in 0..frames / WINDOW {
        set(&mut question, *next);
        socket.write(&question[..SHORT])?;
        for _ in 0..WINDOW {
            let mut length = socket.read(&mut bytes)?;
            // An answer to a call may still come.
            while get(&bytes) == HELLO {
                length = socket.read(&mut bytes)?;
            }
            if get(&bytes) != *next || length != LONG {
                return Err(Errno::INVAL);
            }
            *next += 1;
        }
    }
    Ok(())
}

/// Calls the other end until it answers.
fn call(interface: i32) -> Result<()> {
    // One second for each answer.
    let socket = packet::open(interface, ETHER_TYPE, 1)?;
    let mut frame = frame(RECEIVER, SENDER);
    set(&mut frame, HELLO);
    let mut answer = [0; LONG];
    for _ in 0..CALLS {
        // An interface that is not up yet is a reason to wait, too.
        let sent = socket.write(&frame[..SHORT]);
        if sent.is_ok() && socket.read(&mut answer).is_ok() {
            return Ok(());
        }
    }
    Err(Errno::AGAIN)
}

/// Sends so many frames to the receiver, a window at a time.
fn windows(socket: &Descriptor, next: &mut u32, frames: u32) -> Result<()> {
    let mut frame = frame(RECEIVER, SENDER);
    let mut answer = [0; LONG];
    for _ in 0..frames / WINDOW {
        for _ in 0..WINDOW {
            set(&mut frame, *next);
            *next += 1;
            socket.write(&frame)?;
        }
        // An answer to a call may still come.
        while {
            socket.read(&mut answer)?;
            get(&answer) == HELLO
        } {}
        if get(&answer) != *next {
            return Err(Errno::INVAL);
        }
    }
    Ok(())
}

/// Sends so many frames to nobody.
fn out(socket: &Descriptor, frames: u32) -> Result<()> {
    let mut frame = frame(NOBODY, SENDER);
    for number in 0..frames {
        set(&mut frame, number);
        socket.write(&frame)?;
    }
    Ok(())
}

/// Receives windows, and answers each with the number of the frame that is next.
fn receive(interface: i32) -> Result<()> {
    // It waits for as long as the sender takes to be there.
    let socket = packet::open(interface, ETHER_TYPE, 3600)?;
    let mut answer = frame(SENDER, RECEIVER);
    let mut bytes = [0; LONG];
    let mut next = 0;
    loop {
        let length = socket.read(&mut bytes)?;
        let number = get(&bytes);
        if number == HELLO {
            set(&mut answer, HELLO);
            socket.write(&answer[..SHORT])?;
            continue;
        }
        if number != next || length != LONG {
            return Err(Errno::INVAL);
        }
        next += 1;
        if next % WINDOW == 0 {
            set(&mut answer, next);
            socket.write(&answer[..SHORT])?;
        }
    }
}

/// A frame without a number.
fn frame(to: [u8; 6], from: [u8; 6]) -> [u8; LONG] {
    let mut frame = [0; LONG];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..HEADER].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    frame
}

/// Gives a frame its number.
fn set(frame: &mut [u8; LONG], number: u32) {
    frame[HEADER..HEADER + 4].copy_from_slice(&number.to_be_bytes());
}

/// The number of a frame.
fn get(frame: &[u8; LONG]) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&frame[HEADER..HEADER + 4]);
    u32::from_be_bytes(number)
}

/// Says that a row is over.
fn say(name: &[u8]) {
    let mut line = Line::default();
    line.text(b"bench-info: ");
    line.text(name);
    line.text(b" 1 stretches of ");
    line.number(ROUNDS.into());
    line.text(b" rounds\n");
    line.write();
}

/// A decimal number.
fn number(text: &CStr) -> Option<i32> {
    text.to_str().ok()?.trim().parse().ok()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    exit(2)
}
