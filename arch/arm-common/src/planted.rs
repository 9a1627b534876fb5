//! Faults that a test plants, to show that the checks find them.
//!
//! Only an image built with the feature `selftest` can have any; in the image that is used nothing
//! can be planted, and no instruction asks whether something was.

#[cfg(feature = "selftest")]
pub use with::Planted;
#[cfg(not(feature = "selftest"))]
pub use without::Planted;

#[cfg(feature = "selftest")]
mod with {
    use core::sync::atomic::{AtomicBool, Ordering};

    /// What is planted.
    #[derive(Debug, Default)]
    pub struct Planted {
        late_error: AtomicBool,
        unsteady_ids: bool,
    }

    impl Planted {
        /// With `late_error`, the next vCPU that makes room for another one leaves as if a store of its had
        /// failed; with `unsteady_ids`, ID registers have another value now and then.
        pub fn new(late_error: bool, unsteady_ids: bool) -> Self {
            Self {
                late_error: AtomicBool::new(late_error),
                unsteady_ids,
            }
        }

        /// Whether the late error is still to come.
        pub fn has_late_error(&self) -> bool {
            self.late_error.load(Ordering::Relaxed)
        }

        /// Counts a late error that came as the planted one, if there is one.
        pub fn late_error_came(&self) {
            self.late_error.store(false, Ordering::Relaxed);
        }

        /// Whether ID registers have another value now and then.
        pub fn ids_are_unsteady(&self) -> bool {
            self.unsteady_ids
        }

        /// The value at this time of an ID register whose own value is `value`.
        pub fn id(&self, value: u64, counter: impl FnOnce() -> u64) -> u64 {
            if self.unsteady_ids && counter().is_multiple_of(8) {
                !value
            } else {
                value
            }
        }
    }
}

#[cfg(not(feature = "selftest"))]
mod without {
    /// Nothing is planted.
    #[derive(Debug, Default)]
    pub struct Planted;

    impl Planted {
        /// No late error is to come.
        #[inline(always)]
        pub const fn has_late_error(&self) -> bool {
            false
        }

        /// A late error came; it was not planted.
        #[inline(always)]
        pub const fn late_error_came(&self) {}

        /// The value of an ID register whose own value is `value`.
        #[inline(always)]
        pub fn id(&self, value: u64, _counter: impl FnOnce() -> u64) -> u64 {
            value
        }
    }
}
