//! What every format of descriptors says of a page.

/// How a page of the window is mapped.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Device memory.
    Device,
    /// Normal memory that may be executed.
    Code,
    /// Normal memory that may only be read.
    ReadOnly,
}
