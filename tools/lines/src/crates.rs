//! Finds the crate of a source file.

use std::path::{Path, PathBuf};

/// The name of a crate as the table of an image has it: its folder for one of the repository, the
/// package's name for one from elsewhere, and `rust: NAME` for one that comes with the compiler.
pub fn of(file: &Path, root: &Path) -> String {
    let own = file.strip_prefix(root).ok().and_then(|own| {
        let folders = own.ancestors().skip(1);
        let mut folders = folders.filter(|folder| root.join(folder).join("Cargo.toml").exists());
        folders
            .find(|folder| !folder.as_os_str().is_empty())
            .map(shown)
    });
    own.or_else(|| package(file))
        .or_else(|| of_compiler(file))
        .unwrap_or_else(|| shown(file))
}

/// The package in cargo's registry: `.../registry/src/INDEX/NAME-VERSION/...`.
fn package(file: &Path) -> Option<String> {
    let file = shown(file);
    let (_, rest) = file.split_once("/registry/src/")?;
    let folder = rest.split('/').nth(1)?;
    // Of a version, `-` and a letter may follow (`1.0.0-rc.1`), but a dot comes first.
    let is_version = |at: &usize| {
        let rest = folder[at + 1..].trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < folder.len() - at - 1 && rest.starts_with('.')
    };
    let mut ends = folder.match_indices('-').map(|(at, _)| at);
    let end = ends.find(is_version).unwrap_or(folder.len());
    Some(folder[..end].to_owned())
}

/// The library that came compiled: `/rustc/COMMIT/library/NAME/...`, or the one of LLVM's that helps
/// out where a CPU lacks an instruction, `.../llvm-project/NAME/...`.
fn of_compiler(file: &Path) -> Option<String> {
    let file = shown(file);
    let mut places = ["/library/", "/llvm-project/"].into_iter();
    let (_, rest) = places.find_map(|place| file.split_once(place))?;
    let name = rest.split('/').next()?;
    Some(format!("rust: {name}"))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// All source files of the crate in `folder`.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut open = vec![folder.join("src")];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                files.push(path);
            }
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

    #[test]
    fn a_file_is_of_the_nearest_package() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::write(root.join("Cargo.toml"), "").unwrap();
        fake::package(root, "core/x", "");
        fake::package(root, "core/x/y", "");
        let own = |file: &str| of(&root.join(file), root);
        assert_eq!(own("core/x/src/a/b.rs"), "core/x");
        assert_eq!(own("core/x/y/src/lib.rs"), "core/x/y");
        let registry = "/c/registry/src/index-1/some-2d-thing-0.1.2/src/lib.rs";
        assert_eq!(of(Path::new(registry), root), "some-2d-thing");
        let registry = "/c/registry/src/index-1/arm-pl011-uart-0.5.1/src/lib.rs";
        assert_eq!(of(Path::new(registry), root), "arm-pl011-uart");
        let compiler = "/rustc/1/library/core/src/num.rs";
        assert_eq!(of(Path::new(compiler), root), "rust: core");
        let helper = "/checkout/src/llvm-project/compiler-rt/lib/builtins/arm/udivsi3.S";
        assert_eq!(of(Path::new(helper), root), "rust: compiler-rt");
        assert_eq!(of(Path::new("/x.rs"), root), "/x.rs");
    }
}
