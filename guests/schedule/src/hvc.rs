//! Calls by the instruction HVC: for the kernel of a guest, as programs may not execute it.

#[cfg(target_arch = "arm")]
use crate::arm::hvc;
#[cfg(target_arch = "aarch64")]
use crate::arm64::hvc;
use crate::transport::{Answer, Arguments, Transport, four};
use hanok_abi::schedule::status;

/// Calls by HVC.
///
/// Without a hypervisor below, HVC is an undefined instruction. A kernel that may run on a bare machine asks its
/// device tree first: the node `hanok,schedule` is there where the calls are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hvc;

impl Transport for Hvc {
    fn call(&mut self, function: u32, arguments: Arguments<'_>) -> Answer {
        // Cut off, a time would be another one: the hypervisor could not tell.
        let Some(arguments) = fitting(four(arguments)) else {
            return Answer {
                status: status::INVALID,
                value: 0,
            };
        };
        let [status, low, high] = hvc(function, arguments);
        Answer {
            status: status as i32,
            value: u64::from(high) << 32 | u64::from(low),
        }
    }
}

/// The arguments as registers hold them; none if they do not fit.
fn fitting(arguments: [u64; 4]) -> Option<[usize; 4]> {
    let registers = arguments.map(|argument| argument as usize);
    (registers.map(|register| register as u64) == arguments).then_some(registers)
}
