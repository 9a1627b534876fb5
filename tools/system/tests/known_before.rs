//! What can be known of a system before it boots is said when its description is checked.

mod common;

use common::{SOUND, boards, kernel, load, load_in, zimage};
use hanok_config::{Ask, Claim, CorePolicy};
use hanok_sched::{Order, Share, Slack};
use hanok_system::{Diagnostic, Files, Key, parse};
use std::fs;
use std::path::Path;

fn short(found: &Diagnostic) -> String {
    format!("{}:{} {}", found.line, found.column, found.what)
}

/// All that is refused of [`SOUND`] with its kernel replaced by a file of these bytes.
fn with_kernel(key: &str, bytes: &[u8]) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), bytes).unwrap();
    let text = SOUND.replace("kernel = \"debian:6.1\"", &format!("{key} = \"file\""));
    let text = text.replace("initramfs = \"busybox\"\n", "");
    let found = load_in(dir.path(), &text).err().unwrap_or_default();
    assert!(
        found
            .iter()
            .all(|one| !one.why.is_empty() && !one.remedy.is_empty())
    );
    found.iter().map(short).collect()
}

#[test]
fn programs_that_cannot_start_are_named() {
    let mut xen = kernel(0x4000, 0x8000);
    xen[0x1000..0x1006].copy_from_slice(b"(XEN) ");
    xen[0x2000..0x200c].copy_from_slice(b"Xen version ");
    assert_eq!(with_kernel("kernel", &xen), ["5:10 this kernel is Xen"]);
    assert_eq!(
        with_kernel("kernel", &common::gzip(&xen)),
        ["5:10 this kernel is Xen"]
    );
    let mut xen = zimage(0x4000);
    xen[0x1000..0x1006].copy_from_slice(b"(XEN) ");
    xen[0x2000..0x200c].copy_from_slice(b"Xen version ");
    assert_eq!(with_kernel("kernel", &xen), ["5:10 this kernel is Xen"]);
    let mut edk2 = vec![0xff; 0x4000];
    edk2[0x1028..0x102c].copy_from_slice(b"_FVH");
    assert!(with_kernel("firmware", &edk2).is_empty());
    assert_eq!(
        with_kernel("kernel", &edk2),
        ["5:10 this is a UEFI firmware (EDK2)"]
    );
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let large = |name: &str| {
        let file = fs::File::create(dir.path().join(name)).unwrap();
        // Sparse: it takes no room on the disk, and all of it in memory.
        file.set_len(600 << 20).unwrap();
    };
    large("file");
    let text = SOUND.replace("\"debian:6.1\"", "\"file\"");
    let found = load_in(dir.path(), &text).unwrap_err();
    assert_eq!(short(&found[0]), "5:10 the kernel cannot be read");
    assert!(
        found[0].why.ends_with("it has more than 512M"),
        "{}",
        found[0].why
    );
    let text = SOUND.replace("\"busybox\"", "\"file\"");
    let found = load_in(dir.path(), &text).unwrap_err();
    assert_eq!(short(&found[0]), "6:13 the initramfs has 600M");
}

#[test]
fn a_guest_outside_the_workspace_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("boards")).unwrap();
    fs::copy(boards().join("qemu-virt.toml"), at("boards/qemu-virt.toml")).unwrap();
    for guest in ["mine", "theirs"] {
        fs::create_dir_all(at("guests").join(guest).join("src")).unwrap();
        fs::write(at("guests").join(guest).join("src/main.rs"), "").unwrap();
    }
    fs::write(
        at("Cargo.toml"),
        "[workspace]\nmembers = [\"guests/theirs\"]\n",
    )
    .unwrap();
    let check = |guest: &str| {
        let text = SOUND.replace("debian:6.1", &format!("guest:{guest}"));
        parse(Path::new("x.toml"), &text, &at("boards"))
    };
    assert!(check("theirs").is_ok());
    let found = check("mine").unwrap_err();
    assert_eq!(
        short(&found[0]),
        "5:10 the guest \"mine\" is not built with the repository"
    );
    assert_eq!(found[0].remedy, "add \"guests/mine\" to its `members`");
    fs::write(at("Cargo.toml"), "[workspace]\nmembers = [\"guests/*\"]\n").unwrap();
    assert!(check("mine").is_ok());
}

#[test]
fn a_wrong_number_of_cores_is_one_error() {
    for cores in [0, 99] {
        let found = load(&format!("cores = {cores}\n{SOUND}")).unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0]
                .what
                .contains(&format!("cannot have {cores} cores"))
        );
    }
}

#[test]
fn a_schedule_is_said_not_to_be_enforced() {
    assert!(load(SOUND).unwrap().notes().is_empty());
    let text =
        format!("{SOUND}[vm.schedule]\npolicy = \"edf\"\nperiod = \"10ms\"\nbudget = \"2ms\"\n");
    let description = load(&text).unwrap();
    assert!(description.is_scheduled());
    let notes = description.notes();
    assert_eq!(notes.len(), 1);
    assert_eq!(notes[0].line, 10);
    assert!(notes[0].what.contains("not enforced by the board"));
    assert!(notes[0].why.contains("10ms"), "{}", notes[0].why);
}

/// A schedule that is enforced, of a VM on core 0 and what `more` adds.
fn enforced(schedule: &str, more: &str) -> String {
    let vm = SOUND.replace("vcpus = 2", "cpus = [0]");
    assert_ne!(vm, SOUND);
    format!("{vm}[vm.schedule]\nperiod = \"10ms\"\n{schedule}\n{more}[schedule]\nenforce = true\n")
}

#[test]
fn what_is_enforced_is_in_the_system() {
    let text = enforced("budget = \"2ms\"", "");
    let description = load(&text).unwrap();
    assert!(description.notes().is_empty());
    let policies = description.policies.unwrap();
    let servers = CorePolicy::Servers {
        order: Order::EarliestDeadline,
        slack: Slack::Idle,
    };
    assert_eq!(policies[..2], [servers, CorePolicy::RoundRobin]);
    let [promise] = &description.promises[..] else {
        panic!("{description:?}");
    };
    let Claim::Promise {
        group: 0,
        terms,
        ask,
    } = promise.claim
    else {
        panic!("{promise:?}");
    };
    assert_eq!((terms.period, terms.budget), (10_000_000, 2_000_000));
    assert_eq!((terms.deadline, ask), (terms.period, Ask::default()));
    let share = load(&(text + "slack = \"share\"\n")).unwrap().policies;
    let policy = share.unwrap()[0];
    let order = Order::EarliestDeadline;
    assert_eq!(
        policy,
        CorePolicy::Servers {
            order,
            slack: Slack::Share
        }
    );
}

#[test]
fn what_the_board_cannot_enforce_is_refused() {
    let refused = |text: &str| {
        let found = load(text).unwrap_err();
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].what.clone()
    };
    let second = "[[vm]]\nname = \"b\"\nkernel = \"debian:6.12\"\nmemory = \"64M\"\ncpus = [0]\n";
    let half = format!("{second}[vm.schedule]\nperiod = \"3ms\"\nbudget = \"2ms\"\n");
    let found = refused(&enforced("budget = \"4ms\"", &half));
    assert!(found.contains("more than all of core 0"), "{found}");
    assert!(load(&enforced("budget = \"3ms\"", &half)).is_ok());
    let global = "[[schedule.pool]]\nname = \"all\"\ncores = [0, 1]\nmode = \"global\"\n";
    let found = refused(&(enforced("budget = \"2ms\"", "") + global));
    assert!(found.contains("global pool"), "{found}");
    let text = enforced("budget = \"2ms\"", "").replace("enforce = true", "slack = \"idle\"");
    assert!(refused(&text).contains("`slack` without"));
    let several = enforced("budget = \"2ms\"", "").replace("cpus = [0]", "cpus = [0, 1]");
    assert!(refused(&several).contains("has no budget and core"));
}

/// Three VMs on core 0: `a`, which is in a group of a group, `b`, which has a share, and `c`.
fn grouped() -> String {
    let vm = |name: &str, more: &str| {
        format!(
            "[[vm]]\nname = \"{name}\"\nkernel = \"debian:6.12\"\nmemory = \"64M\"\ncpus = [0]\n{more}\n"
        )
    };
    let promise = |period, budget, more| {
        format!("[vm.schedule]\nperiod = \"{period}ms\"\nbudget = \"{budget}ms\"\n{more}\n")
    };
    let group = |name: &str, policy: &str, budget: u32, more: &str| {
        format!(
            "[[schedule.group]]\nname = \"{name}\"\nperiod = \"10ms\"\nbudget = \"{budget}ms\"\n\
             policy = \"{policy}\"\n{more}\n"
        )
    };
    let asks = "group = \"inner\"\nask = \"12.5 %\"\nask-period = \"2ms\"";
    [
        "board = \"qemu-virt\"\n".to_owned(),
        vm("a", &promise(20, 2, asks)),
        vm("b", "[vm.share]\nweight = 100\ncap = \"40 %\""),
        vm("c", &promise(10, 3, "")),
        vm("d", ""),
        "[schedule]\nenforce = true\n".to_owned(),
        group("outer", "rm", 5, ""),
        group("inner", "edf", 3, "group = \"outer\""),
    ]
    .concat()
}

#[test]
fn groups_and_shares_are_in_the_system() {
    let description = load(&grouped()).unwrap();
    let [outer, inner] = &description.groups[..] else {
        panic!("{:?}", description.groups);
    };
    assert_eq!((outer.home, outer.order), (0, Order::Priority));
    assert_eq!((inner.home, inner.order), (1, Order::EarliestDeadline));
    // In a group by rate monotonic, the period is the priority.
    assert_eq!(
        (inner.terms.priority, inner.terms.budget),
        (10_000_000, 3_000_000)
    );
    let claims: Vec<_> = description
        .promises
        .iter()
        .map(|promise| promise.claim)
        .collect();
    let share = |weight, cap| Claim::Share(Share { weight, cap });
    let [
        Claim::Promise { group: 2, ask, .. },
        b,
        Claim::Promise { group: 0, .. },
        d,
    ] = claims[..]
    else {
        panic!("{claims:?}");
    };
    let expected = Ask {
        limit: 65_536 / 8,
        shortest: 2_000_000,
    };
    assert_eq!(ask, expected);
    assert_eq!((b, d), (share(100, Some(40)), share(256, None)));
}

#[test]
fn groups_and_shares_that_make_no_sense_are_refused() {
    let cases = [
        (
            "budget = \"2ms\"",
            "budget = \"7ms\"",
            "more than all of group 2",
        ),
        (
            "[vm.share]\n",
            "[vm.schedule]\nperiod = \"9ms\"\nbudget = \"1ms\"\n[vm.share]\n",
            "has both",
        ),
        ("enforce = true", "", "[vm.share] without"),
        ("ask = \"12.5 %\"\n", "", "`ask-period` without"),
        ("cap = \"40 %\"", "cap = \"40.5 %\"", "`cap`"),
        ("weight = 100", "weight = 0", "`weight`"),
    ];
    for (from, to, what) in cases {
        let text = grouped();
        assert!(text.contains(from));
        let found = load(&text.replace(from, to)).unwrap_err();
        assert!(found[0].what.contains(what), "{what}: {found:?}");
    }
    let spread = grouped().replacen("name = \"c\"", "name = \"e\"", 1);
    let other = "[[vm]]\nname = \"c\"\nkernel = \"debian:6.12\"\nmemory = \"64M\"\ncpus = [1]\n\
                 [vm.schedule]\ngroup = \"outer\"\nperiod = \"20ms\"\nbudget = \"1ms\"\n";
    let found = load(&spread.replacen("[schedule]", &format!("{other}[schedule]"), 1)).unwrap_err();
    assert!(
        found[0].what.contains("on core 1, its group on 0"),
        "{found:?}"
    );
}

#[test]
fn what_is_there_of_several_vms_is_checked() {
    let second = "[[vm]]\nname = \"b\"\nkernel = \"debian:6.12\"\nmemory = \"64M\"\n";
    let description = load(&format!("{SOUND}{second}")).unwrap();
    let files = |size: u64| Files {
        boot: kernel(0x1000, size).into(),
        initramfs: None,
        variables: Default::default(),
        raw: None,
    };
    let check = |first: Option<Files>, second: Option<Files>| {
        let found = description.check_files(&[first, second]);
        found.iter().map(short).collect::<Vec<_>>()
    };
    assert!(check(None, None).is_empty());
    assert!(check(Some(files(0x8000)), None).is_empty());
    let small = "13:10 the VM's memory is too small for what it boots";
    assert_eq!(check(None, Some(files(100 << 20))), [small]);
    let none = description.refusal(1, Key::Boot, ["what", "why", "fix"]);
    assert_eq!(
        none.to_string(),
        "systems/system.toml:12:10: what\n  why: why\n  fix: fix"
    );
}
