//! Counts an image's lines, by crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::crates;
use crate::source::Source;
use crate::table::Linked;

/// How many lines each crate has in an image, by the crate's name: its folder for one of the
/// repository, the package's name for one from elsewhere, `rust: NAME` for one of the compiler's own.
pub type Counts = BTreeMap<String, usize>;

/// Counts the lines of the image `elf`, which was built from the sources in `root`.
///
/// # Errors
/// Where the ELF file has no line table, or a source of the repository is not what the image was
/// built from.
pub fn count(elf: &[u8], root: &Path) -> Result<Counts> {
    let linked = Linked::parse(elf)?;
    let mut counts = Counts::new();
    for (file, lines) in with_assembly(linked.lines, root) {
        let lines = match fs::read_to_string(&file) {
            Ok(text) => Source::parse(&text)
                .with_context(|| format!("cannot count the lines of {}", file.display()))?
                .linked(&lines, &linked.symbols),
            Err(_) if !file.starts_with(root) => lines.len(),
            Err(error) => {
                let what = format!(
                    "the image is made from {}, which cannot be read",
                    file.display()
                );
                return Err(error).context(what);
            }
        };
        *counts.entry(crates::of(&file, root)).or_default() += lines;
    }
    counts.retain(|_, lines| *lines > 0);
    Ok(counts)
}

/// Adds the files of assembly of the repository's crates that are in the image: a file that holds
/// only assembly has no line in the line table.
fn with_assembly(
    mut linked: BTreeMap<PathBuf, BTreeSet<u32>>,
    root: &Path,
) -> BTreeMap<PathBuf, BTreeSet<u32>> {
    let own = linked.keys().filter(|file| file.starts_with(root));
    let folders: BTreeSet<_> = own.map(|file| root.join(crates::of(file, root))).collect();
    for file in folders.iter().flat_map(|folder| crates::files(folder)) {
        let has_assembly = |text: String| text.contains("global_asm!(");
        if !linked.contains_key(&file) && fs::read_to_string(&file).is_ok_and(has_assembly) {
            linked.insert(file, BTreeSet::new());
        }
    }
    linked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn lines_are_those_of_linked_functions_by_crate() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fake::package(root, "core/x", "fn a() {\n}\nfn b() {}\n");
        fake::package(root, "core/x/y", "fn c() {\n\n}\n");
        let registry = root.join("cargo/registry/src/index-1/some-thing-0.1.2/src");
        fs::create_dir_all(&registry).unwrap();
        fs::write(registry.join("lib.rs"), "struct D;\nfn d() {}\n").unwrap();
        let elf = fake::image(&[
            (&root.join("core/x/src/lib.rs"), &[1]),
            (&root.join("core/x/y/src/lib.rs"), &[1, 3]),
            (&registry.join("lib.rs"), &[2]),
            (Path::new("/rustc/0/library/core/src/num.rs"), &[7, 9]),
        ]);
        let wanted = [
            ("core/x", 2),
            ("core/x/y", 2),
            ("rust: core", 2),
            ("some-thing", 2),
        ];
        let wanted: Counts = wanted.map(|(name, lines)| (name.to_owned(), lines)).into();
        assert_eq!(count(&elf, root).unwrap(), wanted);
    }

    #[test]
    fn a_file_of_assembly_alone_counts_by_its_symbol() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fake::package(root, "arch/x", "fn a() {}\n");
        let assembly = "core::arch::global_asm!(\n\"start:\",\n);\n";
        fs::write(root.join("arch/x/src/boot.rs"), assembly).unwrap();
        fs::write(
            root.join("arch/x/src/other.rs"),
            assembly.replace("start", "none"),
        )
        .unwrap();
        let elf = fake::image(&[(&root.join("arch/x/src/lib.rs"), &[1])]);
        assert_eq!(
            count(&elf, root).unwrap(),
            Counts::from([("arch/x".to_owned(), 4)])
        );
    }

    #[test]
    fn a_source_that_is_gone_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("core/x/src/lib.rs");
        let error = count(&fake::image(&[(&file, &[1])]), dir.path()).unwrap_err();
        assert!(error.to_string().contains("core/x/src/lib.rs"), "{error}");
        assert!(count(b"no ELF file", dir.path()).is_err());
        let error = count(&fake::image(&[]), dir.path()).unwrap_err();
        assert!(error.to_string().contains("no line table"), "{error}");
    }
}
