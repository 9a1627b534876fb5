//! What entries and exits of all kinds have in common: the guest's thread registers and interrupt lines, its accesses to
//! devices and timers, and this CPU's TLB.

use crate::{Host, Vcpu, maintain, read};
use hanok_arm_common::privilege::has_multiprocessing;
use hanok_arm_common::sysreg::{dsb_sy, isb};
use hanok_cpu32::{Lines, TimerRegister};
use hanok_deprivileged::{Accessed, ThreadRegisters};
use hanok_hal::Backend;
use hanok_paging::shadow::{Doorbells, Owed};
use hanok_pcpu::{Local, guest};
use hanok_vgic::{GuestInterface, InterruptInput};
use hanok_vm::GuestTimer;

/// The thread registers, as the guest has left them.
pub fn thread_registers() -> ThreadRegisters {
    ThreadRegisters {
        rw: read!("tpidr_el0") as u32,
        ro: read!("tpidrro_el0") as u32,
    }
}

const fn timer_register(register: TimerRegister) -> hanok_vm::TimerRegister {
    match register {
        TimerRegister::Cntfrq => hanok_vm::TimerRegister::Frequency,
        TimerRegister::Cntpct | TimerRegister::Cntvct => hanok_vm::TimerRegister::Count,
        TimerRegister::CntpTval => hanok_vm::TimerRegister::TimerValue(GuestTimer::Physical),
        TimerRegister::CntpCtl => hanok_vm::TimerRegister::Control(GuestTimer::Physical),
        TimerRegister::CntpCval => hanok_vm::TimerRegister::CompareValue(GuestTimer::Physical),
        TimerRegister::CntvTval => hanok_vm::TimerRegister::TimerValue(GuestTimer::Virtual),
        TimerRegister::CntvCtl => hanok_vm::TimerRegister::Control(GuestTimer::Virtual),
        TimerRegister::CntvCval => hanok_vm::TimerRegister::CompareValue(GuestTimer::Virtual),
    }
}

/// A guest's access to its timer, or to a word of a device, which writes if there is something to store: the value of a read. `None`,
/// with nothing done, if there is no device.
#[inline(never)]
pub fn access(
    vcpu: &mut Vcpu,
    local: &Local<Host>,
    what: Accessed,
    stored: Option<u64>,
) -> Option<u64> {
    let board = local.board;
    let mut lists = board.machine.lists();
    let mut core = guest(vcpu, board, &mut lists);
    match (what, stored) {
        (Accessed::Device(at), stored) => core.access_device(at, stored),
        (Accessed::Timer(register), Some(value)) => {
            core.write_timer(timer_register(register), value);
            Some(0)
        }
        (Accessed::Timer(register), None) => Some(core.read_timer(timer_register(register))),
    }
}

/// What the virtual interrupt controller signals to the resident vCPU.
#[inline(never)]
pub fn lines(local: &Local<Host>) -> Lines {
    let input = local.board.machine.lists().software(|lists| lists.input());
    let input = input.flatten();
    Lines {
        irq: input == Some(InterruptInput::Irq),
        fiq: input == Some(InterruptInput::Fiq),
    }
}

/// Invalidates what is owed in this CPU's TLB.
#[inline(never)]
pub fn pay(owed: Owed) {
    match owed {
        Owed::Nothing => return,
        Owed::Page { at, asid } => maintain!(0 8 7 1, at & !0xfff | u32::from(asid)),
        Owed::Pages { at, asid, count } => {
            let pages = Doorbells {
                first: at & !0xfff | u32::from(asid),
                step: 1,
                count,
            };
            pages.each(|at| maintain!(0 8 7 1, at));
        }
        Owed::PageEverywhere { at } if has_multiprocessing() => maintain!(0 8 7 3, at & !0xfff),
        Owed::PagesEverywhere { first, step, count } if has_multiprocessing() => {
            let pages = Doorbells { first, step, count };
            pages.each(|at| maintain!(0 8 7 3, at & !0xfff));
        }
        // TLBIMVAA is of the Multiprocessing Extensions.
        Owed::PageEverywhere { .. } | Owed::PagesEverywhere { .. } | Owed::Everything => {
            // An ASID may name another root from here on, and a CPU may have predicted branches by it: BPIALL.
            maintain!(0 7 5 6, 0);
            maintain!(0 8 7 0, 0);
        }
    }
    dsb_sy();
    isb();
}
