//! What the image's wiring calls of the executive.

/// Defines the module `wiring`, which has the functions of the executive that the image's wiring calls,
/// compiled with this backend's crate. A generic function is compiled in the crate that names it, and the
/// image's own crate is compiled for size. `$host` is the backend's type in the calling crate's root.
#[macro_export]
macro_rules! wiring {
    ($host:ident) => {
        /// What the image's wiring calls of the executive.
        pub mod wiring {
            use super::$host;
            use $crate::cpu::Cpu;
            use $crate::pcpu::{self, Board, Vcpu};

            /// Schedules for the first time on a CPU, and gives the vCPU to enter.
            #[inline(never)]
            pub fn begin(cpu: &mut Cpu<$host>) -> *mut Vcpu<$host> {
                cpu.begin()
            }

            /// Starts the first boot of every VM that boots with the board.
            #[inline(never)]
            pub fn begin_all(board: &'static Board<$host>) {
                pcpu::begin_all(board);
            }

            /// Prints one line of the hypervisor's own on the console.
            #[inline(never)]
            pub fn say(board: &Board<$host>, text: core::fmt::Arguments<'_>) {
                board.say(text);
            }
        }
    };
}
