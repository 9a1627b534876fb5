//! A virtual CPU with registers and memory, for cases.

use crate::memory::Memory;
use hanok_cpu32::{Identity, Mode, Outcome, Registers, SystemRegister, VirtualCpu};
use hanok_decode::Psr;
use hanok_decode::aarch32::{Encoding, ItState, sensitive};

/// Where the instruction is that is carried out.
pub const HERE: u32 = 0x8000;

#[derive(Clone, Debug, PartialEq)]
pub struct Board {
    pub cpu: VirtualCpu,
    pub registers: Registers,
    pub memory: Memory,
}

/// What a Cortex-A15 says that it is (DDI 0438, 4.2), with features that are not offered.
pub fn identity() -> Identity {
    Identity {
        midr: 0x412f_c0f1,
        ctr: 0x8444_c004,
        tcmtr: 0,
        tlbtr: 0,
        mpidr: 0x8000_0001,
        revidr: 0,
        pfr: [0x0000_1131, 0x0001_1011],
        dfr0: 0x0201_0555,
        afr0: 0,
        mmfr: [0x1020_1105, 0x2000_0000, 0x0124_0000, 0x0210_2211],
        isar: [
            0x0210_1110,
            0x1311_2111,
            0x2123_2041,
            0x1111_2131,
            0x1001_1142,
            0,
        ],
        clidr: 0x0a20_0023,
        ccsidr: [[0x701f_e00a, 0x201f_e00a], [0x711f_e07a, 0], [0, 0]],
        aidr: 0,
        fpsid: 0x4103_40f0,
        mvfr: [0x1011_0222, 0x1111_1111],
        l2ctlr: Some(0x0100_0000),
        cbar: Some(0x0800_0000),
    }
}

impl Board {
    /// After a reset, with a different number in each register, at [`HERE`].
    pub fn new() -> Self {
        let mut board = Self {
            cpu: VirtualCpu::new(identity()),
            registers: Registers::default(),
            memory: Memory::default(),
        };
        board.cpu.reset(&mut board.registers);
        board.number(0);
        board.registers.pc = HERE;
        board
    }

    /// In a mode, with registers that tell it: `mode << 8 | number`.
    pub fn in_mode(mode: Mode) -> Self {
        let mut board = Self::new();
        board.all_banks();
        board.go(mode);
        board
    }

    /// Numbers the registers of every mode, and leaves the CPU in System mode.
    fn all_banks(&mut self) {
        for mode in Mode::ALL.into_iter().filter(|mode| *mode != Mode::User) {
            self.go(mode);
            self.number(u32::from(mode.into_bits()) << 8);
        }
        self.go(Mode::System);
        self.number(0x1000);
    }

    fn number(&mut self, with: u32) {
        for (number, register) in (0..).zip(&mut self.registers.general) {
            *register = with | number;
        }
    }

    /// CPS to a mode; the PC stays.
    pub fn go(&mut self, mode: Mode) {
        let pc = self.registers.pc;
        let was_thumb = self.registers.psr.thumb();
        self.registers.psr.set_thumb(false);
        let _ = self.a32(0xf102_0000 | u32::from(mode.into_bits()));
        self.registers.psr.set_thumb(was_thumb);
        self.registers.pc = pc;
    }

    /// Carries out an A32 word.
    pub fn a32(&mut self, word: u32) -> Outcome {
        self.registers.psr.set_thumb(false);
        self.run(Encoding::A32(word))
    }

    /// Carries out a T32 instruction of two halfwords.
    pub fn t32(&mut self, both: u32) -> Outcome {
        self.registers.psr.set_thumb(true);
        self.run(Encoding::Wide(both))
    }

    fn run(&mut self, encoding: Encoding) -> Outcome {
        let it = ItState::from_bits(self.registers.psr.it());
        let instruction = sensitive(encoding, it).expect("it is sensitive");
        self.cpu
            .execute(&mut self.registers, &instruction, &mut self.memory)
    }

    pub fn psr(&self) -> Psr {
        self.cpu.psr(&self.registers)
    }

    pub fn r(&self, number: usize) -> u32 {
        self.registers.general[number]
    }

    /// MCR of R0 to CP15.
    pub fn mcr(&mut self, name: (u32, u32, u32, u32), value: u32) -> Outcome {
        self.registers.general[0] = value;
        self.a32(0xee00_0f10 | cp15(name))
    }

    /// MRC of CP15 to R0; `None` if it is not simply done.
    pub fn mrc(&mut self, name: (u32, u32, u32, u32)) -> Option<u32> {
        let outcome = self.a32(0xee10_0f10 | cp15(name));
        (outcome == Outcome::Done).then_some(self.r(0))
    }

    /// Sets SPSR of the current mode.
    pub fn set_spsr(&mut self, value: u32) {
        let (pc, r0) = (self.registers.pc, self.r(0));
        self.registers.general[0] = value;
        assert_eq!(self.a32(0xe16f_f000), Outcome::Done);
        self.registers.general[0] = r0;
        self.registers.pc = pc;
    }

    pub fn spsr(&self) -> Option<u32> {
        self.cpu.spsr().map(Psr::into_bits)
    }

    pub fn system(&self, register: SystemRegister) -> u32 {
        self.cpu.system(register)
    }
}

/// The bits that name a register: opc1, CRn, CRm, opc2.
pub fn cp15((opc1, crn, crm, opc2): (u32, u32, u32, u32)) -> u32 {
    opc1 << 21 | crn << 16 | opc2 << 5 | crm
}
