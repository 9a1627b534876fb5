//! Models of guests.

use crate::World;
use crate::world::used;
use hanok_decode::SysReg;
use hanok_hal::Context;
use hanok_hal::fake::{FakeBackend, VIRTUAL_TIMER};
use hanok_pcpu::{After, Pcpu, guest};
use hanok_types::{GicVersion, PAGE_SIZE, VcpuId, Width, platform};
use hanok_vm::{
    Action, Cause, DataAbort, Exit, Instruction, MmioAccess, SystemRegister, Wait, function,
};
use shuttle::rand::Rng;

/// How often guests make which exit.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Of a hundred exits, how many end the VM or reset it.
    pub ends: u32,
    /// How many turn another vCPU on, or the own one off.
    pub power: u32,
    /// How many send an interrupt to another vCPU.
    pub interrupts: u32,
    /// How many wait for an interrupt; the rest yields.
    pub waits: u32,
    /// Whether a vCPU that waits sets its virtual timer before.
    pub timers: bool,
    /// Whether a VM's first vCPU never waits.
    pub first_is_busy: bool,
}

/// A guest, as one CPU runs it.
pub struct Guest {
    habits: Habits,
}

/// What a guest does at its exit.
enum Deed {
    Call([u64; 4]),
    Interrupt(VcpuId),
    Wait,
    Yield,
}

impl Guest {
    /// A guest with these habits.
    pub fn new(habits: Habits) -> Self {
        Self { habits }
    }

    /// Runs the resident vCPU until its next exit, and handles the exit.
    pub fn run(&mut self, pcpu: &mut Pcpu<FakeBackend>, world: &World) {
        let machine = &pcpu.local.board.machine;
        let vcpu = pcpu.resident().expect("a vCPU was chosen");
        assert!(
            vcpu.context.loaded && vcpu.is_on(),
            "it runs where it is not"
        );
        let unit = vcpu.unit;
        let space = unit.space.load(hanok_hal::sync::atomic::Ordering::Relaxed);
        assert_eq!(
            machine.here().space,
            space,
            "it runs in its VM's address space"
        );
        vcpu.context.depart();
        world.enter(unit.vm.id(), vcpu.core.id);
        machine.here().end_all();
        let missing = world.touch(unit);
        shuttle::thread::yield_now();
        let interrupted = hanok_hal::Backend::interrupt_is_pending(machine);
        world.leave(unit.vm.id());
        if interrupted {
            let taken = hanok_hal::Backend::acknowledge(machine);
            pcpu.local.taken = taken;
            let after = pcpu.interrupted();
            return pcpu.finish(Cause::Interrupt, after);
        }
        if let Some(ipa) = missing {
            let (Some(vcpu), local) = pcpu.resident_and_local() else {
                return;
            };
            let mut lists = hanok_hal::Backend::lists(machine);
            let exit = Exit::Fetch { ipa, walk: false };
            let action = guest(vcpu, local.board, &mut lists).handle(exit);
            assert!(matches!(action, Action::Block(Wait::Page(_))));
            let after = vcpu.act(local, 0, action);
            return pcpu.finish(Cause::Device, after);
        }
        let first = vcpu.core.id.index() == 0;
        let deed = match self.deed(unit.vm.vcpus()) {
            Deed::Wait if first && self.habits.first_is_busy => Deed::Yield,
            deed => deed,
        };
        if matches!(deed, Deed::Wait) && self.habits.timers {
            let now = hanok_hal::Backend::counter(machine);
            machine.here().set_virtual_timer(Some(now + 30));
            // GICD_CTLR and GICD_ISENABLER0 (IHI 0048B, 4.3.1 and 4.3.5).
            put(pcpu, 0, 1);
            put(pcpu, 0x100, 1 << VIRTUAL_TIMER);
        }
        let (cause, after) = act(pcpu, deed);
        pcpu.finish(cause, after);
    }

    /// Chooses its next exit, in a VM of so many vCPUs.
    fn deed(&self, vcpus: usize) -> Deed {
        let mut random = shuttle::rand::thread_rng();
        let chance = random.gen_range(0..100);
        let others = used(vcpus);
        let other = VcpuId::new(others[random.gen_range(0..others.len())] as u8);
        let habits = self.habits;
        let bounds = [
            habits.ends,
            habits.ends + habits.power,
            habits.ends + habits.power + habits.interrupts,
            habits.ends + habits.power + habits.interrupts + habits.waits,
        ];
        match chance {
            _ if chance < bounds[0] => Deed::Call(match random.gen_range(0..2) {
                0 => [function::SYSTEM_OFF.into(), 0, 0, 0],
                _ => [function::SYSTEM_RESET.into(), 0, 0, 0],
            }),
            _ if chance < bounds[1] => Deed::Call(match random.gen_range(0..3) {
                0 => [function::CPU_OFF.into(), 0, 0, 0],
                _ => [function::CPU_ON.into(), other.affinity(), 0x4000_0000, 0],
            }),
            _ if chance < bounds[2] => Deed::Interrupt(other),
            _ if chance < bounds[3] => Deed::Wait,
            _ => Deed::Yield,
        }
    }
}

/// Handles the exit by which the resident vCPU does `deed`.
fn act(pcpu: &mut Pcpu<FakeBackend>, deed: Deed) -> (Cause, After) {
    let (Some(vcpu), local) = pcpu.resident_and_local() else {
        return (Cause::Denied, After::Reconsider);
    };
    let board = local.board;
    let mut lists = hanok_hal::Backend::lists(&board.machine);
    let (cause, action) = match deed {
        Deed::Call(arguments) => {
            vcpu.context.regs.x[..4].copy_from_slice(&arguments);
            let action = guest(vcpu, board, &mut lists).handle(Exit::Hypercall);
            (Cause::Hypercall, action)
        }
        Deed::Interrupt(to) => {
            // The target may still be off.
            let start = [function::CPU_ON.into(), to.affinity(), 0x4000_0000, 0];
            vcpu.context.regs.x[..4].copy_from_slice(&start);
            let version = vcpu.unit.vm.gic_version();
            let started = guest(vcpu, board, &mut lists).handle(Exit::Hypercall);
            assert_eq!(started, Action::Resume);
            send(pcpu, version, to);
            return (Cause::Device, After::Resume);
        }
        Deed::Wait => (Cause::Wait, Action::NextThenBlock(Wait::Interrupt)),
        Deed::Yield => (Cause::Hypercall, Action::Yield),
    };
    (cause, vcpu.act(local, 0, action))
}

/// The resident vCPU sends SGI 3 to a vCPU. It forwards interrupts to all before (GICD_CTLR), as every boot of
/// the guest's does once.
fn send(pcpu: &mut Pcpu<FakeBackend>, version: GicVersion, to: VcpuId) {
    if version == GicVersion::V2 {
        put(pcpu, 0, 1);
        // GICD_SGIR: the SGI in bits 3:0, targets in 23:16 (IHI 0048B, 4.3.15).
        return put(pcpu, 0xf00, 1 << (16 + to.index()) | 3);
    }
    put(pcpu, 0, 3);
    // GICR_IGROUPR0 and GICR_ISENABLER0 of the target (IHI 0069, chapter 12).
    let frame = to.index() as u64 * platform::GIC_REDIST_STRIDE + 0x1_0000;
    for offset in [0x80, 0x100] {
        let register = platform::GIC_REDIST.get() + frame + offset;
        handle(pcpu, 1 << 3, store(register));
    }
    let affinity = to.affinity();
    // ICC_SGI1R_EL1: the SGI in bits 27:24, Aff1 in 23:16, a bit for each Aff0 in 15:0. Half of them go to all
    // others (bit 40), of which those take it that have it enabled.
    let one = (affinity >> 8) << 16 | 1 << (affinity & 0xf);
    let targets = if shuttle::rand::thread_rng().gen_bool(0.5) {
        1 << 40
    } else {
        one
    };
    let value = 3 << 24 | targets;
    let write = SystemRegister {
        id: SysReg::ICC_SGI1R_EL1,
        register: 1,
        write: true,
    };
    handle(pcpu, value, Exit::SystemRegister(write));
}

/// The resident vCPU stores a word to the distributor.
fn put(pcpu: &mut Pcpu<FakeBackend>, offset: u64, value: u64) {
    handle(pcpu, value, store(platform::GIC_DIST.get() + offset));
}

/// Handles an exit by which the resident vCPU writes `value`, which is in X1.
fn handle(pcpu: &mut Pcpu<FakeBackend>, value: u64, exit: Exit) {
    let (Some(vcpu), local) = pcpu.resident_and_local() else {
        return;
    };
    vcpu.context.regs.x[1] = value;
    let mut lists = hanok_hal::Backend::lists(&local.board.machine);
    let action = guest(vcpu, local.board, &mut lists).handle(exit);
    assert_eq!(action, Action::Next);
}

/// A store of the word in X1.
fn store(ipa: u64) -> Exit {
    Exit::Data(DataAbort {
        ipa: hanok_types::Ipa::new(ipa),
        write: true,
        walk: false,
        access: Some(MmioAccess {
            width: Width::Word,
            register: 1,
            sign_extend: false,
            wide: false,
        }),
        instruction: Instruction::Unknown,
        reach: PAGE_SIZE,
    })
}
