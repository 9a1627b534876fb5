//! HTML and SVG, escaped by construction.
//!
//! A page is a tree of [`Element`]s, so that nothing can be left open, and text and
//! attributes can only get in escaped: names of functions and a console's lines are whatever
//! a guest or a compiler made of them. What comes out is HTML that is also well-formed XML.

use std::fmt::Write;

/// Elements that have no content and no end tag.
const VOID: [&str; 2] = ["meta", "br"];
/// Elements whose content is not text to a reader of HTML.
const RAW: &str = "style";

/// An element with what is in it.
#[derive(Clone, Debug)]
pub struct Element {
    name: &'static str,
    attributes: Vec<(&'static str, String)>,
    content: Vec<Content>,
}

#[derive(Clone, Debug)]
enum Content {
    Element(Element),
    Text(String),
    /// A literal of our own code, never a text from outside.
    Raw(&'static str),
}

/// An element without content.
pub fn el(name: &'static str) -> Element {
    Element {
        name,
        attributes: Vec::new(),
        content: Vec::new(),
    }
}

/// An element with a text.
pub fn tell(name: &'static str, text: impl Into<String>) -> Element {
    el(name).text(text)
}

impl Element {
    /// Adds an attribute.
    pub fn attr(mut self, name: &'static str, value: impl ToString) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// Adds a number as an attribute, with one decimal: as fine as a drawing needs.
    pub fn at(self, name: &'static str, value: f64) -> Self {
        let rounded = (value * 10.0).round() / 10.0;
        // Adding zero turns -0 into 0: no drawing has a negative zero.
        self.attr(name, rounded + 0.0)
    }

    /// Adds a number as an attribute, with two decimals: for values that lie close together.
    pub fn fine(self, name: &'static str, value: f64) -> Self {
        let rounded = (value * 100.0).round() / 100.0;
        self.attr(name, rounded + 0.0)
    }

    /// Adds classes.
    pub fn class(self, value: impl ToString) -> Self {
        self.attr("class", value)
    }

    /// Adds a text.
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.content.push(Content::Text(text.into()));
        self
    }

    /// Adds an element.
    pub fn child(mut self, child: Self) -> Self {
        self.content.push(Content::Element(child));
        self
    }

    /// Adds elements.
    pub fn children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        let children = children.into_iter().map(Content::Element);
        self.content.extend(children);
        self
    }

    /// Adds a style sheet, which must hold neither `<` nor `&`.
    pub fn style(mut self, sheet: &'static str) -> Self {
        debug_assert!(self.name == RAW && !sheet.contains(['<', '&']));
        self.content.push(Content::Raw(sheet));
        self
    }

    /// Writes it as an HTML document.
    pub fn document(&self) -> String {
        let mut page = "<!DOCTYPE html>\n".to_owned();
        self.write(&mut page);
        page.push('\n');
        page
    }

    /// Writes it as an SVG file, or as a part of a page.
    pub fn source(&self) -> String {
        let mut source = String::new();
        self.write(&mut source);
        source
    }

    fn write(&self, page: &mut String) {
        page.push('<');
        page.push_str(self.name);
        for (name, value) in &self.attributes {
            // Writing to a string cannot fail.
            let _ = write!(page, " {name}=\"{}\"", escaped(value));
        }
        if VOID.contains(&self.name) {
            page.push_str("/>");
            return;
        }
        page.push('>');
        for content in &self.content {
            match content {
                Content::Element(element) => element.write(page),
                Content::Text(text) => page.push_str(&escaped(text)),
                Content::Raw(text) => page.push_str(text),
            }
        }
        let _ = write!(page, "</{}>", self.name);
        if BLOCKS.contains(&self.name) {
            page.push('\n');
        }
    }
}

/// Elements after which the source has a new line.
const BLOCKS: [&str; 12] = [
    "head", "section", "header", "p", "tr", "table", "svg", "g", "h2", "h3", "li", "div",
];

/// `text` as it may stand in text and in attributes. What no version of XML can hold
/// becomes the replacement character.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\t' => safe.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever text and attribute, an independent parser finds both and no more.
        #[test]
        fn nothing_gets_out(text in any::<String>(), value in any::<String>()) {
            let page = el("p").attr("title", &value).text(text.clone()).document();
            let options = roxmltree::ParsingOptions {
                allow_dtd: true,
                ..Default::default()
            };
            let tree = roxmltree::Document::parse_with_options(&page, options).unwrap();
            let root = tree.root_element();
            prop_assert_eq!(root.children().filter(|node| node.is_element()).count(), 0);
            prop_assert_eq!(root.attributes().count(), 1);
            let shown = |text: &str| -> String {
                let bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
                let never = |c| bad(c) || matches!(c, '\u{fffe}' | '\u{ffff}');
                text.chars().map(|c| if never(c) { '\u{fffd}' } else { c }).collect()
            };
            prop_assert_eq!(root.text().unwrap_or_default(), shown(&text));
            // A parser turns line ends of an attribute into blanks.
            let value = shown(&value).replace(['\n', '\t'], " ");
            prop_assert_eq!(root.attribute("title").unwrap_or_default(), value);
        }
    }

    #[test]
    fn void_elements_have_no_end() {
        let page = el("p").child(el("br")).child(el("b")).document();
        assert_eq!(page, "<!DOCTYPE html>\n<p><br/><b></b></p>\n\n");
    }
}
