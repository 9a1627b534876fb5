//! An instruction of the hypervisor's that may end in a data abort, which is caught.

/// Executes an instruction that uses `{at}`, and may load or store `{data}`; says whether it ended in an abort, by anything but 0. It
/// may change no memory that Rust knows of.
macro_rules! caught {
    ($instruction:literal, $at:ident) => {{
        let mut data = 0_u32;
        let failed = caught!($instruction, $at, data);
        let _ = data;
        failed
    }};
    ($instruction:literal, $at:ident, $data:ident) => {{
        let failed: u32;
        // SAFETY: a data abort while the stack pointer is zero (`vectors.rs`, `hyp_expected`; `supervisor.rs`,
        // `pl1_expected`) changes R0 and goes on at R1. The stack is not used meanwhile, and its pointer is as it was at
        // the end. The rest is the caller's.
        unsafe {
            core::arch::asm!(
                "adr r1, 2f",
                "mov r3, sp",
                "mov sp, {zero}",
                $instruction,
                "isb",
                "2:",
                "mov sp, r3",
                "/* {data} */",
                at = in(reg) $at,
                data = inout(reg) $data,
                inout("r0") 0_u32 => failed,
                out("r1") _,
                out("r3") _,
                zero = in(reg) 0,
                options(nostack)
            );
        }
        failed
    }};
}

pub(crate) use caught;
