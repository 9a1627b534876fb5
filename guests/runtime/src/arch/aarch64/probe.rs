//! `probe!`: instructions under observation.

/// Executes instructions, and returns the exception that one of them took, if any. It is used in an
/// unsafe block: the instructions may change registers only as their operands say, up to any point
/// at which one may fault.
#[macro_export]
macro_rules! probe {
    ($($code:literal),+ ; $($operands:tt)*) => {{
        let cell = $crate::probe::begin();
        core::arch::asm!(
            "adr {recover}, 77f",
            "str {recover}, [{cell}]",
            $($code,)+
            "77:",
            "str xzr, [{cell}]",
            recover = out(reg) _,
            cell = in(reg) cell,
            $($operands)*
        );
        $crate::probe::end()
    }};
}
