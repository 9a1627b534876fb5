//! Self-hosted debug, of which an AArch32 guest has none (`core/vm/src/aarch32.rs`).

/// Nothing to switch.
#[derive(Clone, Copy, Debug, Default)]
pub struct DebugState;
