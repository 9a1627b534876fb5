//! Which VMs can serve images.

use crate::backend::Architecture;
use crate::diagnostic::{Report, Words};
use crate::disk_images::{DiskImage, ImageDraft};
use crate::draft::Draft;
use crate::shared::BackEnd;
use crate::source::{Boot, Flavour, KernelRef};

/// The image, if the VM `driver` can serve it.
pub(crate) fn served(
    image: &ImageDraft,
    report: &mut Report,
    (name, driver): (&str, &Draft),
) -> Option<DiskImage> {
    let boot = driver.boot.as_ref().map(|boot| &boot.value);
    if let Some(Boot::Kernel(KernelRef::Guest(program))) = boot {
        let what = format!("VM {name} has no files: it is \"guest:{program}\"");
        let why = "an image is a file of a Linux, and a program in it serves the file";
        let remedy = format!(
            "write kernel = \"debian:6.1\" and initramfs = \"busybox\" for VM {name}, or a `device` here"
        );
        report.refuse(&image.file.span, Words::new(what, why, remedy));
        return None;
    }
    Some(image.image.clone())
}

/// Refuses a kernel without huge pages for a VM that serves images: of Debian's kernels of 32 bits those with short descriptors.
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
    let serves = served.iter().any(|end| end.image.is_some());
    if serves && architecture == Architecture::Arm && *flavour != Flavour::LongDescriptors {
        let what = "this kernel cannot serve images";
        let why = "rings are in huge pages, which a 32-bit kernel has with long descriptors alone";
        let release = release.as_ref().map(|release| format!("/{release}"));
        let release = release.unwrap_or_default();
        let remedy = format!("write kernel = \"debian:{version}-lpae{release}\"");
        report.refuse(&boot.span, Words::new(what, why, remedy));
    }
}
