//! Reads Debian's control files (deb822(5)).

use deb822_fast::{Deb822, Paragraph};

/// The paragraphs of a file. A damaged one is left out, and the others are read.
pub fn paragraphs(text: &str) -> impl Iterator<Item = Paragraph> {
    Deb822::iter_paragraphs_from_reader(text.as_bytes()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_paragraph_hides_no_other() {
        let text = "Package: a\n\nno field\n\nPackage: b\nSize: 1\n 2\n";
        let names: Vec<_> = paragraphs(text)
            .map(|one| one.get("Package").map(str::to_owned))
            .collect();
        assert_eq!(names, [Some("a".to_owned()), Some("b".to_owned())]);
    }
}
