//! Requests of a program at the other end of a framed line, on the channel that it shares with no
//! person: one line of text each, answered by lines of text.
//!
//! Numbers are decimal; what is not understood is [`Request::Unknown`]. docs/top.md has the
//! protocol.

use hanok_trace::KEPT_TURNS;
use hanok_types::{MAX_VCPUS, MAX_VMS, VcpuId, VmId};
use heapless::String;

/// The number of bytes of a request.
pub(super) const LENGTH: usize = 120;
/// The turns of a CPU that a report says, at most, if the request does not say how many.
const TURNS: u32 = 16;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Say everything.
    Report {
        /// It comes back in each line.
        number: u32,
        /// How many of each CPU's turns are said at most.
        turns: u32,
    },
    /// Give a vCPU another interface. Times are in nanoseconds.
    Change {
        /// The vCPU's VM.
        vm: VmId,
        /// The vCPU.
        vcpu: VcpuId,
        /// The period, the budget and the deadline.
        times: [u64; 3],
    },
    /// Give a best-effort vCPU another share.
    Weight {
        /// The vCPU's VM.
        vm: VmId,
        /// The vCPU.
        vcpu: VcpuId,
        /// Its weight beside the others'.
        weight: u16,
        /// The most that it gets, in percent; 0: there is no limit.
        cap: u8,
    },
    /// Say where the trace is.
    TracePlace,
    /// Record other events in the trace.
    Trace {
        /// Classes of events; nothing any more: 0.
        classes: u32,
        /// The VMs, a bit each.
        vms: u64,
    },
    /// It is not understood.
    Unknown,
}

/// The line that arrives.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    text: String<LENGTH>,
    /// Whether it was too long, or not ASCII.
    wrong: bool,
}

impl Arriving {
    /// Takes a byte. The answer is a request that is complete.
    pub(super) fn take(&mut self, byte: u8) -> Option<Request> {
        if byte == b'\n' {
            let wrong = core::mem::take(&mut self.wrong);
            let request = if wrong { None } else { parse(&self.text) };
            self.text.clear();
            return Some(request.unwrap_or(Request::Unknown));
        }
        let printable = byte.is_ascii_graphic() || byte == b' ';
        self.wrong |= !printable || self.text.push(char::from(byte)).is_err();
        None
    }
}

fn parse(line: &str) -> Option<Request> {
    let mut words = line.split_ascii_whitespace();
    let verb = words.next()?;
    let mut numbers = [0_u64; 5];
    let mut count = 0;
    for word in words {
        *numbers.get_mut(count)? = word.parse().ok()?;
        count += 1;
    }
    let [vm, vcpu, times @ ..] = numbers;
    match (verb, count) {
        ("report", 1 | 2) => Some(Request::Report {
            number: u32::try_from(vm).ok()?,
            turns: if count == 1 {
                TURNS
            } else {
                vcpu.min(KEPT_TURNS as u64) as u32
            },
        }),
        ("change", 5) => Some(Request::Change {
            vm: VmId::new(below(vm, MAX_VMS)?),
            vcpu: VcpuId::new(below(vcpu, MAX_VCPUS)?),
            times,
        }),
        ("weight", 4) => Some(Request::Weight {
            vm: VmId::new(below(vm, MAX_VMS)?),
            vcpu: VcpuId::new(below(vcpu, MAX_VCPUS)?),
            weight: u16::try_from(times[0]).ok().filter(|weight| *weight > 0)?,
            cap: below(times[1], 100)?,
        }),
        ("trace", 0) => Some(Request::TracePlace),
        ("trace", 2) => Some(Request::Trace {
            classes: u32::try_from(vm).ok()?,
            vms: vcpu,
        }),
        _ => None,
    }
}

fn below(number: u64, limit: usize) -> Option<u8> {
    (number < limit as u64).then_some(number as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &[u8]) -> std::vec::Vec<Request> {
        let mut arriving = Arriving::default();
        text.iter()
            .filter_map(|byte| arriving.take(*byte))
            .collect()
    }

    fn report(number: u32, turns: u32) -> Request {
        Request::Report { number, turns }
    }

    #[test]
    fn requests_are_understood() {
        let (vm, vcpu) = (VmId::new(3), VcpuId::new(63));
        let times = [10_000_000, 2_000_000, u64::MAX];
        let change = Request::Change { vm, vcpu, times };
        let weight = Request::Weight {
            vm,
            vcpu,
            weight: 65535,
            cap: 99,
        };
        for (line, wanted) in [
            ("report 4294967295\n", report(u32::MAX, 16)),
            ("report 7 255\n", report(7, 255)),
            ("report 7 4294967296\n", report(7, 256)),
            (
                "change 3 63 10000000 2000000 18446744073709551615\n",
                change,
            ),
            (" weight  3 63 65535 99 \n", weight),
        ] {
            assert_eq!(taken(line.as_bytes()), [wanted], "{line}");
        }
    }

    #[test]
    fn what_is_not_understood_is_answered_once() {
        let long = [[b'1'; LENGTH + 1].as_slice(), b"\n"].concat();
        for line in [
            &b"\n"[..],
            b"report\n",
            b"report 1 2 3\n",
            b"report 4294967296\n",
            b"report -1\n",
            b"report 1\x1b\n",
            b"rep\xffort 1\n",
            b"change 64 0 1 1 1\n",
            b"change 0 64 1 1 1\n",
            b"change 0 0 1 1 18446744073709551616\n",
            b"change 0 0 1 1 1 1\n",
            b"weight 0 0 0 0\n",
            b"weight 0 0 65536 0\n",
            b"weight 0 0 1 100\n",
            b"explode 1\n",
            &long,
        ] {
            assert_eq!(taken(line), [Request::Unknown], "{line:?}");
        }
        // The next line is understood again.
        let both = [&long[..], b"report 7\n"].concat();
        assert_eq!(taken(&both), [Request::Unknown, report(7, 16)]);
    }
}
