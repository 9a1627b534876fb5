//! Physical interrupts on the fast path: the virtual timer's, the report of its end, that of a device which
//! its VM has for itself, and a kick that is for interrupts alone, on a pCPU with one vCPU. Everything else
//! is the slow path's.

use crate::exited::{Exited, Fast};
use crate::host_gic::{CpuInterface, KICK};
use crate::machine::{Kind, Machine};
use hanok_hal::{Backend, ListRegisters, Taken};
use hanok_pcpu::{Local, OwnDevice, Vcpu, guest};
use hanok_vm::{Attempt, Cause, PostedSgis};

/// The work that is left for an interrupt that was acknowledged. Work of more than a few instructions is
/// called last, and with the exit alone: if the references to the vCPU and the record were still in use
/// there, the compiler would keep the pointer for the trap entry on the stack, also in the short cases.
enum Next {
    /// Nothing.
    Done,
    /// The slow path is to handle the interrupt.
    Slow,
    /// There was no interrupt.
    Nothing,
    /// A kick's posted SGIs need the whole controller.
    Changed(PostedSgis),
    /// The virtual timer's interrupt was not tried in the list register where it was last.
    Timer(Taken),
    /// The virtual timer's interrupt needs the whole controller.
    NewTimer(Taken),
    /// The end of an interrupt was reported.
    Ended(Taken),
    /// A device has fired, which its VM may have for itself.
    Device(Taken),
}

impl Next {
    #[inline(always)]
    fn carry_out<K: Kind>(
        self,
        exited: Exited<Machine<K>>,
        lists: &(impl ListRegisters + Copy),
    ) -> Option<Exited<Machine<K>>> {
        match self {
            Self::Done => Some(exited),
            Self::Slow => exited.not_done(),
            Self::Nothing => nothing(exited),
            Self::Changed(posted) => interrupts_changed(exited, posted),
            Self::Timer(taken) => known_timer(exited, taken, lists),
            Self::NewTimer(taken) => new_timer(exited, taken),
            Self::Ended(taken) => end_reported(exited, taken),
            Self::Device(taken) => device_fired(exited, taken),
        }
    }
}

/// Handles a physical interrupt, which is acknowledged here in any case, by the CPU's interface and
/// its list registers.
#[inline(always)]
pub fn interrupt<K: Kind>(
    mut exited: Exited<Machine<K>>,
    gic: impl CpuInterface,
    lists: &(impl ListRegisters + Copy),
) -> Option<Exited<Machine<K>>> {
    let next = exited.with(|vcpu, local| look(vcpu, local, gic, *lists));
    next.carry_out(exited, lists)
}

#[inline(always)]
fn look<K: Kind>(
    vcpu: &mut Vcpu<Machine<K>>,
    local: &mut Local<Machine<K>>,
    gic: impl CpuInterface,
    lists: impl ListRegisters,
) -> Next {
    let taken = gic.acknowledge();
    if taken.is_none() {
        return Next::Nothing;
    }
    gic.drop_priority(taken);
    let id = taken.id();
    local.interrupted_by(id);
    if id == KICK && !local.is_shared() {
        gic.end(taken);
        return kick(vcpu, local, gic, lists);
    }
    let lines = &local.board.interrupts;
    if id == lines.virtual_timer {
        if !K::TIMER_INLINE {
            return Next::Timer(taken);
        }
        return match show_timer(vcpu, local, taken, lists) {
            Fast::Done => Next::Done,
            Fast::Slow => Next::NewTimer(taken),
        };
    }
    if id == lines.maintenance {
        return Next::Ended(taken);
    }
    if !id.is_private() {
        return Next::Device(taken);
    }
    local.taken = Some(taken);
    Next::Slow
}

#[inline(always)]
fn kick<K: Kind, G: CpuInterface>(
    vcpu: &mut Vcpu<Machine<K>>,
    local: &mut Local<Machine<K>>,
    _: G,
    mut lists: impl ListRegisters,
) -> Next {
    // A change of a vCPU's power or lifecycle also makes a request, so that requests alone are tested.
    let Some(posted) = vcpu.requests.take_interrupts_alone() else {
        return Next::Slow;
    };
    let (vm, id) = (&vcpu.unit.vm, vcpu.core.id);
    if vm.show_posted_sgis(id, posted, G::VERSION, &mut lists) == Attempt::Untouched {
        return Next::Changed(posted);
    }
    local.handled(vcpu, Cause::Interrupt);
    Next::Done
}

/// Shows the virtual timer's interrupt in the list register where it was last, if it is there still.
/// The guest deactivates the interrupt, through the list register.
#[inline(always)]
fn show_timer<K: Kind>(
    vcpu: &mut Vcpu<Machine<K>>,
    local: &mut Local<Machine<K>>,
    taken: Taken,
    mut lists: impl ListRegisters,
) -> Fast {
    let (vm, id) = (&vcpu.unit.vm, vcpu.core.id);
    if vm.virtual_timer_fast(id, taken.id(), &mut lists) == Attempt::Untouched {
        return Fast::Slow;
    }
    local.handled(vcpu, Cause::Timer);
    Fast::Done
}

#[inline(never)]
fn known_timer<K: Kind>(
    exited: Exited<Machine<K>>,
    taken: Taken,
    lists: &(impl ListRegisters + Copy),
) -> Option<Exited<Machine<K>>> {
    let shown = |vcpu: &mut _, local: &mut _| show_timer(vcpu, local, taken, *lists);
    exited.handle_or(shown, |exited| new_timer(exited, taken))
}

/// Handles the virtual timer's interrupt, if it was not in this list register before.
#[inline(never)]
fn new_timer<K: Kind>(exited: Exited<Machine<K>>, taken: Taken) -> Option<Exited<Machine<K>>> {
    exited.handle(|vcpu, local| {
        let board = local.board;
        guest(vcpu, board, &mut board.machine.lists()).virtual_timer(taken.id());
        local.handled(vcpu, Cause::Timer);
        Fast::Done
    })
}

/// The interrupt is gone again.
#[inline(never)]
fn nothing<K: Kind>(exited: Exited<Machine<K>>) -> Option<Exited<Machine<K>>> {
    exited.handle(|vcpu, local| {
        local.handled(vcpu, Cause::Interrupt);
        Fast::Done
    })
}

/// A kick's posted SGIs that need the whole controller.
#[inline(never)]
fn interrupts_changed<K: Kind>(
    exited: Exited<Machine<K>>,
    posted: PostedSgis,
) -> Option<Exited<Machine<K>>> {
    exited.handle(|vcpu, local| {
        let board = local.board;
        guest(vcpu, board, &mut board.machine.lists()).interrupts_changed(posted);
        local.handled(vcpu, Cause::Interrupt);
        Fast::Done
    })
}

/// Handles the report that the guest has ended an interrupt with a physical one behind it, most often its
/// timer's, beside which others were listed.
#[inline(never)]
fn end_reported<K: Kind>(exited: Exited<Machine<K>>, taken: Taken) -> Option<Exited<Machine<K>>> {
    exited.handle(|vcpu, local| {
        let board = local.board;
        let mut lists = board.machine.lists();
        if guest(vcpu, board, &mut lists).maintenance_fast() == Attempt::Untouched {
            local.taken = Some(taken);
            return Fast::Slow;
        }
        board.machine.end(taken);
        local.handled(vcpu, Cause::Interrupt);
        Fast::Done
    })
}

/// The interrupt of a device. If the VM has the device for itself, the guest deactivates the interrupt,
/// through the list register.
#[inline(never)]
fn device_fired<K: Kind>(exited: Exited<Machine<K>>, taken: Taken) -> Option<Exited<Machine<K>>> {
    exited.handle(|vcpu, local| {
        if vcpu.own_device(local, taken.id()) == OwnDevice::Other {
            local.taken = Some(taken);
            return Fast::Slow;
        }
        local.handled(vcpu, Cause::Interrupt);
        Fast::Done
    })
}
