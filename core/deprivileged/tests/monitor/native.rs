//! A CPU of the guest's own: all modes, and its own MMU without a TLB.

use crate::board::{is_writable, word_of};
use crate::interpret::{self, Abort, Bus, Stop, ordered};
use hanok_cpu32::{
    Access, Exception, Fault, FaultStatus, GuestAccess, MmuOperation, Outcome, Refusal, Registers,
    Rights, SystemRegister, VirtualCpu, Wait, sctlr,
};
use hanok_decode::aarch32::{Encoding, ItState, is_wide, sensitive};
use std::cell::Cell;

/// What an instruction led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is done, or its exception is taken.
    Retired,
    Waits(Wait),
    Hypercall,
    /// A test does not know what a CPU does.
    Unknown,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Read,
    Write,
    Execute,
}

pub struct Native {
    pub cpu: VirtualCpu,
    pub registers: Registers,
    pub memory: Memory,
}

/// The memory, and the registers of the MMU.
pub struct Memory {
    pub words: Vec<u32>,
    sctlr: u32,
    dacr: u32,
    ttbr: [u32; 2],
    ttbcr: u32,
    privileged: bool,
    /// The words that the last instruction wrote, and what they were before; a word may be there again.
    pub written: Vec<(usize, u32)>,
    /// Whether the last instruction ended in a data abort.
    pub aborted: bool,
    /// Whether it met a supersection, of which a test knows nothing: no program has any, but a wild store may make one.
    unknown: Cell<bool>,
}

const fn fault(status: FaultStatus, domain: u8) -> Fault {
    Fault { status, domain }
}

impl Memory {
    fn walk(&self, at: u32, kind: Kind, privileged: bool) -> Result<u32, Fault> {
        if self.sctlr & 1 == 0 {
            return Ok(at);
        }
        let split = self.ttbcr & 7;
        let low = split == 0 || at >> (32 - split) == 0;
        // PD0 and PD1.
        if self.ttbcr >> if low { 4 } else { 5 } & 1 != 0 {
            return Err(fault(FaultStatus::TranslationFirst, 0));
        }
        let (base, bits) = if low {
            (self.ttbr[0], 14 - split)
        } else {
            (self.ttbr[1], 14)
        };
        let index = (at >> 20) & ((1 << (bits - 2)) - 1);
        let first = (base >> bits << bits) + 4 * index;
        let first = self
            .descriptor(first)
            .ok_or(fault(FaultStatus::ExternalOnWalkFirst, 0))?;
        let domain = (first >> 5 & 15) as u8;
        let access = self.dacr >> (2 * domain) & 3;
        let (output, ap, never, second) = match first & 3 {
            1 => {
                let at = (first & !0x3ff) + (at >> 12 & 0xff) * 4;
                let word = self.descriptor(at);
                let word = word.ok_or(fault(FaultStatus::ExternalOnWalkSecond, domain))?;
                let ap = word >> 4 & 3 | word >> 7 & 4;
                match word & 3 {
                    0 => return Err(fault(FaultStatus::TranslationSecond, domain)),
                    1 => (word & 0xffff_0000, ap, word >> 15 & 1, true),
                    _ => (word & 0xffff_f000, ap, word & 1, true),
                }
            }
            2 => {
                if first >> 18 & 1 != 0 {
                    self.unknown.set(true);
                }
                let ap = first >> 10 & 3 | first >> 13 & 4;
                (first & 0xfff0_0000, ap, first >> 4 & 1, false)
            }
            _ => return Err(fault(FaultStatus::TranslationFirst, 0)),
        };
        let of = |one, two| Err(fault(if second { two } else { one }, domain));
        if self.sctlr & sctlr::AFE != 0 && ap & 1 == 0 {
            return of(FaultStatus::AccessFlagFirst, FaultStatus::AccessFlagSecond);
        }
        match access {
            1 => {
                let (read, write) = match (ap, privileged) {
                    (1, true) | (2, true) | (3, _) => (true, true),
                    (2, false) | (5, true) | (6 | 7, _) => (true, false),
                    _ => (false, false),
                };
                let fine = match kind {
                    Kind::Read => read,
                    Kind::Write => write,
                    Kind::Execute => read && never == 0,
                };
                if !fine {
                    return of(FaultStatus::PermissionFirst, FaultStatus::PermissionSecond);
                }
            }
            3 => {}
            _ => return of(FaultStatus::DomainFirst, FaultStatus::DomainSecond),
        }
        let size = match first & 3 {
            2 => 0xf_ffff,
            _ => self.page_mask(first, at),
        };
        Ok(output & !size | at & size)
    }

    fn page_mask(&self, first: u32, at: u32) -> u32 {
        let word = self.descriptor((first & !0x3ff) + (at >> 12 & 0xff) * 4);
        if word.unwrap_or(0) & 3 == 1 {
            0xffff
        } else {
            0xfff
        }
    }

    fn descriptor(&self, at: u32) -> Option<u32> {
        word_of(at.into()).map(|word| self.words[word])
    }

    fn reach(&self, at: u32, kind: Kind, privileged: bool) -> Result<(usize, u32), Fault> {
        let output = self.walk(at, kind, privileged)?;
        let external = Fault::without_domain(FaultStatus::External);
        let word = word_of(output.into()).ok_or(external)?;
        if kind == Kind::Write && !is_writable(output.into()) {
            return Err(external);
        }
        Ok((word, output))
    }

    fn byte(&self, at: u32, privileged: bool) -> Result<u32, Fault> {
        let (word, output) = self.reach(at, Kind::Read, privileged)?;
        Ok(self.words[word] >> (output % 4 * 8) & 0xff)
    }

    fn load_bytes(&self, at: u32, bytes: u32, privileged: bool) -> Result<u32, (u32, Fault)> {
        let mut value = 0;
        for number in 0..bytes {
            let at = at.wrapping_add(number);
            let byte = self.byte(at, privileged).map_err(|fault| (at, fault))?;
            value |= byte << (8 * number);
        }
        Ok(value)
    }

    fn store_bytes(
        &mut self,
        at: u32,
        bytes: u32,
        value: u32,
        privileged: bool,
    ) -> Result<(), (u32, Fault)> {
        let mut places = Vec::new();
        for number in 0..bytes {
            let at = at.wrapping_add(number);
            let place = self.reach(at, Kind::Write, privileged);
            places.push(place.map_err(|fault| (at, fault))?);
        }
        for ((word, output), number) in places.into_iter().zip(0..) {
            let shift = output % 4 * 8;
            let byte = value >> (8 * number) & 0xff;
            let old = self.words[word];
            self.words[word] = old & !(0xff << shift) | byte << shift;
            self.written.push((word, old));
        }
        Ok(())
    }
}

impl Bus for Memory {
    fn read(&mut self, address: u32, bytes: u32) -> Result<u32, Abort> {
        let done = self.load_bytes(address, bytes, self.privileged);
        done.map_err(|(address, fault)| Abort {
            address,
            write: false,
            fault: Some(fault),
        })
    }

    fn write(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Abort> {
        let done = self.store_bytes(address, bytes, value, self.privileged);
        done.map_err(|(address, fault)| Abort {
            address,
            write: true,
            fault: Some(fault),
        })
    }
}

impl GuestAccess for Memory {
    fn load(&mut self, access: Access) -> Result<u32, Refusal> {
        let kernel = access.rights == Rights::Kernel;
        let bytes = access.width.bytes() as u32;
        let value = self.load_bytes(access.address, bytes, kernel);
        let value = value.map_err(|(address, fault)| Refusal::Fault { address, fault })?;
        Ok(ordered(value, bytes, access.big_endian))
    }

    fn store(&mut self, access: Access, value: u32) -> Result<(), Refusal> {
        let kernel = access.rights == Rights::Kernel;
        let bytes = access.width.bytes() as u32;
        let value = ordered(value, bytes, access.big_endian);
        let done = self.store_bytes(access.address, bytes, value, kernel);
        done.map_err(|(address, fault)| Refusal::Fault { address, fault })
    }
}

impl Memory {
    /// After a data abort, takes what the other CPU has in a word that was written, if it left the word as it
    /// was: which of the words are stored that cannot abort is not defined (DDI 0406C, Effects of
    /// data-aborted instructions).
    pub fn agree(&mut self, word: usize, its: u32) {
        let first = self.written.iter().find(|(at, _)| *at == word);
        if self.aborted && first.is_some_and(|(_, old)| *old == its) {
            self.words[word] = its;
        }
    }
}

impl Native {
    pub fn new(cpu: VirtualCpu, registers: Registers, words: Vec<u32>) -> Self {
        let memory = Memory {
            words,
            sctlr: 0,
            dacr: 0,
            ttbr: [0; 2],
            ttbcr: 0,
            privileged: true,
            written: Vec::new(),
            aborted: false,
            unknown: Cell::new(false),
        };
        Self {
            cpu,
            registers,
            memory,
        }
    }

    fn take(&mut self, exception: Exception) -> Event {
        self.cpu.take(&mut self.registers, exception);
        Event::Retired
    }

    fn half(&self, at: u32) -> Result<u16, (u32, Fault)> {
        let found = self.memory.reach(at, Kind::Execute, self.memory.privileged);
        let (word, output) = found.map_err(|fault| (at, fault))?;
        Ok((self.memory.words[word] >> (output % 4 * 8)) as u16)
    }

    pub fn fetch(&self) -> Result<Encoding, (u32, Fault)> {
        let pc = self.registers.pc;
        let first = self.half(pc)?;
        if self.registers.psr.thumb() {
            let second = if is_wide(first) {
                self.half(pc.wrapping_add(2))?
            } else {
                0
            };
            return Ok(Encoding::t32(first, second));
        }
        let second = self.half(pc.wrapping_add(2))?;
        Ok(Encoding::A32(u32::from(second) << 16 | u32::from(first)))
    }

    /// Executes one instruction.
    pub fn step(&mut self) -> Event {
        let event = self.attempt();
        if self.memory.unknown.get() {
            return Event::Unknown;
        }
        event
    }

    /// Lets the memory be reached as the CPU's registers say now.
    fn look_at_tables(&mut self) {
        let memory = &mut self.memory;
        let of = |register| self.cpu.system(register);
        memory.sctlr = of(SystemRegister::Sctlr);
        memory.dacr = of(SystemRegister::Dacr);
        memory.ttbr = [of(SystemRegister::Ttbr0), of(SystemRegister::Ttbr1)];
        memory.ttbcr = of(SystemRegister::Ttbcr);
        memory.privileged = self.cpu.mode().is_privileged();
    }

    /// The word of memory from which the kernel fetches next; `None` for a program, and if the fetch aborts.
    pub fn kernel_fetches(&mut self) -> Option<usize> {
        self.look_at_tables();
        let is_kernel = self.cpu.mode().is_privileged();
        self.fetch().ok().filter(|_| is_kernel)?;
        let found = self.memory.reach(self.registers.pc, Kind::Execute, true);
        found.ok().map(|(word, _)| word)
    }

    fn attempt(&mut self) -> Event {
        self.memory.written.clear();
        self.memory.aborted = false;
        self.look_at_tables();
        let encoding = match self.fetch() {
            Ok(encoding) => encoding,
            Err((address, fault)) => {
                return self.take(Exception::PrefetchAbort { address, fault });
            }
        };
        let it = ItState::from_bits(self.registers.psr.it());
        if sensitive(encoding, it).is_some() {
            return self.sensitive(encoding, it);
        }
        match interpret::execute(&mut self.registers, encoding, &mut self.memory) {
            Ok(()) => Event::Retired,
            Err(Stop::Undefined) => self.take(Exception::Undefined),
            Err(Stop::SupervisorCall) => self.take(Exception::SupervisorCall),
            Err(Stop::Breakpoint) => {
                let address = self.registers.pc;
                let fault = Fault::without_domain(FaultStatus::Debug);
                self.take(Exception::PrefetchAbort { address, fault })
            }
            Err(Stop::Data(abort)) => {
                self.memory.aborted = true;
                self.take(Exception::DataAbort {
                    address: abort.address,
                    fault: abort.fault.expect("it is known"),
                    write: abort.write,
                })
            }
            Err(Stop::Unknown) => Event::Unknown,
        }
    }

    fn sensitive(&mut self, encoding: Encoding, it: ItState) -> Event {
        let before = self.registers;
        let found = sensitive(encoding, it).expect("it is");
        match self
            .cpu
            .execute(&mut self.registers, &found, &mut self.memory)
        {
            Outcome::Wait(wait) => Event::Waits(wait),
            Outcome::Firmware(hanok_cpu32::Conduit::Hvc(_)) => Event::Hypercall,
            Outcome::Firmware(_) => {
                self.registers = before;
                self.take(Exception::Undefined)
            }
            Outcome::Mmu(MmuOperation::Translate(wanted)) => {
                let kind = if wanted.write {
                    Kind::Write
                } else {
                    Kind::Read
                };
                let kernel = wanted.rights == Rights::Kernel;
                self.cpu
                    .set_par(match self.memory.walk(wanted.address, kind, kernel) {
                        Ok(output) => output & !0xfff,
                        Err(fault) => {
                            let status = u32::from(fault.status.code());
                            (status & 0x10) << 2 | (status & 0xf) << 1 | 1
                        }
                    });
                Event::Retired
            }
            Outcome::Timer(_) | Outcome::Again => Event::Unknown,
            _ => Event::Retired,
        }
    }
}

/// The virtual CPU without stale values of registers that are live: as after an MSR of the flags that
/// changes nothing.
pub fn settled(cpu: &VirtualCpu, registers: &Registers) -> VirtualCpu {
    struct Nothing;
    impl GuestAccess for Nothing {
        fn load(&mut self, _: Access) -> Result<u32, Refusal> {
            Err(Refusal::Again)
        }
        fn store(&mut self, _: Access, _: u32) -> Result<(), Refusal> {
            Err(Refusal::Again)
        }
    }
    let (mut cpu, mut registers) = (cpu.clone(), *registers);
    registers.psr = registers
        .psr
        .with_thumb(false)
        .with_it_high(0)
        .with_it_low(0);
    registers.general[0] = registers.psr.into_bits();
    let write = sensitive(Encoding::A32(0xe128_f000), ItState::NONE).expect("MSR");
    let _done = cpu.execute(&mut registers, &write, &mut Nothing);
    cpu
}
