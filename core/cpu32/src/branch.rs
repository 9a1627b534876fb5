//! Indirect branches, carried out for a guest whose flow must be known before it goes there (DDI
//! 0406C, A2.3.1, and the instructions' sections in A8.8).

use crate::block::Area;
use crate::data;
use crate::memory::{Access, Alignment};
use crate::stop::Stop;
use crate::{GuestAccess, Outcome, Registers, VirtualCpu};
use hanok_decode::Condition;
use hanok_decode::aarch32::{
    Addressing, Block, Displacement, Index, IndirectBranch, ItState, Register, Target,
};
use hanok_types::Width;

/// How a value becomes a PC (A2.3.1, "Writing to the PC").
#[derive(Clone, Copy)]
enum Write {
    /// Bit 0 chooses the instruction set: BXWritePC, LoadWritePC.
    Exchange,
    /// The instruction set stays: BranchWritePC.
    Stay,
}

/// A place in an instruction set.
#[derive(Clone, Copy)]
struct Destination {
    pc: u32,
    thumb: bool,
}

impl VirtualCpu {
    /// Carries out the indirect branch at [`Registers::pc`], or takes the exception that it raises.
    /// `branch` is the original instruction; `registers` are those of the interrupted guest.
    ///
    /// [`Outcome::Branched`] says that the PC is where the guest goes on, in the instruction set that
    /// [`Registers::psr`] has; mode and masks are the same as before. [`Outcome::Done`] says that
    /// the condition failed: the PC is behind the instruction.
    pub fn branch(
        &mut self,
        registers: &mut Registers,
        branch: &IndirectBranch,
        memory: &mut impl GuestAccess,
    ) -> Outcome {
        let condition = Condition::Code(branch.condition.into_bits());
        if !registers.psr.passes(condition) {
            registers.advance(branch.encoding.bytes());
            return Outcome::Done;
        }
        let done = if branch.as_it_should_be {
            self.leave(registers, branch, memory)
        } else {
            Err(Stop::Unknown)
        };
        match done {
            Ok(to) => {
                registers.psr = registers.psr.with_thumb(to.thumb);
                // A branch is the last instruction of its block.
                registers.set_it(ItState::NONE);
                registers.pc = to.pc;
                Outcome::Branched
            }
            Err(stop) => self.stopped(registers, stop),
        }
    }

    /// Everything but the write of the PC.
    fn leave(
        &self,
        registers: &mut Registers,
        branch: &IndirectBranch,
        memory: &mut impl GuestAccess,
    ) -> Result<Destination, Stop> {
        match branch.target {
            Target::Exchange(to) => destination(registers, registers.read(to), Write::Exchange),
            Target::Call(to) => {
                let to = destination(registers, registers.read(to), Write::Exchange)?;
                let next = registers.pc.wrapping_add(branch.encoding.bytes());
                let link = next | u32::from(registers.psr.thumb());
                registers.write(Register::LR, link);
                Ok(to)
            }
            Target::Data {
                operation,
                first,
                second,
            } => {
                let value = data::result(registers, operation, first, second);
                // ALUWritePC.
                let write = if registers.psr.thumb() {
                    Write::Stay
                } else {
                    Write::Exchange
                };
                destination(registers, value, write)
            }
            Target::Load(address) => self.branch_by_load(registers, &address, memory),
            Target::Block(block) => self.branch_by_block(registers, &block, memory),
            Target::Table {
                base,
                index,
                halfwords,
            } => self.branch_by_table(registers, (base, index), halfwords, memory),
            Target::Forbidden => Err(Stop::Unknown),
        }
    }

    /// LDR. An address that is not aligned is UNPREDICTABLE, and an alignment fault here.
    fn branch_by_load(
        &self,
        registers: &mut Registers,
        address: &Addressing,
        memory: &mut impl GuestAccess,
    ) -> Result<Destination, Stop> {
        let base = match address.base {
            Register::PC => registers.read(Register::PC) & !3,
            other => registers.read(other),
        };
        let by = |by: Displacement| {
            let index = match by.index {
                Index::Immediate(_) => 0,
                Index::Register(register, _) => registers.read(register),
            };
            by.apply(base, index, registers.psr.c())
        };
        let access = self.word(registers, by(address.first));
        let moved = address.write_back.map(by);
        let value = self.load(memory, access, Alignment::Always)?;
        let to = destination(registers, value, Write::Exchange)?;
        if let Some(moved) = moved {
            registers.write(address.base, moved);
        }
        Ok(to)
    }

    /// LDM and POP. The PC's word is the last one.
    fn branch_by_block(
        &self,
        registers: &mut Registers,
        block: &Block,
        memory: &mut impl GuestAccess,
    ) -> Result<Destination, Stop> {
        let count = block.registers.count();
        let area = Area::new(registers.read(block.base), block.direction, count);
        let words = self.load_words(registers, &area, count, memory)?;
        let loaded = || block.registers.iter().zip(words);
        let target = loaded().find(|(register, _)| *register == Register::PC);
        let value = target.map_or(0, |(_, word)| word);
        let to = destination(registers, value, Write::Exchange)?;
        loaded().for_each(|(register, word)| registers.write(register, word));
        if block.write_back {
            registers.write(block.base, area.moved);
        }
        Ok(to)
    }

    /// TBB and TBH.
    fn branch_by_table(
        &self,
        registers: &Registers,
        (base, index): (Register, Register),
        halfwords: bool,
        memory: &mut impl GuestAccess,
    ) -> Result<Destination, Stop> {
        let (base, index) = (registers.read(base), registers.read(index));
        let (width, offset) = if halfwords {
            (Width::Half, index << 1)
        } else {
            (Width::Byte, index)
        };
        let address = base.wrapping_add(offset);
        let access = Access {
            width,
            ..self.word(registers, address)
        };
        let entry = self.load(memory, access, Alignment::AsControlled)?;
        let distance = entry.wrapping_mul(2);
        let target = registers.read(Register::PC).wrapping_add(distance);
        destination(registers, target, Write::Stay)
    }
}

/// The place that a value written to the PC means. One that is aligned for neither instruction set
/// is UNPREDICTABLE, and makes the instruction undefined here.
fn destination(registers: &Registers, value: u32, write: Write) -> Result<Destination, Stop> {
    let thumb = match write {
        Write::Stay => registers.psr.thumb(),
        Write::Exchange if value & 0b11 == 0b10 => return Err(Stop::Undefined),
        Write::Exchange => value & 1 != 0,
    };
    let aligned = if thumb { !1 } else { !3 };
    Ok(Destination {
        pc: value & aligned,
        thumb,
    })
}
