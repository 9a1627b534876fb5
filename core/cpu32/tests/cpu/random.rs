//! The virtual CPU and the model do the same, at random.

use crate::board::Board;
use crate::memory::FAULT;
use crate::model::Model;
use crate::steps::{Area, Second, Step, Unprivileged};
use hanok_cpu32::{Exception, Mode, Registers, SystemRegister};
use hanok_decode::Psr;
use hanok_decode::aarch32::{Encoding, ItState, sensitive};
use proptest::prelude::*;

const FLAGS: u32 = 0xf80f_0000;

fn mode() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => proptest::sample::select(Mode::ALL.to_vec()).prop_map(|mode| mode.into_bits().into()),
        1 => 0u32..32,
    ]
}

/// A status register's value: mostly one whose mode exists.
fn psr() -> impl Strategy<Value = u32> {
    (any::<u32>(), mode()).prop_map(|(bits, mode)| bits & !0x1f | mode)
}

/// An address, mostly one of a word.
fn address() -> impl Strategy<Value = u32> {
    prop_oneof![9 => (0u32..0x400).prop_map(|word| word * 4), 1 => 0u32..0x1000]
}

fn value() -> impl Strategy<Value = u32> {
    prop_oneof![2 => address(), 2 => psr(), 1 => any::<u32>()]
}

fn area(base: std::ops::Range<u32>) -> impl Strategy<Value = Area> {
    (any::<(bool, bool, bool)>(), base).prop_map(|((up, before, write_back), base)| Area {
        up,
        before,
        write_back,
        base,
    })
}

fn second() -> impl Strategy<Value = Second> {
    let register = (0u32..16, 0u32..4, 0u32..32);
    prop_oneof![
        (0u32..256).prop_map(Second::Constant),
        register.prop_map(|(m, kind, amount)| Second::Register { m, kind, amount }),
    ]
}

fn unprivileged() -> impl Strategy<Value = Step> {
    let size = proptest::sample::select(vec![
        (true, 1, false),
        (true, 1, true),
        (true, 2, false),
        (true, 2, true),
        (true, 4, false),
        (false, 1, false),
        (false, 2, false),
        (false, 4, false),
    ]);
    (size, 0u32..15, 0u32..15, any::<bool>(), 0u32..256).prop_map(
        |((load, bytes, signed), t, n, add, offset)| {
            Step::Unprivileged(Unprivileged {
                load,
                bytes,
                signed,
                t,
                n,
                add,
                offset,
            })
        },
    )
}

fn cps() -> impl Strategy<Value = Step> {
    let masks = (2u32..4, 0u32..8, proptest::option::of(mode()));
    prop_oneof![
        masks.prop_map(|(enable, aif, mode)| Step::Cps { enable, aif, mode }),
        mode().prop_map(|mode| Step::Cps {
            enable: 0,
            aif: 0,
            mode: Some(mode)
        }),
    ]
}

/// Data processing, often the one that T32 has.
fn data() -> impl Strategy<Value = Step> {
    let opcode = proptest::sample::select(vec![0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15]);
    prop_oneof![
        (opcode, 0u32..16, second()).prop_map(|(opcode, n, second)| Step::Data(opcode, n, second)),
        (0u32..256).prop_map(|constant| Step::Data(2, 14, Second::Constant(constant))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let vectors = proptest::sample::select(vec![0x04u32, 0x08, 0x0c, 0x10, 0x18, 0x1c]);
    prop_oneof![
        6 => (0u32..15, value()).prop_map(|(n, value)| Step::Set(n, value)),
        1 => any::<u32>().prop_map(|bits| Step::Flags(bits & FLAGS)),
        4 => cps(),
        2 => (any::<bool>(), 0u32..15).prop_map(|(saved, d)| Step::Mrs { saved, d }),
        4 => (any::<bool>(), 0u32..16, 0u32..15)
            .prop_map(|(saved, mask, n)| Step::Msr { saved, mask, n }),
        3 => data(),
        2 => (area(0..15), 0u32..0x8000).prop_map(|(area, list)| Step::LdmReturn(area, list)),
        2 => (area(0..15), 0u32..0x8000).prop_map(|(area, list)| Step::LdmUser(area, list)),
        2 => (area(0..15), 0u32..0x10000).prop_map(|(area, list)| Step::StmUser(area, list)),
        2 => area(0..15).prop_map(Step::Rfe),
        2 => (area(0..1), mode()).prop_map(|(area, mode)| Step::Srs(area, mode)),
        3 => unprivileged(),
        1 => any::<bool>().prop_map(Step::SetEnd),
        4 => vectors.prop_map(Step::Exception),
        1 => any::<(u32, u32)>().prop_map(|(control, base)| Step::Control(control, base)),
    ]
}

struct Pair {
    board: Board,
    model: Model,
}

impl Pair {
    fn new() -> Self {
        let mut pair = Self {
            board: Board::new(),
            model: Model::new(),
        };
        pair.board.registers.general = [0; 15];
        pair.board.registers.pc = 0;
        pair
    }

    fn step(&mut self, step: Step, condition: u32) {
        match step {
            Step::Set(n, value) => {
                self.board.registers.general[n as usize] = value;
                self.model.set_r(n, value);
            }
            Step::Flags(flags) => self.flags(flags),
            Step::Exception(offset) => self.exception(offset),
            Step::Control(control, base) => self.control(control, base),
            _ => self.instruction(step, condition),
        }
    }

    fn flags(&mut self, flags: u32) {
        let psr = self.board.registers.psr.into_bits() & !FLAGS | flags;
        self.board.registers.psr = Psr::from_bits(psr);
        self.model.cpsr = self.model.cpsr & !FLAGS | flags;
    }

    fn exception(&mut self, offset: u32) {
        let address = 0x1234_5678;
        let exception = match offset {
            0x04 => Exception::Undefined,
            0x08 => Exception::SupervisorCall,
            0x0c => Exception::PrefetchAbort {
                address,
                fault: FAULT,
            },
            0x10 => Exception::DataAbort {
                address,
                fault: FAULT,
                write: true,
            },
            0x18 => Exception::Irq,
            _ => Exception::Fiq,
        };
        self.board.cpu.take(&mut self.board.registers, exception);
        match offset {
            0x0c => {
                (self.model.ifar, self.model.ifsr) = (address, 0b01111);
                self.model.take(offset);
            }
            0x10 => self.model.data_abort(address, 0b01111, 5, true),
            _ => self.model.take(offset),
        }
    }

    /// By MCR, as a kernel would; nothing if none runs.
    fn control(&mut self, control: u32, base: u32) {
        const BITS: u32 = 1 << 30 | 1 << 25 | 1 << 13 | 1 << 1;
        if !self.board.cpu.mode().is_privileged() {
            return;
        }
        let saved: Registers = self.board.registers;
        self.board.registers.psr = Psr::new();
        let _ = self.board.mcr((0, 1, 0, 0), control & BITS);
        let _ = self.board.mcr((0, 12, 0, 0), base);
        self.board.registers = saved;
        self.model.sctlr = control & BITS;
        self.model.vbar = base & !0x1f;
    }

    fn instruction(&mut self, step: Step, condition: u32) {
        let encoding = if self.model.thumb() {
            step.t32().map(Encoding::Wide)
        } else {
            step.a32(condition).map(Encoding::A32)
        };
        let it = ItState::from_bits(self.model.it() as u8);
        let Some(instruction) = encoding.and_then(|encoding| sensitive(encoding, it)) else {
            return;
        };
        let board = &mut self.board;
        let _ = board
            .cpu
            .execute(&mut board.registers, &instruction, &mut board.memory);
        self.model.execute(step, condition);
    }

    fn compare(&self) -> Result<(), TestCaseError> {
        let (board, model) = (&self.board, &self.model);
        prop_assert_eq!(board.psr(), Psr::from_bits(model.cpsr), "CPSR");
        prop_assert_eq!(board.registers.pc, model.pc, "PC");
        for (number, value) in (0..).zip(board.registers.general) {
            prop_assert_eq!(value, model.r(number), "R{}", number);
        }
        let spsr = model.has_spsr().then_some(model.spsr());
        prop_assert_eq!(board.spsr(), spsr, "SPSR");
        prop_assert_eq!(board.system(SystemRegister::Dfsr), model.dfsr);
        prop_assert_eq!(board.system(SystemRegister::Dfar), model.dfar);
        prop_assert_eq!(board.system(SystemRegister::Ifsr), model.ifsr);
        prop_assert_eq!(board.system(SystemRegister::Ifar), model.ifar);
        prop_assert!(board.memory.same(&model.memory), "memory");
        Ok(())
    }

    /// Goes through all modes, so that no bank stays unseen.
    fn compare_banks(&mut self) -> Result<(), TestCaseError> {
        self.exception(0x18);
        for mode in Mode::ALL.into_iter().rev() {
            let mode = Some(mode.into_bits().into());
            self.step(
                Step::Cps {
                    enable: 0,
                    aif: 0,
                    mode,
                },
                14,
            );
            self.compare()?;
        }
        Ok(())
    }
}

/// Mostly always.
fn condition() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(14u32), 1 => 0u32..15]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn the_virtual_cpu_does_what_the_manual_says(
        steps in proptest::collection::vec((step(), condition()), 1..60)
    ) {
        let mut pair = Pair::new();
        for (step, condition) in steps {
            let before = pair.model.clone();
            pair.step(step, condition);
            if let Err(error) = pair.compare() {
                panic!("{step:x?} if {condition:x} after {before:x?}: {error}");
            }
        }
        pair.compare_banks()?;
    }
}
