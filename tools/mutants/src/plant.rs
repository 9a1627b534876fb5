//! Plants mutants into source text, each behind a switch.
//!
//! `a + b` becomes `(if on(1) { (a) - (b) } else { (a + b) })`, and so on: a mutant's variant is
//! made of the text as it was, so that nested ones do not multiply, and stands beside it, so that
//! types and lives of borrows stay what they were. Each switch stands between two comments with
//! its number: by them a compiler's error is led back to the mutants that it is about.

use std::collections::BTreeSet;
use std::ops::Range;

use anyhow::{Context, Result};
use proc_macro2::LineColumn;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::mutant::{Genre, Mutant, Position};

/// The function by which the program asks whether a mutant is active.
pub const SWITCH: &str = "::hanok_mutant_switch::is_active";

/// A source file with its mutants planted.
#[derive(Debug)]
pub struct Planted {
    /// The text.
    pub text: String,
    /// Mutants that could not be planted, by number.
    pub left_out: Vec<u32>,
}

/// Plants `mutants`, all of them of this file. Functions are no longer `const`, as a switch
/// cannot be asked in one, but those whose names are in `constant`: these stay as they are.
///
/// # Errors
/// Where `source` is no Rust.
pub fn plant(source: &str, mutants: &[&Mutant], constant: &BTreeSet<String>) -> Result<Planted> {
    let file = syn::parse_file(source).context("a source file is not understood")?;
    let mut planter = Planter {
        source,
        left: mutants.to_vec(),
        constant,
        edits: Vec::new(),
        stays_constant: false,
    };
    planter.visit_file(&file);
    let left_out = planter.left.iter().map(|mutant| mutant.id).collect();
    Ok(Planted {
        text: applied(source, planter.edits),
        left_out,
    })
}

/// A change of the text: `range` is removed, or gets a text before and one behind it.
struct Edit {
    range: Range<usize>,
    change: Change,
}

enum Change {
    Remove,
    Wrap { before: String, after: String },
}

struct Planter<'a> {
    source: &'a str,
    /// The mutants for which no place was found yet.
    left: Vec<&'a Mutant>,
    constant: &'a BTreeSet<String>,
    edits: Vec<Edit>,
    /// Inside a function that stays `const`.
    stays_constant: bool,
}

/// The position as a mutant has it: columns from 1.
fn position(at: LineColumn) -> Position {
    Position {
        line: at.line,
        column: at.column + 1,
    }
}

fn start(node: &impl Spanned) -> Position {
    position(node.span().start())
}

/// The condition under which a mutant's variant runs.
fn condition(mutant: &Mutant) -> String {
    format!("{SWITCH}({})", mutant.id)
}

/// `text` between the marks of `mutants`.
fn marked(mutants: &[&Mutant], text: &str) -> (String, String) {
    let begin = mutants.iter().map(|one| format!("/*m{}*/", one.id));
    let end = mutants.iter().rev().map(|one| format!("/*e{}*/", one.id));
    (begin.chain([text.to_owned()]).collect(), end.collect())
}

/// Returns whether an expression is a `let` of a chain, or has one on its top level.
fn has_let(expression: &syn::Expr) -> bool {
    match expression {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(both) => has_let(&both.left) || has_let(&both.right),
        _ => false,
    }
}

impl<'a> Planter<'a> {
    /// Takes the mutants of a kind that begin at a place out of those left.
    fn take(&mut self, genre: Genre, at: Position) -> Vec<&'a Mutant> {
        let is_here = |one: &&Mutant| one.genre == genre && one.span.start == at;
        let (here, left) = self.left.iter().copied().partition(is_here);
        self.left = left;
        here
    }

    fn text(&self, node: &impl Spanned) -> &'a str {
        self.source.get(node.span().byte_range()).unwrap_or("")
    }

    /// Adds variants beside an expression.
    fn wrap(&mut self, node: &impl Spanned, variants: &[(&'a Mutant, String)]) {
        if variants.is_empty() {
            return;
        }
        let choices = variants
            .iter()
            .map(|(mutant, variant)| format!("if {} {{ {variant} }} else ", condition(mutant)));
        let mutants: Vec<_> = variants.iter().map(|(mutant, _)| *mutant).collect();
        let (begin, end) = marked(&mutants, &choices.collect::<String>());
        self.edits.push(Edit {
            range: node.span().byte_range(),
            change: Change::Wrap {
                before: format!("({begin}{{ ("),
                after: format!(") }}{end})"),
            },
        });
    }

    fn function(&mut self, signature: &syn::Signature, block: Option<&syn::Block>) -> bool {
        let before = self.stays_constant;
        if let Some(word) = &signature.constness {
            self.stays_constant = self.constant.contains(&signature.ident.to_string());
            if !self.stays_constant {
                self.edits.push(Edit {
                    range: word.span().byte_range(),
                    change: Change::Remove,
                });
            }
        }
        if let Some(block) = block.filter(|_| !self.stays_constant) {
            self.returns(block);
        }
        before
    }

    /// A function's fixed values, at the beginning of its block. `left` has those of functions
    /// within it, too, which come later and take theirs.
    fn returns(&mut self, block: &syn::Block) {
        let inside = |function: &syn::Block, one: &Mutant| {
            let (from, to) = (function.span().start(), function.span().end());
            position(from) < one.span.start && one.span.end <= position(to)
        };
        struct Inner<'b>(Vec<&'b syn::Block>);
        impl<'b> Visit<'b> for Inner<'b> {
            fn visit_item_fn(&mut self, function: &'b syn::ItemFn) {
                self.0.push(&function.block);
            }
            fn visit_impl_item_fn(&mut self, function: &'b syn::ImplItemFn) {
                self.0.push(&function.block);
            }
        }
        let mut inner = Inner(Vec::new());
        inner.visit_block(block);
        let is_mine = |one: &&Mutant| {
            one.genre == Genre::FnValue
                && inside(block, one)
                && !inner.0.iter().any(|function| inside(function, one))
        };
        let opaque = |one: &&Mutant| {
            let types = one.function.as_ref().map(|function| &function.return_type);
            types.is_some_and(|types| types.contains("impl "))
        };
        let mine: Vec<_> = self.left.iter().copied().filter(is_mine).collect();
        let mine: Vec<_> = mine.into_iter().filter(|one| !opaque(one)).collect();
        self.left
            .retain(|one| !mine.iter().any(|other| other.id == one.id));
        let place = block.brace_token.span.open().byte_range().end;
        for mutant in mine {
            let value = match mutant.replacement.as_str() {
                "" => "()",
                value => value,
            };
            let give = format!("if {} {{ return {value}; }}", condition(mutant));
            let (begin, end) = marked(&[mutant], &give);
            self.edits.push(Edit {
                range: place..place,
                change: Change::Wrap {
                    before: begin,
                    after: end,
                },
            });
        }
    }

    fn arm(&mut self, arm: &syn::Arm) {
        let gone = self.take(Genre::MatchArm, start(arm));
        let (mut before, mut after) = (String::new(), String::new());
        let mut planted = gone.clone();
        for mutant in &gone {
            before += &format!("!{} && ", condition(mutant));
        }
        let Some((_, guard)) = &arm.guard else {
            let condition = before.trim_end_matches(" && ");
            if !condition.is_empty() {
                let (begin, end) = marked(&planted, condition);
                let at = arm.pat.span().byte_range().end;
                self.edits.push(Edit {
                    range: at..at,
                    change: Change::Wrap {
                        before: format!(" if {begin}"),
                        after: end,
                    },
                });
            }
            return;
        };
        if !has_let(guard) {
            let fixed = self.take(Genre::MatchArmGuard, start(guard));
            for mutant in &fixed {
                let always = mutant.replacement == "true";
                let (no, with) = if always { ("", "||") } else { ("!", "&&") };
                before += &format!("({no}{} {with} (", condition(mutant));
                after += "))";
            }
            planted.extend(fixed);
        }
        if !planted.is_empty() {
            let (begin, end) = marked(&planted, &before);
            self.edits.push(Edit {
                range: guard.span().byte_range(),
                change: Change::Wrap {
                    before: begin,
                    after: after + &end,
                },
            });
        }
    }
}

impl<'ast> Visit<'ast> for Planter<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let before = self.function(&function.sig, Some(&function.block));
        visit::visit_item_fn(self, function);
        self.stays_constant = before;
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        let before = self.function(&function.sig, Some(&function.block));
        visit::visit_impl_item_fn(self, function);
        self.stays_constant = before;
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        let before = self.function(&function.sig, function.default.as_ref());
        visit::visit_trait_item_fn(self, function);
        self.stays_constant = before;
    }

    fn visit_expr_binary(&mut self, both: &'ast syn::ExprBinary) {
        let chain = has_let(&both.left) || has_let(&both.right);
        if !self.stays_constant && !chain {
            let (left, right) = (self.text(&both.left), self.text(&both.right));
            let here = self.take(Genre::BinaryOperator, start(&both.op));
            let variant = |one: &'_ Mutant| format!("({left}) {} ({right})", one.replacement);
            let variants: Vec<_> = here.into_iter().map(|one| (one, variant(one))).collect();
            self.wrap(both, &variants);
        }
        visit::visit_expr_binary(self, both);
    }

    fn visit_expr_unary(&mut self, unary: &'ast syn::ExprUnary) {
        if !self.stays_constant {
            let operand = format!("({})", self.text(&unary.expr));
            let here = self.take(Genre::UnaryOperator, start(&unary.op));
            let variants: Vec<_> = here.into_iter().map(|one| (one, operand.clone())).collect();
            self.wrap(unary, &variants);
        }
        visit::visit_expr_unary(self, unary);
    }

    fn visit_expr_struct(&mut self, whole: &'ast syn::ExprStruct) {
        if !self.stays_constant {
            let text = self.text(whole);
            let base = whole.span().byte_range().start;
            let mut variants = Vec::new();
            for field in &whole.fields {
                let range = field.span().byte_range();
                let (first, rest) = text.split_at(range.start - base);
                let rest = rest.get(range.len()..).unwrap_or("").trim_start();
                let variant = format!("{first}{}", rest.strip_prefix(',').unwrap_or(rest));
                let here = self.take(Genre::StructField, start(field));
                variants.extend(here.into_iter().map(|one| (one, variant.clone())));
            }
            self.wrap(whole, &variants);
        }
        visit::visit_expr_struct(self, whole);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if !self.stays_constant {
            self.arm(arm);
        }
        visit::visit_arm(self, arm);
    }
}

/// The text after all edits, which nest: of those that begin at one place the longest, and of these
/// the first, is the outermost.
fn applied(source: &str, edits: Vec<Edit>) -> String {
    // Sorts the insertions: by place; at one place ends first, from the innermost, then edits
    // without a length, then beginnings, from the outermost.
    let mut put: Vec<(usize, u8, usize, usize, String)> = Vec::new();
    let mut removed: Vec<Range<usize>> = Vec::new();
    for (nth, Edit { range, change }) in edits.into_iter().enumerate() {
        match change {
            Change::Remove => removed.push(range),
            Change::Wrap { before, after } if range.is_empty() => {
                put.push((range.start, 1, 0, nth, before + &after));
            }
            Change::Wrap { before, after } => {
                let (from, to) = (usize::MAX - range.start, usize::MAX - range.end);
                put.push((range.start, 2, to, nth, before));
                put.push((range.end, 0, from, usize::MAX - nth, after));
            }
        }
    }
    put.sort();
    let mut text = String::new();
    let mut at = 0;
    let mut copy = |text: &mut String, to: usize| {
        for (place, c) in source.get(at..to).unwrap_or("").char_indices() {
            if !removed.iter().any(|range| range.contains(&(at + place))) {
                text.push(c);
            }
        }
        at = to;
    };
    for (place, .., words) in put {
        copy(&mut text, place);
        text.push_str(&words);
    }
    copy(&mut text, source.len());
    text
}

#[cfg(test)]
mod tests;
