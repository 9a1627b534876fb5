//! QEMU's plugin interface (QEMU, docs/devel/tcg-plugins.rst; version 4, QEMU 10.0), as far as
//! it is needed, with a safe face.
//!
//! Handles of blocks and instructions are QEMU's and live as long as the callback that got
//! them; types with a lifetime keep them there.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use hanok_profile::code::Entry as VectorEntry;

/// The oldest version with all that is used here: reading registers and per-CPU counters.
const API_VERSION: c_int = 4;

/// A register that is read: QEMU's name of it on a 64-bit CPU, and the one on a 32-bit CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register([&'static CStr; 2]);

/// Why the hypervisor was entered; HSR.
pub const ESR_EL2: Register = Register([c"ESR_EL2", c"ESR_EL2"]);
/// The page of a stage 2 fault.
pub const HPFAR_EL2: Register = Register([c"HPFAR_EL2", c"HPFAR"]);
/// The CPU's own data, whose address the hypervisor stores here; HTPIDR.
pub const TPIDR_EL2: Register = Register([c"TPIDR_EL2", c"TPIDR_EL2"]);
/// The number that a guest reads as its CPU's; after a reset the physical number.
pub const VMPIDR_EL2: Register = Register([c"VMPIDR_EL2", c"VMPIDR"]);
/// A call's number.
pub const X0: Register = Register([c"x0", c"r0"]);

/// The registers in which the window of a 32-bit hypervisor has an exit's vector, status register and word.
pub const WINDOW: [Register; 3] = [
    Register([c"", c"r1"]),
    Register([c"", c"r2"]),
    Register([c"", c"r3"]),
];
/// The return address.
pub const LINK: Register = Register([c"x30", c"lr"]);

/// The flags of a 32-bit CPU.
pub const CPSR: Register = Register([c"", c"cpsr"]);

/// The registers that are read.
const REGISTERS: [Register; 10] = {
    let [number, status, word] = WINDOW;
    [
        ESR_EL2, HPFAR_EL2, TPIDR_EL2, VMPIDR_EL2, X0, LINK, CPSR, number, status, word,
    ]
};

/// What QEMU says of itself.
#[repr(C)]
pub struct Info {
    target: *const c_char,
    oldest_api: c_int,
    api: c_int,
    system: bool,
    cpus: c_int,
    most_cpus: c_int,
}

#[repr(C)]
struct RawBlock {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawInstruction {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawScoreboard {
    _opaque: [u8; 0],
}

/// A counter in each CPU's entry of a scoreboard.
#[repr(C)]
#[derive(Clone, Copy)]
struct Entry {
    scoreboard: *mut RawScoreboard,
    offset: usize,
}

/// GLib's arrays: what both kinds begin with.
#[repr(C)]
struct GlibArray {
    data: *mut u8,
    len: c_uint,
}

#[repr(C)]
struct RegisterDescriptor {
    handle: *mut c_void,
    name: *const c_char,
    feature: *const c_char,
}

type BlockCallback = extern "C" fn(u64, *mut RawBlock);
type CpuCallback = extern "C" fn(u64, c_uint);
type ExitCallback = extern "C" fn(u64, *mut c_void);
type ExecutionCallback = extern "C" fn(c_uint, *mut c_void);

/// enum qemu_plugin_op: add to a counter.
const ADD: c_int = 0;
/// enum qemu_plugin_cb_flags: the callback touches no register, or reads some.
const NO_REGISTERS: c_int = 0;
const READS_REGISTERS: c_int = 1;

// SAFETY: as declared in include/qemu/qemu-plugin.h and GLib's garray.h; C enums are ints.
unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: BlockCallback);
    fn qemu_plugin_register_vcpu_init_cb(id: u64, callback: CpuCallback);
    fn qemu_plugin_register_atexit_cb(id: u64, callback: ExitCallback, data: *mut c_void);
    fn qemu_plugin_tb_n_insns(block: *const RawBlock) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const RawBlock, at: usize) -> *mut RawInstruction;
    fn qemu_plugin_insn_data(
        instruction: *const RawInstruction,
        to: *mut c_void,
        len: usize,
    ) -> usize;
    fn qemu_plugin_insn_vaddr(instruction: *const RawInstruction) -> u64;
    fn qemu_plugin_insn_size(instruction: *const RawInstruction) -> usize;
    fn qemu_plugin_insn_haddr(instruction: *const RawInstruction) -> *mut c_void;
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut RawBlock,
        callback: ExecutionCallback,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut RawInstruction,
        callback: ExecutionCallback,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        instruction: *mut RawInstruction,
        operation: c_int,
        entry: Entry,
        value: u64,
    );
    fn qemu_plugin_scoreboard_new(size: usize) -> *mut RawScoreboard;
    fn qemu_plugin_u64_get(entry: Entry, cpu: c_uint) -> u64;
    fn qemu_plugin_u64_set(entry: Entry, cpu: c_uint, value: u64);
    fn qemu_plugin_num_vcpus() -> c_int;
    fn qemu_plugin_get_registers() -> *mut GlibArray;
    fn qemu_plugin_read_register(handle: *mut c_void, buffer: *mut GlibArray) -> c_int;
    fn g_byte_array_new() -> *mut GlibArray;
    fn g_byte_array_free(array: *mut GlibArray, with_data: c_int) -> *mut u8;
    fn g_array_free(array: *mut GlibArray, with_data: c_int) -> *mut c_char;
}

/// QEMU refuses a plugin that needs another version of its interface.
// SAFETY: nobody else has a symbol of this name; QEMU looks it up in this library.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = API_VERSION;

/// Called by QEMU when it has loaded the library.
///
/// # Safety
/// `arguments` points to `count` C strings.
// SAFETY: nobody else has a symbol of this name; QEMU looks it up in this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU hands over its description of itself, for this call.
    let info = unsafe { info.as_ref() }.filter(|info| info.system);
    let cpus = info.map(|info| usize::try_from(info.most_cpus).unwrap_or(0));
    let words = (0..usize::try_from(count).unwrap_or(0)).map(|at| {
        // SAFETY: by this function's contract, below the count.
        let word = unsafe { CStr::from_ptr(*arguments.add(at)) };
        word.to_string_lossy().into_owned()
    });
    let Some(cpus) = cpus else {
        eprintln!("hanok-plugin: it counts on whole machines alone");
        return 1;
    };
    if let Err(error) = crate::install(cpus, words) {
        eprintln!("hanok-plugin: {error:#}");
        return 1;
    }
    // SAFETY: the callbacks are of the declared types and live as long as the library, which
    // QEMU never unloads unless we ask.
    unsafe {
        qemu_plugin_register_vcpu_init_cb(id, on_cpu);
        qemu_plugin_register_vcpu_tb_trans_cb(id, on_block);
        qemu_plugin_register_atexit_cb(id, on_exit, ptr::null_mut());
    }
    0
}

extern "C" fn on_cpu(_: u64, cpu: c_uint) {
    crate::on_cpu(cpu as usize);
}

extern "C" fn on_block(_: u64, block: *mut RawBlock) {
    crate::on_block(&Block {
        raw: block,
        during: PhantomData,
    });
}

extern "C" fn on_exit(_: u64, _: *mut c_void) {
    crate::on_exit();
}

/// How many CPUs exist at the moment.
pub fn cpus() -> usize {
    // SAFETY: it has no conditions.
    usize::try_from(unsafe { qemu_plugin_num_vcpus() }).unwrap_or(0)
}

/// A block that is being translated.
pub struct Block<'a> {
    raw: *const RawBlock,
    during: PhantomData<&'a ()>,
}

impl Block<'_> {
    /// Calls [`crate::on_event`] each time the block is executed, before its first instruction.
    pub fn calls(&self, event: Event) {
        let data = ptr::without_provenance_mut(event.number());
        // SAFETY: the block is alive; the data is a number, not an address.
        unsafe {
            qemu_plugin_register_vcpu_tb_exec_cb(
                self.raw.cast_mut(),
                on_executed,
                event.flags(),
                data,
            );
        }
    }

    /// Its instructions.
    pub fn instructions(&self) -> impl Iterator<Item = Instruction<'_>> {
        // SAFETY: the block is alive, as it is being translated.
        let number = unsafe { qemu_plugin_tb_n_insns(self.raw) };
        (0..number).map(|at| Instruction {
            // SAFETY: as above, and `at` is below the number.
            raw: unsafe { qemu_plugin_tb_get_insn(self.raw, at) },
            during: PhantomData,
        })
    }
}

/// One of its instructions.
pub struct Instruction<'a> {
    raw: *mut RawInstruction,
    during: PhantomData<&'a ()>,
}

impl Instruction<'_> {
    /// Its bytes.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + use<> {
        self.word().to_le_bytes().into_iter().take(self.size())
    }

    /// Its first four bytes, the first one lowest; 0 for bytes beyond its end.
    pub fn word(&self) -> u32 {
        let mut bytes = [0; 4];
        // SAFETY: the instruction is alive while its block is; at most four bytes are written.
        unsafe { qemu_plugin_insn_data(self.raw, bytes.as_mut_ptr().cast(), bytes.len()) };
        u32::from_le_bytes(bytes)
    }

    /// Its address, as the CPU sees it.
    pub fn address(&self) -> u64 {
        // SAFETY: the instruction is alive while its block is.
        unsafe { qemu_plugin_insn_vaddr(self.raw) }
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        // SAFETY: the instruction is alive while its block is.
        unsafe { qemu_plugin_insn_size(self.raw) }
    }

    /// Its place in the board's memory: QEMU's own address of the place, which stands for the
    /// physical address and is never dereferenced; 0 for code outside of memory.
    pub fn place(&self) -> u64 {
        // SAFETY: the instruction is alive while its block is.
        unsafe { qemu_plugin_insn_haddr(self.raw) }.addr() as u64
    }

    /// Adds one to a counter of the CPU each time the instruction is executed, before it.
    pub fn adds_one(&self, counters: &Scoreboard, counter: usize) {
        let entry = counters.entry(counter);
        // SAFETY: as above; the scoreboard is never freed.
        unsafe { qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(self.raw, ADD, entry, 1) };
    }

    /// Calls [`crate::on_event`] each time the instruction is executed, before it.
    pub fn calls(&self, event: Event) {
        let (flags, data) = (event.flags(), ptr::without_provenance_mut(event.number()));
        // SAFETY: as above; the data is a number, not an address.
        unsafe { qemu_plugin_register_vcpu_insn_exec_cb(self.raw, on_executed, flags, data) };
    }
}

/// Why an instruction or block has a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The measured stretch begins.
    Begin,
    /// The measured stretch ends.
    End,
    /// The CPU is about to leave the hypervisor.
    Left,
    /// The hypervisor takes interrupts while they are masked, and goes on.
    Turned,
    /// The CPU came through this entry of the vector table.
    Entered(VectorEntry),
    /// The window knows the exit's cause.
    Known,
    /// A block begins.
    Block,
    /// The window knows the exit's vector, and no more is asked.
    Vector,
    /// The instruction is counted by this counter, without QEMU's help.
    Count(usize),
    /// The instruction is counted by this counter if this condition holds.
    CountIf(u8, usize),
}

impl Event {
    /// All events without a counter's number, in the order of their numbers.
    const PLAIN: [Self; 15] = [
        Self::Begin,
        Self::End,
        Self::Left,
        Self::Turned,
        Self::Block,
        Self::Entered(VectorEntry::Own),
        Self::Entered(VectorEntry::Synchronous),
        Self::Entered(VectorEntry::Interrupt),
        Self::Entered(VectorEntry::SystemError),
        Self::Entered(VectorEntry::Undefined),
        Self::Entered(VectorEntry::Call),
        Self::Entered(VectorEntry::Prefetch),
        Self::Entered(VectorEntry::Data),
        Self::Known,
        Self::Vector,
    ];
    /// Marks the number of [`Self::CountIf`], above any counter's.
    const CONDITIONAL: u32 = 28;

    fn number(self) -> usize {
        let count = Self::PLAIN.len();
        match self {
            Self::Count(counter) => count + counter,
            Self::CountIf(condition, counter) => {
                1 << Self::CONDITIONAL | usize::from(condition) << 24 | counter
            }
            plain => {
                let mut all = Self::PLAIN.iter();
                all.position(|one| *one == plain).unwrap_or(count)
            }
        }
    }

    fn of(number: usize) -> Self {
        match Self::PLAIN.get(number) {
            Some(plain) => *plain,
            None if number >> Self::CONDITIONAL != 0 => {
                Self::CountIf((number >> 24 & 0xf) as u8, number & 0xff_ffff)
            }
            None => Self::Count(number - Self::PLAIN.len()),
        }
    }

    /// Returns whether the callback reads registers.
    fn flags(self) -> c_int {
        match self {
            Self::Entered(_) | Self::Known | Self::Block => READS_REGISTERS,
            Self::Vector | Self::CountIf(..) => READS_REGISTERS,
            _ => NO_REGISTERS,
        }
    }
}

/// The CPU number that QEMU passes is not reliable: see [`crate::counters`].
extern "C" fn on_executed(_: c_uint, data: *mut c_void) {
    crate::on_event(Event::of(data.addr()));
}

/// Counters, the same number for each CPU. QEMU extends them as CPUs are added, and increments them
/// in the code that it translates.
pub struct Scoreboard {
    raw: *mut RawScoreboard,
    counters: usize,
}

// SAFETY: a handle; what it stands for is reached through QEMU's functions, from any thread.
unsafe impl Send for Scoreboard {}
// SAFETY: likewise.
unsafe impl Sync for Scoreboard {}

impl Scoreboard {
    /// Makes so many counters, all 0. They live as long as QEMU.
    pub fn new(counters: usize) -> Self {
        // SAFETY: it has no conditions.
        let raw = unsafe { qemu_plugin_scoreboard_new(counters * size_of::<u64>()) };
        Self { raw, counters }
    }

    /// A counter's value.
    pub fn value(&self, cpu: usize, counter: usize) -> u64 {
        assert!(cpu < cpus());
        // SAFETY: QEMU has room for every CPU there is; the counter is within it.
        unsafe { qemu_plugin_u64_get(self.entry(counter), cpu as c_uint) }
    }

    /// Sets a counter.
    pub fn set(&self, cpu: usize, counter: usize, value: u64) {
        assert!(cpu < cpus());
        // SAFETY: see `value`.
        unsafe { qemu_plugin_u64_set(self.entry(counter), cpu as c_uint, value) };
    }

    fn entry(&self, counter: usize) -> Entry {
        assert!(counter < self.counters);
        Entry {
            scoreboard: self.raw,
            offset: counter * size_of::<u64>(),
        }
    }
}

/// The registers of a CPU that the plugin reads; all CPUs have the same.
#[derive(Default)]
pub struct Registers {
    handles: Vec<(Register, Handle)>,
}

/// QEMU's name of a register.
struct Handle(AtomicPtr<c_void>);

impl Registers {
    /// Finds the registers. To be called when QEMU adds a CPU.
    pub fn find(&mut self) {
        if !self.handles.is_empty() {
            return;
        }
        // SAFETY: on a CPU's own thread. The array is ours to free.
        let array = unsafe { qemu_plugin_get_registers() };
        // SAFETY: null, or an array as declared.
        let Some(GlibArray { data, len }) = (unsafe { array.as_ref() }) else {
            return;
        };
        let first: *const RegisterDescriptor = data.cast();
        for at in 0..*len as usize {
            // SAFETY: below the array's length; the name is a C string that lives as long.
            let (handle, name) = unsafe {
                let descriptor = &*first.add(at);
                (descriptor.handle, CStr::from_ptr(descriptor.name))
            };
            let wanted = REGISTERS.into_iter().filter(|one| one.0.contains(&name));
            self.handles
                .extend(wanted.map(|wanted| (wanted, Handle(AtomicPtr::new(handle)))));
        }
        // SAFETY: ours, and not used again.
        unsafe { g_array_free(array, 1) };
    }

    /// The value of `register`, on the CPU whose instruction caused the callback.
    pub fn read(&self, register: Register) -> Option<u64> {
        let (_, handle) = self.handles.iter().find(|(known, _)| *known == register)?;
        // SAFETY: an array for this call alone.
        let buffer = unsafe { g_byte_array_new() };
        // SAFETY: QEMU's own handle; this is called from a callback that reads registers.
        let size = unsafe { qemu_plugin_read_register(handle.0.load(Ordering::Relaxed), buffer) };
        let value = match usize::try_from(size) {
            Ok(size @ 1..=8) => {
                let mut bytes = [0; 8];
                // SAFETY: QEMU appended as many bytes to the array, which was empty.
                unsafe { ptr::copy_nonoverlapping((*buffer).data, bytes.as_mut_ptr(), size) };
                Some(u64::from_le_bytes(bytes))
            }
            _ => None,
        };
        // SAFETY: ours, and not used again.
        unsafe { g_byte_array_free(buffer, 1) };
        value
    }
}
