//! Which VMs can serve what is a Linux's: images, tap interfaces, directories.

use crate::backend::Architecture;
use crate::diagnostic::{Report, Words};
use crate::draft::Draft;
use crate::linux_sources::{LinuxSource, SourceDraft};
use crate::shared::{BackEnd, SharedDraft};
use crate::source::{Boot, Flavour, KernelRef};
use hanok_config::VirtioKind;

/// The source, if the VM `driver` can serve it.
pub(crate) fn served(
    draft: &SourceDraft,
    report: &mut Report,
    (name, driver): (&str, &Draft),
) -> Option<LinuxSource> {
    let boot = driver.boot.as_ref().map(|boot| &boot.value);
    if let Some(Boot::Kernel(KernelRef::Guest(program))) = boot {
        let (none, why) = match draft.source {
            LinuxSource::Image(_) => (
                "files",
                "an image is a file of a Linux, and a program in it serves the file",
            ),
            LinuxSource::Tap(_) => (
                "tap interfaces",
                "a program in a Linux leads frames to such an interface",
            ),
            LinuxSource::Directory(_) => (
                "files",
                "a directory is that of a Linux, and a program in it serves its files",
            ),
        };
        let what = format!("VM {name} has no {none}: it is \"guest:{program}\"");
        let remedy = format!(
            "write kernel = \"debian:6.1\" and initramfs = \"busybox\" for VM {name}, or a `device` here"
        );
        report.refuse(&draft.span, Words::new(what, why, remedy));
        return None;
    }
    Some(draft.source.clone())
}

/// Refuses a network that a stock Linux is to serve without an interface: there is no switch in it but its bridge.
pub(crate) fn refuse_without_tap(
    report: &mut Report,
    draft: &SharedDraft,
    (name, driver): (&str, &Draft),
) -> Option<()> {
    let boot = driver.boot.as_ref().map(|boot| &boot.value);
    let linux = matches!(boot, Some(Boot::Kernel(KernelRef::Debian { .. })));
    if draft.kind != VirtioKind::Network || !linux {
        return Some(());
    }
    let what = format!("VM {name} is a Linux, and the network has no `tap`");
    let why = "a Linux serves a network by a tap interface, which is bridged there";
    let remedy = "write the interface's name, such as tap = \"left0\", in place of a `device`";
    report.refuse(&draft.from.span, Words::new(what, why, remedy));
    None
}

/// Refuses a kernel without huge pages for a VM that serves by a program of Linux's: of Debian's kernels of 32 bits those with short descriptors.
pub(crate) fn refuse_without_pages(
    report: &mut Report,
    draft: &Draft,
    architecture: Architecture,
    served: &[BackEnd],
) {
    let Some(boot) = draft.boot.as_ref() else {
        return;
    };
    let Boot::Kernel(KernelRef::Debian {
        version,
        flavour,
        release,
    }) = &boot.value
    else {
        return;
    };
    let serves = served.iter().any(|end| end.source.is_some());
    if serves && architecture == Architecture::Arm && *flavour != Flavour::LongDescriptors {
        let what = "this kernel cannot serve devices";
        let why = "rings are in huge pages, which a 32-bit kernel has with long descriptors alone";
        let release = release.as_ref().map(|release| format!("/{release}"));
        let release = release.unwrap_or_default();
        let remedy = format!("write kernel = \"debian:{version}-lpae{release}\"");
        report.refuse(&boot.span, Words::new(what, why, remedy));
    }
}
