//! Which instructions show that a file is rewritten.

use hanok_abi::trap::{Original, original_a32, original_narrow, original_wide};
use hanok_decode::aarch32::Encoding;

/// Whether only a rewritten file has `encoding`. SVCs that hold an index of the table do not count,
/// because Linux's old system calls have the same numbers.
pub fn is_trap(encoding: Encoding, next: Option<u16>) -> bool {
    match encoding {
        Encoding::A32(word) => matches!(original_a32(word), Some(Original::Word(_))),
        Encoding::Narrow(svc) => {
            let wide = |next: u16| original_wide(u32::from(svc) << 16 | u32::from(next)).is_some();
            original_narrow(svc).is_some() || next.is_some_and(wide)
        }
        Encoding::Wide(_) => false,
    }
}
