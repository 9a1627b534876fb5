//! Limits the lines that the hypervisor prints about a guest's actions.
//!
//! A guest that resets in a loop would otherwise fill the hypervisor's queue, and push the
//! lines about others out of it.

use hanok_hal::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The most lines about one VM in a second.
const A_SECOND: u32 = 10;

/// The count of lines about one VM. Several pCPUs may count at once: then a line too many or too few is
/// printed, which does no harm.
#[derive(Debug, Default)]
pub struct Notices {
    second: AtomicU64,
    said: AtomicU32,
    left_out: AtomicU32,
}

impl Notices {
    /// If one more line may be printed in this second, the answer is the number of lines that were left out
    /// before; otherwise `None`.
    pub fn admit(&self, second: u64) -> Option<u32> {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.said.store(0, Ordering::Relaxed);
        }
        if self.said.fetch_add(1, Ordering::Relaxed) < A_SECOND {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}
