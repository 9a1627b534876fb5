//! Describes the reason of an exit in words.

use hanok_decode::{Syndrome, SystemRegister};
use hanok_types::platform;

use crate::code::Entry;
use crate::report::Reason;

/// `reason` in words. Exits that a guest cannot tell apart, those for pages of its memory, have the
/// same words.
pub fn words(reason: &Reason) -> String {
    match (reason.entry, reason.syndrome) {
        (Entry::Synchronous, Some(syndrome)) => {
            synchronous(&Syndrome::decode(syndrome), reason.detail)
        }
        (Entry::Synchronous, None) => "a synchronous exception".to_owned(),
        (Entry::Interrupt, _) => "interrupt".to_owned(),
        (Entry::SystemError, _) => "SError".to_owned(),
        (Entry::Undefined | Entry::Call, Some(word)) => {
            format!("{word:#010x} {}", place(reason.detail))
        }
        (Entry::Undefined, None) => "an undefined instruction, by the window".to_owned(),
        (Entry::Call, None) => "a system call, by the window".to_owned(),
        (Entry::Prefetch, _) => format!("fetch {}", place(reason.detail)),
        (Entry::Data, _) => format!("access {}", place(reason.detail)),
        (Entry::Turn, _) => "between two looks for interrupts".to_owned(),
        (Entry::Own, _) => "an exception of the hypervisor itself".to_owned(),
    }
}

fn synchronous(syndrome: &Syndrome, detail: Option<u64>) -> String {
    let number = || detail.map_or(String::new(), |number| format!(" {:#x}", number as u32));
    match syndrome {
        Syndrome::Hvc(_) => format!("HVC{}", number()),
        Syndrome::Smc(_) => format!("SMC{}", number()),
        Syndrome::Wait(_) => "WFI, WFE".to_owned(),
        Syndrome::FpAccess => "FP and SIMD".to_owned(),
        Syndrome::SystemRegister(access) => register(access),
        Syndrome::DataAbort(abort) => {
            format!(
                "{} {}",
                if abort.write { "write to" } else { "read of" },
                page(detail)
            )
        }
        Syndrome::InstructionAbort(_) => format!("fetch from {}", page(detail)),
        other => format!("{other:?}"),
    }
}

fn register(access: &SystemRegister) -> String {
    let kind = if access.read { "MRS" } else { "MSR" };
    match access.register.name() {
        Some(name) => format!("{kind} {name}"),
        None => format!("{kind} {:?}", access.register),
    }
}

/// HPFAR_EL2.FIPA is from bit 4 on, in pages of 4 KiB (DDI 0487, D24.2.57).
fn page(detail: Option<u64>) -> String {
    match detail.map(|hpfar| (hpfar & 0xfff_ffff_fff0) << 8) {
        Some(page) if page >= platform::RAM.get() => "memory".to_owned(),
        Some(page) => format!("{page:#010x}"),
        None => "an unknown page".to_owned(),
    }
}

/// The first address of a kernel's, as Linux splits the space.
const KERNEL: u64 = 0xbf00_0000;

/// Where a guest in User mode was. Programs' addresses have the same words.
fn place(pc: Option<u64>) -> String {
    match pc {
        Some(pc) if pc >= KERNEL => format!("at {pc:#010x}"),
        Some(_) => "of a program".to_owned(),
        None => "at an unknown place".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(syndrome: u64, detail: Option<u64>) -> String {
        words(&Reason {
            entry: Entry::Synchronous,
            syndrome: Some(syndrome),
            detail,
        })
    }

    #[test]
    fn exits_from_user_mode_have_their_word_and_place() {
        let said = |entry, syndrome, detail| {
            words(&Reason {
                entry,
                syndrome,
                detail,
            })
        };
        let at = Some(0xc010_0000);
        let word = said(Entry::Undefined, Some(0xe7fa_00f1), at);
        assert_eq!(word, "0xe7fa00f1 at 0xc0100000");
        assert_eq!(
            said(Entry::Data, None, Some(0x1_0000)),
            "access of a program"
        );
        assert_eq!(
            said(Entry::Call, None, None),
            "a system call, by the window"
        );
    }

    #[test]
    fn reasons_are_told_in_words() {
        assert_eq!(said(0x5a00_0000, Some(0xc600_0000)), "HVC 0xc6000000");
        assert_eq!(said(0x5a00_0000, None), "HVC");
        assert_eq!(said(0x0600_0000, None), "WFI, WFE");
        // The CPU's pages of registers, and memory.
        assert_eq!(said(0x9000_0000, Some(0x8_0000)), "read of 0x08000000");
        assert_eq!(said(0x9000_0040, Some(0x8_0000)), "write to 0x08000000");
        assert_eq!(said(0x9000_0040, Some(0x40_0010)), "write to memory");
        assert_eq!(said(0x8200_0007, None), "fetch from an unknown page");
        // The reason that QEMU reports for MRS X3, ID_AA64PFR0_EL1, without the general register.
        assert_eq!(said(1_647_312_905, None), "MRS ID_AA64PFR0_EL1");
        let interrupt = Reason {
            entry: Entry::Interrupt,
            syndrome: None,
            detail: None,
        };
        assert_eq!(words(&interrupt), "interrupt");
    }
}
