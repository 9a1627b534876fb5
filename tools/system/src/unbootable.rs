//! Refuses well-known programs that have a form that a VM boots, and cannot start in a VM.
//! Otherwise such a program would start and stay silent.

use crate::bytes::has;
use crate::diagnostic::Words;

/// The number of bytes that are searched. Xen is smaller, and searching them takes no time.
const SEARCHED: usize = 8 << 20;
/// The alignment of UEFI's volumes. The first of a firmware is near its start.
const VOLUME: usize = 4096;
const FIRST_VOLUMES: usize = 16;
/// The offset of a volume's signature (UEFI Platform Initialization, volume 3, 3.2.1).
const SIGNATURE: usize = 40;

/// Refuses a kernel that cannot start.
pub(crate) fn kernel(bytes: &[u8]) -> Result<(), Words> {
    let mut volumes = (0..FIRST_VOLUMES).map(|volume| volume * VOLUME);
    if volumes.any(|at| has(bytes, at + SIGNATURE, b"_FVH")) {
        return Err(Words::new(
            "this is a UEFI firmware (EDK2)",
            "it begins in flash, at 0, and a kernel in RAM",
            "write its path behind `firmware`, or firmware = \"edk2:aarch64\"",
        ));
    }
    if bytes.len() <= SEARCHED && holds(bytes, b"(XEN) ") && holds(bytes, b"Xen version ") {
        return Err(Words::new(
            "this kernel is Xen",
            "a hypervisor begins at EL2, or in Hyp mode, and a VM has EL1 and EL0 alone",
            "boot the guests that Xen was to have, a [[vm]] each",
        ));
    }
    Ok(())
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    let starts = bytes.iter().enumerate();
    let mut starts = starts.filter(|(_, byte)| Some(*byte) == text.first());
    starts.any(|(at, _)| has(bytes, at, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(texts: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 0x3000];
        for (at, text) in texts {
            bytes[*at..at + text.len()].copy_from_slice(text);
        }
        bytes
    }

    #[test]
    fn they_are_known_by_what_they_hold() {
        let xen = with(&[(0x100, b"(XEN) "), (0x2ff0, b"Xen version %d")]);
        assert!(kernel(&xen).is_err());
        let linux = with(&[(0x100, b"Xen version %d.%d")]);
        assert!(kernel(&linux).is_ok(), "a Linux that can be Xen's guest");
        let edk2 = with(&[(0x1028, b"_FVH")]);
        assert!(kernel(&edk2).is_err());
        assert!(kernel(&with(&[(0x1020, b"_FVH")])).is_ok());
        assert!(kernel(&[]).is_ok());
    }
}
