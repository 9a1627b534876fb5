//! What a guest that knows the hypervisor uses of it.
//!
//! No guest has to use it: everything that the virtual platform promises works without it.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod back_end;
pub mod channel;
pub mod crossing;
pub mod schedule;
pub mod trace;
pub mod trampoline;
pub mod trap;

/// The hypervisor's own calls. They are made by HVC, with the function in W0, arguments from X1 on
/// and the answer in X0; all other registers are kept. The numbers are in SMCCC's range for a
/// vendor's hypervisor (DEN0028G, table 6-1: owner 6), so that under another hypervisor, and for a
/// call that does not exist, the answer is NOT_SUPPORTED (-1).
pub mod hypercall {
    /// Does nothing and answers 0: its cost is the least that a hypercall can cost.
    pub const NULL: u32 = 0xc600_0000;
    /// Gives up the rest of the caller's turn; answers 0 once it has the CPU again.
    pub const YIELD: u32 = 0xc600_0001;
    /// Identifies these calls: answers [`UID`] in W0 to W3 (DEN0028G, 6.3 "General service
    /// queries").
    pub const CALL_UID: u32 = 0x8600_ff01;
    /// Answers [`REVISION`] in W0 (major) and W1 (minor).
    pub const REVISION_OF_CALLS: u32 = 0x8600_ff03;

    /// The answer of [`CALL_UID`].
    pub const UID: [u32; 4] = [0x6b6f_6e61, 0x4b2d_6861, 0x9f0e_51b7, 0x3c27_d6a4];
    /// The major and minor version of these calls.
    pub const REVISION: (u32, u32) = (0, 1);
}
