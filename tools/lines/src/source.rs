//! The lines of code of a source file, and which function each is of.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use proc_macro2::{Group, Span, TokenStream, TokenTree};
use syn::Attribute;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A range of lines, counted from 1, both ends included.
type Lines = RangeInclusive<u32>;

/// A source file without its comments and tests.
#[derive(Debug)]
pub struct Source {
    /// Lines that hold more than blanks and comments, but those of tests.
    code: BTreeSet<u32>,
    /// The function of a line, the innermost one; functions are in the order in which they begin.
    function: BTreeMap<u32, usize>,
    assembly: Vec<Assembly>,
}

/// A block of `global_asm!`.
#[derive(Debug)]
struct Assembly {
    lines: Lines,
    labels: Vec<String>,
}

impl Source {
    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<Self> {
        let file = syn::parse_file(text).context("it is no Rust")?;
        let tokens: TokenStream = text.parse().ok().context("it is no Rust")?;
        let mut code = BTreeSet::new();
        mark(tokens, &mut code);
        let mut found = Found::default();
        found.visit_file(&file);
        code.retain(|line| !found.tests.iter().any(|lines| lines.contains(line)));
        let mut function = BTreeMap::new();
        // An inner function begins behind the one that it stands in, and takes its lines from it.
        for (at, lines) in found.functions.into_iter().enumerate() {
            function.extend(lines.map(|line| (line, at)));
        }
        let text: Vec<_> = text.lines().collect();
        let blocks = found.assembly.into_iter();
        let assembly = blocks.map(|lines| Assembly {
            labels: labels(&text, &lines),
            lines,
        });
        Ok(Self {
            code,
            function,
            assembly: assembly.collect(),
        })
    }

    /// How many lines of code count, if the image's code is made from `lines` and its symbols are
    /// `symbols`.
    pub fn linked(&self, lines: &BTreeSet<u32>, symbols: &BTreeSet<String>) -> usize {
        let functions: BTreeSet<_> = lines
            .iter()
            .filter_map(|line| self.function.get(line))
            .collect();
        let dropped: Vec<_> = self
            .assembly
            .iter()
            .filter(|block| !block.labels.iter().any(|label| symbols.contains(label)))
            .collect();
        let counts = |line: &&u32| match self.function.get(line) {
            Some(function) => functions.contains(function),
            None => !dropped.iter().any(|block| block.lines.contains(line)),
        };
        self.code.iter().filter(counts).count()
    }
}

/// Collects the items of a file.
#[derive(Default)]
struct Found {
    functions: Vec<Lines>,
    assembly: Vec<Lines>,
    tests: Vec<Lines>,
}

impl<'a> Visit<'a> for Found {
    fn visit_item_fn(&mut self, one: &'a syn::ItemFn) {
        self.function(one, &one.attrs);
        visit::visit_item_fn(self, one);
    }

    fn visit_impl_item_fn(&mut self, one: &'a syn::ImplItemFn) {
        self.function(one, &one.attrs);
        visit::visit_impl_item_fn(self, one);
    }

    fn visit_trait_item_fn(&mut self, one: &'a syn::TraitItemFn) {
        // A function without a body is a definition, as a type is.
        if one.default.is_some() {
            self.function(one, &one.attrs);
        }
        visit::visit_trait_item_fn(self, one);
    }

    fn visit_item_mod(&mut self, one: &'a syn::ItemMod) {
        self.perhaps_test(one, &one.attrs);
        visit::visit_item_mod(self, one);
    }

    fn visit_item_impl(&mut self, one: &'a syn::ItemImpl) {
        self.perhaps_test(one, &one.attrs);
        visit::visit_item_impl(self, one);
    }

    fn visit_item_use(&mut self, one: &'a syn::ItemUse) {
        self.perhaps_test(one, &one.attrs);
    }

    fn visit_item_macro(&mut self, one: &'a syn::ItemMacro) {
        let name = one.mac.path.segments.last();
        if name.is_some_and(|name| name.ident == "global_asm") {
            self.assembly.push(lines(one.span()));
        }
    }
}

impl Found {
    fn function(&mut self, one: &impl Spanned, attributes: &[Attribute]) {
        self.perhaps_test(one, attributes);
        self.functions.push(lines(one.span()));
    }

    fn perhaps_test(&mut self, one: &impl Spanned, attributes: &[Attribute]) {
        if attributes.iter().any(is_test) {
            self.tests.push(lines(one.span()));
        }
    }
}

/// Returns whether the attribute is `#[cfg(test)]`.
fn is_test(attribute: &Attribute) -> bool {
    let inner = attribute.parse_args::<syn::Ident>();
    attribute.path().is_ident("cfg") && inner.is_ok_and(|inner| inner == "test")
}

fn lines(span: Span) -> Lines {
    span.start().line as u32..=span.end().line as u32
}

/// Marks the lines on which tokens stand, but those of documentation, which the compiler takes for
/// attributes.
fn mark(tokens: TokenStream, code: &mut BTreeSet<u32>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(mark) if mark.as_char() == '#' => {
                let inner = tokens
                    .next_if(|next| matches!(next, TokenTree::Punct(p) if p.as_char() == '!'));
                let doc = tokens.next_if(|next| matches!(next, TokenTree::Group(g) if is_doc(g)));
                if doc.is_none() {
                    code.extend(lines(mark.span()));
                    code.extend(inner.into_iter().flat_map(|inner| lines(inner.span())));
                }
            }
            TokenTree::Group(group) => {
                code.extend(lines(group.span_open()));
                code.extend(lines(group.span_close()));
                mark(group.stream(), code);
            }
            other => code.extend(lines(other.span())),
        }
    }
}

/// Returns whether the tokens are what stands behind the `#` of `#[doc = ".."]`.
fn is_doc(group: &Group) -> bool {
    let first = group.stream().into_iter().next();
    matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
}

/// The labels in a block of assembly, as in `"name:",`.
fn labels(text: &[&str], block: &Lines) -> Vec<String> {
    let (first, last) = (*block.start() as usize, *block.end() as usize);
    let block = text.get(first - 1..last).unwrap_or_default().iter();
    let labels = block.filter_map(|line| {
        let (name, _) = line.trim().trim_start_matches('"').trim().split_once(':')?;
        let sound = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
        sound.then(|| name.to_owned())
    });
    labels.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r##"//! About it.
use a::B;

/// A type.
struct A {
    // A field.
    b: B, /* so
    it is */
}

impl A {
    /// Linked.
    fn linked(&self) -> u32 {

        fn inner() -> u32 {
            1
        }
        let text = "// no comment
// neither";
        inner()
    }

    fn dropped(&self) {
        let x = 1;
    }
}

trait T {
    fn defined(&self);
    fn given(&self) {}
}

core::arch::global_asm!(
    "entry:",
    "nop",
);

#[cfg(test)]
mod tests {
    fn test() {}
}
"##;

    fn linked(lines: &[u32], symbols: &[&str]) -> usize {
        let symbols = symbols.iter().map(|&name| name.to_owned()).collect();
        let source = Source::parse(TEXT).unwrap();
        source.linked(&lines.iter().copied().collect(), &symbols)
    }

    /// `use`, A, the frames of `impl` and `trait`, and `defined`.
    const DEFINITIONS: usize = 1 + 3 + 2 + 3;

    #[test]
    fn of_functions_those_count_that_have_code_in_the_image_and_definitions_always() {
        assert_eq!(linked(&[], &[]), DEFINITIONS);
        // The signature, the string's two lines, the call and the closing bracket.
        assert_eq!(linked(&[19], &[]), DEFINITIONS + 5);
        assert_eq!(linked(&[15], &[]), DEFINITIONS + 3);
        assert_eq!(linked(&[24, 25], &[]), DEFINITIONS + 3);
        assert_eq!(linked(&[30], &[]), DEFINITIONS + 1);
    }

    #[test]
    fn assembly_counts_if_one_of_its_labels_has_an_address() {
        assert_eq!(linked(&[], &["entry"]), DEFINITIONS + 4);
        assert_eq!(linked(&[], &["another"]), DEFINITIONS);
    }

    #[test]
    fn tests_count_never() {
        assert_eq!(linked(&[40], &[]), DEFINITIONS);
    }

    #[test]
    fn what_is_no_rust_is_refused() {
        assert!(Source::parse("fn {").is_err());
        assert!(Source::parse("fn a() {").is_err());
    }
}
