//! What crosses the boundary between the hypervisor and a guest that knows it.
//!
//! A guest need not know it: everything that the promise names works without any of this.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod trampoline;
pub mod trap;

/// The hypervisor's own calls: by HVC, the function in W0, arguments from X1 on, the answer
/// in X0, all other registers kept. They are in SMCCC's range for a vendor's hypervisor
/// (DEN0028G, table 6-1: owner 6), so that under another hypervisor, or where a call is not
/// there, the answer is NOT_SUPPORTED (-1).
pub mod hypercall {
    /// Does nothing and answers 0: what a hypercall costs at least.
    pub const NULL: u32 = 0xc600_0000;
    /// Gives up the rest of the caller's turn; answers 0 once it has the CPU again.
    pub const YIELD: u32 = 0xc600_0001;
    /// Whose calls these are: [`UID`] in W0 to W3 (DEN0028G, 6.3 "General service queries").
    pub const CALL_UID: u32 = 0x8600_ff01;
    /// [`REVISION`] in W0 (major) and W1 (minor).
    pub const REVISION_OF_CALLS: u32 = 0x8600_ff03;

    /// What [`CALL_UID`] answers.
    pub const UID: [u32; 4] = [0x6b6f_6e61, 0x4b2d_6861, 0x9f0e_51b7, 0x3c27_d6a4];
    /// Major and minor version of these calls.
    pub const REVISION: (u32, u32) = (0, 1);
}
