//! An attack of a hostile driver VM's on a device that it serves.

use super::back_end::BackEnd;
use super::requests::Outcome;

/// What the device has to be after an attack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Withdrawn, as the rings are wrong.
    Failed,
    /// Not offered, as a register is wrong.
    Refused,
    /// Offered.
    Offered,
    /// Whatever it is, another offer helps.
    Any,
}

/// An attack.
pub struct Attack {
    /// What it is called.
    pub name: &'static str,
    /// Makes it, with the request that is under way.
    pub run: fn(&mut BackEnd, Taken) -> Outcome,
    /// What the device has to be then.
    pub after: After,
}

/// An attack on a device that is offered, with a request under way.
pub const fn attack(
    name: &'static str,
    after: After,
    run: fn(&mut BackEnd, Taken) -> Outcome,
) -> Attack {
    Attack { name, run, after }
}

/// The request that is under way.
#[derive(Clone, Copy)]
pub struct Taken {
    /// Its queue.
    pub queue: u32,
    /// Its slot.
    pub head: u16,
}
