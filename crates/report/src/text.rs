//! Text as marks on a page: escaping, estimated widths, wrapping.
//!
//! Strings come from users (program names, file names, series read from files). The output is safe
//! where it is shown: no markup gets into HTML or SVG, and no control sequence into a terminal.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthStr;

/// Appends `text` to `out` so that HTML and XML read it back as text, in content and in quoted
/// attributes. Control characters become U+FFFD, because XML 1.0 cannot carry them.
pub(crate) fn escape_into(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(c),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
}

/// Like [`escape_into`], into a new string.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    escape_into(&mut out, text);
    out
}

/// `text` as one line without control characters, so that a terminal only shows it.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' | '\n' | '\r' => ' ',
            c if c.is_control() => '\u{FFFD}',
            c => c,
        })
        .collect()
}

/// The estimated width of `text` in pixels, in a sans-serif face of `size` pixels. The font is not
/// available here. 0.56 em per column overestimates mixed text slightly.
pub(crate) fn pixels(text: &str, size: f64) -> f64 {
    text.width() as f64 * size * 0.56
}

/// Like [`pixels`], in bold, where capitals are much wider than other letters.
pub(crate) fn bold_pixels(text: &str, size: f64) -> f64 {
    let capitals = text.chars().filter(|letter| letter.is_uppercase()).count();
    (text.width() as f64 * 0.6 + capitals as f64 * 0.2) * size
}

/// `text` cut to at most `width` pixels, with an ellipsis where it was cut.
pub(crate) fn shorten(text: &str, size: f64, width: f64) -> String {
    if pixels(text, size) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if pixels(&kept, size) + pixels("…", size) > width {
            kept.pop();
            break;
        }
    }
    kept.truncate(kept.trim_end().len());
    kept + "…"
}

/// `text` broken between words into at most `lines` lines of at most `width` pixels. The last line
/// is shortened if words are left over. So is a word longer than a line.
pub(crate) fn wrap(text: &str, size: f64, width: f64, lines: usize) -> Vec<String> {
    let mut done: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let longer = if line.is_empty() { word.to_owned() } else { format!("{line} {word}") };
        let last = done.len() + 1 >= lines;
        if last || line.is_empty() || pixels(&longer, size) <= width {
            line = longer;
        } else {
            done.push(std::mem::replace(&mut line, word.to_owned()));
        }
    }
    done.push(line);
    done.iter().map(|line| shorten(line, size, width)).collect()
}

/// Writes a coordinate with at most two decimals: a hundredth of a pixel is not visible, and short
/// numbers keep pages small. A value that is not finite becomes 0; no caller produces one.
pub(crate) fn coordinate(out: &mut String, value: f64) {
    let hundredths = (value * 100.0).round();
    if !hundredths.is_finite() || hundredths == 0.0 {
        out.push('0');
    } else {
        write!(out, "{}", hundredths / 100.0).expect("writing to a String cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_are_escaped() {
        assert_eq!(
            escape("<a href=\"x\">&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&amp;&#39;&lt;/a&gt;"
        );
        assert_eq!(escape("a\0b\u{1b}[31m"), "a\u{FFFD}b\u{FFFD}[31m");
        assert_eq!(escape("飛脚 ← é\n"), "飛脚 ← é\n");
        assert_eq!(one_line("a\nb\u{1b}c\u{9b}d"), "a b\u{FFFD}c\u{FFFD}d");
    }

    /// Widths in DejaVu Sans Bold, the widest face that pages meet; labels have 6 pixels to spare.
    #[test]
    fn bold_names_have_the_room_that_they_need() {
        for (name, width) in [("DIMMnet", 61.0), ("UDP", 29.0), ("ONE2ALL-SYS", 93.0)] {
            assert!(bold_pixels(name, 12.0) + 6.0 > width, "{name}");
        }
    }

    #[test]
    fn long_text_is_shortened_and_wrapped() {
        assert_eq!(shorten("short", 10.0, 100.0), "short");
        let cut = shorten("a rather long label", 10.0, 50.0);
        assert!(cut.ends_with('…') && pixels(&cut, 10.0) <= 50.0, "{cut}");
        assert_eq!(wrap("one two three", 10.0, 45.0, 3), ["one two", "three"]);
        let two = wrap("one two three four five six", 10.0, 45.0, 2);
        assert_eq!(two.len(), 2);
        assert!(two[1].ends_with('…'));
        assert_eq!(wrap("", 10.0, 45.0, 2), [""]);
    }

    #[test]
    fn coordinates_are_short() {
        let write = |value| {
            let mut out = String::new();
            coordinate(&mut out, value);
            out
        };
        assert_eq!(write(1.0), "1");
        assert_eq!(write(1.0 / 3.0), "0.33");
        assert_eq!(write(-0.001), "0");
        assert_eq!(write(f64::NAN), "0");
    }
}
