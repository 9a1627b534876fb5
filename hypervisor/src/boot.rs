//! The path of the boot CPU from the assembly to its guest.

use crate::Board;
use crate::arena::Arena;
use crate::clock::Clock;
use crate::fatal::{self, refuse};
use crate::layout::{self, Image, Layout};
#[cfg(target_arch = "aarch64")]
use crate::smmu;
use crate::{first, gic, records, selftest, smp, system, trace};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use hanok_arch::traps::Features;
use hanok_arch::{Host, traps, vectors, wiring};
use hanok_arm_common::cpu::{self, Cpu};
use hanok_arm_common::host_gic::Target;
use hanok_arm_common::image::{self, BootArguments};
use hanok_arm_common::privilege::is_deprivileged;
use hanok_arm_common::{Conduit, Firmware, HostUart, pmu};
use hanok_config::{BoardTree, Console, PsciMethod, SystemView};
use hanok_hal::Mutex;
use hanok_paging::VmidPool;
use hanok_pcpu::{BoardInterrupts, gather, lines_of};
use hanok_random::Source;
use hanok_trace::CpuAccount;
use hanok_types::{CpuId, Hpa, Hva, IntId, MAX_CPUS, Span};
use hanok_vm::{Buffers, Multiplexer, Names, PortQueues, Said};

/// The largest device tree of the arm64 boot protocol, and the part of a tree that is mapped at
/// first.
const TREE_MAX: u64 = 2 << 20;

/// The stack for faults of the boot CPU, until CPUs have their own.
static mut BOOT_EMERGENCY_STACK: [u64; 1024] = [0; 1024];

/// Called by the assembly, on the boot stack.
#[unsafe(no_mangle)]
extern "C" fn hanok_boot_main(tree: u64, image: u64) -> ! {
    let boot = BootArguments { tree, image };
    let info = image::image_info();
    fatal::set_early_console(info.early_console);
    vectors::install();
    let emergency = (&raw const BOOT_EMERGENCY_STACK) as u64 + 8192;
    let mut first = Cpu::<Host>::new(CpuId::new(0), (0, emergency));
    // SAFETY: this frame lives until this CPU installs its final record, and is its own.
    unsafe { cpu::install(&mut first) };
    if let Some(why) = traps::unsuitable() {
        refuse(format_args!("{why}"));
    }
    let image = Image::new(&boot, &info);
    if !image.payload.is_empty() && !image::is_whole(&info) {
        refuse(format_args!(
            "the hypervisor itself is damaged (its checksum is not that of the image tool): load \
             the image again, or build it anew"
        ));
    }
    let tree = tree_bytes(boot.tree);
    let board = match BoardTree::parse(tree) {
        Ok(board) => board,
        Err(error) => refuse(format_args!("{error}")),
    };
    let console = adopt_console(&board, info.early_console);
    selftest::early(board.bootargs);
    let tree_span = Span::new(Hpa::new(boot.tree), tree_len(tree)).unwrap_or_default();
    let layout = layout::establish(&board, &image, tree_span);
    start(&board, console, image, layout)
}

/// The mapped bytes of the board's device tree. The parser checks the tree's own length.
fn tree_bytes(at: u64) -> &'static [u8] {
    if at == 0 || !at.is_multiple_of(8) {
        refuse(format_args!(
            "the boot loader gave no device tree (at {at:#x})"
        ));
    }
    let mapped = (at & !(TREE_MAX - 1)) + 2 * TREE_MAX - at;
    // SAFETY: the assembly mapped the two blocks from the one that holds `at`; the tree stays
    // untouched, as its memory is reserved.
    let header = unsafe { core::slice::from_raw_parts(at as *const u8, 8) };
    // Only the tree itself becomes a reference: the memory after it is free.
    let len = tree_len(header).clamp(8, mapped);
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts(at as *const u8, len as usize) }
}

/// The length of the tree by its header (FDT header, totalsize).
fn tree_len(tree: &[u8]) -> u64 {
    let field = tree
        .get(4..8)
        .and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
    u64::from(field.map_or(0, u32::from_be_bytes))
}

/// The serial port of the tree, which becomes the panic console if it is mapped already.
fn adopt_console(board: &BoardTree<'_>, early: u64) -> Console {
    fatal::set_framed(is_framed(board));
    let Some(console) = board.console else {
        refuse(format_args!(
            "the board's device tree has no serial port that is known to speak on"
        ));
    };
    if early == console.port() {
        fatal::set_console(early);
    }
    // This comes only now: a board whose console may not have shown a refusal before must not be turned
    // off.
    if let Some(method) = board.psci {
        fatal::set_conduit(conduit(method));
    }
    console
}

/// Whether the boot loader's words ask for a framed line.
fn is_framed(board: &BoardTree<'_>) -> bool {
    let mut words = board.bootargs.split_ascii_whitespace();
    words.any(|word| word == "hanok.console=framed")
}

fn conduit(method: PsciMethod) -> Conduit {
    match method {
        PsciMethod::Smc => Conduit::Smc,
        PsciMethod::Hvc => Conduit::Hvc,
    }
}

/// With the final translation in place: the shared data, the VMs, the CPUs.
fn start(tree: &BoardTree<'static>, console: Console, image: Image, layout: Layout) -> ! {
    // SAFETY: free RAM is mapped in place for ever.
    let mut arena = unsafe { Arena::new(layout.free) };
    let port = console.port();
    fatal::set_console(port);
    // SAFETY: the board's serial port, mapped for ever; the panic console uses it only at the end of the
    // run.
    let Some(mut uart) = (unsafe { HostUart::new(port) }) else {
        refuse(format_args!(
            "the serial port's address {port:#x} cannot be used"
        ));
    };
    uart.listen();
    // SAFETY: the payload is mapped in place, read-only, for ever.
    let payload: &'static [u8] = unsafe {
        core::slice::from_raw_parts(
            image.payload.start().get() as *const u8,
            image.payload.len() as usize,
        )
    };
    let system = system::parse(payload, image.system_sum, &mut arena);
    let features = Features::detect();
    if let Err(fault) = tree.check(&system) {
        refuse(format_args!("the system does not fit this board: {fault}"));
    }
    let mut table = layout.table;
    layout::map_registers(&mut table, &system);
    #[cfg_attr(
        target_arch = "arm",
        expect(unused_mut, reason = "only an SMMU adds an interrupt")
    )]
    let Some(mut lines) = lines_of(system.vms) else {
        refuse(format_args!(
            "the system's devices have too many interrupts"
        ))
    };
    let gic = gic::interface(tree, &mut arena);
    let clock = Clock::new(tree);
    let facts = system::Facts {
        system: &system,
        priority_bits: gic.lists().priority_bits(),
        epoch: epoch(tree, &clock),
        gicv: gic::virtual_cpu_interface(tree),
        bootargs: tree.bootargs,
        payload,
    };
    let frames = system::frames(&system, &mut arena);
    let units = system::place_units(&facts, frames, &mut arena);
    let empty_space = system::empty_space(frames);
    system::give_back(frames, &mut arena);
    #[cfg(target_arch = "aarch64")]
    let smmu = smmu::set_up(tree, units, &mut lines, &mut table, &mut arena.free);
    let Some((names, buffers)) = queues(&system, &mut arena) else {
        refuse(format_args!("no memory for the console's queues"))
    };
    let machine = Host {
        registers: clock.registers,
        gic,
        targets: tree.cpus.iter().map(|cpu| Target::new(cpu.mpidr)).collect(),
        features,
        vtcr: system::vtcr(),
        empty_space,
        frequency: clock.frequency,
        firmware: tree.psci.map(|method| Firmware::new(conduit(method))),
        #[cfg(target_arch = "aarch64")]
        smmu,
        planted: selftest::planted(tree.bootargs),
    };
    #[cfg(feature = "selftest")]
    let page_moves = selftest::page_moves(tree.bootargs, &mut arena.free);
    let random = gather(&machine, tree.rng_seed, &image.key, hanok_arch::random());
    let accounts = arena.put_all(tree.cpus.len(), tree.cpus.iter().map(|_| CpuAccount::new()));
    let Some(accounts) = accounts else {
        refuse(format_args!("no memory for the CPUs' accounts"))
    };
    let cpus = (tree.cpus.len(), clock.frequency);
    let traces = trace::set_up(&system, cpus, names, &mut arena);
    let board = Board {
        machine,
        console: Mutex::new(Multiplexer::new(uart, is_framed(tree), names, buffers)),
        interrupts: interrupts(tree, [clock.guests, clock.own], console.interrupt),
        lines,
        vms: units,
        updates: [const { AtomicU64::new(0) }; MAX_CPUS],
        vmids: Mutex::new(VmidPool::new()),
        counts_instructions: pmu::counts(),
        owners: Mutex::default(),
        #[cfg(feature = "selftest")]
        page_moves,
        payload,
        random: Mutex::new(random),
        jitter: AtomicU32::new(0),
        rx_lock: Mutex::default(),
        input_waits: AtomicU64::new(0),
        output_waits: AtomicBool::new(false),
        endings: Mutex::new(()),
        any_stopped: AtomicBool::new(false),
        bootargs: tree.bootargs,
        wish: Mutex::new(None),
        groups: system.groups,
        inhabited: system.inhabited(),
        policies: system.policies,
        accounts,
        traces,
    };
    let Some(board) = arena.put(board) else {
        refuse(format_args!("no memory for the board"))
    };
    let board: &'static Board = board;
    greet(board, tree);
    tell_sources(board);
    tell_variables(board);
    tell_trace(board);
    let mut cpus = records::prepare(tree, board, &system, &mut arena);
    let root = table.root();
    system::place_vcpus(
        board,
        &system,
        &mut cpus,
        &mut arena,
        #[cfg(target_arch = "arm")]
        crate::deprivileged::Window::new(layout.window, &mut table),
    );
    // All permanent data has its place: from here on the frames have owners.
    let free = system::hand_out(board, arena) >> 10;
    wiring::say(board, format_args!("{free} KiB of RAM free"));
    smp::set_up_first(board, &mut cpus);
    image::check_boot_stack();
    let cpus = smp::start_others(tree, board, cpus, root, image.start());
    first::enter(cpus)
}

/// The VMs' names, and the console's queues for them.
fn queues(
    system: &SystemView<'_>,
    arena: &mut Arena,
) -> Option<(&'static Names, Buffers<'static>)> {
    let count = system.vms.len();
    let names = arena.put_all(count, system.vms.iter().map(|vm| vm.name.clone()))?;
    let buffers = Buffers {
        said: arena.put(Said::new())?,
        guests: arena.put_all(count, (0..count).map(|_| PortQueues::new()))?,
    };
    Some((names, buffers))
}

/// The wall clock's time when the counter was zero, in seconds since 1970; without a clock,
/// the guests' clocks begin there.
fn epoch(tree: &BoardTree<'_>, clock: &Clock) -> u32 {
    let Some(rtc) = tree.rtc else { return 0 };
    // SAFETY: the board's PL031, mapped as a device with the final translation.
    let now = unsafe { hanok_arm_common::seconds(Hva::new(rtc.start().get())) };
    now.wrapping_sub(clock.seconds() as u32)
}

/// The interrupts of the hypervisor. `timers` are the guests' and its own.
fn interrupts(tree: &BoardTree<'_>, timers: [IntId; 2], uart: Option<IntId>) -> BoardInterrupts {
    let [virtual_timer, hyp_timer] = timers;
    BoardInterrupts {
        virtual_timer,
        hyp_timer,
        maintenance: gic::maintenance(tree),
        uart,
    }
}

fn greet(board: &Board, tree: &BoardTree<'_>) {
    let ram: u64 = tree.ram.iter().map(Span::len).sum();
    if tree.cpus_left_out > 0 {
        wiring::say(
            board,
            format_args!(
                "{} of the board's CPUs left out: with a {} the first {} are used",
                tree.cpus_left_out,
                tree.gic_version(),
                tree.cpus.len()
            ),
        );
    }
    wiring::say(
        board,
        format_args!(
            "Hanok {} on {} CPU{}{}, {} MiB of RAM, {} VM{}",
            env!("CARGO_PKG_VERSION"),
            tree.cpus.len(),
            if tree.cpus.len() == 1 { "" } else { "s" },
            if is_deprivileged() { ", at PL1" } else { "" },
            ram >> 20,
            board.vms.len(),
            if board.vms.len() == 1 { "" } else { "s" },
        ),
    );
}

/// Prints where variables are, for who looks at them from outside.
fn tell_variables(board: &Board) {
    for unit in board.vms {
        let memory = unit.vm.variables();
        if !memory.is_empty() {
            let (name, at) = (&unit.vm.config().name, memory.as_ptr().addr());
            wiring::say(board, format_args!("vm {name}: variables at {at:#x}"));
        }
    }
}

/// Prints where the trace is, for who reads the board's memory.
fn tell_trace(board: &Board) {
    if let Some(memory) = board.traces.memory() {
        let (at, size) = (memory.start(), memory.len() >> 10);
        wiring::say(board, format_args!("trace: {size} KiB at {at}"));
    }
}

/// Prints the sources of guests' random numbers.
fn tell_sources(board: &Board) {
    let sources = board.random.lock().sources();
    let has = |source, text| if sources.contains(source) { text } else { "" };
    let warning = if sources.suffice() {
        ""
    } else {
        " alone: guests' random numbers can be GUESSED"
    };
    wiring::say(
        board,
        format_args!(
            "random numbers rest on {}{}{}jitter{warning}",
            has(Source::Board, "the board's seed, "),
            has(Source::Cpu, "the CPU's generator, "),
            has(Source::Build, "the image's key, "),
        ),
    );
}
