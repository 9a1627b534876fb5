//! Descriptions that `hanok check` and `hanok build` refuse: line, reason and remedy.

use anyhow::{Result, ensure};

use super::bench::{Bench, SOUND, words};
use hanok_base::exit::Code;

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
        ["board", "cores = 65\nboard"],
        ":1:9:",
        [
            "cannot have 65 cores",
            "it has from 1 to 64",
            "choose a number",
        ],
    ),
    refusal(
        ["vcpus = 1", "vcpus = 5"],
        ":6:9:",
        [
            "5 vCPUs, but 4 of 4 cores free",
            "a core that nobody else has",
            "write cpus = [0, 0, 0, 0, 0] to share cores, or lower `vcpus`, or raise `cores`, up to 64",
        ],
    ),
    refusal(
        ["vcpus = 1", "vcpus = 65"],
        ":6:9:",
        [
            "a VM cannot have 65 vCPUs",
            "it has from 1 to 64",
            "choose a number in between",
        ],
    ),
    refusal(
        ["vcpus = 1", "cpus = []"],
        ":6:8:",
        [
            "a VM cannot have 0 vCPUs",
            "it has from 1 to 64",
            "choose a number in between",
        ],
    ),
    refusal(
        ["vcpus = 1", "cpus = [0, 4]"],
        ":6:8:",
        [
            "there is no core 4",
            "the board has cores 0 to 3",
            "name one of these, or raise `cores`, up to 64",
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
    // Two VMs that want more cores than there are, and do not say that they share.
    refusal(
        [
            "vcpus = 1",
            "[[vm]]\nname = \"b\"\nkernel = \"guest:conformance\"\nmemory = \"128M\"\nvcpus = 4",
        ],
        ":10:9:",
        [
            "4 vCPUs, but 3 of 4 cores free",
            "a core that nobody else has",
            "write cpus = [0, 0, 0, 0] to share cores",
        ],
    ),
    refusal(
        ["name = \"a\"", "name = \"hanok\""],
        ":3:8:",
        [
            "a VM is called \"hanok\"",
            "lines with that name before them are the hypervisor's",
            "give it another name",
        ],
    ),
    refusal(
        [
            "vcpus = 1",
            "[[vm]]\nname = \"a\"\nkernel = \"guest:conformance\"\nmemory = \"128M\"",
        ],
        ":7:8:",
        [
            "a second VM is called \"a\"",
            "consoles and messages name VMs",
            "give it another name",
        ],
    ),
    refusal(
        [
            "vcpus = 1",
            "[[vm]]\nname = \"b\"\nkernel = \"guest:conformance\"\nmemory = \"900M\"",
        ],
        ":9:10:",
        [
            "too much memory",
            "more than the board's",
            "give the VMs at most",
        ],
    ),
    refusal(
        [
            "kernel = \"guest:conformance\"",
            "kernel = \"guest:conformance\"\nfirmware = \"u-boot:qemu_arm64\"",
        ],
        ":5:12:",
        [
            "both `kernel` and `firmware`",
            "either with a kernel in RAM or with a firmware in flash",
            "remove one of them",
        ],
    ),
    refusal(
        ["board", "slice = \"1us\"\nboard"],
        ":1:9:",
        [
            "a time slice cannot be 1us",
            "switching takes more than the guests",
            "choose from",
        ],
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
            "give such a file",
        ],
    ),
    refusal(
        ["guest:conformance", "arm32"],
        ":4:10:",
        [
            "this zImage's header makes no sense",
            "start 0x0",
            "download or build the kernel again",
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

/// Devices of the board: these need its tree, for which QEMU is asked.
pub(super) const DEVICES: &[Refusal] = &[
    refusal(
        [
            "vcpus = 1",
            "devices = [\"pl061@9030000\", \"pl061@9030000\"]",
        ],
        ":6:29:",
        [
            "device \"pl061@9030000\" is given twice: VM a has it",
            "two drivers at one device",
            "remove it from one of the lists",
        ],
    ),
    refusal(
        [
            "vcpus = 1",
            "devices = [\"pl061@9030000\"]\n[[vm]]\nname = \"b\"\nkernel = \"guest:conformance\"\n\
             memory = \"128M\"\ndevices = [\"/pl061@9030000\"]",
        ],
        ":11:12:",
        [
            "device \"/pl061@9030000\" is given twice: VM a has it",
            "two drivers at one device",
            "remove it from one of the lists",
        ],
    ),
    refusal(
        ["vcpus = 1", "devices = [\"pl061@9030001\"]"],
        ":6:12:",
        [
            "there is no device \"pl061@9030001\"",
            "the board's tree has no such node",
            "did you mean \"pl061@9030000\"?",
        ],
    ),
    refusal(
        ["vcpus = 1", "devices = [\"pl011@9000000\"]"],
        ":6:12:",
        [
            "cannot be given to a VM",
            "it is the console, which the hypervisor keeps",
            "remove it",
        ],
    ),
    refusal(
        ["vcpus = 1", "devices = [\"intc@8000000\"]"],
        ":6:12:",
        [
            "cannot be given to a VM",
            "it is the interrupt controller",
            "remove it",
        ],
    ),
    refusal(
        ["vcpus = 1", "devices = [\"fw-cfg@9020000\"]"],
        ":6:12:",
        [
            "may be a bus master",
            "no SMMU is in use for it",
            "write `trusted = true` for VM a",
        ],
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
    if !bench.sound.get() {
        let sound = bench.hanok().args(["check", name]).output()?;
        let (said, why) = words(&sound);
        let sound = sound.status.success() && said.contains(": sound (");
        ensure!(sound, "the sound description: {said}{why}");
        bench.sound.set(true);
    }
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
        ensure!(
            is_told(&said, name, case),
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

/// Whether a refusal's text is there with its place below it, or with that of a whole file in
/// front.
fn is_told(said: &str, name: &str, case: &Refusal) -> bool {
    let place = format!("--> {name}{}", case.place.trim_end_matches(':'));
    let whole = format!("{name}{}", case.place);
    let lines: Vec<_> = said.lines().collect();
    let below = |two: &[&str]| two[0].contains(case.what) && two[1].ends_with(&place);
    let before = |line: &&str| line.contains(&whole) && line.contains(case.what);
    lines.windows(2).any(below) || lines.iter().any(before)
}

/// Options of `hanok run` that cannot be, and what is said of them.
pub(super) const OPTIONS: &[(&[&str], &str)] = &[
    (
        &["--cores", "65"],
        "--cores: board qemu-virt cannot have 65",
    ),
    (
        &["--memory", "10M"],
        "--memory: board qemu-virt cannot have",
    ),
    (
        &["--cpu", "cortex-a75"],
        "--cpu: board qemu-virt has no CPU",
    ),
    (&["--boot", "u-boot", "--native"], "cannot be used with"),
    (
        &["--cores", "0"],
        "a whole number of cores, at least one, such as",
    ),
    (
        &["--cores", "-3"],
        "a whole number of cores, at least one, such as",
    ),
    (
        &["--cores", "x"],
        "a whole number of cores, at least one, such as",
    ),
    (&["--timeout", "abc"], "a number of seconds from 0"),
    (
        &["--memory", "1T"],
        "a whole number with K, M or G behind it",
    ),
    (
        &["--append", "hanok.bogus=1"],
        "the hypervisor has no word hanok.bogus",
    ),
    (&["--log", "case.toml"], "which is the description"),
    (&["--console", "a=case.toml"], "which is the description"),
    (&["--console", "a=x", "--log", "./x"], "name one file"),
];

/// The wrong option is named, and not a line of a file that does not have it.
pub(super) fn option_refused(bench: &Bench, (args, what): &(&[&str], &str)) -> Result<()> {
    bench.file("case.toml", SOUND)?;
    let mut command = bench.hanok();
    let output = command
        .args(["run", "case.toml", "--dry-run"])
        .args(*args)
        .output()?;
    let (_, said) = words(&output);
    let refused = [Code::Refused, Code::Usage].map(|code| Some(code as i32));
    ensure!(
        refused.contains(&output.status.code()),
        "{args:?}: {}",
        output.status
    );
    ensure!(said.contains(what), "{args:?}: not {what:?}: {said}");
    Ok(())
}
