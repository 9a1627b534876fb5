//! Attacks on virtio devices that VMs share, from both sides, and those who must not be harmed by them.
//!
//! | `conformance.run=` | |
//! |---|---|
//! | `virtio-client` | attacks all of its devices by registers and queues ([`client`]) |
//! | `virtio-racer` | makes requests with one vCPU, and changes them meanwhile with another one ([`race`]) |
//! | `virtio-driver` | serves devices of other VMs, and attacks by that ([`drivers`]) |
//! | `virtio-bystander` | uses its devices as it should, and must not notice anything, until a key comes ([`peaceful`]) |
//! | `virtio-victim` | the same for a VM that a hostile one serves: it may be served badly, and nothing worse |
//!
//! `virtio.seed=` is where chance begins, and `virtio.rounds=` says how many rounds by chance each device has.

mod back_attacks;
mod back_end;
mod chance;
mod client;
mod client_attack;
mod driver_attack;
mod drivers;
mod memory;
mod peaceful;
mod queues;
mod race;
mod registers;
mod requests;
mod transport;
mod trusted;
mod under_way;

use crate::machine::Machine;
use crate::sleep::sleep_until;
use crate::timer;
use crate::tree::Arguments;

/// How often something is looked for before this VM sleeps.
const LOOKS: usize = 64;

/// Waits until `done`, for at most so many milliseconds, and sleeps in between, so that others have their turn. Returns whether it is done.
fn wait_ms(milliseconds: u64, mut done: impl FnMut() -> bool) -> bool {
    let end = now() + milliseconds;
    loop {
        if (0..LOOKS).any(|_| done()) {
            return true;
        }
        if now() > end {
            return false;
        }
        sleep_until(1, || false);
    }
}

/// The same, as long as somebody who works may take.
fn wait(done: impl FnMut() -> bool) -> bool {
    wait_ms(timer::PATIENCE_MS, done)
}

/// The time in milliseconds.
fn now() -> u64 {
    timer::now() * 1_000 / timer::frequency()
}

/// What a VM does.
#[derive(Clone, Copy)]
pub enum Role {
    /// It attacks its devices.
    Client,
    /// It attacks its devices with two vCPUs at once.
    Racer,
    /// It attacks by what it serves.
    Driver,
    /// Its devices are in order.
    Bystander,
    /// A hostile VM serves its devices.
    Victim,
}

/// The role with this name.
pub fn named(name: &str) -> Option<Role> {
    match name {
        "virtio-client" => Some(Role::Client),
        "virtio-racer" => Some(Role::Racer),
        "virtio-driver" => Some(Role::Driver),
        "virtio-bystander" => Some(Role::Bystander),
        "virtio-victim" => Some(Role::Victim),
        _ => None,
    }
}

impl Role {
    /// Does it.
    pub fn run(self, machine: &Machine, arguments: &Arguments) {
        let number = |key, otherwise| {
            let value = arguments.value(key).map(str::parse);
            value.and_then(Result::ok).unwrap_or(otherwise)
        };
        let options = client::Options {
            seed: number("virtio.seed=", 1),
            rounds: number("virtio.rounds=", 100),
        };
        match self {
            Self::Client => client::run(machine, options),
            Self::Racer => race::run(machine, options),
            Self::Driver => drivers::run(machine, options),
            Self::Bystander => peaceful::stand_by(),
            Self::Victim => peaceful::suffer(),
        }
    }
}
