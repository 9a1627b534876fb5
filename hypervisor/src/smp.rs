//! Starts the CPUs: each sets up its part of the interrupt controller, answers, and runs its first
//! vCPU.

use crate::Board;
use crate::fatal::refuse;
use crate::records::{FAILED, ONLINE, Records, Starting, board_of};
use crate::state;
use core::sync::atomic::{AtomicU32, Ordering};
use hanok_arch::{read, traps, vectors, wiring};
use hanok_arm_common::GicError;
use hanok_arm_common::cpu;
use hanok_arm_common::host_gic::{CpuGic, KICK};
use hanok_arm_common::image::{
    self, SecondaryStart, released_entry_offset, secondary_entry_offset,
};
use hanok_arm_common::mmu;
use hanok_arm_common::privilege::has_multiprocessing;
#[cfg(target_arch = "arm")]
use hanok_arm_common::privilege::is_deprivileged;
use hanok_arm_common::space::IMAGE_BASE;
use hanok_arm_common::sysreg::{wait_for_interrupt, wake_all, yield_now};
use hanok_config::{BoardCpu, BoardTree, Enable};
use hanok_hal::{Backend, HostGic};
use hanok_pcpu::set_triggers;
use hanok_types::{CpuId, Hpa};

/// Sets up this CPU's own part; the error says why that failed.
fn set_up(starting: &mut Starting, board: &'static Board) -> Result<CpuGic, GicError> {
    vectors::install();
    state::check(board, starting.cpu.id);
    // SAFETY: the record lives for ever and is this CPU's.
    unsafe { cpu::install(&mut starting.cpu) };
    let frames = starting.gic.of_cpu(starting.mpidr)?;
    let machine = &board.machine;
    let gic = CpuGic::new(frames, &machine.targets);
    let id = starting.cpu.id;
    if id == CpuId::new(0) {
        gic.init_board();
    }
    gic.init_cpu(id);
    let lines = &board.interrupts;
    for line in [
        KICK,
        lines.virtual_timer,
        lines.hyp_timer,
        lines.maintenance,
    ] {
        gic.enable(line, true);
    }
    // A GICv2's CPUs disable the maintenance interrupt again, until there is an end to report.
    machine.gic.lists().clear();
    traps::install(machine.vtcr, machine.empty_space, machine.features);
    #[cfg(target_arch = "arm")]
    if is_deprivileged() {
        hanok_arch::deprivileged::install(starting.cpu.stack);
    }
    if let Some(pcpu) = &mut starting.cpu.pcpu {
        pcpu.local.gic = Some(gic);
        pcpu.local.begin_tracing();
        starting.cpu.tracer = pcpu.local.tracer();
    }
    Ok(gic)
}

/// The affinity of this CPU: zero where there cannot be another, and MPIDR has none.
fn own_affinity() -> u64 {
    if has_multiprocessing() {
        read!("mpidr_el1") & 0xff_00ff_ffff
    } else {
        0
    }
}

/// Starts every CPU but this one, and waits until each of them answers. The answer is this CPU's
/// record.
pub fn start_others(
    tree: &BoardTree<'_>,
    board: &'static Board,
    mut cpus: Records,
    table: Hpa,
    image: Hpa,
) -> Records {
    let mine = own_affinity();
    if tree.cpus.first().map(|cpu| cpu.mpidr) != Some(mine) {
        refuse(format_args!(
            "the board was not started on the first CPU of its device tree"
        ));
    }
    for cpu in tree.cpus.iter().skip(1).rev() {
        if let Some(starting) = cpus.pop() {
            start(starting, cpu, board, table, image);
        }
    }
    cpus
}

/// Starts one CPU, which owns its record from then on.
fn start(
    starting: &'static mut Starting,
    cpu: &BoardCpu,
    board: &'static Board,
    table: Hpa,
    image: Hpa,
) {
    let (id, state) = (starting.cpu.id, starting.state);
    let start = SecondaryStart {
        table: table.get(),
        stack: starting.cpu.stack,
        argument: core::ptr::from_mut(starting) as u64,
    };
    clean(&start);
    match (cpu.enable, board.machine.firmware) {
        (Enable::Psci, Some(firmware)) => {
            let entry = image.get() + secondary_entry_offset();
            let at = physical(&start, image);
            if let Err(error) = firmware.cpu_on(cpu.mpidr, entry, at) {
                refuse(format_args!("CPU {id} does not start: {error}"));
            }
        }
        (Enable::SpinTable(release), _) => {
            let entry = name_record(&start, cpu, image);
            // SAFETY: the CPU's release address, mapped as a device by the layout.
            unsafe { (release.get() as *mut u64).write_volatile(entry) };
            wake_all();
        }
        #[cfg(target_arch = "arm")]
        (Enable::SystemFlags(registers), _) => {
            let entry = name_record(&start, cpu, image);
            // All CPUs wait for the same word: those that are not named go on waiting, in the
            // image.
            set_flags(registers, entry as u32);
            board.machine.gic.wake_others();
            wake_all();
        }
        _ => refuse(format_args!(
            "CPU {id} cannot be started: its device tree node names no way that is known"
        )),
    }
    wait_for(board, state, id, cpu.mpidr);
}

/// Writes into the image which CPU is released and with which record. The answer is the entry
/// address.
fn name_record(start: &SecondaryStart, cpu: &BoardCpu, image: Hpa) -> u64 {
    image::released_record().store(physical(start, image), Ordering::Release);
    clean(image::released_record());
    #[cfg(target_arch = "arm")]
    {
        const NAMED: u32 = 1 << 31;
        let named = hanok_arch::boot::released_cpu();
        named.store(cpu.mpidr as u32 | NAMED, Ordering::Release);
        clean(named);
    }
    #[cfg(not(target_arch = "arm"))]
    let _ = cpu;
    image.get() + released_entry_offset()
}

/// Sets SYS_FLAGS of a Versatile Express (DUI 0447, 4.3.6): clears all bits, then sets those of
/// `value`.
#[cfg(target_arch = "arm")]
fn set_flags(registers: Hpa, value: u32) {
    const SET: u64 = 0x30;
    const CLEAR: u64 = 0x34;
    for (offset, bits) in [(CLEAR, u32::MAX), (SET, value)] {
        let at = (registers.get() + offset) as *mut u32;
        // SAFETY: the board's system registers, mapped as a device by the layout.
        unsafe { at.write_volatile(bits) };
    }
}

/// The physical address of a value on the boot stack, which is in the image.
fn physical<T>(value: &T, image: Hpa) -> u64 {
    core::ptr::from_ref(value) as u64 - IMAGE_BASE + image.get()
}

/// Makes a value visible to a CPU whose caches are off.
fn clean<T>(value: &T) {
    let start = core::ptr::from_ref(value) as u64;
    hanok_arm_common::bulk::clean_to_coherency(start, size_of::<T>() as u64);
}

/// Waits until a CPU answers, for at most about ten seconds of the system counter: an emulator's
/// counter may follow the PC's clock, while the PC is busy.
fn wait_for(board: &Board, state: &AtomicU32, id: CpuId, mpidr: u64) {
    let machine = &board.machine;
    let until = machine.counter().wrapping_add(10 * machine.frequency);
    loop {
        match state.load(Ordering::Acquire) {
            ONLINE => return,
            FAILED => refuse(format_args!(
                "CPU {id}: no part of the interrupt controller is for its affinity {mpidr:#x}"
            )),
            _ if machine.counter() > until => {
                refuse(format_args!("CPU {id} was started but does not answer"))
            }
            _ => yield_now(),
        }
    }
}

/// The entry of another CPU, on its own stack, in the final translation.
#[unsafe(no_mangle)]
extern "C" fn hanok_secondary_main(starting: *mut Starting) -> ! {
    mmu::forbid_writable_code();
    // SAFETY: the record of this CPU, which lives for ever; the boot CPU gave it away.
    let starting = unsafe { &mut *starting };
    let board = board_of(&starting.cpu);
    let up = set_up(starting, board).is_ok();
    starting
        .state
        .store(if up { ONLINE } else { FAILED }, Ordering::Release);
    if !up {
        loop {
            wait_for_interrupt();
        }
    }
    let vcpu = wiring::begin(&mut starting.cpu);
    // SAFETY: loaded by the scheduler for this CPU; this stack is not needed again.
    unsafe { vectors::enter(vcpu) }
}

/// Sets up the boot CPU, and with it all that belongs to the whole board.
pub fn set_up_first(board: &'static Board, cpus: &mut Records) {
    let Some(first) = cpus.first_mut() else {
        refuse(format_args!("the board has no CPU"))
    };
    let gic = match set_up(first, board) {
        Ok(gic) => gic,
        Err(error) => refuse(format_args!("{error}")),
    };
    set_triggers(&gic, board);
    if let Some(uart) = board.interrupts.uart {
        gic.route(uart, CpuId::new(0));
        gic.enable(uart, true);
    }
}
