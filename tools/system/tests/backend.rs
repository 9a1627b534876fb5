//! The key `backend` of a description: what a board can do, what it cannot, and what follows for its VMs.

mod common;

use common::{SOUND, hypervisor, load, zimage};
use hanok_system::{Architecture, Backend, Description, Files, parse_schedule};
use std::path::Path;

/// [`SOUND`] on `board`, with this line before its VM, and `more` at its end.
fn described(board: &str, line: &str, more: &str) -> String {
    let text = SOUND.replace("\"qemu-virt\"", &format!("{board:?}\n{line}"));
    text + more
}

fn asked(board: &str, backend: &str) -> String {
    described(board, &format!("backend = {backend:?}"), "")
}

/// The only refusal of `text`.
fn refusal(text: &str) -> String {
    let found = load(text).unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].to_string()
}

#[test]
fn a_board_with_hyp_mode_runs_either_backend() {
    for board in ["qemu-virt-arm", "vexpress-a15", "vexpress-a15-hyp"] {
        let used = |text: &str| load(text).unwrap().backend;
        assert_eq!(used(&described(board, "", "")), Backend::Hyp, "{board}");
        assert_eq!(used(&asked(board, "hyp")), Backend::Hyp, "{board}");
        let description = load(&asked(board, "deprivileged")).unwrap();
        assert_eq!(description.backend, Backend::Deprivileged, "{board}");
        assert_eq!(description.board.backend, Backend::Hyp, "{board}");
        assert_eq!(description.vms[0].architecture(), Architecture::Arm);
    }
}

#[test]
fn each_board_runs_its_own_backend_by_name() {
    let boards = hanok_system::boards(&common::boards()).unwrap();
    assert!(boards.len() > 5);
    for board in boards {
        let text = asked(&board.name, board.backend.name());
        let text = text.replace("vcpus = 2", "vcpus = 1");
        assert_eq!(load(&text).unwrap().backend, board.backend);
    }
}

#[test]
fn what_a_board_cannot_do_is_refused_with_line_reason_and_remedy() {
    let cases = [
        (
            "qemu-virt-arm-pl1",
            "hyp",
            "why: its CPUs have no virtualization extensions",
            "choose a board in whose file `backend` is \"hyp\"",
        ),
        (
            "cubieboard",
            "el2",
            "EL2 is of 64-bit ones",
            "choose a 64-bit board",
        ),
        (
            "qemu-virt-arm",
            "el2",
            "EL2 is of 64-bit ones",
            "choose a 64-bit board",
        ),
        (
            "qemu-virt",
            "hyp",
            "the backend \"el2\" alone",
            "choose a 32-bit board",
        ),
        (
            "raspi4b",
            "deprivileged",
            "the backend \"el2\" alone",
            "choose a 32-bit board",
        ),
    ];
    for (board, backend, why, remedy) in cases {
        let text = asked(board, backend).replace("vcpus = 2", "vcpus = 1");
        let found = refusal(&text);
        let what = format!(":2:11: backend \"{backend}\" on board {board}\n");
        for words in [what.as_str(), why, "fix: remove it, or ", remedy] {
            assert!(found.contains(words), "{words}: {found}");
        }
    }
    let found = refusal(&asked("qemu-virt-arm", "pl1"));
    let words = ":2:11: the value of `backend` is not \"el2\", \"hyp\" or \"deprivileged\"";
    assert!(found.contains(words), "{found}");
}

#[test]
fn a_wrong_backend_is_the_only_thing_that_is_told() {
    // With `hyp` each of these would be sound: nothing is said about what is not known to be wrong.
    let text = described(
        "qemu-virt-arm",
        "backend = \"el2\"",
        "devices = [\"pl061@9030000\"]\n",
    );
    assert!(refusal(&text).contains("backend \"el2\""));
}

#[test]
fn kernels_are_rewritten_where_the_description_asks_for_user_mode() {
    let of = |text: &str| {
        let artifacts = load(text).unwrap().artifacts();
        (artifacts[0].examine, artifacts[0].rewrite)
    };
    let here = |backend: &str, more: &str| {
        let line = format!("backend = {backend:?}");
        described("qemu-virt-arm", &line, more)
    };
    assert_eq!(of(&here("deprivileged", "")), (true, true));
    let without = here("deprivileged", "rewrite = false\n");
    assert_eq!(of(&without), (true, false));
    assert_eq!(of(&here("hyp", "")), (false, false));
    let found = refusal(&here("hyp", "rewrite = false\n"));
    assert!(
        found.contains(":11:11: `rewrite` on board qemu-virt-arm"),
        "{found}"
    );
}

#[test]
fn what_a_vm_cannot_have_then_is_refused_and_may_come_back_without_the_key() {
    let long = asked("qemu-virt-arm", "deprivileged").replace("debian:6.1", "debian:6.1-lpae");
    let device = described(
        "qemu-virt-arm",
        "backend = \"deprivileged\"",
        "devices = [\"pl061@9030000\"]\n",
    );
    assert!(load(&device).is_ok());
    let kernel = "kernel = \"debian:6.1\"\ninitramfs = \"busybox\"";
    let firmware =
        asked("qemu-virt-arm", "deprivileged").replace(kernel, "firmware = \"u-boot:qemu_arm\"");
    let cases = [
        (
            &long,
            ":6:10: a kernel with long descriptors (LPAE) with backend \"deprivileged\"\n",
        ),
        (
            &firmware,
            ":6:12: Debian's U-Boot with backend \"deprivileged\"\n",
        ),
    ];
    for (text, what) in cases {
        let found = refusal(text);
        assert!(found.contains(what), "{found}");
        assert!(found.ends_with(", or remove `backend`"), "{found}");
        let without = text.replace("backend = \"deprivileged\"", "");
        assert!(load(&without).is_ok(), "{what}");
    }
    // By its path nobody knows before it is unpacked.
    let description = load(&asked("qemu-virt-arm", "deprivileged")).unwrap();
    let found = description.long_descriptors(0).to_string();
    assert!(found.contains("with backend \"deprivileged\""), "{found}");
}

/// The word of the image that the first instructions look at, behind the key.
fn told(description: &Description) -> u64 {
    let files = Files {
        boot: zimage(100_000).into(),
        raw: None,
        initramfs: Some(vec![7; 5000].into()),
        variables: Default::default(),
    };
    let image = description.build(&hypervisor(5000, 8192), &[files], None, &[0x5a; 32]);
    let image = image.unwrap();
    assert_eq!(image[112..144], [0x5a; 32]);
    let sum = hanok_config::sum(&image[80..5000]).to_le_bytes();
    assert_eq!(image[72..80], sum, "the checksum is over that word, too");
    u64::from_le_bytes(image[144..152].try_into().unwrap())
}

#[test]
fn the_image_is_told_where_it_runs() {
    let of = |text: &str| told(&load(text).unwrap());
    assert_eq!(of(&described("qemu-virt-arm", "", "")), 0);
    assert_eq!(of(&asked("qemu-virt-arm", "hyp")), 0);
    assert_eq!(of(&asked("qemu-virt-arm", "deprivileged")), 1);
    // Its kernel may be rewritten, so that it could not run in Hyp mode.
    assert_eq!(of(&described("qemu-virt-arm-pl1", "", "")), 1);
}

#[test]
fn a_schedule_s_description_may_have_the_key_with_and_without_a_board() {
    let vm = "[[vm]]\nname = \"a\"\nkernel = \"guest:rtos\"\nmemory = \"16M\"\ncpus = [0]\n\
        [vm.schedule]\nperiod = \"10ms\"\nbudget = \"5ms\"\n";
    let boards = common::boards();
    let read = |head: &str| {
        let text = format!("{head}{vm}");
        parse_schedule(Path::new("s.toml"), &text, &boards).map(drop)
    };
    let board = "board = \"qemu-virt-arm\"\n";
    assert_eq!(
        read(&format!("{board}backend = \"deprivileged\"\n")),
        Ok(())
    );
    assert_eq!(read("backend = \"deprivileged\"\n"), Ok(()));
    assert!(read("backend = \"none\"\n").is_err());
    assert!(read(&format!("{board}backend = \"el2\"\n")).is_err());
}
