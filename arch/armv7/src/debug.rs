//! Self-hosted debug, of which an AArch32 guest has none (`core/vm/src/aarch32.rs`).

use hanok_decode::SysReg;

/// Nothing.
pub fn set_control(_value: u64) {}

/// Nothing.
pub fn register(_id: SysReg) -> u64 {
    0
}

/// Nothing.
pub fn clear() {}

/// Nothing.
pub fn set_register(_id: SysReg, _value: u64) {}
