//! `[[channel]]` in descriptions: what the VMs get, and each refusal with its line.

mod common;

use common::load;
use hanok_types::{Ipa, Span};

const VMS: &str = r#"board = "qemu-virt"
[[vm]]
name = "linux"
kernel = "debian:6.1"
memory = "128M"
[[vm]]
name = "rtos"
kernel = "debian:6.1"
memory = "128M"
"#;

/// A description with a channel of these lines, the first of which is the tenth.
fn with(lines: &str) -> String {
    format!("{VMS}[[channel]]\n{lines}\n")
}

/// The refusals as "line what".
fn refusals(lines: &str) -> Vec<String> {
    let found = load(&with(lines)).expect_err("it is refused");
    let short = |found: &hanok_system::Diagnostic| {
        assert!(!found.remedy.is_empty(), "{found:?}");
        format!("{} {}", found.line, found.what)
    };
    found.iter().map(short).collect()
}

#[test]
fn members_get_their_ends() {
    let text = with(
        "name = \"a\"\nsize = \"12K\"\nvms = [\"rtos\", \"linux\"]\nread-only = [\"linux\"]\nevents = [\"linux\"]\n\
         [[channel]]\nname = \"b\"\nsize = \"4K\"\nvms = [\"linux\", \"rtos\"]\ncached = true",
    );
    let system = load(&text).unwrap();
    assert_eq!(system.channels[0].members, ["rtos", "linux"]);
    assert_eq!(system.channels[0].events, ["linux"]);
    let ends: Vec<_> = system.vms[0].config.channels.iter().collect();
    assert_eq!(
        (ends[0].number, ends[0].index, ends[0].read_only),
        (0, 1, true)
    );
    assert_eq!(
        (ends[1].number, ends[1].index, ends[1].read_only),
        (1, 0, false)
    );
    assert_eq!((ends[0].cached, ends[1].cached), (false, true));
    assert_eq!(
        Span::new(Ipa::new(0x2000_0000), 0x3000),
        Some(ends[0].memory)
    );
    assert_eq!(
        Span::new(Ipa::new(0x2020_0000), 0x1000),
        Some(ends[1].memory)
    );
    let other = &system.vms[1].config;
    assert_eq!(
        (other.channels[0].index, other.channels[0].read_only),
        (0, false)
    );
    assert!(other.slots.contains(&ends[1].slot().unwrap()));
}

#[test]
fn each_mistake_is_refused_where_it_is() {
    let both = "vms = [\"linux\", \"rtos\"]";
    let cases = [
        (
            "size = \"4K\"\nvms = [\"linux\", \"rtos\"]".to_owned(),
            "10 `name` is missing in channel",
        ),
        (
            format!("name = \"a b\"\nsize = \"4K\"\n{both}"),
            "11 the value of `name`",
        ),
        (
            format!("name = \"a\"\nsize = \"0K\"\n{both}"),
            "12 the value of `size` is not a size",
        ),
        (
            format!("name = \"a\"\nsize = \"6K\"\n{both}"),
            "12 a channel cannot have 6144 bytes",
        ),
        (
            format!("name = \"a\"\nsize = \"512M\"\n{both}"),
            "12 no place for a channel of 512M",
        ),
        (
            "name = \"a\"\nsize = \"4K\"\nvms = [\"linux\", \"rots\"]".to_owned(),
            "13 there is no VM \"rots\"",
        ),
        (
            "name = \"a\"\nsize = \"4K\"\nvms = [\"linux\", \"linux\"]".to_owned(),
            "13 VM \"linux\" is on the channel twice",
        ),
        (
            "name = \"a\"\nsize = \"4K\"\nvms = [\"linux\"]".to_owned(),
            "13 a channel of 1 VM",
        ),
        (
            format!("name = \"a\"\nsize = \"4K\"\n{both}\nread-only = [\"x\"]"),
            "14 `read-only` names \"x\", which is not on the channel",
        ),
        (
            format!("name = \"a\"\nsize = \"4K\"\n{both}\nevents = [\"x\"]"),
            "14 `events` names \"x\", which is not on the channel",
        ),
        (
            format!("name = \"a\"\nsize = \"4K\"\n{both}\nread-only = [\"rtos\", \"linux\"]"),
            "14 nobody may write to the channel",
        ),
        (
            format!("name = \"a\"\nsize = \"4K\"\n{both}\nwrites = 1"),
            "14 unknown key `writes` in channel",
        ),
        (
            format!(
                "name = \"a\"\nsize = \"4K\"\n{both}\n[[channel]]\nname = \"a\"\nsize = \"4K\"\n{both}"
            ),
            "15 a second channel is called \"a\"",
        ),
    ];
    for (lines, wanted) in cases {
        let found = refusals(&lines);
        assert!(
            found.iter().any(|found| found.starts_with(wanted)),
            "{wanted}: {found:?}"
        );
    }
}

#[test]
fn a_name_is_a_vm_of_the_system_with_a_hint() {
    let found = load(&with(
        "name = \"a\"\nsize = \"4K\"\nvms = [\"linux\", \"rots\"]",
    ))
    .unwrap_err();
    assert_eq!(found[0].remedy, "did you mean \"rtos\"?");
}

#[test]
fn a_vm_has_no_more_channels_than_there_is_room_for() {
    let one = |name: usize| {
        format!("[[channel]]\nname = \"c{name}\"\nsize = \"4K\"\nvms = [\"linux\", \"rtos\"]\n")
    };
    let many = |count: usize| (0..count).map(one).collect::<String>();
    assert!(load(&format!("{VMS}{}", many(8))).is_ok());
    let found = load(&format!("{VMS}{}", many(9))).unwrap_err();
    assert_eq!(found[0].what, "VM linux has more than 8 channels");
}

#[test]
fn channels_count_as_memory_of_the_board() {
    let large = VMS.replacen("\"128M\"", "\"768M\"", 1);
    let channel = "[[channel]]\nname = \"a\"\nsize = \"128M\"\nvms = [\"linux\", \"rtos\"]\n";
    assert!(load(&large).is_ok());
    assert_eq!(
        load(&format!("{large}{channel}")).unwrap_err()[0].what,
        "too much memory"
    );
}
