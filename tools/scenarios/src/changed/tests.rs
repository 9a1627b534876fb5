//! Which tests run for which changed paths.

use super::*;
use crate::matrix;

fn graph() -> Graph {
    let package = |name: &str, folder: &str, uses: &[&str]| Package {
        name: name.to_owned(),
        folder: folder.to_owned(),
        uses: uses.iter().map(|&used| used.to_owned()).collect(),
    };
    Graph(vec![
        package("hanok-types", "core/types", &[]),
        package("hanok-vm", "core/vm", &["hanok-types"]),
        package("hanok-simulator", "lib/simulator", &[]),
        package("hanok-hypervisor", "hypervisor", &["hanok-vm"]),
        package("hanok-guest-runtime", "guests/runtime", &[]),
        package(
            "hanok-rtos",
            "guests/rtos",
            &["hanok-guest-runtime", "hanok-rtos-kernel"],
        ),
        package("hanok-rtos-kernel", "guests/rtos/kernel", &[]),
        package(
            "hanok-conformance",
            "guests/conformance",
            &["hanok-guest-runtime"],
        ),
        package("hanok-hidden", "guests/hidden", &[]),
        package("hanok-draw", "tools/draw", &[]),
        package("hanok-boot", "tools/boot", &["hanok-vm"]),
        package(
            "hanok-scenarios",
            "tools/scenarios",
            &["hanok-boot", "hanok-draw"],
        ),
        package(
            "hanok-cli",
            "tools/cli",
            &["hanok-scenarios", "hanok-simulator"],
        ),
    ])
}

const STEPS: [&str; 7] = [
    "fmt",
    "rule-files-are-short",
    "clippy-host",
    "clippy-boards",
    "unit",
    "image",
    "signals",
];
/// What of [`STEPS`] runs for any change whatever.
const CHEAP: [&str; 2] = ["fmt", "rule-files-are-short"];

/// The steps and the scenarios that run when `paths` changed.
fn run(paths: &[&str]) -> (Vec<&'static str>, Vec<String>) {
    let paths: Vec<_> = paths.iter().map(|&path| path.to_owned()).collect();
    let affected = Affected::by(&paths, graph());
    let of =
        |stem: &str, system: &str| matrix::parse(stem, &format!("system = '{system}'")).unwrap();
    let cases = [
        of("rtos", "systems/rtos.toml"),
        of("linux", "systems/linux.toml"),
        of("conformance", "tests/systems/conformance.toml"),
    ];
    let text_of = |path: &str| {
        Some(match path {
            "systems/rtos.toml" => "kernel = 'guest:rtos'".to_owned(),
            "tests/systems/conformance.toml" => "kernel = 'guest:conformance'".to_owned(),
            _ => String::new(),
        })
    };
    let cases = cases.iter().flatten();
    let cases = cases.filter(|case| affected.runs_case(case, text_of));
    let steps = STEPS.into_iter().filter(|name| affected.runs_step(name));
    (
        steps.collect(),
        cases.map(|case| case.name.clone()).collect(),
    )
}

#[test]
fn what_may_change_all_runs_all() {
    for path in [
        "Cargo.lock",
        "Cargo.toml",
        "rust-toolchain.toml",
        "hanok",
        ".ci/run",
        "boards/qemu-virt.toml",
        "tests/image/lines.toml",
        "a-folder-that-is-new/file",
    ] {
        let (steps, cases) = run(&[path]);
        assert_eq!(steps, STEPS, "{path}");
        assert_eq!(cases.len(), 3, "{path}");
    }
}

#[test]
fn documents_change_no_code() {
    for path in [
        "README.md",
        "docs/adr/0001-x.md",
        "core/vm/NOTES.md",
        "docs/picture.svg",
        "fuzz/Cargo.toml",
    ] {
        assert_eq!(run(&[path]), (CHEAP.to_vec(), vec![]), "{path}");
    }
    // Beside another change they do not hide it.
    assert_eq!(run(&["README.md", "Cargo.lock"]).1.len(), 3);
}

#[test]
fn a_change_of_the_image_runs_every_board() {
    for path in [
        "core/types/src/lib.rs",
        "hypervisor/image.ld",
        "tools/boot/src/lib.rs",
    ] {
        assert_eq!(run(&[path]).1.len(), 3, "{path}");
    }
    let (steps, _) = run(&["hypervisor/image.ld"]);
    assert!(steps.contains(&"clippy-boards"));
    assert!(steps.contains(&"image") && steps.contains(&"signals"));
    assert_eq!(run(&["core/vm/src/lib.rs"]).0, STEPS);
}

#[test]
fn a_guest_runs_the_scenarios_that_boot_it() {
    assert_eq!(run(&["guests/rtos/src/main.rs"]).1, ["rtos"]);
    assert_eq!(run(&["guests/conformance/src/main.rs"]).1, ["conformance"]);
    assert_eq!(
        run(&["guests/runtime/src/lib.rs"]).1,
        ["rtos", "conformance"]
    );
    assert_eq!(run(&["guests/rtos/kernel/src/lib.rs"]).1, ["rtos"]);
    // No description names it, so that anything may boot it.
    assert_eq!(run(&["guests/hidden/src/main.rs"]).1.len(), 3);
    let (steps, _) = run(&["guests/rtos/src/main.rs"]);
    assert!(steps.contains(&"clippy-boards") && steps.contains(&"signals"));
}

#[test]
fn a_scenario_s_own_files_run_it() {
    assert_eq!(run(&["tests/linux.toml"]).1, ["linux"]);
    assert_eq!(run(&["systems/linux.toml"]).1, ["linux"]);
    let (steps, cases) = run(&["tests/systems/conformance.toml"]);
    assert_eq!(cases, ["conformance"]);
    assert!(steps.contains(&"unit") && !steps.contains(&"image"));
}

#[test]
fn a_tool_without_a_part_in_a_boot_runs_no_board() {
    let (steps, cases) = run(&["tools/draw/src/lib.rs"]);
    assert!(cases.is_empty(), "{cases:?}");
    assert!(steps.contains(&"unit") && steps.contains(&"signals"));
    assert!(run(&["lib/simulator/src/lib.rs"]).1.is_empty());
    assert_eq!(run(&["tools/scenarios/src/runner.rs"]).1.len(), 3);
}

#[test]
fn nothing_changed_runs_what_costs_nothing() {
    assert_eq!(run(&[]), (CHEAP.to_vec(), vec![]));
}

#[test]
fn a_scenario_whose_files_cannot_be_read_runs() {
    let affected = Affected::by(&["guests/rtos/src/main.rs".to_owned()], graph());
    let case = matrix::parse("x", "system = 'systems/x.toml'")
        .unwrap()
        .remove(0);
    assert!(affected.runs_case(&case, |_| None));
}

#[test]
fn a_guest_s_name_ends_where_it_ends() {
    assert!(names_guest("kernel = \"guest:rtos\"", "rtos"));
    assert!(!names_guest("kernel = \"guest:rtos-more\"", "rtos"));
}

/// The names in this file are those of the workspace: one that is gone would run too little.
#[test]
fn the_packages_named_here_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap();
    let graph = Graph::load(&root).unwrap();
    let known: Vec<_> = graph
        .0
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    for name in OF_EACH_BOARD
        .iter()
        .chain(&KERNELS)
        .chain(&[RUNNER, COMMAND])
    {
        assert!(known.contains(name), "{name}");
    }
    let vm = BTreeSet::from(["hanok-vm".to_owned()]);
    let affected = graph.affected(&vm);
    assert!(affected.contains("hanok-hypervisor") && affected.contains(COMMAND));
}

/// Folders of tools, and what their sources name of the workspace's packages in quotes.
fn named_in_tools(root: &Path, graph: &Graph) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let tools = graph
        .0
        .iter()
        .filter(|package| package.folder.starts_with("tools/"));
    for package in tools {
        let mut folders = vec![root.join(&package.folder).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                // This module's lists are of what cargo tells, and the rules of the mutants are of tests.
                let lists = ["changed.rs", "changed/tests.rs", "mutants.rs"];
                let is_list = lists.iter().any(|name| path.ends_with(name));
                if path.is_dir() {
                    folders.push(path);
                } else if !is_list {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    let names = graph.0.iter().map(|package| package.name.as_str());
                    let named = names.filter(|name| text.contains(&format!("\"{name}\"")));
                    found.extend(named.map(|name| (package.name.clone(), name.to_owned())));
                }
            }
        }
    }
    found
}

/// What a tool names it builds or tests: it is in the graph, or the steps of cargo run it whenever it changed.
#[test]
fn what_tools_build_by_its_name_is_known() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap();
    let graph = Graph::load(&root).unwrap();
    let uses = |by: &str, name: &str| {
        let by = graph.0.iter().find(|package| package.name == by).unwrap();
        by.uses.iter().any(|used| used == name)
    };
    let named = named_in_tools(&root, &graph);
    for (by, name) in &named {
        let by_name = ["hanok-hypervisor", "hanok-interleavings"].contains(&name.as_str());
        let tested = by == RUNNER && graph.is_in(name, &["core/", "lib/"]);
        assert!(by_name || tested || uses(by, name), "{by} builds {name}");
    }
    for (by, name) in BUILT_BY {
        assert!(
            named.contains(&(by.to_owned(), name.to_owned())),
            "{by} builds no {name}"
        );
    }
}

/// The choice of the repository as it is.
fn really(path: &str) -> (Vec<String>, Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap();
    assert!(root.join(path).exists(), "{path}");
    let affected = Affected::by(&[path.to_owned()], Graph::load(&root).unwrap());
    let mut cases = matrix::load(&root).unwrap();
    cases.retain(|case| affected.runs_case(case, |path| text(&root, path)));
    let mut files: Vec<_> = cases.into_iter().map(|case| case.file).collect();
    files.dedup();
    let mut steps = crate::Steps::fixed().always;
    steps.retain(|step| affected.runs_step(&step.name) && !step.name.starts_with("rule-"));
    (steps.into_iter().map(|step| step.name).collect(), files)
}

#[test]
fn real_changes_run_what_they_can_affect() {
    let all = really("Cargo.toml");
    for path in [
        "core/vgic/src/lib.rs",
        "core/sched/src/lib.rs",
        "tools/console/src/lib.rs",
        // What it makes of the sensitive instructions is what guests without virtualization run.
        "tools/previrt/src/lib.rs",
        // It finds the budgets that a description leaves open.
        "lib/analysis/src/lib.rs",
    ] {
        let (steps, files) = really(path);
        assert_eq!(files, all.1, "{path}");
        let images = ["image", "image-lines", "clippy-boards", "interleavings"];
        let of_images = images
            .iter()
            .all(|image| steps.contains(&(*image).to_owned()));
        assert_eq!(of_images, path.starts_with("core/"), "{path}: {steps:?}");
    }
    for (path, files) in [
        ("guests/sched/src/main.rs", vec!["tests/sched-cost.toml"]),
        ("guests/user-mode/src/main.rs", vec!["tests/user-mode.toml"]),
        ("tests/guest/compat.sh", vec!["tests/compat.toml"]),
        ("tests/prompt.toml", vec!["tests/prompt.toml"]),
        ("guests/init-clock/src/main.rs", vec![]),
        ("tools/plugin/src/lib.rs", vec![]),
        ("docs/bench.md", vec![]),
    ] {
        assert_eq!(really(path).1, files, "{path}");
    }
    let has = |path: &str, step: &str| really(path).0.contains(&step.to_owned());
    assert!(has("tools/plugin/src/lib.rs", "profile-agrees"));
    assert!(has("guests/init-clock/src/main.rs", "bench"));
    assert_eq!(really("docs/bench.md").0, ["fmt"]);
    assert_eq!(really("tests/prompt.toml").0, ["fmt", "unit"]);
}
