//! The reason for each rule of the model, and what to do about a fault.

use crate::board::Cores;
use crate::diagnostic::Words;
use hanok_task_model::Fault;

/// The reason and the remedy.
pub(crate) fn of(fault: Fault) -> (&'static str, &'static str) {
    match fault {
        Fault::Zero(_) => ("nothing happens in no time", "give it a time above zero"),
        Fault::TooLong(_) => (
            "sums of such times would not fit into 64 bits",
            "give it a shorter time",
        ),
        Fault::NotWhole { .. } => (
            "the timer that enforces it counts in ticks",
            "round it to ticks, or make the schedule's `tick` shorter",
        ),
        Fault::Longer { .. } => ("it could never be kept", "make it shorter"),
        Fault::Nameless => ("messages name it", "give it a name"),
        Fault::NameTaken => ("messages name it", "give it another name"),
        Fault::TooMany(_) => ("the analysis is made for fewer", "describe fewer"),
        Fault::Missing(_) => ("it would get no CPU time", "name one that exists"),
        Fault::Circle => ("it would get its CPU time from itself", "put it elsewhere"),
        Fault::Empty => (
            "a least interface is what tasks and components inside need",
            "add a task, or give it a `budget`",
        ),
        Fault::NoPriority => (
            "priorities are not made up",
            "give it a `priority`, or another policy above it",
        ),
        Fault::NoCores => ("nothing can run there", "give it cores, or remove it"),
        Fault::CoreTaken(_) => ("a core has one scheduler", "name each core once"),
        Fault::NotInPool(_) => (
            "a component runs on the cores of its pool",
            "name another core or another pool",
        ),
        Fault::NoCoreToChoose => (
            "only a partitioned pool gives a core to one CPU of a component",
            "remove `core`, or put it into a partitioned pool",
        ),
        Fault::GlobalNeedsEdf => (
            "the analysis knows no other policy for several CPUs",
            "write policy = \"edf\"",
        ),
        Fault::MoreCpusThanCores { .. } => (
            "its CPUs could never run together",
            "give it fewer vCPUs, or the pool more cores",
        ),
        Fault::ParallelInGroup => (
            "a group has the supply of one CPU",
            "put it into a pool, or give each task a `vcpu`",
        ),
        Fault::ParallelGroup => (
            "a component inside has one CPU and would not be spread",
            "put the components into a group with one CPU",
        ),
        Fault::ParallelWindow => (
            "the interface for several CPUs is (period, budget)",
            "remove `window` or `deadline`",
        ),
        Fault::ServerWindow => (
            "its budget outlives the time without work, until the period ends",
            "remove `window` or `deadline`, or write server = \"periodic\" or \"polling\"",
        ),
        Fault::NoPeriod => (
            "a period is a whole number of ticks",
            "widen the range, or make the schedule's `tick` shorter",
        ),
    }
}

/// The refusal of a core that is named and does not exist.
pub(crate) fn no_core(core: u64, cores: Cores) -> Words {
    let what = format!("there is no core {core}");
    let why = format!("the system has {}, counted from 0", cores.count);
    Words::new(what, why, cores.or_more("name one of them"))
}
