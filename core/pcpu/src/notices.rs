//! How many lines the hypervisor says about what a guest did.
//!
//! A guest that resets in a loop would otherwise fill the hypervisor's queue, and push the
//! lines about others out of it.

use hanok_hal::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Lines about one VM in a second.
const A_SECOND: u32 = 10;

/// The count of lines about one VM. Several pCPUs may count at once: then a line too many
/// or too few is said, which does no harm.
#[derive(Debug, Default)]
pub struct Notices {
    second: AtomicU64,
    said: AtomicU32,
    left_out: AtomicU32,
}

impl Notices {
    /// Whether one more line may be said in this second; if so, how many were left out before.
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
