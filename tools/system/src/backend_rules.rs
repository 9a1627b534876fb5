//! Which backend a system uses, and what a VM may have with it.

use crate::backend::{Architecture, Backend};
use crate::board::Board;
use crate::diagnostic::{Report, Words};
use crate::draft::Draft;
use crate::source::{Boot, FirmwareRef, Flavour, KernelRef};
use crate::table::At;

/// The backend of a system on `board`: the board's own one, if its description has not `asked` for another. What
/// the board cannot do is refused.
pub(crate) fn used(report: &mut Report, board: &Board, asked: Option<At<Backend>>) -> Backend {
    let own = board.backend;
    let Some(asked) = asked else { return own };
    let name = asked.value.name();
    let (why, remedy) = match (asked.value, own) {
        (asked, own) if asked == own => return own,
        (Backend::Deprivileged, Backend::Hyp) => return asked.value,
        (Backend::Hyp, Backend::Deprivileged) => (
            "its CPUs have no virtualization extensions",
            "remove it, or choose a board in whose file `backend` is \"hyp\"",
        ),
        _ if own.architecture() == Architecture::Arm64 => (
            "its CPUs run the 64-bit hypervisor, which has the backend \"el2\" alone",
            "remove it, or choose a 32-bit board; 32-bit VMs run with \"el2\", too",
        ),
        _ => (
            "its CPUs run the 32-bit hypervisor, and EL2 is of 64-bit ones",
            "remove it, or choose a 64-bit board",
        ),
    };
    let what = format!("backend \"{name}\" on board {}", board.name);
    report.refuse(&asked.span, Words::new(what, why, remedy));
    // What was meant is not known: nothing else is refused because of it.
    own
}

/// The words about a system in which something cannot be with this backend: `what` is wrong, `why`, and how to
/// mend it. If the description has asked for the backend, it may also stop doing so.
fn words(board: &Board, backend: Backend, [what, why, remedy]: [&str; 3]) -> Words {
    if backend == board.backend {
        Words::new(format!("{what} on board {}", board.name), why, remedy)
    } else {
        let what = format!("{what} with backend \"{}\"", backend.name());
        Words::new(what, why, format!("{remedy}, or remove `backend`"))
    }
}

/// Refuses `rewrite` where nothing is rewritten.
pub(crate) fn rewrite(report: &mut Report, board: &Board, backend: Backend, draft: &Draft) {
    let Some(rewrite) = &draft.rewrite else {
        return;
    };
    let firmware = matches!(&draft.boot, Some(boot) if matches!(boot.value, Boot::Firmware(_)));
    let words = if backend != Backend::Deprivileged {
        let why =
            "its CPUs run a kernel as it is; it is rewritten only for the backend \"deprivileged\"";
        Words::new(
            format!("`rewrite` on board {}", board.name),
            why,
            "remove it",
        )
    } else if firmware {
        let why = "only a kernel is rewritten before it starts";
        Words::new("`rewrite` beside `firmware`", why, "remove it")
    } else {
        return;
    };
    report.refuse(&rewrite.span, words);
}

/// The words about a kernel with long descriptors.
pub(crate) fn long_descriptors(board: &Board, backend: Backend) -> Words {
    let what = "a kernel with long descriptors (LPAE)";
    let why =
        "a VM's CPUs have none without virtualization extensions, and such a kernel stops at once";
    let remedy = "give it the kernel without `-lpae`, or build it without CONFIG_ARM_LPAE";
    words(board, backend, [what, why, remedy])
}

/// The words about the distribution's U-Boot, which is built with long descriptors.
fn u_boot_with_long_descriptors(board: &Board, backend: Backend) -> Words {
    let why = "it turns on long descriptors (LPAE), which a VM's CPUs do not have without virtualization extensions";
    let remedy = "give the kernel itself, by `kernel`, or the path of a U-Boot built without CONFIG_ARMV7_LPAE";
    words(board, backend, ["Debian's U-Boot", why, remedy])
}

/// Refuses what a VM cannot have yet where no hardware helps.
pub(crate) fn deprivileged(report: &mut Report, board: &Board, backend: Backend, draft: &Draft) {
    if backend != Backend::Deprivileged {
        return;
    }
    if let Some(boot) = &draft.boot {
        match &boot.value {
            Boot::Kernel(KernelRef::Debian {
                flavour: Flavour::LongDescriptors,
                ..
            }) => report.refuse(&boot.span, long_descriptors(board, backend)),
            Boot::Firmware(FirmwareRef::UBoot(_) | FirmwareRef::UBootWith { .. }) => {
                report.refuse(&boot.span, u_boot_with_long_descriptors(board, backend));
            }
            Boot::Kernel(_) | Boot::Firmware(FirmwareRef::Path(_) | FirmwareRef::Edk2 { .. }) => {}
        }
    }
}
