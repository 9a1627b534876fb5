//! A disk from its offer on, each in a thread of its own, so that one that waits for its image holds up no other.
//!
//! Whatever cannot be mended here ends the whole program, which init starts again: then each device is offered anew, and what was under way
//! is given again.

use crate::bell::Bell;
use crate::block::Disk;
use crate::image;
use crate::nodes;
use crate::pages::Page;
use crate::registers::Registers;
use crate::ring::{self, Kept, Ring};
use crate::words::{Words, say};
use hanok_abi::back_end::{control, register};
use std::process::exit;
use std::thread;
use std::time::Duration;

/// How long an image that cannot be opened is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// Serves all these disks, for ever.
///
/// # Errors
/// There is nothing to serve.
pub fn serve_all(disks: Vec<nodes::Disk>) -> Result<(), String> {
    let serve = |disk: nodes::Disk| {
        thread::spawn(move || {
            let why = serve(&disk).unwrap_or_else(|why| why);
            say(&format!("the disk of {}: {why}", disk.client));
            exit(1)
        })
    };
    let threads: Vec<_> = disks.into_iter().map(serve).collect();
    if threads.is_empty() {
        return Err(
            "there is nothing to serve: no [[vm.disk]] with a `file` is this VM's".to_owned(),
        );
    }
    for thread in threads {
        let _ended = thread.join();
    }
    Ok(())
}

/// Serves a disk. Returns why it ends.
fn serve(node: &nodes::Disk) -> Result<String, String> {
    let registers = Registers::open(node.registers)?;
    let page = Page::open(node.registers)?;
    // The one before has left what it offered.
    registers.write(register::CONTROL, control::WITHDRAW);
    let bell = Bell::open(node.registers)?;
    let mut disk = open(node);
    let broken = |ring::Broken| "its ring is broken".to_owned();
    ring::offer(&registers, &page.memory, &disk.offer())?;
    let mut queue = Kept::new(page.memory).map_err(broken)?;
    let (client, file) = (&node.client, node.file.display());
    let how = if node.read_only { ", read-only" } else { "" };
    say(&format!(
        "a disk for {client}, {} MiB{how}: {file}",
        disk.sectors() >> 11
    ));
    // Whether the ring said that there is a request, or an event came, since the last request was found.
    let (mut has_more, mut woken) = (false, false);
    loop {
        let count = disk.serve(&mut queue).map_err(broken)?;
        if count > 0 {
            (has_more, woken) = (false, false);
            if queue.must_tell().map_err(broken)? {
                registers.write(register::NOTIFY, 0);
            }
            continue;
        }
        if has_more {
            return Err(broken(ring::Broken));
        }
        if woken && registers.read(register::CONTROL) != control::OFFER {
            return Ok("the hypervisor has ended its offer".to_owned());
        }
        registers.write(register::ACKNOWLEDGE, u32::MAX);
        has_more = queue.listen().map_err(broken)?;
        // What came between the store and the line's fall is no edge, and so no event.
        if !has_more && registers.read(register::INTERRUPT) == 0 {
            bell.wait();
            // A watchdog takes it for hung otherwise, if the image takes long for what is asked now.
            registers.write(register::ACKNOWLEDGE, u32::MAX);
            woken = true;
        }
    }
}

/// The disk of a node, once its image can be opened.
fn open(node: &nodes::Disk) -> Disk {
    let file = node.file.display();
    let mut words = Words::new(format!("{file} of {}", node.client));
    let mut told = String::new();
    loop {
        match image::open(&node.file, node.format, node.read_only) {
            Ok(image) => {
                let id = format!("hanok-{:x}", node.registers);
                return Disk::new(image, node.read_only, id, words);
            }
            Err(error) => {
                let why = format!("it cannot be served: {error}");
                if told != why {
                    words.say(&why);
                    told = why;
                }
                thread::sleep(AGAIN);
            }
        }
    }
}
