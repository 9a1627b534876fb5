//! Finds circles of files: a file of a crate that uses another one which uses the first, perhaps
//! through others. Neither can be read, tested or moved without the other.
//!
//! A use is a path from `crate`, `super` or `self` on, in the parsed code. Arguments of macros are
//! ignored, and so is code that only tests have. A file and those of its folder (`walk.rs` and
//! `walk/step.rs`) count as one: the outer one declares the inner ones and passes their names on,
//! and these take names from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree};

/// A file, as the path of its module from the crate on.
type Module = Vec<String>;

/// The circles of the crate whose sources are `files`, all below `src`: each is told once, by its files.
pub(crate) fn of_crate<'a>(
    src: &Path,
    files: impl Iterator<Item = &'a Path>,
) -> Result<Vec<String>> {
    let mut texts = BTreeMap::new();
    for file in files {
        if let Some(module) = module_of(src, file) {
            let text = fs::read_to_string(file)?;
            texts.insert(module, text);
        }
    }
    of_texts(&texts).with_context(|| format!("in {}", src.display()))
}

fn module_of(src: &Path, file: &Path) -> Option<Module> {
    let inside = file.strip_prefix(src).ok()?.with_extension("");
    let mut module: Module = inside
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    match module.last().map(String::as_str) {
        Some("mod") => _ = module.pop(),
        Some("lib" | "main") if module.len() == 1 => module.clear(),
        _ => {}
    }
    // Each file in `bin` is a crate of its own.
    (module.first().map(String::as_str) != Some("bin")).then_some(module)
}

fn of_texts(texts: &BTreeMap<Module, String>) -> Result<Vec<String>> {
    let mut uses: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (module, text) in texts {
        let parsed = syn::parse_file(text).with_context(|| module.join("::"))?;
        let mut paths = Paths {
            here: module.clone(),
            found: Vec::new(),
        };
        paths.visit_file(&parsed);
        let used = paths.found.iter().filter_map(|path| file_of(texts, path));
        let apart = |used: &&Module| !used.starts_with(module) && !module.starts_with(used);
        uses.insert(module, used.filter(apart).collect());
    }
    Ok(circles(&uses))
}

/// The file in which the item with this path is, or the module that it is itself.
fn file_of<'a>(texts: &'a BTreeMap<Module, String>, path: &[String]) -> Option<&'a Module> {
    let mut prefixes = (0..=path.len()).rev().map(|len| &path[..len]);
    prefixes.find_map(|prefix| texts.get_key_value(prefix).map(|(module, _)| module))
}

fn circles(uses: &BTreeMap<&Module, BTreeSet<&Module>>) -> Vec<String> {
    let reached: BTreeMap<_, _> = uses.keys().map(|from| (*from, reach(uses, from))).collect();
    let circle = |module: &Module| {
        let mut members = reached[module].iter().filter(|other| {
            let back = reached.get(**other);
            back.is_some_and(|back| back.contains(module))
        });
        let names: Vec<_> = members.by_ref().map(|member| member.join("::")).collect();
        (!names.is_empty()).then(|| names.join(", "))
    };
    let all: BTreeSet<_> = uses.keys().filter_map(|module| circle(module)).collect();
    all.into_iter().collect()
}

/// All files that `from` uses directly or indirectly.
fn reach<'a>(
    uses: &BTreeMap<&'a Module, BTreeSet<&'a Module>>,
    from: &Module,
) -> BTreeSet<&'a Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&'a Module> = uses.get(from).into_iter().flatten().copied().collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(uses.get(module).into_iter().flatten());
        }
    }
    reached
}

/// Gathers the paths into the crate, from its root on.
struct Paths {
    /// The module that is looked at.
    here: Module,
    found: Vec<Module>,
}

impl Paths {
    /// Notes a path, if it is one into the crate.
    fn note(&mut self, path: &[String]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let mut whole = match first.as_str() {
            "crate" => Module::new(),
            "self" => self.here.clone(),
            "super" => outer(&self.here),
            _ => return,
        };
        for part in rest {
            match part.as_str() {
                "super" => whole = outer(&whole),
                _ => whole.push(part.clone()),
            }
        }
        self.found.push(whole);
    }

    fn note_tree(&mut self, mut path: Module, tree: &UseTree) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.note_tree(path, &part.tree);
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.note_tree(path.clone(), tree);
                }
            }
            UseTree::Name(name) => {
                path.push(name.ident.to_string());
                self.note(&path);
            }
            UseTree::Rename(name) => {
                path.push(name.ident.to_string());
                self.note(&path);
            }
            UseTree::Glob(_) => self.note(&path),
        }
    }
}

fn outer(module: &[String]) -> Module {
    module
        .split_last()
        .map_or_else(Module::new, |(_, outer)| outer.to_vec())
}

/// Whether an item is there for tests alone.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let test = |inner: syn::Path| inner.is_ident("test");
        attribute.path().is_ident("cfg") && attribute.parse_args().is_ok_and(test)
    })
}

impl Visit<'_> for Paths {
    fn visit_item(&mut self, item: &Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_of_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &ItemMod) {
        self.here.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.here.pop();
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        self.note_tree(Module::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let parts: Module = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        self.note(&parts);
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let module = |name: &str| module_of(Path::new("src"), &Path::new("src").join(name));
        let texts = files
            .iter()
            .map(|(name, text)| (module(name).unwrap(), (*text).to_owned()));
        of_texts(&texts.collect()).unwrap()
    }

    #[test]
    fn two_files_that_use_each_other_are_a_circle() {
        let one = ("one.rs", "use crate::two::Two; pub struct One(Two);");
        let two = ("two.rs", "pub struct Two; fn back(_: super::one::One) {}");
        assert_eq!(found(&[one, two]), ["one, two"]);
        assert!(found(&[one, ("two.rs", "pub struct Two;")]).is_empty());
    }

    #[test]
    fn a_circle_by_way_of_others_is_told_once() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::{b::B, d};"),
            ("b.rs", "use super::c::{self, inner::C};"),
            ("c/mod.rs", "mod inner; fn f() { crate::a::f() }"),
            ("c/inner.rs", "use super::super::d;"),
            ("d.rs", "use std::fmt;"),
        ];
        assert_eq!(found(&files), ["a, b, c"]);
    }

    #[test]
    fn a_folder_s_own_file_and_tests_are_no_circle() {
        let files = [
            ("walk.rs", "mod step; pub use step::Step; pub struct Walk;"),
            (
                "walk/step.rs",
                "use super::Walk; use crate::walk::Walk as W;",
            ),
            (
                "other.rs",
                "use crate::walk::Step; #[cfg(test)] mod tests { use crate::main::f; }",
            ),
            ("main/mod.rs", "use crate::other::f;"),
        ];
        assert!(found(&files).is_empty());
    }

    #[test]
    fn inside_of_a_module_in_the_file_super_is_the_file() {
        let one = (
            "one.rs",
            "mod inner { use super::f; use super::super::two::g; }",
        );
        let two = ("two.rs", "use crate::one::inner;");
        assert_eq!(found(&[one, two]), ["one, two"]);
    }
}
