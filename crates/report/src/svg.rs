//! A small writer of SVG: elements, attributes, text; escaped and closed by construction.
//!
//! Output is deterministic: attributes keep the order in which they are given, and coordinates have
//! at most two decimals.

use crate::text::{coordinate, escape_into};

/// SVG under construction. Elements opened with [`SvgElement::open`] are closed by [`Svg::close`].
#[derive(Debug, Default)]
pub(crate) struct Svg {
    out: String,
    open: Vec<&'static str>,
}

impl Svg {
    pub(crate) fn new() -> Self {
        Svg::default()
    }

    /// Begins an element. The consuming methods of [`SvgElement`] end its tag.
    pub(crate) fn element(&mut self, name: &'static str) -> SvgElement<'_> {
        self.out.push('<');
        self.out.push_str(name);
        SvgElement { svg: self, name }
    }

    /// Closes the innermost open element.
    pub(crate) fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.end(name);
        }
    }

    /// Appends markup made by this writer.
    pub(crate) fn append(&mut self, finished: &str) {
        self.out.push_str(finished);
    }

    /// Closes all open elements and returns the markup.
    pub(crate) fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.out
    }

    /// A line of text with its anchor (`start`, `middle` or `end`) at `(x, y)`.
    pub(crate) fn label(&mut self, class: &str, anchor: &str, (x, y): (f64, f64), text: &str) {
        let element = self.element("text").class(class).xy(x, y);
        let element = if anchor == "start" { element } else { element.attr("text-anchor", anchor) };
        element.text(text);
    }

    /// A straight line.
    pub(crate) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.element("line")
            .class(class)
            .number("x1", x1)
            .number("y1", y1)
            .number("x2", x2)
            .number("y2", y2)
            .empty();
    }

    fn end(&mut self, name: &str) {
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }
}

/// The start tag of an element. A consuming method ends it.
#[must_use]
pub(crate) struct SvgElement<'a> {
    svg: &'a mut Svg,
    name: &'static str,
}

impl SvgElement<'_> {
    pub(crate) fn attr(mut self, name: &str, value: &str) -> Self {
        self.begin_attr(name);
        escape_into(&mut self.svg.out, value);
        self.svg.out.push('"');
        self
    }

    pub(crate) fn number(mut self, name: &str, value: f64) -> Self {
        self.begin_attr(name);
        coordinate(&mut self.svg.out, value);
        self.svg.out.push('"');
        self
    }

    pub(crate) fn class(self, value: &str) -> Self {
        self.attr("class", value)
    }

    pub(crate) fn xy(self, x: f64, y: f64) -> Self {
        self.number("x", x).number("y", y)
    }

    /// Ends the element without content.
    pub(crate) fn empty(self) {
        self.svg.out.push_str("/>");
    }

    /// Ends the element with text.
    pub(crate) fn text(self, text: &str) {
        self.svg.out.push('>');
        escape_into(&mut self.svg.out, text);
        self.svg.end(self.name);
    }

    /// Ends the element with a tooltip as its only content.
    pub(crate) fn tip(self, text: &str) {
        self.svg.out.push_str("><title>");
        escape_into(&mut self.svg.out, text);
        self.svg.out.push_str("</title>");
        self.svg.end(self.name);
    }

    /// Leaves the element open for children.
    pub(crate) fn open(self) {
        self.svg.out.push('>');
        self.svg.open.push(self.name);
    }

    fn begin_attr(&mut self, name: &str) {
        self.svg.out.push(' ');
        self.svg.out.push_str(name);
        self.svg.out.push_str("=\"");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_escaped_and_closed() {
        let mut svg = Svg::new();
        svg.element("g").class("a\"b").open();
        svg.label("t", "end", (1.0, 2.5), "x < y");
        svg.element("circle").number("r", 3.0).tip("<script>");
        assert_eq!(
            svg.finish(),
            "<g class=\"a&quot;b\"><text class=\"t\" x=\"1\" y=\"2.5\" text-anchor=\"end\">x &lt; \
             y</text><circle r=\"3\"><title>&lt;script&gt;</title></circle></g>"
        );
    }
}
