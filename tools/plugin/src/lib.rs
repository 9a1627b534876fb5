//! A plugin of QEMU's that counts where the hypervisor's instructions go.
//!
//! QEMU loads it by `-plugin libhanok_plugin.so,elf=HYPERVISOR,out=FILE`. For every
//! instruction of the hypervisor it makes the code that QEMU translates add one to a counter
//! of that instruction and CPU. A guest's marker instructions
//! ([`hanok_profile::code::Instructions`]) say what is counted; with `what=boot` it is all from
//! the reset to the first one that ends a stretch, with `what=run` all. With `what=words`, and no
//! `elf`, it lists what was executed ([`words`]). What comes out is [`hanok_profile::report`]'s.
//!
//! This is the one tool with unsafe code: QEMU is C. [`qemu`] has all of it.

mod counters;
mod qemu;
mod words;

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Context, Result, bail};
use counters::{Identities, Kept};
use hanok_profile::code::{Code, Entry, Finder};
use hanok_profile::record::{Counter, Counters, Recorder};
use hanok_profile::report::{Finish, Line, Reason, VERSION};
use qemu::{Block, Event, Instruction, Registers};

/// All of the plugin's own state but the counters.
static PLUGIN: OnceLock<Mutex<Plugin>> = OnceLock::new();
/// The counters, which are incremented without the lock.
static COUNTERS: OnceLock<Kept> = OnceLock::new();

struct Plugin {
    finder: Finder,
    recorder: Recorder,
    registers: Registers,
    identities: Identities,
    out: File,
    what: What,
    failed: bool,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum What {
    /// Each stretch between two markers.
    #[default]
    Stretches,
    /// From the reset to the first end marker.
    Boot,
    /// The whole run.
    Run,
    /// No counts: only which instructions were executed.
    Words,
}

/// The plugin's arguments.
#[derive(Default)]
struct Arguments {
    elf: Option<String>,
    out: Option<String>,
    what: What,
}

impl Arguments {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut arguments = Self::default();
        for word in words {
            match word.split_once('=') {
                Some(("elf", path)) => arguments.elf = Some(path.to_owned()),
                Some(("out", path)) => arguments.out = Some(path.to_owned()),
                Some(("what", "stretches")) => arguments.what = What::Stretches,
                Some(("what", "boot")) => arguments.what = What::Boot,
                Some(("what", "run")) => arguments.what = What::Run,
                Some(("what", "words")) => arguments.what = What::Words,
                _ => bail!(
                    "the argument {word} is none of elf=FILE, out=FILE, what=stretches|boot|run|words"
                ),
            }
        }
        Ok(arguments)
    }
}

/// Called by [`qemu`] once, with the number of CPUs and the arguments.
fn install(cpus: usize, words: impl Iterator<Item = String>) -> Result<()> {
    let arguments = Arguments::parse(words)?;
    if arguments.what == What::Words {
        return words::install(arguments.out.context("out=FILE is missing")?);
    }
    let elf = arguments.elf.context("elf=FILE is missing")?;
    let bytes = std::fs::read(&elf).with_context(|| format!("cannot read {elf}"))?;
    let code = Code::parse(&bytes).with_context(|| format!("in {elf}"))?;
    let path = arguments.out.context("out=FILE is missing")?;
    let out = File::create(&path).with_context(|| format!("cannot write {path}"))?;
    let mut plugin = Plugin {
        finder: Finder::new(code),
        recorder: Recorder::default(),
        registers: Registers::default(),
        identities: Identities::default(),
        out,
        what: arguments.what,
        failed: false,
    };
    plugin.write(&Line::Start { version: VERSION });
    let number = Counter::number(plugin.finder.code());
    let counters = COUNTERS.get_or_init(|| Kept::new(cpus, number));
    if plugin.what != What::Stretches {
        plugin.recorder.begin(counters);
    }
    let _ = PLUGIN.set(Mutex::new(plugin));
    Ok(())
}

/// The plugin's state, once it is installed.
fn installed() -> Option<(MutexGuard<'static, Plugin>, &'static Kept)> {
    let plugin = PLUGIN.get()?.lock();
    let plugin = plugin.unwrap_or_else(PoisonError::into_inner);
    Some((plugin, COUNTERS.get()?))
}

/// A CPU of the board was added; this is called on its thread.
fn on_cpu(cpu: usize) {
    counters::runs(cpu);
    if let Some((mut plugin, _)) = installed() {
        plugin.registers.find();
    }
}

/// Handles the event of an instruction or a block that is executed.
fn on_event(event: Event) {
    if let Event::Count(counter) = event {
        if let Some(counters) = COUNTERS.get() {
            counters.add(counter);
        }
        return;
    }
    let Some((mut plugin, counters)) = installed() else {
        return;
    };
    let plugin = &mut *plugin;
    let cpu = counters::cpu();
    match event {
        Event::Block => plugin.identities.block(&plugin.registers),
        Event::Entered(entry) => {
            let reason = plugin.registers.reason(entry);
            let total = counters.get(cpu, Counter::Hypervisor);
            plugin.recorder.entered(cpu, reason, total);
        }
        Event::Known => {
            if let Some((syndrome, detail)) = plugin.registers.known() {
                plugin.recorder.knows(cpu, syndrome, detail);
            }
        }
        Event::Left => {
            // This `eret` is counted, but only after this call.
            let total = counters.get(cpu, Counter::Hypervisor) + 1;
            plugin.recorder.left(cpu, total);
        }
        Event::Turned => {
            let total = counters.get(cpu, Counter::Hypervisor);
            plugin.recorder.left(cpu, total);
            let reason = Reason {
                entry: Entry::Turn,
                syndrome: None,
                detail: None,
            };
            plugin.recorder.entered(cpu, reason, total);
        }
        Event::Begin => plugin.recorder.begin(counters),
        Event::End => plugin.end(counters),
        Event::Count(_) => {}
    }
}

/// Adds to a block that is being translated the code that counts its instructions.
fn on_block(block: &Block) {
    words::block(block);
    let Some((mut plugin, counters)) = installed() else {
        return;
    };
    let plugin = &mut *plugin;
    let instructions: Vec<_> = block.instructions().collect();
    if !plugin.finder.is_found() {
        let bytes = instructions.iter().flat_map(Instruction::bytes);
        let bytes: Vec<_> = bytes.collect();
        if let Some(first) = instructions.first() {
            plugin.finder.block(first.place(), &bytes);
        }
    }
    if counters.wants_blocks() {
        block.calls(Event::Block);
    }
    for instruction in &instructions {
        plugin.instruction(instruction, counters);
    }
}

/// QEMU exits.
fn on_exit() {
    words::finish();
    let Some((mut plugin, counters)) = installed() else {
        return;
    };
    let plugin = &mut *plugin;
    let open = plugin.recorder.is_running() && plugin.what != What::Run;
    if plugin.what == What::Run {
        plugin.end(counters);
    }
    plugin.write(&Line::Finish(Finish { open }));
}

impl Plugin {
    /// Adds the code that counts `instruction`. Callbacks are called in the order in which they are
    /// added.
    fn instruction(&mut self, instruction: &Instruction, counters: &Kept) {
        let (word, set) = (instruction.word(), self.finder.code().set());
        let bytes: Vec<_> = instruction.bytes().collect();
        match self.finder.find(instruction.place(), &bytes) {
            Some(ours) => {
                if let Some(entry) = self.finder.code().entry(ours) {
                    instruction.calls(Event::Entered(entry));
                }
                if self.finder.code().looks(ours) {
                    instruction.calls(Event::Turned);
                }
                if self.finder.code().knows(ours) {
                    instruction.calls(Event::Known);
                }
                if self.finder.code().leaves(ours, word) {
                    instruction.calls(Event::Left);
                }
                self.recorder.counts(ours);
                counters.count(instruction, Counter::Instruction(ours));
                counters.count(instruction, Counter::Hypervisor);
            }
            None => match word {
                _ if word == set.begin && self.what == What::Stretches => {
                    instruction.calls(Event::Begin);
                }
                _ if word == set.end && self.what != What::Run => instruction.calls(Event::End),
                _ => counters.count(instruction, Counter::Others),
            },
        }
    }

    fn end(&mut self, counters: &Kept) {
        let code = self.finder.code();
        if let Some(mut stretch) = self.recorder.end(code, counters) {
            stretch.found = self.finder.is_found();
            stretch.differing = self.finder.differing();
            self.write(&Line::Stretch(stretch));
        }
    }

    /// Writes each line at once, since QEMU may be killed.
    fn write(&mut self, line: &Line) {
        let text = line.text() + "\n";
        if let Err(error) = self.out.write_all(text.as_bytes())
            && !std::mem::replace(&mut self.failed, true)
        {
            eprintln!("hanok-plugin: cannot write the report: {error}");
        }
    }
}

impl Registers {
    /// The word that a guest in User mode has executed, if it was that, and its PC.
    fn known(&self) -> Option<(u64, u64)> {
        let [number, status, word] = qemu::WINDOW.map(|register| self.read(register));
        let (thumb, link) = (status? & 0x20 != 0, self.read(qemu::LINK)?);
        // Vectors 1 and 2 are of instructions, 4 of data aborts (DDI 0406C, B1.8.3).
        let (word, distance) = match (number?, thumb) {
            (1 | 2, false) => (word?, 4),
            (1 | 2, true) => (0, 2),
            (4, _) => (0, 8),
            _ => (0, 4),
        };
        Some((word, link.wrapping_sub(distance)))
    }

    /// The reason of the exit by which the CPU has just come through a vector.
    fn reason(&self, entry: Entry) -> Reason {
        let bare = Reason {
            entry,
            syndrome: None,
            detail: None,
        };
        if entry != Entry::Synchronous {
            return bare;
        }
        let Some(syndrome) = self.read(qemu::ESR_EL2) else {
            return bare;
        };
        let (kept, detail) = match syndrome >> 26 & 0x3f {
            // HVC and SMC: the call's number.
            0x12 | 0x13 | 0x16 | 0x17 => (!0, self.read(qemu::X0)),
            // MSR, MRS, MCR, MRC: the register's encoding without the general register.
            0x18 => (!(0x1f << 5), None),
            0x03 | 0x05 => (!(0xf << 5), None),
            // MCRR, MRRC: without both general registers.
            0x04 | 0x0c => (!(0xf << 5 | 0xf << 10), None),
            // An abort: the page, and whether it was written to.
            0x20 => (!0, self.read(qemu::HPFAR_EL2)),
            0x24 => (0xfc00_0040, self.read(qemu::HPFAR_EL2)),
            _ => (!0, None),
        };
        Reason {
            entry,
            syndrome: Some(syndrome & kept),
            detail,
        }
    }
}
