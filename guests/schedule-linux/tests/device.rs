//! The device of a program: files in the place of /proc/device-tree and /dev/mem.

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hanok_schedule_linux::{Interface, Missing, Periodic, Places, Task, Why, bind, open_at};

const ADDRESS: u64 = 0x90_c000;

fn text(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// Opens the device in a tree that `make` makes, and a memory of which the device's page begins with `id`.
fn open(make: impl Fn(&Path), id: &[u8]) -> Result<fs::File, Missing> {
    let folder = tempfile::tempdir().unwrap();
    let [tree, memory] = ["tree", "mem"].map(|name| folder.path().join(name));
    fs::create_dir(&tree).unwrap();
    make(&tree);
    let file = fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&memory)
        .unwrap();
    file.set_len(ADDRESS + 0x1000).unwrap();
    file.write_all_at(id, ADDRESS).unwrap();
    // STATUS: refused, as a deadline would be missed.
    file.write_all_at(&(-4_i32).to_le_bytes(), ADDRESS + 0x30)
        .unwrap();
    file.write_all_at(&2_u64.to_le_bytes(), ADDRESS + 0x38)
        .unwrap();
    let (tree, memory) = (text(&tree), text(&memory));
    let mut vcpu = open_at(&Places {
        tree: &tree,
        memory: &memory,
    })?;
    let answer = vcpu.ask(&Interface::new(5_000_000_000, 7));
    assert_eq!(
        answer.unwrap_err().to_string(),
        "a deadline would be missed"
    );
    Ok(file)
}

fn node(folder: &Path, reg: &[u8]) {
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("compatible"), b"other,thing\0hanok,schedule\0").unwrap();
    fs::write(folder.join("reg"), reg).unwrap();
}

#[test]
fn it_is_found_at_the_root_and_called() {
    let file = open(
        |tree| {
            node(
                &tree.join("schedule@90c000"),
                &[0, 0, 0, 0, 0, 0x90, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0],
            )
        },
        b"hksc",
    )
    .unwrap();
    let mut stored = [0; 0x30];
    file.read_exact_at(&mut stored, ADDRESS).unwrap();
    let word = |at: usize| u32::from_le_bytes(stored[at..at + 4].try_into().unwrap());
    assert_eq!(word(4), 0xc600_0012);
    assert_eq!([word(0x10), word(0x14), word(0x18)], [705_032_704, 1, 7]);
}

#[test]
fn it_is_found_on_a_bus_of_32_bits() {
    let make = |tree: &Path| {
        fs::create_dir(tree.join("chosen")).unwrap();
        node(
            &tree.join("bus/schedule"),
            &[0, 0x90, 0xc0, 0, 0, 0, 0x10, 0],
        );
        fs::write(tree.join("bus/#address-cells"), [0, 0, 0, 1]).unwrap();
    };
    open(make, b"hksc").unwrap();
}

#[test]
fn what_is_missing_is_told() {
    let reg = [0, 0, 0, 0, 0, 0x90, 0xc0, 0];
    assert_eq!(open(|_| {}, b"hksc").err(), Some(Missing::NoNode));
    assert_eq!(
        open(|tree| fs::remove_dir(tree).unwrap(), b"hksc").err(),
        Some(Missing::NoTree)
    );
    assert_eq!(
        open(|tree| node(&tree.join("n"), &reg[..7]), b"hksc").err(),
        Some(Missing::NoNode)
    );
    assert_eq!(
        open(|tree| node(&tree.join("n"), &reg), b"pl11").err(),
        Some(Missing::AnotherDevice)
    );
    let folder = tempfile::tempdir().unwrap();
    node(&folder.path().join("n"), &reg);
    let (tree, memory) = (text(folder.path()), text(&folder.path().join("none")));
    let missing = open_at(&Places {
        tree: &tree,
        memory: &memory,
    })
    .err();
    assert_eq!(missing, Some(Missing::NoMemory));
}

#[test]
fn a_thread_is_bound_and_becomes_a_task_or_says_why_not() {
    std::thread::spawn(|| {
        let nonsense = Periodic::begin(&Task::new(10_000_000, 20_000_000)).unwrap_err();
        // Whether times or permissions are looked at first is Linux's matter.
        assert!(
            matches!(nonsense.why, Why::Times | Why::Permission | Why::Bound),
            "{nonsense}"
        );
        match Periodic::begin(&Task::new(10_000_000, 1_000_000)) {
            Ok(mut jobs) => {
                for _ in 0..3 {
                    jobs.wait();
                }
                assert_eq!(jobs.jobs(), 3);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
        bind(0).unwrap();
    })
    .join()
    .unwrap();
}
