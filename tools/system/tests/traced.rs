//! The table `[trace]`: what is recorded, and in how much memory.

mod common;

use common::load;
use hanok_abi::trace::class;
use hanok_config::Trace;

fn read(trace: &str, memory: &str) -> Result<Trace, Vec<String>> {
    let text = format!(
        "board = \"qemu-virt\"\nmemory = \"1G\"\n{trace}\n[[vm]]\nname = \"a\"\nkernel = \"guest:rtos\"\nmemory = \"{memory}\"\n"
    );
    load(&text)
        .map(|system| system.trace)
        .map_err(|found| found.iter().map(ToString::to_string).collect())
}

fn refused(trace: &str) -> String {
    read(trace, "64M").unwrap_err().join("\n")
}

#[test]
fn what_is_said_is_recorded_and_all_if_nothing_is_said() {
    let read = |trace| read(trace, "64M").unwrap();
    let trace = |records, classes| Trace { records, classes };
    assert_eq!(read(""), trace(0, 0));
    assert_eq!(read("[trace]"), trace(32_768, class::ALL));
    let some = read("[trace]\nring = \"4K\"\nrecord = [\"exits\", \"life\"]");
    assert_eq!(some, trace(128, class::EXITS | class::LIFE));
    assert_eq!(
        read("[trace]\nring = \"32M\"\nrecord = []"),
        trace(1 << 20, 0)
    );
}

#[test]
fn what_cannot_be_is_refused_with_what_would_mend_it() {
    for ring in [
        "\"3M\"", "\"2K\"", "\"64M\"", "5", "\"much\"", "\"-1M\"", "\"0M\"",
    ] {
        let why = refused(&format!("[trace]\nring = {ring}"));
        assert!(
            why.contains("a power of two from \"4K\" to \"32M\""),
            "{ring}: {why}"
        );
    }
    let why = refused("[trace]\nrecord = [\"exit\"]");
    assert!(
        why.contains("no class of events is called \"exit\""),
        "{why}"
    );
    assert!(why.contains("did you mean \"exits\"?"), "{why}");
    assert!(refused("[trace]\nrecord = \"exits\"").contains("a list of words"));
    assert!(refused("[trace]\nrings = \"1M\"").contains("did you mean `ring`?"));
}

/// Four cores with 32 MiB each and 64 MiB for the hypervisor: 832 MiB of 1 GiB are left, and a bit less for the heads.
#[test]
fn a_trace_takes_memory_that_vms_then_cannot_have() {
    let trace = "[trace]\nring = \"32M\"";
    assert!(read("", "960M").is_ok());
    assert!(read(trace, "830M").is_ok());
    let why = read(trace, "832M").unwrap_err().join("\n");
    assert!(why.contains("too much memory"), "{why}");
    assert!(why.contains("for the hypervisor"), "{why}");
}
