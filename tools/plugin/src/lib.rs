//! A plugin of QEMU's that counts where the hypervisor's instructions go.
//!
//! QEMU loads it by `-plugin libhanok_plugin.so,elf=HYPERVISOR,out=FILE`. For every
//! instruction of the hypervisor it makes the code that QEMU translates add one to a counter
//! of that instruction and CPU. A guest's marker instructions
//! ([`hanok_profile::code::Instructions`]) say what is counted; with `what=boot` it is all from
//! the reset to the first one that ends a stretch, with `what=run` all. With `what=operations` it
//! counts only how many instructions are the hypervisor's and how often each of
//! [`hanok_profile::operations`] is done, without `elf` on a machine that has no hypervisor. Without `elf` stretches have
//! the number of instructions alone, of guests of 64 bits, or of 32 with `bits=32`. With `what=words`, and no
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
use hanok_profile::code::{A32, A64, Code, Entry, Finder, Instructions};
use hanok_profile::operations::{self, Operation};
use hanok_profile::record::{Counter, Counters, Recorder};
use hanok_profile::report::{Finish, Line, Reason, VERSION};
use qemu::{Block, Event, Instruction, Registers};

/// The first address of a kernel's, as Linux splits the space; it is in A32, as all of Debian's are.
const KERNEL: u64 = 0xbf00_0000;

/// All of the plugin's own state but the counters.
static PLUGIN: OnceLock<Mutex<Plugin>> = OnceLock::new();
/// The counters, which are incremented without the lock.
static COUNTERS: OnceLock<Kept> = OnceLock::new();

struct Plugin {
    /// Of the hypervisor's code, where there is one.
    finder: Option<Finder>,
    /// Where a stretch begins by itself, and how many markers that end one it does not end with.
    from: Option<(u64, u32)>,
    unheard: u32,
    recorder: Recorder,
    registers: Registers,
    identities: Identities,
    out: File,
    what: What,
    /// Of the guests' markers, where there is no hypervisor.
    markers: &'static Instructions,
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
    /// Operations, in each stretch.
    Operations,
    /// No counts: only which instructions were executed.
    Words,
}

/// The plugin's arguments.
struct Arguments {
    elf: Option<String>,
    markers: &'static Instructions,
    out: Option<String>,
    from: Option<u64>,
    what: What,
}

impl Arguments {
    fn parse(words: impl Iterator<Item = String>) -> Result<Self> {
        let mut arguments = Self {
            elf: None,
            markers: &A64,
            out: None,
            from: None,
            what: What::default(),
        };
        for word in words {
            match word.split_once('=') {
                Some(("elf", path)) => arguments.elf = Some(path.to_owned()),
                Some(("out", path)) => arguments.out = Some(path.to_owned()),
                Some(("what", "stretches")) => arguments.what = What::Stretches,
                Some(("what", "boot")) => arguments.what = What::Boot,
                Some(("what", "run")) => arguments.what = What::Run,
                Some(("what", "operations")) => arguments.what = What::Operations,
                Some(("what", "words")) => arguments.what = What::Words,
                Some(("bits", "64")) => arguments.markers = &A64,
                Some(("bits", "32")) => arguments.markers = &A32,
                Some(("from", address)) => {
                    let digits = address.strip_prefix("0x").unwrap_or(address);
                    let address = u64::from_str_radix(digits, 16);
                    arguments.from = Some(address.context("from= is no address")?);
                }
                _ => bail!(
                    "the argument {word} is none of elf=FILE, out=FILE, from=ADDRESS, bits=32|64, \
                     what=stretches|boot|run|operations|words"
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
    let operations = arguments.what == What::Operations;
    let finder = match arguments.elf {
        Some(elf) => {
            let bytes = std::fs::read(&elf).with_context(|| format!("cannot read {elf}"))?;
            Some(Finder::new(
                Code::parse(&bytes).with_context(|| format!("in {elf}"))?,
            ))
        }
        None if operations || arguments.what == What::Stretches => None,
        None => bail!("elf=FILE is missing"),
    };
    let path = arguments.out.context("out=FILE is missing")?;
    let out = File::create(&path).with_context(|| format!("cannot write {path}"))?;
    let mut plugin = Plugin {
        finder,
        // Init's first instruction is such a marker, the second one is of the shell's first program.
        from: arguments.from.map(|address| (address, 1)),
        unheard: 0,
        recorder: Recorder::default(),
        registers: Registers::default(),
        identities: Identities::default(),
        out,
        what: arguments.what,
        markers: arguments.markers,
        failed: false,
    };
    plugin.write(&Line::Start { version: VERSION });
    let code = plugin.finder.as_ref().map(Finder::code);
    let number = code
        .filter(|_| !operations)
        .map_or(Counter::PLAIN, Counter::number);
    let counters = COUNTERS.get_or_init(|| Kept::new(cpus, number));
    if matches!(plugin.what, What::Boot | What::Run) {
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
        Event::Begin => plugin.begin(counters),
        Event::End => plugin.end(counters),
        Event::Vector => {
            if let Some(exit) = plugin.registers.vector().and_then(Operation::exit) {
                counters.add(Counter::Operation(exit).index());
            }
        }
        Event::CountIf(condition, counter) => {
            // A CPU whose flags cannot be read counts it.
            let flags = plugin.registers.read(qemu::CPSR);
            if flags.is_none_or(|flags| operations::holds(condition, flags as u32)) {
                counters.add(counter);
            }
        }
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
    if let Some(finder) = &mut plugin.finder
        && !finder.is_found()
    {
        let bytes = instructions.iter().flat_map(Instruction::bytes);
        let bytes: Vec<_> = bytes.collect();
        if let Some(first) = instructions.first() {
            finder.block(first.place(), &bytes);
        }
    }
    if counters.wants_blocks() {
        block.calls(Event::Block);
    }
    for instruction in &instructions {
        if plugin.what == What::Operations {
            plugin.operation(instruction, counters);
        } else {
            plugin.instruction(instruction, counters);
        }
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
        let Some(finder) = &mut self.finder else {
            return self.guest(instruction, self.markers, counters);
        };
        let (word, set) = (instruction.word(), finder.code().set());
        let bytes: Vec<_> = instruction.bytes().collect();
        match finder.find(instruction.place(), &bytes) {
            Some(ours) => {
                if let Some(entry) = finder.code().entry(ours) {
                    instruction.calls(Event::Entered(entry));
                }
                if finder.code().looks(ours) {
                    instruction.calls(Event::Turned);
                }
                if finder.code().knows(ours) {
                    instruction.calls(Event::Known);
                }
                if finder.code().leaves(ours, word) {
                    instruction.calls(Event::Left);
                }
                self.recorder.counts(ours);
                counters.count(instruction, Counter::Instruction(ours));
                counters.count(instruction, Counter::Hypervisor);
            }
            None => self.guest(instruction, set, counters),
        }
    }

    /// The same of a guest's, whose markers are of this set.
    fn guest(&self, instruction: &Instruction, set: &Instructions, counters: &Kept) {
        match instruction.word() {
            word if word == set.begin && self.what == What::Stretches => {
                instruction.calls(Event::Begin);
            }
            word if word == set.end && self.what != What::Run => instruction.calls(Event::End),
            _ => counters.count(instruction, Counter::Others),
        }
    }

    /// Adds the code that counts what `instruction` does, if it is an operation of the hypervisor's, or of a kernel
    /// without one.
    fn operation(&mut self, instruction: &Instruction, counters: &Kept) {
        let bytes: Vec<_> = instruction.bytes().collect();
        let finder = self.finder.as_mut();
        let ours = finder.and_then(|finder| finder.find(instruction.place(), &bytes));
        let word = instruction.word();
        if ours.is_none() {
            let from = self
                .from
                .filter(|(address, _)| *address == instruction.address());
            match word {
                _ if word == A32.begin || from.is_some() => instruction.calls(Event::Begin),
                _ if word == A32.end => instruction.calls(Event::End),
                _ => {}
            }
            counters.count(instruction, Counter::Others);
        } else {
            counters.count(instruction, Counter::Hypervisor);
        }
        let bare = self.finder.is_none();
        let found = match (ours, &self.finder) {
            (Some(ours), Some(finder)) if finder.code().is_t32(ours) => {
                operations::t32(word, bytes.len())
            }
            (Some(_), _) => operations::a32(word),
            (None, None) if instruction.address() >= KERNEL => operations::a32(word),
            (None, _) => operations::free(word, bytes.len()),
        };
        if let Some(found) = found {
            let counter = Counter::Operation(found.operation);
            match found.condition {
                operations::ALWAYS => counters.count(instruction, counter),
                other => instruction.calls(Event::CountIf(other, counter.index())),
            }
        }
        let count = |operation| counters.count(instruction, Counter::Operation(operation));
        if let (Some(ours), Some(finder)) = (ours, &self.finder) {
            let code = finder.code();
            code.entry(ours).and_then(Operation::taken).map(count);
            if code.fills(ours) {
                count(Operation::Fill);
            }
            if code.knows(ours) {
                instruction.calls(Event::Vector);
            }
        } else if bare {
            Operation::at_high_vector(instruction.address()).map(count);
        }
    }

    /// A stretch begins: by a marker, or once by itself.
    fn begin(&mut self, counters: &Kept) {
        if let Some((_, unheard)) = self.from.take_if(|_| !self.recorder.is_running()) {
            self.unheard = unheard;
        }
        self.recorder.begin(counters);
    }

    fn end(&mut self, counters: &Kept) {
        if let Some(left) = self.unheard.checked_sub(1) {
            self.unheard = left;
            return;
        }
        let code = self.finder.as_ref().map(Finder::code);
        if let Some(mut stretch) = self.recorder.end(code, counters) {
            let finder = self.finder.as_ref();
            stretch.found = finder.is_none_or(Finder::is_found);
            stretch.differing = finder.map_or(0, Finder::differing);
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
    /// The number of the vector by which a guest in User mode left.
    fn vector(&self) -> Option<u64> {
        let [number, ..] = qemu::WINDOW;
        self.read(number)
    }

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
