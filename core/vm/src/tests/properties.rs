//! Whatever a guest does, an exit ends in an action, and what is over stays over.

use super::received;
use crate::fake::{ENTRY, Fixture, RAM_START};
use crate::{Action, DataAbort, Exit, MmioAccess, SystemRegister, Wait};
use hanok_decode::SysReg;
use hanok_types::{IntId, Ipa, PAGE_SIZE, VcpuId, Width, platform};
use proptest::prelude::*;
use std::vec::Vec;

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    /// A vCPU exits, with these values in X0 to X7.
    Exit(usize, Exit, [u64; 8]),
    /// Time goes on.
    Time(u64),
    /// The guest takes what a list register shows (or ends it).
    Guest(usize, usize),
    VirtualTimer(usize),
    Maintenance(usize),
    Refresh(usize),
    Byte(u8),
    /// The line takes so many bytes.
    Line(usize),
}

pub(super) fn address() -> impl Strategy<Value = u64> {
    let bases = [
        platform::FLASH,
        platform::GIC_DIST,
        platform::GIC_REDIST,
        platform::UART,
        platform::RTC,
        platform::VIRTIO,
    ];
    let device = (prop::sample::select(bases.to_vec()), 0..0x4_0000_u64);
    prop_oneof![
        8 => device.clone().prop_map(|(base, offset)| base.get() + offset % 0x1000),
        8 => device.prop_map(|(base, offset)| base.get() + (offset & !7)),
        1 => any::<u64>(),
    ]
}

fn data() -> impl Strategy<Value = Exit> {
    let access = (0..4_u8, 0..32_u8, any::<bool>(), any::<bool>()).prop_map(
        |(width, register, sign_extend, wide)| MmioAccess {
            width: Width::from_log2(width),
            register,
            sign_extend,
            wide,
        },
    );
    let word = prop_oneof![
        any::<u32>(),
        // Loads and stores of all kinds.
        any::<u32>().prop_map(|word| word & !0x1200_0000 | 0x0800_0000),
        any::<u32>().prop_map(|word| word & !0x0200_0000 | 0x3800_0000),
    ];
    let what = (prop::option::of(access), prop::option::of(word));
    (address(), any::<bool>(), prop::bool::weighted(0.05), what).prop_map(
        |(ipa, write, walk, (access, instruction))| {
            Exit::Data(DataAbort {
                ipa: Ipa::new(ipa),
                write,
                walk,
                access,
                instruction: instruction.into(),
                reach: PAGE_SIZE,
            })
        },
    )
}

fn register() -> impl Strategy<Value = Exit> {
    let id = prop_oneof![
        any::<u16>().prop_map(SysReg::from_bits),
        prop::sample::select(
            [
                SysReg::ICC_SGI1R_EL1,
                SysReg::ICC_SGI0R_EL1,
                SysReg::CNTP_CTL_EL0,
                SysReg::CNTP_CVAL_EL0,
                SysReg::CNTP_TVAL_EL0,
                SysReg::MDSCR_EL1,
                SysReg::OSLAR_EL1,
            ]
            .to_vec()
        ),
    ];
    (id, 0..32_u8, any::<bool>()).prop_map(|(id, register, write)| {
        Exit::SystemRegister(SystemRegister {
            id,
            register,
            write,
        })
    })
}

pub(super) fn exit() -> impl Strategy<Value = Exit> {
    prop_oneof![
        4 => Just(Exit::Hypercall),
        8 => data(),
        4 => register(),
        1 => prop::sample::select([Exit::Wait, Exit::MonitorCall, Exit::Denied, Exit::SystemError].to_vec()),
        1 => any::<bool>().prop_map(|write| Exit::Refused { write }),
        1 => (any::<u64>(), any::<bool>()).prop_map(|(ipa, walk)| Exit::Fetch { ipa: Ipa::new(ipa), walk }),
    ]
}

/// Values that mean something to one call or another, and any.
pub(super) fn values() -> impl Strategy<Value = [u64; 8]> {
    let id = prop_oneof![
        (0..0x20_u32, any::<bool>()).prop_map(|(n, wide)| {
            u64::from(if wide {
                0xc400_0000 + n
            } else {
                0x8400_0000 + n
            })
        }),
        (0..3_u64).prop_map(|n| 0x8000_0000 + n),
        any::<u64>(),
    ];
    let other = prop_oneof![
        0..5_u64,
        Just(ENTRY),
        Just(RAM_START),
        address(),
        any::<u64>()
    ];
    (id, prop::array::uniform7(other)).prop_map(|(id, rest)| {
        let mut values = [id; 8];
        values[1..].copy_from_slice(&rest);
        values
    })
}

fn event() -> impl Strategy<Value = Event> {
    let vcpu = 0..3_usize;
    prop_oneof![
        20 => (vcpu.clone(), exit(), values()).prop_map(|(n, exit, x)| Event::Exit(n, exit, x)),
        1 => prop_oneof![0..100_000_000_u64, any::<u64>()].prop_map(Event::Time),
        4 => (vcpu.clone(), 0..4_usize).prop_map(|(n, slot)| Event::Guest(n, slot)),
        2 => vcpu.clone().prop_map(Event::VirtualTimer),
        1 => vcpu.clone().prop_map(Event::Maintenance),
        2 => vcpu.prop_map(Event::Refresh),
        2 => any::<u8>().prop_map(Event::Byte),
        1 => (0..20_usize).prop_map(Event::Line),
    ]
}

/// A fixture and which vCPUs are in the VM.
struct Run {
    vm: Fixture,
    present: [bool; 3],
}

impl Run {
    fn new() -> Self {
        Self {
            vm: Fixture::new(3),
            present: [true, false, false],
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Exit(n, exit, x) if self.present[n] => self.exit(n, exit, x),
            Event::VirtualTimer(n) if self.present[n] => {
                self.vm.guest(n).virtual_timer(IntId::new(27));
            }
            Event::Maintenance(n) if self.present[n] => self.vm.guest(n).maintenance(),
            Event::Refresh(n) if self.present[n] => {
                self.vm.guest(n).refresh();
                let _ = self.vm.guest(n).deadline();
            }
            Event::Guest(n, slot) if self.present[n] => {
                // Pending, then active, then nothing.
                let lr = &mut self.vm.lists[n].lr[slot];
                *lr = *lr & !(3 << 62) | (*lr >> 62 & 1) << 63;
            }
            Event::Time(ticks) => self
                .vm
                .machine
                .now
                .set(self.vm.machine.now.get().saturating_add(ticks)),
            Event::Byte(byte) => {
                received(&self.vm, byte);
            }
            Event::Line(room) => {
                self.vm.machine.line.borrow_mut().room = room;
                let _ = self.vm.vm.transmit(&self.vm.machine);
            }
            _ => {}
        }
        self.check();
    }

    fn exit(&mut self, n: usize, exit: Exit, x: [u64; 8]) {
        self.vm.regs[n].x[..8].copy_from_slice(&x);
        let pc = self.vm.regs[n].pc;
        let mut action = self.vm.handle(n, exit);
        // An instruction of several accesses: at most four, of which each is an exit.
        for _ in 0..3 {
            let several = matches!(exit, Exit::Data(abort) if abort.access.is_none());
            if several && action == Action::Resume {
                action = self.vm.handle(n, exit);
            }
        }
        let allowed = match exit {
            Exit::Hypercall => {
                matches!(
                    action,
                    Action::Resume
                        | Action::Block(Wait::Interrupt)
                        | Action::Reconsider
                        | Action::Yield
                )
            }
            Exit::Data(_) => matches!(
                action,
                Action::Next | Action::Inject(_) | Action::Block(Wait::Page(_))
            ),
            Exit::Fetch { .. } => {
                matches!(action, Action::Inject(_) | Action::Block(Wait::Page(_)))
            }
            Exit::SystemRegister(_) => {
                matches!(action, Action::Next | Action::Inject(_))
            }
            Exit::Wait => action == Action::NextThenBlock(Wait::Interrupt),
            _ => matches!(action, Action::Inject(_)),
        };
        assert!(allowed, "{exit:?} -> {action:?}");
        assert_eq!(
            self.vm.regs[n].pc, pc,
            "the program counter is the backend's"
        );
        if action == Action::Reconsider {
            self.reconsider(n);
        }
        for started in 0..3 {
            self.settle(started);
        }
    }

    /// What a pCPU does with its vCPU when it is to look at it again.
    fn reconsider(&mut self, n: usize) {
        let id = VcpuId::new(n as u8);
        let Fixture {
            vm, machine, lists, ..
        } = &mut self.vm;
        if vm.lifecycle().is_running() && vm.power(id).is_on() {
            return;
        }
        vm.take_back_interrupts(machine, id, &mut lists[n]);
        self.present[n] = false;
        if let (0, None) = vm.lifecycle().leave() {
            let _ = vm.stop_if_all_off();
        }
    }

    fn settle(&mut self, n: usize) {
        let id = VcpuId::new(n as u8);
        let vm = &self.vm.vm;
        if !self.present[n] && vm.power(id).is_pending() && vm.lifecycle().enter().is_made() {
            assert!(vm.power(id).take_start().is_some());
            self.present[n] = true;
            self.vm.vcpus[n] = crate::Vcpu::new(id);
        }
    }

    fn check(&self) {
        let kicks = self.vm.machine.kicks.borrow();
        assert!(
            kicks.iter().all(|cpu| (3..6).contains(&cpu.index())),
            "another VM's pCPU"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_guest_gets_an_answer_to_anything(events in prop::collection::vec(event(), 1..200)) {
        let mut run = Run::new();
        for event in events {
            let was_over = !run.vm.vm.lifecycle().is_running();
            run.happen(event);
            if was_over {
                prop_assert!(!run.vm.vm.lifecycle().is_running(), "what ended runs again");
                prop_assert!(!run.vm.vm.lifecycle().enter().is_made(), "nobody comes in");
            }
        }
    }

    #[test]
    fn a_store_to_a_device_changes_no_register(at in address(), width in 0..4_u8, register in 0..32_u8, x in values()) {
        let mut vm = Fixture::new(2);
        vm.regs[0].x[..8].copy_from_slice(&x);
        let before = vm.regs[0];
        vm.handle(0, super::store(at, Width::from_log2(width), register));
        prop_assert_eq!(vm.regs[0], before);
    }
}

/// The strategies do reach what they are for.
#[test]
fn the_strategies_reach_every_kind() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let mut actions = Vec::new();
    for _ in 0..4000 {
        let exit = exit().new_tree(&mut runner).unwrap().current();
        let x = values().new_tree(&mut runner).unwrap().current();
        let mut vm = Fixture::new(3);
        vm.regs[0].x[..8].copy_from_slice(&x);
        actions.push(vm.handle(0, exit));
    }
    for action in [
        Action::Resume,
        Action::Next,
        Action::NextThenBlock(Wait::Interrupt),
        Action::Block(Wait::Interrupt),
        Action::Reconsider,
    ] {
        assert!(actions.contains(&action), "{action:?}");
    }
}
