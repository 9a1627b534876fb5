//! Exits by stage 2: what a guest meant with an access to where it has no memory.

use crate::board::Board;
use crate::fetch::instruction;
use crate::inject;
use crate::stage1::{fetch_address, translate};
use crate::vcpu::Vcpu;
use crate::{read, space};
use hanok_decode::{Fault, InstructionAbort};
use hanok_types::Ipa;
use hanok_vm::{DataAbort, Exit, Instruction, MmioAccess};

/// A fetch's exit.
pub fn fetch_exit(vcpu: &Vcpu, abort: &InstructionAbort) -> Exit {
    let ipa = if abort.has_ipa() {
        fault_ipa(fetch_address(), abort.on_walk)
    } else {
        // Where there is something that is not for fetching, and perhaps not for reading.
        translate(vcpu, vcpu.regs.pc).unwrap_or_default()
    };
    Exit::Fetch {
        ipa,
        walk: abort.on_walk,
    }
}

/// A load's or store's exit. After a permission fault HPFAR_EL2 is unknown, and the address
/// is translated by hand. Where that fails, the guest's tables have changed since the CPU
/// read them, perhaps long ago. It tries again, and finds nothing cached: its own walk leads it
/// to memory, to a fault of its own, or out of its memory, which is another exit.
pub fn data_exit(vcpu: &Vcpu, abort: &hanok_decode::DataAbort) -> Option<Exit> {
    let ipa = match abort.fault {
        _ if abort.has_ipa() => fault_ipa(read!("far_el2"), abort.on_walk),
        Fault::Permission(_) => match translate(vcpu, read!("far_el2")) {
            Some(ipa) => ipa,
            None => {
                space::forget_current_vmid_here();
                return None;
            }
        },
        _ => {
            return Some(Exit::Refused { write: abort.write });
        }
    };
    Some(Exit::Data(data(vcpu, abort, ipa)))
}

/// The page that HPFAR_EL2 names, and the offset in it of the virtual address (which a walk's
/// fault does not give).
#[inline(always)]
pub fn fault_ipa(address: u64, walk: bool) -> Ipa {
    let page = (read!("hpfar_el2") >> 4 & 0xff_ffff_ffff) << 12;
    let offset = if walk { 0 } else { address & 0xfff };
    Ipa::new(page | offset)
}

fn data(vcpu: &Vcpu, abort: &hanok_decode::DataAbort, ipa: Ipa) -> DataAbort {
    let access = abort
        .access
        .filter(|_| !abort.cache_maintenance)
        .map(|access| MmioAccess {
            width: access.width,
            register: vcpu.register(access.register),
            sign_extend: access.sign_extend,
            wide: access.wide,
        });
    DataAbort {
        ipa,
        write: abort.write,
        walk: abort.on_walk,
        access,
        instruction: if access.is_none() && !abort.on_walk {
            instruction(vcpu)
        } else {
            Instruction::Unknown
        },
    }
}

/// A guest whose exception vector cannot be fetched faults on it for ever, as on a board.
/// That is its right, but nobody is to wonder why nothing happens: said once a life.
pub fn notice_fault_loop(vcpu: &mut Vcpu, board: &Board, ipa: Ipa) {
    let pc = vcpu.regs.pc;
    if pc != inject::fetch_vector(vcpu) || core::mem::replace(&mut vcpu.loop_noticed, true) {
        return;
    }
    let id = vcpu.core.id;
    board.notice(
        vcpu.unit,
        format_args!(
            "vCPU {id} is stuck: its exception vector at {pc:#x} lies where nothing is ({ipa}); \
             the first fault came before the guest had set its vector base, or that is wrong"
        ),
    );
}
