//! Scans and rewrites a file, and says how long each took.
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
    print!("{}", hanok_previrt::Report::new(&scan).to_text(8));
    let mut forms = std::collections::BTreeMap::new();
    for change in &patched.side.changes {
        *forms.entry(change.form).or_insert(0) += 1;
    }
    println!(
        "{forms:?}, {} left, {} words",
        patched.side.left.len(),
        patched.side.words.len()
    );
    let words: Vec<_> = patched
        .side
        .words
        .iter()
        .map(|word| format!("{word:08x}"))
        .collect();
    println!("by number: {}", words.join(" "));
    println!("scanned in {scanned:?}, rewritten after {rewritten:?}");
    if let Some(side) = args.next() {
        std::fs::write(side, patched.side.to_json()).expect("it can be written");
    }
    let back = hanok_previrt::revert(&patched.bytes, &patched.side).expect("it can be undone");
    assert!(back == scan.content, "undone, it is the original");
    match hanok_previrt::scan(&patched.bytes).and_then(|scan| hanok_previrt::patch(&scan)) {
        Err(refusal) => println!("again: {refusal}"),
        Ok(again) => panic!("rewritten twice, {} changes", again.side.changes.len()),
    }
}
