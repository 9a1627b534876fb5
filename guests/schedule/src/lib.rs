//! How a guest takes part in the scheduling of its own vCPUs: the calls of `hanok_abi::schedule`, safe and with types.
//!
//! [`Vcpu`] is the vCPU that the caller runs on, and has the calls. How they reach the hypervisor is its
//! [`Transport`]:
//!
//! - `Hvc`: by the instruction HVC, from a guest's kernel. An RTOS uses this.
//! - [`Page`]: by the registers of a device, from whoever has them mapped. A bare-metal program may map them where
//!   its device tree says (`compatible = "hanok,schedule"`); a program of Linux uses the crate hanok-schedule-linux.
//! - The feature `fake` has a board that answers by itself, for tests on a PC.
//!
//! [`Tasks`] are the tasks that the guest has on its vCPU: it finds the budget that they need, and asks for it.
//!
//! Each call concerns the vCPU that makes it, and no other. A caller that may be moved to another vCPU between two
//! calls has to prevent that, or it asks about one vCPU and changes another.
//!
//! ```
//! # use hanok_schedule::fake::Board;
//! use hanok_schedule::{Error, Interface, Order, Task, Tasks, Vcpu};
//!
//! # let board = Board::default();
//! # let hvc = board.by_call(0);
//! // let hvc = hanok_schedule::Hvc; a test has the fake board's.
//! let mut vcpu = Vcpu::new(hvc);
//! let mut tasks = Tasks::new(Order::EarliestDeadline);
//! // A task of 2 ms each 20 ms. The budget becomes the least with which it keeps its deadlines.
//! match tasks.declare(&mut vcpu, 0, &Task::new(20_000_000, 2_000_000)) {
//!     Ok(_since) => {}
//!     Err(Error::Refused(why)) => panic!("not scheduled: {why}"),
//!     Err(error) => panic!("{error}"),
//! }
//! let Interface { period, budget, .. } = vcpu.interface()?;
//! assert!(budget < period);
//! # Ok::<(), Error>(())
//! ```

#![no_std]

#[cfg(test)]
extern crate std;

#[cfg(target_arch = "arm")]
mod arm;
#[cfg(target_arch = "aarch64")]
mod arm64;
mod error;
#[cfg(any(feature = "fake", doc))]
pub mod fake;
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
mod hvc;
mod page;
mod tasks;
mod transport;
mod vcpu;

pub use error::{Error, Refusal, Result};
#[cfg(any(target_arch = "arm", target_arch = "aarch64"))]
pub use hvc::Hvc;
pub use page::{Mapped, Page, Registers};
pub use tasks::Tasks;
pub use transport::{Answer, Arguments, Transport};
pub use vcpu::{Features, Interface, Item, Limits, Task, Usage, Vcpu};

pub use hanok_abi::schedule::DEVICE;
pub use hanok_sched::Order;
