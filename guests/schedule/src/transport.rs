//! The ways to call.

/// What the hypervisor answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// `hanok_abi::schedule::status`, or an error of the interface as a whole.
    pub status: i32,
    /// The value that came with it.
    pub value: u64,
}

/// The arguments of a call: as many as its function has.
pub type Arguments<'a> = &'a [u64];

/// A way to call the hypervisor on behalf of the vCPU that the caller runs on.
pub trait Transport {
    /// Calls `function`. It has at most four arguments; more are ignored.
    fn call(&mut self, function: u32, arguments: Arguments<'_>) -> Answer;
}

impl<T: Transport + ?Sized> Transport for &mut T {
    fn call(&mut self, function: u32, arguments: Arguments<'_>) -> Answer {
        (**self).call(function, arguments)
    }
}

/// Four arguments, of which those that are not given are zero.
#[cfg(any(target_arch = "arm", target_arch = "aarch64", feature = "fake", doc))]
pub(crate) fn four(arguments: Arguments<'_>) -> [u64; 4] {
    let mut all = [0; 4];
    all.iter_mut()
        .zip(arguments)
        .for_each(|(place, argument)| *place = *argument);
    all
}
