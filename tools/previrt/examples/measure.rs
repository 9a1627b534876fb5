//! Scans and rewrites a file as `hanok previrt patch` does, and says how long each took:
//! `measure FILE [SIDE]`. With CHECK set it is undone and tried again, too.

use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let file = args.next().expect("a file");
    let start = Instant::now();
    let bytes = std::fs::read(&file).expect("it can be read");
    let scan = match hanok_previrt::scan(&bytes) {
        Ok(scan) => scan,
        Err(refusal) => return println!("refused: {refusal}"),
    };
    let scanned = start.elapsed();
    let patched = hanok_previrt::patch(&scan).expect("it can be rewritten");
    let rewritten = start.elapsed();
    let mut forms = std::collections::BTreeMap::new();
    for change in &patched.side.changes {
        *forms.entry(change.form).or_insert(0) += 1;
    }
    let (left, words) = (patched.side.left.len(), patched.side.words.len());
    println!("{forms:?}, {left} left, {words} in the table");
    println!("scanned in {scanned:?}, rewritten after {rewritten:?}");
    if let Some(side) = args.next() {
        std::fs::write(side, patched.side.to_json()).expect("it can be written");
    }
    if std::env::var_os("CHECK").is_some() {
        let back = hanok_previrt::revert(&patched.bytes, &patched.side).expect("it can be undone");
        assert!(back == scan.content, "undone, it is the original");
        let again =
            hanok_previrt::scan(&patched.bytes).and_then(|scan| hanok_previrt::patch(&scan));
        println!("again: {}", again.expect_err("it is not rewritten twice"));
    }
}
