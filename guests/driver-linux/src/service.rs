//! A device from its offer on, each in a thread of its own, so that one that waits for its file holds up no other.
//!
//! Whatever cannot be mended here ends the whole program, which init starts again: then each device is offered anew, and what was under way
//! is given again.

use crate::bell::Bell;
use crate::block::Disk;
use crate::directory::{Directory, MOST_FIDS};
use crate::heart::{self, Pulse};
use crate::image;
use crate::network::Port;
use crate::nodes::{self, Node, What};
use crate::pages::Page;
use crate::registers::Registers;
use crate::ring::{self, Broken, Kept, Ring};
use crate::tap;
use crate::words::{Words, say};
use hanok_abi::back_end::{control, register};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fmt::Display;
use std::process::exit;
use std::thread;
use std::time::{Duration, Instant};

/// How long what cannot be opened is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// Serves all these devices, for ever.
///
/// # Errors
/// There is nothing to serve.
pub fn serve_all(nodes: Vec<Node>) -> Result<(), String> {
    if nodes.is_empty() {
        let what = "no [[vm.disk]] with a `file`, [[vm.network]] with a `tap` or [[vm.directory]] with a `path`";
        return Err(format!("there is nothing to serve: {what} is this VM's"));
    }
    let start = Instant::now();
    let pulses: Vec<Pulse> = nodes.iter().map(|_| Pulse::new(start)).collect();
    heart::tell(pulses.clone());
    let serve = |(node, pulse): (Node, Pulse)| {
        thread::spawn(move || {
            let why = serve(&node, pulse).unwrap_or_else(|why| why);
            say(&format!("what {} has: {why}", node.client));
            exit(1)
        })
    };
    let threads: Vec<_> = nodes.into_iter().zip(pulses).map(serve).collect();
    for thread in threads {
        let _ended = thread.join();
    }
    Ok(())
}

/// Asks Linux for as many open files as clients of directories may name. If it refuses, a client has fewer.
pub fn want_many_files() {
    let most = Some(8 * MOST_FIDS as u64);
    let limit = Rlimit {
        current: most,
        maximum: most,
    };
    let _ = setrlimit(Resource::Nofile, limit);
}

/// A device that is offered.
struct Back {
    registers: Registers,
    page: Page,
    bell: Bell,
    pulse: Pulse,
}

/// Serves a device. Returns why it ends.
fn serve(node: &Node, pulse: Pulse) -> Result<String, String> {
    let registers = Registers::open(node.registers)?;
    let page = Page::open(node.registers)?;
    // The one before has left what it offered.
    registers.write(register::CONTROL, control::WITHDRAW);
    let bell = Bell::open(node.registers)?;
    let back = Back {
        registers,
        page,
        bell,
        pulse,
    };
    match &node.what {
        What::Disk(disk) => back.serve_disk(node, disk),
        What::Network(network) => back.serve_network(node, network),
        What::Directory(directory) => back.serve_directory(node, directory),
    }
}

fn broken(_: Broken) -> String {
    "its ring is broken".to_owned()
}

fn read_only(is: bool) -> &'static str {
    if is { ", read-only" } else { "" }
}

impl Back {
    fn serve_disk(&self, node: &Node, wanted: &nodes::Disk) -> Result<String, String> {
        let (client, file) = (&node.client, wanted.file.display());
        let open = || image::open(&wanted.file, wanted.format, wanted.read_only);
        let image = self.insist(&format!("{file} of {client}"), open);
        let id = format!("hanok-{:x}", node.registers);
        let words = Words::new(format!("{file} of {client}"));
        let mut disk = Disk::new(image, wanted.read_only, id, words);
        ring::offer(
            &self.registers,
            (&self.page.memory, &[ring::DISK]),
            &disk.offer(),
        )?;
        let (how, size) = (read_only(wanted.read_only), disk.sectors() >> 11);
        say(&format!("a disk for {client}, {size} MiB{how}: {file}"));
        self.serve_one(ring::DISK, |queue| disk.serve(queue))
    }

    fn serve_directory(&self, node: &Node, wanted: &nodes::Directory) -> Result<String, String> {
        let (client, path) = (&node.client, wanted.path.display());
        let about = format!("{path} of {client}");
        let words = || Words::new(about.clone());
        let open = || Directory::open(&wanted.path, &wanted.tag, wanted.read_only, words());
        let mut directory = self.insist(&about, open);
        ring::offer(
            &self.registers,
            (&self.page.memory, &[ring::DIRECTORY]),
            &directory.offer(),
        )?;
        let (how, tag) = (read_only(wanted.read_only), &wanted.tag);
        say(&format!("a directory for {client}, \"{tag}\"{how}: {path}"));
        self.serve_one(ring::DIRECTORY, |queue| directory.serve(queue))
    }

    /// Serves a device with one queue.
    fn serve_one(
        &self,
        layout: ring::Layout,
        mut serve: impl FnMut(&mut Kept) -> Result<usize, Broken>,
    ) -> Result<String, String> {
        let mut queue = Kept::new(self.page.memory, layout).map_err(broken)?;
        // Whether the ring said that there is a request, or an event came, since the last request was found.
        let (mut has_more, mut woken) = (false, false);
        loop {
            self.pulse.beat();
            let count = serve(&mut queue).map_err(broken)?;
            if count > 0 {
                (has_more, woken) = (false, false);
                self.tell(0, &mut queue)?;
                continue;
            }
            if has_more {
                return Err(broken(Broken));
            }
            if woken && self.has_ended() {
                return Ok("the hypervisor has ended its offer".to_owned());
            }
            self.registers.write(register::ACKNOWLEDGE, u32::MAX);
            has_more = queue.listen().map_err(broken)?;
            // What came between the store and the line's fall is no edge, and so no event.
            if !has_more && self.registers.read(register::INTERRUPT) == 0 {
                self.bell.wait(None);
                // A watchdog takes it for hung otherwise, if what is asked now takes long.
                self.registers.write(register::ACKNOWLEDGE, u32::MAX);
                woken = true;
            }
        }
    }

    fn serve_network(&self, node: &Node, wanted: &nodes::Network) -> Result<String, String> {
        let (client, name) = (&node.client, &wanted.tap);
        let tap = self.insist(&format!("{name} of {client}"), || tap::open_tap(name));
        let words = Words::new(format!("{name} of {client}"));
        let mut port = Port::new(tap, wanted.mac, words);
        if let Err(why) = tap::bring_up(name, client, wanted.vlan) {
            say(&why);
        }
        let memory = self.page.memory;
        ring::offer(&self.registers, (&memory, &ring::NETWORK), &port.offer())?;
        say(&format!("a network for {client}: {name}"));
        let [receive, send] = ring::NETWORK.map(|layout| Kept::new(memory, layout));
        let (mut receive, mut send) = (receive.map_err(broken)?, send.map_err(broken)?);
        let mut resets = self.registers.read(register::CLIENT) >> 1;
        let (mut has_more, mut woken) = (false, false);
        loop {
            self.pulse.beat();
            let now = self.registers.read(register::CLIENT) >> 1;
            if now != resets {
                resets = now;
                port.forget(&mut receive).map_err(broken)?;
                self.tell(0, &mut receive)?;
            }
            let sent = port.send(&mut send).map_err(broken)?;
            let came = port.receive(&mut receive).map_err(broken)?;
            if sent + came > 0 {
                (has_more, woken) = (false, false);
                self.tell(1, &mut send)?;
                self.tell(0, &mut receive)?;
                continue;
            }
            if has_more {
                return Err(broken(Broken));
            }
            if woken && self.has_ended() {
                return Ok("the hypervisor has ended its offer".to_owned());
            }
            self.registers.write(register::ACKNOWLEDGE, u32::MAX);
            has_more = send.listen().map_err(broken)?;
            if port.wanted().is_none() {
                has_more |= receive.listen().map_err(broken)?;
            }
            if !has_more && self.registers.read(register::INTERRUPT) == 0 {
                self.bell.wait(port.wanted());
                // A watchdog takes it for hung otherwise, if what is asked now takes long.
                self.registers.write(register::ACKNOWLEDGE, u32::MAX);
                woken = true;
            }
        }
    }

    /// Tells the hypervisor of a queue's answers, if it wants to be told.
    fn tell(&self, number: u32, queue: &mut Kept) -> Result<(), String> {
        if queue.must_tell().map_err(broken)? {
            self.registers.write(register::NOTIFY, number);
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.registers.read(register::CONTROL) != control::OFFER
    }

    /// What can be opened at last. Why it cannot is told when that changes.
    fn insist<T, E: Display>(&self, about: &str, open: impl Fn() -> Result<T, E>) -> T {
        let mut told = String::new();
        loop {
            self.pulse.beat();
            match open() {
                Ok(opened) => return opened,
                Err(error) => {
                    let why = format!("{about}: it cannot be served: {error}");
                    if told != why {
                        say(&why);
                        told = why;
                    }
                    thread::sleep(AGAIN);
                }
            }
        }
    }
}
