//! Guests on CPUs without a virtual CPU interface and without a virtual timer for guests, whose timers are
//! deadlines of the executive's.

use crate::fake::{FakeBoard, SoftwareLists};
use crate::{Pcpu, begin_all, guest};
use hanok_hal::fake::{FakeBackend, HYP_TIMER, Settings};
use hanok_hal::{Backend, Context};
use hanok_trace::{Event, recorded};
use hanok_types::{Ipa, PAGE_SIZE, Width, platform};
use hanok_vgic::InterruptInput;
use hanok_vm::{
    Action, Cause, Clock, DataAbort, Exit, GuestTimer, Instruction, MmioAccess, TimerRegister,
};
use std::vec;

type Cpu = Pcpu<FakeBackend<SoftwareLists>>;

const GICD: u64 = platform::GIC_DIST.get();
const GICC: u64 = platform::GIC_V2_CPU.get();
const IAR: u64 = GICC + 0xc;
const EOIR: u64 = GICC + 0x10;
const TIMER: u32 = platform::TIMER_VIRTUAL_IRQ.get();
const NONE: u32 = 1023;

/// A CPU with one vCPU of each of so many VMs, all in their VMs.
fn cpu(vms: usize) -> Cpu {
    let settings = Settings {
        cpus: 1,
        this_cpu: || 0,
        pause: || {},
        asleep: || {},
        lists: 0,
    };
    let FakeBoard {
        board, mut pcpus, ..
    } = FakeBoard::in_software(settings, &vec![vec![0]; vms]);
    begin_all(board);
    let mut cpu = pcpus.remove(0);
    cpu.schedule();
    while cpu.vcpus().any(|vcpu| !vcpu.is_on()) {
        pass(&mut cpu, 1);
    }
    cpu
}

/// Time passes while the resident vCPU's guest runs, until then or the next interrupt.
fn pass(cpu: &mut Cpu, ticks: u64) {
    for _ in 0..ticks {
        let machine = &cpu.local.board.machine;
        machine.advance(1);
        if machine.interrupt_is_pending() {
            cpu.resident().expect("a vCPU runs").context.depart();
            cpu.local.taken = cpu.local.board.machine.acknowledge();
            let after = cpu.interrupted();
            return cpu.finish(Cause::Interrupt, after);
        }
    }
}

fn resident(cpu: &mut Cpu) -> usize {
    let vcpu = cpu.resident().expect("a vCPU runs");
    vcpu.unit.vm.id().index()
}

/// The resident vCPU makes an exit.
fn exit(cpu: &mut Cpu, cause: Cause, exit: Exit) {
    let (Some(vcpu), local) = cpu.resident_and_local() else {
        panic!("no vCPU is resident");
    };
    let mut lists = local.board.machine.lists();
    let action = guest(vcpu, local.board, &mut lists).handle(exit);
    assert!(!matches!(action, Action::Inject(_)));
    let after = vcpu.act(local, 0, action);
    cpu.finish(cause, after);
}

fn access(cpu: &mut Cpu, at: u64, write: bool) {
    let data = DataAbort {
        ipa: Ipa::new(at),
        write,
        walk: false,
        access: Some(MmioAccess {
            width: Width::Word,
            register: 1,
            sign_extend: false,
            wide: false,
        }),
        instruction: Instruction::Unknown,
        reach: PAGE_SIZE,
    };
    exit(cpu, Cause::Device, Exit::Data(data));
}

fn put(cpu: &mut Cpu, at: u64, value: u32) {
    cpu.resident().expect("a vCPU runs").context.regs.x[1] = value.into();
    access(cpu, at, true);
}

fn get(cpu: &mut Cpu, at: u64) -> u32 {
    access(cpu, at, false);
    cpu.resident().expect("a vCPU runs").context.regs.x[1] as u32
}

/// The resident vCPU enables the interrupt of its virtual timer, and its interface.
fn let_timer_through(cpu: &mut Cpu) {
    for (at, value) in [
        (GICD, 1),
        (GICD + 0x100, 1 << TIMER),
        (GICC + 4, 0xf0),
        (GICC, 1),
    ] {
        put(cpu, at, value);
    }
}

/// The resident vCPU sets a register of its virtual timer, as a backend does for its guest.
fn set_timer(cpu: &mut Cpu, register: TimerRegister, value: u64) {
    let (Some(vcpu), local) = cpu.resident_and_local() else {
        panic!("no vCPU is resident");
    };
    let mut lists = local.board.machine.lists();
    guest(vcpu, local.board, &mut lists).write_timer(register, value);
    let after = vcpu.act(local, 0, Action::Next);
    cpu.finish(Cause::SystemRegister, after);
}

fn arm(cpu: &mut Cpu, at: u64) {
    set_timer(cpu, TimerRegister::CompareValue(GuestTimer::Virtual), at);
    set_timer(cpu, TimerRegister::Control(GuestTimer::Virtual), 1);
}

fn disarm(cpu: &mut Cpu) {
    set_timer(cpu, TimerRegister::Control(GuestTimer::Virtual), 0);
}

fn input(cpu: &Cpu) -> Option<InterruptInput> {
    cpu.local.board.machine.lists().get().input()
}

fn now(cpu: &Cpu) -> u64 {
    cpu.local.board.counter()
}

/// The resident vCPU takes its timer's interrupt, as a kernel does.
fn take_timer(cpu: &mut Cpu) {
    assert_eq!(input(cpu), Some(InterruptInput::Irq));
    assert_eq!(get(cpu, IAR), TIMER);
    disarm(cpu);
    put(cpu, EOIR, TIMER);
    assert_eq!((input(cpu), get(cpu, IAR)), (None, NONE));
}

#[test]
fn a_running_guest_gets_its_timer_again_and_again() {
    let mut cpu = cpu(1);
    let_timer_through(&mut cpu);
    for _ in 0..5 {
        let at = now(&cpu) + 500;
        arm(&mut cpu, at);
        while input(&cpu).is_none() {
            assert!(now(&cpu) < at + 10, "too late");
            pass(&mut cpu, 1);
        }
        assert!(now(&cpu) >= at);
        take_timer(&mut cpu);
    }
}

#[test]
fn a_guest_that_waits_is_woken_by_its_timer() {
    let mut cpu = cpu(1);
    let_timer_through(&mut cpu);
    for mask in [0xf0, 0xf0, 0] {
        let at = now(&cpu) + 500;
        arm(&mut cpu, at);
        // Masked by GICC_PMR, it wakes its vCPU, too.
        put(&mut cpu, GICC + 4, mask);
        exit(&mut cpu, Cause::Wait, Exit::Wait);
        assert!((at..at + 50).contains(&now(&cpu)));
        assert_eq!(input(&cpu).is_some(), mask != 0);
        put(&mut cpu, GICC + 4, 0xf0);
        take_timer(&mut cpu);
    }
}

/// Each waits for its timer once, in its turn or away, while the other one waits, too, or runs.
#[test]
fn timers_wake_whoever_waits_on_a_shared_cpu() {
    let mut cpu = cpu(2);
    for vm in [0, 1] {
        while resident(&mut cpu) != vm {
            pass(&mut cpu, 1);
        }
        let_timer_through(&mut cpu);
    }
    for distance in [[1000, 3000], [3000, 1000], [1000, 1001], [5, 2000]] {
        let start = now(&cpu) + 200;
        let mut due = [None; 2];
        let mut woken = [false; 2];
        for _ in 0..20_000 {
            let vm = resident(&mut cpu);
            match due[vm] {
                None => {
                    let at = start + distance[vm];
                    due[vm] = Some(at);
                    arm(&mut cpu, at);
                    exit(&mut cpu, Cause::Wait, Exit::Wait);
                }
                Some(at) if !woken[vm] => {
                    assert!((at..at + 300).contains(&now(&cpu)), "{at}: {}", now(&cpu));
                    take_timer(&mut cpu);
                    woken[vm] = true;
                }
                Some(_) if woken == [true; 2] => break,
                Some(_) => pass(&mut cpu, 1),
            }
        }
        assert_eq!(woken, [true; 2]);
    }
}

/// A vCPU that leaves the CPU in its handler goes on there: its active interrupt and its masks come with it.
#[test]
fn an_interface_follows_its_vcpu() {
    let mut cpu = cpu(2);
    let vm = resident(&mut cpu);
    let_timer_through(&mut cpu);
    let at = now(&cpu) + 10;
    arm(&mut cpu, at);
    while resident(&mut cpu) != vm || input(&cpu).is_none() {
        pass(&mut cpu, 1);
    }
    assert_eq!(get(&mut cpu, IAR), TIMER);
    while resident(&mut cpu) == vm {
        pass(&mut cpu, 1);
    }
    for at in [GICC, GICC + 4] {
        assert_eq!(get(&mut cpu, at), 0, "the other one has masked all");
    }
    assert_eq!(get(&mut cpu, GICC + 0x14), 0xff);
    while resident(&mut cpu) != vm {
        pass(&mut cpu, 1);
    }
    assert_eq!(get(&mut cpu, GICC + 4), 0xf0);
    assert_eq!(get(&mut cpu, GICC + 0x14), 0);
    disarm(&mut cpu);
    put(&mut cpu, EOIR, TIMER);
    assert_eq!(get(&mut cpu, GICC + 0x14), 0xff);
    assert_eq!(get(&mut cpu, IAR), NONE);
}

/// Nothing but the hypervisor's own timer interrupts, and kicks.
#[test]
fn the_executive_s_timer_is_the_only_one() {
    let mut cpu = cpu(1);
    let_timer_through(&mut cpu);
    recorded(&cpu.local.board.machine);
    let at = now(&cpu) + 100;
    arm(&mut cpu, at);
    exit(&mut cpu, Cause::Wait, Exit::Wait);
    let events = recorded(&cpu.local.board.machine);
    let fired = events.iter().filter_map(|(_, _, event)| match event {
        Event::Interrupt(id) if id.get() != 0 => Some(id.get()),
        _ => None,
    });
    assert!(fired.eq([HYP_TIMER]), "{events:?}");
}
