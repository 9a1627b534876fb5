//! Each kind of change, alone and within another.

use super::*;

/// A mutant of `what`, the `nth` place in `source` where it stands.
fn mutant(id: u32, genre: Genre, source: &str, what: (&str, usize), to: &str) -> Mutant {
    let (text, nth) = what;
    let (at, _) = source.match_indices(text).nth(nth).expect("it is there");
    let place = |at: usize| {
        let before = source.get(..at).expect("a boundary");
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        serde_json::json!({"line": line, "column": column})
    };
    let genre = format!("{genre:?}");
    let json = serde_json::json!({
        "package": "p", "file": "f.rs", "diff": "", "genre": genre, "replacement": to,
        "function": {"function_name": "f", "return_type": "-> u32"},
        "span": {"start": place(at), "end": place(at + text.len())},
    });
    let mut mutant: Mutant = serde_json::from_value(json).expect("a mutant");
    mutant.id = id;
    mutant
}

/// What comes out, without the marks, and the numbers of those left out.
fn planted(source: &str, mutants: &[Mutant]) -> (String, Vec<u32>) {
    let all: Vec<_> = mutants.iter().collect();
    let found = plant(source, &all, &BTreeSet::new()).expect("it is Rust");
    let mut text = found.text.replace(SWITCH, "on");
    for Mutant { id, .. } in mutants {
        for mark in [format!("/*m{id}*/"), format!("/*e{id}*/")] {
            assert_eq!(
                text.matches(&mark).count(),
                usize::from(!found.left_out.contains(id))
            );
            text = text.replace(&mark, "");
        }
    }
    syn::parse_file(&text).expect("what comes out is Rust");
    (text, found.left_out)
}

#[test]
fn nested_operators_have_variants_of_the_text_as_it_was() {
    let source = "fn f(é: u32) -> u32 { é + 2 * !é }";
    let all = [
        mutant(1, Genre::BinaryOperator, source, ("+", 0), "-"),
        mutant(2, Genre::BinaryOperator, source, ("*", 0), "/"),
        mutant(3, Genre::UnaryOperator, source, ("!", 0), ""),
        mutant(4, Genre::FnValue, source, ("é + 2 * !é", 0), "7"),
    ];
    let inner = "(if on(2) { (2) / (!é) } else { (2 * (if on(3) { (é) } else { (!é) })) })";
    let sum = format!("(if on(1) {{ (é) - (2 * !é) }} else {{ (é + {inner}) }})");
    let expected = format!("fn f(é: u32) -> u32 {{if on(4) {{ return 7; }} {sum} }}");
    assert_eq!(planted(source, &all), (expected, vec![]));
}

#[test]
fn two_operators_at_one_place_are_two_choices() {
    let source = "fn f(a: u32) -> bool { a < 1 }";
    let all =
        ["==", ">"].map(|to| mutant(to.len() as u32, Genre::BinaryOperator, source, ("<", 0), to));
    let choices = "(if on(2) { (a) == (1) } else if on(1) { (a) > (1) } else { (a < 1) })";
    assert_eq!(
        planted(source, &all),
        (format!("fn f(a: u32) -> bool {{ {choices} }}"), vec![])
    );
}

#[test]
fn arms_go_and_guards_are_fixed() {
    let source = "fn f(a: u32) -> u32 { match a { 1 => 2, b if b > 3 => 4, _ => 5 } }";
    let all = [
        mutant(1, Genre::MatchArm, source, ("1 => 2,", 0), ""),
        mutant(2, Genre::MatchArm, source, ("b if b > 3 => 4,", 0), ""),
        mutant(3, Genre::MatchArmGuard, source, ("b > 3", 0), "true"),
        mutant(4, Genre::MatchArmGuard, source, ("b > 3", 0), "false"),
        mutant(5, Genre::BinaryOperator, source, (">", 2), "<"),
    ];
    let compared = "(if on(5) { (b) < (3) } else { (b > 3) })";
    let guard = format!("!on(2) && (on(3) || ((!on(4) && ({compared}))))");
    let (text, left_out) = planted(source, &all);
    assert!(left_out.is_empty());
    assert_eq!(
        text,
        format!(
            "fn f(a: u32) -> u32 {{ match a {{ 1 if !on(1) => 2, b if {guard} => 4, _ => 5 }} }}"
        )
    );
}

#[test]
fn a_field_is_left_to_the_rest() {
    let source = "fn f(s: S) -> S { S { a: 1, b: 2, ..s } }";
    let all = [mutant(1, Genre::StructField, source, ("a: 1", 0), "")];
    let choice = "(if on(1) { S { b: 2, ..s } } else { (S { a: 1, b: 2, ..s }) })";
    let (text, left_out) = planted(source, &all);
    assert!(left_out.is_empty());
    assert_eq!(
        text.replace("{  b", "{ b"),
        format!("fn f(s: S) -> S {{ {choice} }}")
    );
}

#[test]
fn functions_are_no_longer_constant_unless_they_must_be() {
    let source = "const fn f() -> u32 { 1 + 2 }\nconst fn g() -> u32 { 3 + 4 }";
    let all = [
        mutant(1, Genre::BinaryOperator, source, ("+", 0), "-"),
        mutant(2, Genre::BinaryOperator, source, ("+", 1), "-"),
        mutant(3, Genre::FnValue, source, ("3 + 4", 0), "0"),
    ];
    let constant = BTreeSet::from(["g".to_owned()]);
    let found = plant(source, &all.iter().collect::<Vec<_>>(), &constant).expect("it is Rust");
    assert_eq!(found.left_out, [2, 3]);
    assert!(found.text.starts_with("fn f()") || found.text.starts_with(" fn f()"));
    assert!(found.text.ends_with("\nconst fn g() -> u32 { 3 + 4 }"));
}

#[test]
fn a_chain_with_let_stays_whole() {
    let source =
        "fn f(a: Option<u32>) -> bool { if let Some(b) = a && b > 1 { true } else { false } }";
    let all = [
        mutant(1, Genre::BinaryOperator, source, ("&&", 0), "||"),
        mutant(2, Genre::BinaryOperator, source, ("> 1", 0), "<"),
    ];
    let (text, left_out) = planted(source, &all);
    assert_eq!(left_out, [1]);
    assert!(
        text.contains("= a && (if on(2) { (b) < (1) } else { (b > 1) })"),
        "{text}"
    );
}

#[test]
fn a_function_within_another_has_its_own_values() {
    let source = "fn f() -> u32 { fn g() -> u32 { 1 } g() }";
    let all = [
        mutant(
            1,
            Genre::FnValue,
            source,
            ("fn g() -> u32 { 1 } g()", 0),
            "0",
        ),
        mutant(2, Genre::FnValue, source, ("1", 0), "0"),
    ];
    let expected =
        "fn f() -> u32 {if on(1) { return 0; } fn g() -> u32 {if on(2) { return 0; } 1 } g() }";
    assert_eq!(planted(source, &all), (expected.to_owned(), vec![]));
}
