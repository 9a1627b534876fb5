//! Rules of the repository that no compiler checks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::circles;
use crate::documents;
use crate::step::{Tally, TestStep};

/// The rules.
pub const STEPS: &[TestStep] = &[
    TestStep {
        name: "rule-core-lives-without-std",
        run: |root| told(core_lives_without_std(root)),
    },
    TestStep {
        name: "rule-crates-forbid-unsafe",
        run: |root| told(crates_forbid_unsafe(root)),
    },
    TestStep {
        name: "rule-unsafe-has-its-place",
        run: |root| told(unsafe_has_its_place(root)),
    },
    TestStep {
        name: "rule-core-knows-no-architecture",
        run: |root| told(no_architecture(root)),
    },
    TestStep {
        name: "rule-core-uses-no-lib",
        run: |root| told(core_uses_no_lib(root)),
    },
    TestStep {
        name: "rule-files-are-short",
        run: |root| told(files_are_short(root)),
    },
    TestStep {
        name: "rule-files-make-no-circle",
        run: |root| told(no_circles(root)),
    },
    TestStep {
        name: "rule-modules-have-their-own-place",
        run: |root| told(no_path_attributes(root)),
    },
    TestStep {
        name: "rule-documents-name-what-is-there",
        run: |root| told(documents_name_what_is_there(root)),
    },
];

/// The folders in which unsafe code may be.
const UNSAFE_PLACES: [&str; 3] = ["arch", "hypervisor", "guests"];
/// The only other file that may have unsafe code: the plugin's interface to QEMU, which is C
/// (docs/adr/0004-a-plugin-counts.md).
const UNSAFE_FILE: &str = "tools/plugin/src/qemu.rs";
/// The crate of that file.
const UNSAFE_CRATE: &str = "tools/plugin/src/lib.rs";
/// Folders whose code only computes, and touches no machine.
const PURE: [&str; 2] = ["core", "lib"];
/// Folders of source code.
const SOURCES: [&str; 8] = [
    "core",
    "lib",
    "arch",
    "hypervisor",
    "guests",
    "tools",
    "fuzz",
    "tests",
];
/// The number of lines that every file stays below.
const TOO_LONG: usize = 1000;

fn told(found: Result<Vec<String>>) -> Tally {
    match found {
        Ok(lines) if lines.is_empty() => Tally::pass(),
        Ok(lines) => Tally::fail(lines.join("\n")),
        Err(error) => Tally::fail(format!("{error:#}")),
    }
}

/// What a crate without unsafe code declares.
const FORBIDS: &str = "#![forbid(unsafe_code)]";

/// Every crate of core and lib is no_std.
fn core_lives_without_std(root: &Path) -> Result<Vec<String>> {
    lacking(root, &PURE, "no_std")
}

/// Every crate of core, lib and tools forbids unsafe code, but that with [`UNSAFE_FILE`].
fn crates_forbid_unsafe(root: &Path) -> Result<Vec<String>> {
    let mut broken = lacking(root, &["core", "lib", "tools"], FORBIDS)?;
    broken.retain(|line| !line.starts_with(&format!("{UNSAFE_CRATE}:")));
    Ok(broken)
}

/// The crates in `folders` whose own file lacks `wanted`.
fn lacking(root: &Path, folders: &[&str], wanted: &str) -> Result<Vec<String>> {
    let own = |file: &PathBuf| {
        let of = |name: &str| file.ends_with(name);
        of("lib.rs") || of("main.rs") && file.parent().is_some_and(|folder| folder.ends_with("src"))
    };
    let mut broken = Vec::new();
    for file in rust_files(root, folders)?.into_iter().filter(own) {
        if !fs::read_to_string(&file)?.contains(wanted) {
            broken.push(format!("{}: lacks {wanted}", shown(root, &file)));
        }
    }
    Ok(broken)
}

fn unsafe_has_its_place(root: &Path) -> Result<Vec<String>> {
    let folders: Vec<_> = SOURCES
        .into_iter()
        .filter(|folder| !UNSAFE_PLACES.contains(folder))
        .collect();
    let mut found = lines_with(root, &folders, has_unsafe_code)?;
    found.retain(|place| !place.starts_with(&format!("{UNSAFE_FILE}:")));
    Ok(found)
}

fn no_architecture(root: &Path) -> Result<Vec<String>> {
    // Written in pieces, so that this file does not break the same rule for tools, should there be
    // one.
    let word = ["target", "arch"].join("_");
    lines_with(root, &PURE, |line| line.contains(&word))
}

/// The folder tells what the image has: no crate of `core/` uses one of `lib/`. A crate's tests
/// may, as they are in no image.
fn core_uses_no_lib(root: &Path) -> Result<Vec<String>> {
    let of_lib: Vec<_> = manifests(root, "lib")?
        .into_iter()
        .map(|(_, manifest)| name(&manifest))
        .collect();
    let mut broken = Vec::new();
    for (file, manifest) in manifests(root, "core")? {
        let used = dependencies(&manifest);
        let wrong = used.into_iter().filter(|used| of_lib.contains(used));
        broken.extend(wrong.map(|used| format!("{}: uses {used} of lib/", shown(root, &file))));
    }
    Ok(broken)
}

/// The manifests in `folder`, each with its file.
fn manifests(root: &Path, folder: &str) -> Result<Vec<(PathBuf, toml::Table)>> {
    let files = files(root, &[folder])?.into_iter();
    let manifests = files.filter(|file| file.ends_with("Cargo.toml"));
    manifests
        .map(|file| {
            let text = fs::read_to_string(&file)?;
            let manifest = toml::from_str(&text);
            let manifest = manifest.with_context(|| format!("cannot read {}", file.display()))?;
            Ok((file, manifest))
        })
        .collect()
}

/// The name of a package.
fn name(manifest: &toml::Table) -> String {
    let name = manifest
        .get("package")
        .and_then(|package| package.get("name")?.as_str());
    name.unwrap_or_default().to_owned()
}

/// The packages that a package is built with: for every target, and for its build script, but not
/// only for its tests.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets
        .into_iter()
        .flat_map(toml::Table::values)
        .filter_map(toml::Value::as_table);
    let tables = of_targets
        .chain([manifest])
        .flat_map(|table| ["dependencies", "build-dependencies"].map(|kind| table.get(kind)))
        .flatten()
        .filter_map(toml::Value::as_table);
    let renamed = |value: &toml::Value| Some(value.get("package")?.as_str()?.to_owned());
    tables
        .flat_map(|table| {
            table
                .iter()
                .map(|(name, value)| renamed(value).unwrap_or_else(|| name.clone()))
        })
        .collect()
}

fn files_are_short(root: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    for file in rust_files(root, &SOURCES)? {
        let lines = fs::read_to_string(&file)?.lines().count();
        if lines >= TOO_LONG {
            broken.push(format!("{}: {lines} lines", shown(root, &file)));
        }
    }
    Ok(broken)
}

/// No file of a crate uses one that uses it.
fn no_circles(root: &Path) -> Result<Vec<String>> {
    let mut broken = Vec::new();
    let folders = ["core", "lib", "tools", "arch", "hypervisor", "guests"];
    let manifests: Result<Vec<_>> = folders
        .map(|folder| manifests(root, folder))
        .into_iter()
        .collect();
    for (manifest, _) in manifests?.into_iter().flatten() {
        let src = manifest.with_file_name("src");
        let files = rust_files(&src, &["."])?;
        let circles = circles::of_crate(&src.join("."), files.iter().map(PathBuf::as_path))?;
        let told = |circle| format!("{}: {circle} use each other", shown(root, &src));
        broken.extend(circles.into_iter().map(told));
    }
    Ok(broken)
}

/// A module's file is where its name says, so that a reader finds it, and no file is compiled into
/// two modules.
fn no_path_attributes(root: &Path) -> Result<Vec<String>> {
    lines_with(root, &SOURCES, has_path_attribute)
}

/// Each file that a document names is there, and each link leads somewhere.
fn documents_name_what_is_there(root: &Path) -> Result<Vec<String>> {
    let own = fs::read_dir(root)?.map(|entry| Ok(entry?.path()));
    let own: Result<Vec<_>> = own.collect();
    let mut documents = own?;
    documents.extend(files(root, &SOURCES)?);
    documents.extend(files(root, &["docs"])?);
    documents.retain(|path| path.extension().is_some_and(|ext| ext == "md"));
    documents::broken(root, &documents, &rust_files(root, &SOURCES)?)
}

/// Whether code says `unsafe`; a comment or a name such as `unsafe_code` does not count.
fn has_unsafe_code(line: &str) -> bool {
    let code = code_of(line);
    let word = |c: char| !c.is_alphanumeric() && c != '_';
    code.split(word).any(|token| token == "unsafe")
}

/// Whether code says by an attribute in which other file a module is.
fn has_path_attribute(line: &str) -> bool {
    let code = code_of(line).replace(' ', "");
    code.contains("#[path=") || code.contains("#[cfg_attr(") && code.contains(",path=")
}

/// A line without its comment and its strings.
fn code_of(line: &str) -> String {
    let code = line.split("//").next().unwrap_or_default();
    let code = code.replace("\\\"", "");
    code.split('"').step_by(2).collect()
}

/// Every line of code in `folders` that `broken` finds.
fn lines_with(root: &Path, folders: &[&str], broken: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for file in rust_files(root, folders)? {
        let text = fs::read_to_string(&file)?;
        for (at, line) in text.lines().enumerate().filter(|(_, line)| broken(line)) {
            found.push(format!(
                "{}:{}: {}",
                shown(root, &file),
                at + 1,
                line.trim()
            ));
        }
    }
    Ok(found)
}

fn rust_files(root: &Path, folders: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = files(root, folders)?;
    files.retain(|path| path.extension().is_some_and(|ext| ext == "rs"));
    Ok(files)
}

/// All files in `folders`, but what cargo builds there.
fn files(root: &Path, folders: &[&str]) -> Result<Vec<PathBuf>> {
    let mut open: Vec<_> = folders.iter().map(|folder| root.join(folder)).collect();
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        if !folder.exists() || folder.ends_with("target") {
            continue;
        }
        let entries = fs::read_dir(&folder);
        for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

fn shown(root: &Path, file: &Path) -> String {
    file.strip_prefix(root)
        .unwrap_or(file)
        .display()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_is_found_in_code_alone() {
        assert!(has_unsafe_code("    unsafe { *p }"));
        assert!(has_unsafe_code("pub unsafe fn f() {}"));
        assert!(has_unsafe_code("#[unsafe(no_mangle)]"));
        assert!(!has_unsafe_code("#![forbid(unsafe_code)]"));
        assert!(!has_unsafe_code("// unsafe is not here"));
        assert!(!has_unsafe_code("let text = \"unsafe {\";"));
    }

    #[test]
    fn a_module_in_a_file_of_another_name_is_found() {
        assert!(has_path_attribute("#[path = \"one_tests.rs\"]"));
        assert!(has_path_attribute(
            "    #[cfg_attr(test, path = \"fake.rs\")]"
        ));
        assert!(!has_path_attribute("// #[path = \"one_tests.rs\"]"));
        assert!(!has_path_attribute(
            "let text = \"#[path = \\\"one_tests.rs\\\"]\";"
        ));
        assert!(!has_path_attribute(
            "say(format_args!(\"{path}\", path = file));"
        ));
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("guests/x/src");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("lib.rs"), "mod one;\n").unwrap();
        fs::write(source.join("one.rs"), "#[path = \"a.rs\"]\nmod tests;\n").unwrap();
        assert_eq!(
            no_path_attributes(dir.path()).unwrap(),
            ["guests/x/src/one.rs:1: #[path = \"a.rs\"]"]
        );
    }

    #[test]
    fn a_crate_of_core_that_uses_one_of_lib_is_found_and_its_tests_may() {
        let dir = tempfile::tempdir().unwrap();
        let write = |folder: &str, text: &str| {
            let folder = dir.path().join(folder);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("Cargo.toml"), text).unwrap();
        };
        write("lib/a", "[package]\nname = \"hanok-a\"\n");
        write(
            "core/b/c",
            "[package]\nname = \"hanok-c\"\n[dev-dependencies]\nhanok-a.workspace = true\n",
        );
        assert_eq!(core_uses_no_lib(dir.path()).unwrap(), [""; 0]);
        for uses in [
            "[dependencies]\nhanok-a.workspace = true\n",
            "[build-dependencies]\nhanok-a = { path = \"../../lib/a\" }\n",
            "[target.'cfg(unix)'.dependencies]\nother = { package = \"hanok-a\" }\n",
        ] {
            write(
                "core/b/c",
                &format!("[package]\nname = \"hanok-c\"\n{uses}"),
            );
            assert_eq!(
                core_uses_no_lib(dir.path()).unwrap(),
                ["core/b/c/Cargo.toml: uses hanok-a of lib/"]
            );
        }
    }

    #[test]
    fn broken_rules_name_their_place() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("core/x/src");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("lib.rs"), "#![no_std]\n\nunsafe fn f() {}\n").unwrap();
        assert_eq!(core_lives_without_std(dir.path()).unwrap(), [""; 0]);
        let tool = dir.path().join("tools/t/src");
        fs::create_dir_all(tool.join("part")).unwrap();
        fs::write(tool.join("main.rs"), "fn main() {}\n").unwrap();
        fs::write(tool.join("part/main.rs"), "\n").unwrap();
        assert_eq!(
            crates_forbid_unsafe(dir.path()).unwrap(),
            [
                "core/x/src/lib.rs: lacks #![forbid(unsafe_code)]",
                "tools/t/src/main.rs: lacks #![forbid(unsafe_code)]"
            ]
        );
        let found = unsafe_has_its_place(dir.path()).unwrap();
        assert_eq!(found, ["core/x/src/lib.rs:3: unsafe fn f() {}"]);
        fs::write(tool.join("main.rs"), "#![forbid(unsafe_code)]\n").unwrap();
        let root = dir.path().join(UNSAFE_CRATE);
        fs::create_dir_all(root.parent().unwrap()).unwrap();
        fs::write(root, "\n").unwrap();
        assert_eq!(crates_forbid_unsafe(dir.path()).unwrap().len(), 1);
        let plugin = dir.path().join(UNSAFE_FILE);
        fs::create_dir_all(plugin.parent().unwrap()).unwrap();
        fs::write(plugin, "unsafe fn g() {}\n").unwrap();
        assert_eq!(unsafe_has_its_place(dir.path()).unwrap(), found);
        fs::write(source.join("lib.rs"), "//\n".repeat(1000)).unwrap();
        assert_eq!(
            files_are_short(dir.path()).unwrap(),
            ["core/x/src/lib.rs: 1000 lines"]
        );
    }
}
