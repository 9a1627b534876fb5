//! Descriptions that `hanok check` and `hanok build` refuse: line, reason and remedy.

use anyhow::{Result, ensure};

use super::{Bench, SOUND, words};
use crate::exit::Code;

/// A change to [`SOUND`] and what is said of it.
pub(super) struct Refusal {
    from: &'static str,
    to: &'static str,
    place: &'static str,
    what: &'static str,
    why: &'static str,
    fix: &'static str,
}

const fn refusal(
    change: [&'static str; 2],
    place: &'static str,
    [what, why, fix]: [&'static str; 3],
) -> Refusal {
    let [from, to] = change;
    Refusal {
        from,
        to,
        place,
        what,
        why,
        fix,
    }
}

pub(super) const REFUSALS: &[Refusal] = &[
    refusal(
        ["memory", "memroy"],
        ":5:1:",
        [
            "unknown key `memroy`",
            "the keys here are",
            "did you mean `memory`?",
        ],
    ),
    refusal(
        ["name = \"a\"", "name = \"a\"\ncolour = 3"],
        ":4:1:",
        ["unknown key `colour`", "the keys here are", "remove it"],
    ),
    refusal(
        ["qemu-virt", "qemu-vrit"],
        ":1:9:",
        ["unknown board \"qemu-vrit\"", "", "did you mean"],
    ),
    refusal(
        ["board", "cpu = \"cortex-a75\"\nboard"],
        ":1:7:",
        [
            "no CPU \"cortex-a75\"",
            "its models are",
            "did you mean \"cortex-a57\"?",
        ],
    ),
    refusal(
        ["board", "cores = 5\nboard"],
        ":1:9:",
        [
            "cannot have 5 cores",
            "it has from 1 to 4",
            "choose a number",
        ],
    ),
    refusal(
        ["vcpus = 1", "vcpus = 5"],
        ":6:9:",
        [
            "5 vCPUs, but 4 of 4 cores free",
            "a core of its own",
            "lower `vcpus`",
        ],
    ),
    refusal(
        ["vcpus = 1", "cpus = [0, 0]"],
        ":6:8:",
        [
            "core 0 is given to two vCPUs",
            "a core of its own",
            "name another core",
        ],
    ),
    refusal(
        ["256M", "4G"],
        ":5:10:",
        [
            "too much memory",
            "more than the board's",
            "give the VMs at most",
        ],
    ),
    refusal(
        ["256M", "255K"],
        ":5:10:",
        ["cannot have 261120 bytes", "blocks of 2M", "make it \"2M\""],
    ),
    refusal(
        [
            "vcpus = 1",
            "[[vm]]\nname = \"a\"\nkernel = \"x\"\nmemory = \"900M\"",
        ],
        ":6:1:",
        ["more than one VM", "one VM until", "keep one"],
    ),
    refusal(
        ["guest:conformance", "missing/Image"],
        ":4:10:",
        ["the kernel cannot be read", "No such file", "mend the path"],
    ),
    refusal(
        ["guest:conformance", "x86"],
        ":4:10:",
        [
            "this kernel is a bzImage for x86",
            "boots an arm64 Image",
            "give an arm64 kernel",
        ],
    ),
    refusal(
        ["guest:conformance", "arm32"],
        ":4:10:",
        [
            "a zImage for 32-bit ARM",
            "boots an arm64 Image",
            "give an arm64 kernel",
        ],
    ),
    refusal(
        ["guest:conformance", "guest:conformence"],
        ":4:10:",
        [
            "there is no guest",
            "guests/ has",
            "did you mean \"guest:conformance\"?",
        ],
    ),
    refusal(
        ["[[vm]]", "[[vm]"],
        ":2:",
        ["", "does not follow TOML's grammar", "compare with docs/"],
    ),
    refusal(
        ["name = \"a\"\n", ""],
        ":2:1:",
        ["`name` is missing", "no default", "add `name`"],
    ),
];

pub(super) fn refuses(bench: &Bench, case: &Refusal) -> Result<()> {
    let mut x86 = vec![0; 1024];
    x86[514..518].copy_from_slice(b"HdrS");
    bench.file("x86", x86)?;
    let mut arm = vec![0; 1024];
    arm[36..40].copy_from_slice(&0x016f_2818u32.to_le_bytes());
    bench.file("arm32", arm)?;
    ensure!(
        SOUND.contains(case.from),
        "{} is not in the description",
        case.from
    );
    let name = "case.toml";
    bench.file(name, SOUND)?;
    let sound = bench.hanok().args(["check", name]).output()?;
    ensure!(
        sound.status.success(),
        "the sound description: {}",
        words(&sound).1
    );
    bench.file(name, SOUND.replacen(case.from, case.to, 1))?;
    for command in [&["check", name][..], &["build", name, "-o", "image"]] {
        let output = bench.hanok().args(command).output()?;
        let (_, said) = words(&output);
        let told = || format!("{:?} instead of {:?}: {said}", case.to, case.from);
        ensure!(
            output.status.code() == Some(Code::Refused as i32),
            "{}: {}",
            output.status,
            told()
        );
        let line = said.lines().find(|line| {
            line.contains(&format!("{name}{}", case.place)) && line.contains(case.what)
        });
        ensure!(
            line.is_some(),
            "not {} {:?}: {}",
            case.place,
            case.what,
            told()
        );
        for (label, text) in [("why: ", case.why), ("fix: ", case.fix)] {
            let found = said
                .lines()
                .any(|line| line.contains(label) && line.contains(text));
            ensure!(text.is_empty() || found, "no {label}{text}: {}", told());
        }
    }
    Ok(())
}
