//! Exits that have to wait for a page: each has changed nothing, and is done again.

use super::properties::{address, exit, values};
use crate::fake::{EL1H, Fixture, RAM_LEN, RAM_START};
use crate::{Action, DataAbort, Exit, Instruction, MmioAccess, Wait};
use hanok_hal::fake::FakeGuestMemory;
use hanok_hal::{AccessError, GuestMemory};
use hanok_types::{GicVersion, GuestPage, Ipa, PAGE_SIZE, Width, platform};
use proptest::prelude::*;
use std::format;
use std::string::String;
use std::vec::Vec;

/// Where the code is: in a page of its own.
const CODE: u64 = RAM_START + 0x1_0000;
/// PSTATE of AArch32's Supervisor mode, in A32 and in T32.
const A32: u64 = 0x1d3;
const T32: u64 = A32 | 1 << 5;
/// No instruction has more pieces.
const PIECES: usize = 16;

/// What the guest did before, as exits of its vCPU 0.
type History = Vec<(Exit, [u64; 8])>;

/// All that can be seen of a VM, its vCPUs and the machine, the guest's memory apart.
fn state(vm: &Fixture) -> String {
    format!("{vm:?}")
}

/// A VM with this history, and the same once more.
fn twins(version: GicVersion, history: &History) -> [Fixture; 2] {
    [(); 2].map(|()| {
        let mut vm = Fixture::with_gic(2, version);
        *vm.machine.vectors.borrow_mut() = Some([0x1234_5678; 32]);
        for (exit, x) in history {
            if !vm.vm.lifecycle().is_running() {
                break;
            }
            vm.regs[0].x[..8].copy_from_slice(x);
            vm.handle(0, *exit);
        }
        vm
    })
}

/// Reads the instruction at the vCPU's program counter, as a backend does.
fn fetch(memory: &FakeGuestMemory, pc: u64) -> Instruction {
    let mut word = [0; 4];
    match memory.read(Ipa::new(pc), &mut word) {
        Ok(()) => Instruction::Word(u32::from_le_bytes(word)),
        Err(AccessError::Absent(page)) => Instruction::Absent(page),
        Err(AccessError::NoMemory(_)) => Instruction::Unknown,
    }
}

fn page(at: u64) -> GuestPage {
    GuestPage::of(Ipa::new(at)).expect("a guest can have memory there")
}

/// Instructions that the CPU does not describe, with X1 as their base: in which state, the word as
/// it stands in memory, and whether it stores.
fn known_words() -> impl Strategy<Value = (u64, u32, bool)> {
    prop::sample::select(
        [
            (EL1H, 0xa940_0c22, false), // ldp x2, x3, [x1]
            (EL1H, 0xa900_0c22, true),  // stp x2, x3, [x1]
            (EL1H, 0xf840_8422, false), // ldr x2, [x1], #8
            (EL1H, 0x3dc0_0022, false), // ldr q2, [x1]
            (EL1H, 0xc85f_7c22, false), // ldxr x2, [x1]
            (EL1H, 0xd50b_7a21, true),  // dc cvac, x1
            (A32, 0xe891_001c, false),  // ldm r1, {r2, r3, r4}
            (A32, 0xe8a1_000c, true),   // stm r1!, {r2, r3}
            (A32, 0xe1c1_20d0, false),  // ldrd r2, r3, [r1]
            (A32, 0xe191_2f9f, false),  // ldrex r2, [r1]
            (T32, 0x001c_e891, false),  // ldm.w r1, {r2, r3, r4}
        ]
        .to_vec(),
    )
}

fn word() -> impl Strategy<Value = (u64, u32, bool)> {
    let state = prop::sample::select([EL1H, A32, T32].to_vec());
    prop_oneof![3 => known_words(), 1 => (state, any::<u32>(), any::<bool>())]
}

fn history() -> impl Strategy<Value = History> {
    prop::collection::vec((exit(), values()), 0..20)
}

fn version() -> impl Strategy<Value = GicVersion> {
    prop::sample::select([GicVersion::V2, GicVersion::V3].to_vec())
}

/// An exit because of an access to the VM's memory.
fn to_memory() -> impl Strategy<Value = Exit> {
    let access = (0..4_u8, 0..32_u8).prop_map(|(width, register)| MmioAccess {
        width: Width::from_log2(width),
        register,
        sign_extend: false,
        wide: true,
    });
    let instruction = prop_oneof![
        Just(Instruction::Unknown),
        any::<u32>().prop_map(Instruction::Word),
        Just(Instruction::Absent(page(CODE))),
    ];
    let ipa = || (0..RAM_LEN).prop_map(|at| Ipa::new(RAM_START + at));
    let data = (
        ipa(),
        any::<bool>(),
        any::<bool>(),
        prop::option::of(access),
        instruction,
    );
    prop_oneof![
        data.prop_map(|(ipa, write, walk, access, instruction)| {
            Exit::Data(DataAbort {
                ipa,
                write,
                walk,
                access,
                instruction,
                reach: PAGE_SIZE,
            })
        }),
        (ipa(), any::<bool>()).prop_map(|(ipa, walk)| Exit::Fetch { ipa, walk }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 96, ..ProptestConfig::default() })]

    /// An access to a device by an instruction whose own page is not there, at each of its pieces:
    /// it waits, nothing is changed, and done again it ends as if the page had been there.
    #[test]
    fn an_instruction_that_is_not_there_is_waited_for(
        version in version(),
        history in history(),
        at in address(),
        (pstate, word, write) in word(),
    ) {
        let [mut waits, mut goes_on] = twins(version, &history);
        let memory = FakeGuestMemory::new(Ipa::new(CODE), 0x1000);
        memory.write(Ipa::new(CODE), &word.to_le_bytes()).unwrap();
        for vm in [&mut waits, &mut goes_on] {
            (vm.regs[0].pc, vm.regs[0].pstate) = (CODE, pstate);
            vm.regs[0].x[1] = at;
        }
        prop_assume!(!(RAM_START..RAM_START + RAM_LEN).contains(&at));
        let swapped = |instruction| match instruction {
            Instruction::Word(word) if pstate == T32 => Instruction::Word(word.rotate_left(16)),
            other => other,
        };
        for _ in 0..PIECES {
            let handle = |vm: &mut Fixture| {
                let instruction = swapped(fetch(&memory, CODE));
                let (ipa, walk, access) = (Ipa::new(at), false, None);
                vm.handle(0, Exit::Data(DataAbort { ipa, write, walk, access, instruction, reach: PAGE_SIZE }))
            };
            let before = state(&waits);
            memory.take_page(Ipa::new(CODE));
            for _ in 0..2 {
                let wait = Wait::Page(page(CODE));
                prop_assert_eq!(handle(&mut waits), Action::Block(wait));
                prop_assert_eq!(&state(&waits), &before);
            }
            memory.give_page(Ipa::new(CODE));
            let action = handle(&mut waits);
            prop_assert_eq!(action, handle(&mut goes_on));
            prop_assert_eq!(state(&waits), state(&goes_on));
            if action != Action::Resume {
                break;
            }
        }
    }

    /// A load, a store, a fetch, or stage 1's walk for one, in memory whose page is not there.
    #[test]
    fn memory_that_is_not_there_is_waited_for(version in version(), history in history(), exit in to_memory()) {
        let [mut vm, _] = twins(version, &history);
        let before = state(&vm);
        let (Exit::Data(DataAbort { ipa, .. }) | Exit::Fetch { ipa, .. }) = exit else {
            unreachable!("{exit:?}");
        };
        for _ in 0..2 {
            let wait = Wait::Page(page(ipa.get()));
            prop_assert_eq!(vm.handle(0, exit), Action::Block(wait));
            prop_assert_eq!(&state(&vm), &before);
        }
    }
}

/// The states that are compared tell what an exit changes: the test would see a change.
#[test]
fn a_change_of_anything_shows_in_the_state() {
    let uart = platform::UART.get();
    let changes = [
        super::load(platform::FLASH.get(), Width::Byte, 7),
        super::store(uart, Width::Byte, 7),
        super::store(platform::GIC_DIST.get(), Width::Word, 7),
        super::load(RAM_START - 8, Width::Byte, 7),
        super::by_word(uart, false, 0xa940_0c22),
        super::write(hanok_decode::SysReg::CNTP_CTL_EL0),
        Exit::Hypercall,
    ];
    for exit in changes {
        let mut vm = Fixture::new(2);
        (vm.regs[0].x[1], vm.regs[0].x[5], vm.regs[0].x[7]) = (uart, 3, 3);
        let before = state(&vm);
        vm.handle(0, exit);
        assert_ne!(state(&vm), before, "{exit:?}");
    }
}
