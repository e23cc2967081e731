//! The timeline as a figure of a page, and as a standalone picture.
//!
//! In a page, the lanes are one SVG that is stretched along time only: to 1, 4, 16 or 64 times the
//! width of the frame in which it scrolls. Strokes keep their width, and a round cap draws the dot
//! at the end of a message. Names and times are separate text beside and above it, so they are not
//! stretched. Radio buttons choose the width, without script.

use super::{Activity, Flow, Lane, NetworkLink, Slice, Timeline};
use crate::chart::style_of_file;
use crate::svg::Svg;
use crate::text::{escape, pixels};
use crate::unit::Unit;

/// Style of lanes, for pictures.
const TIMELINE_STYLE: &str = include_str!("timeline.css");

/// The style of lanes and of the text around them, for pages.
pub(crate) const TIMELINE_PAGE_STYLE: &str =
    concat!(include_str!("timeline.css"), include_str!("page.css"));

/// Factors by which time can be stretched.
const ZOOMS: [u32; 4] = [1, 4, 16, 64];

/// The width of the lanes' coordinate system in a page, stretched to the width of the frame.
const WIDE: f64 = 100_000.0;

/// For a picture: the width of the lanes, the room for names at their left, the margin.
const PICTURE: f64 = 1080.0;
const NAMES: f64 = 110.0;
const MARGIN: f64 = 24.0;

/// The height of a lane with its gap, for few lanes and for many; of a link; of the ruler.
const LANE: f64 = 26.0;
const THIN_LANE: f64 = 13.0;
const MANY_LANES: usize = 32;
const LINK: f64 = 12.0;
const RULER: f64 = 22.0;
const NOTE: f64 = 14.0;

/// Parts of a lane's height: begin and end of its bar, and of the line of phases.
const BAR: (f64, f64) = (0.30, 0.90);
const PHASE: (f64, f64) = (0.08, 0.20);

/// The coordinates of a drawing: `x` of a time, `y` of a lane.
struct Sheet<'t> {
    timeline: &'t Timeline,
    left: f64,
    width: f64,
    top: f64,
    lane: f64,
}

impl Timeline {
    /// The timeline as an SVG picture.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let lane = self.lane_height();
        let (left, top) = (MARGIN + NAMES, MARGIN + 2.0 * RULER);
        let sheet = Sheet { timeline: self, left, width: PICTURE, top, lane };
        let lanes_end = top + lane * self.lanes.len() as f64;
        let links_top = lanes_end + if self.links.is_empty() { 0.0 } else { RULER };
        let notes_top = links_top + LINK * self.links.len() as f64 + RULER;
        let height = notes_top + NOTE * self.left_out.len() as f64 + MARGIN;
        let width = left + PICTURE + MARGIN;
        let mut svg = Svg::new();
        svg.element("svg")
            .attr("xmlns", "http://www.w3.org/2000/svg")
            .class("chart timeline")
            .number("width", width)
            .number("height", height)
            .attr("viewBox", &format!("0 0 {width} {height}"))
            .open();
        svg.append(&format!("<style>{}</style>", style_of_file(TIMELINE_STYLE)));
        svg.element("rect").class("paper").number("width", width).number("height", height).empty();
        svg.label("title", "start", (MARGIN, MARGIN), &self.title);
        for RulerMark { at, label } in marks(self.window, 8) {
            let x = left + at * PICTURE;
            svg.line("grid", (x, top - 4.0), (x, lanes_end));
            svg.label("tick", "middle", (x, top - 9.0), &label);
        }
        for (number, lane) in self.lanes.iter().enumerate() {
            let at = (left - 10.0, sheet.y(number, 0.75));
            svg.label("small", "end", at, &lane.name);
        }
        sheet.draw_lanes(&mut svg);
        for (number, link) in self.links.iter().enumerate() {
            let y = links_top + LINK * number as f64;
            svg.label("small", "end", (left - 10.0, y + 9.0), &link.name);
            draw_link(&mut svg, link, (left, PICTURE), y);
        }
        for (number, note) in self.left_out.iter().enumerate() {
            svg.label("small", "start", (left, notes_top + NOTE * number as f64), note);
        }
        draw_legend(&mut svg, (width - MARGIN, MARGIN), !self.links.is_empty());
        svg.finish()
    }

    /// The timeline as parts of a page: legend, choice of zoom, names, lanes, links.
    pub(crate) fn to_figure(&self) -> String {
        let mut out = String::from("<div class=\"timeline\">\n");
        out += &legend(!self.links.is_empty(), self.has_phases());
        for zoom in ZOOMS {
            let checked = if zoom == 1 { " checked" } else { "" };
            out += &format!(
                "<input type=\"radio\" name=\"zoom\" id=\"zoom{zoom}\"{checked}>\
                 <label for=\"zoom{zoom}\">{zoom} ×</label>\n"
            );
        }
        let lane = self.lane_height();
        out += &format!(
            "<div class=\"frame\"><div class=\"names\" style=\"padding-top:{RULER}px\">\n"
        );
        for Lane { name, .. } in &self.lanes {
            out += &format!("<div style=\"height:{lane}px\">{}</div>\n", escape(name));
        }
        if !self.links.is_empty() {
            out += &format!("<div class=\"gap\" style=\"height:{RULER}px\">links</div>\n");
        }
        for NetworkLink { name, .. } in &self.links {
            out += &format!("<div style=\"height:{LINK}px\">{}</div>\n", escape(name));
        }
        out += "</div><div class=\"pan\" tabindex=\"0\"><div class=\"sheet\">\n";
        for zoom in ZOOMS {
            out += &ruler(self.window, zoom);
        }
        out += &self.stretched(self.lanes.len() as f64 * lane, |svg| {
            let sheet = Sheet { timeline: self, left: 0.0, width: WIDE, top: 0.0, lane };
            for RulerMark { at, .. } in marks(self.window, 8) {
                svg.line("grid", (at * WIDE, 0.0), (at * WIDE, self.lanes.len() as f64 * lane));
            }
            sheet.draw_lanes(svg);
        });
        if !self.links.is_empty() {
            out += &format!("<div style=\"height:{RULER}px\"></div>\n");
            out += &self.stretched(self.links.len() as f64 * LINK, |svg| {
                for (number, link) in self.links.iter().enumerate() {
                    draw_link(svg, link, (0.0, WIDE), number as f64 * LINK);
                }
            });
        }
        out + "</div></div></div></div>\n"
    }

    /// A drawing that is stretched along time to the width of the sheet.
    fn stretched(&self, height: f64, draw: impl FnOnce(&mut Svg)) -> String {
        let mut svg = Svg::new();
        svg.element("svg")
            .class("chart")
            .attr("preserveAspectRatio", "none")
            .attr("viewBox", &format!("0 0 {WIDE} {height}"))
            .attr("style", &format!("height:{height}px"))
            .open();
        draw(&mut svg);
        svg.finish() + "\n"
    }

    fn lane_height(&self) -> f64 {
        if self.lanes.len() > MANY_LANES { THIN_LANE } else { LANE }
    }

    fn has_phases(&self) -> bool {
        let mut slices = self.lanes.iter().flat_map(|lane| &lane.slices);
        slices.any(|slice| slice.activity == Activity::Phase)
    }
}

impl Sheet<'_> {
    fn x(&self, time: f64) -> f64 {
        let (start, _) = self.timeline.window;
        let length = self.timeline.length();
        let part = if length > 0.0 { (time - start) / length } else { 0.0 };
        self.left + part.clamp(0.0, 1.0) * self.width
    }

    /// A height within a lane, as a share of it from its top.
    fn y(&self, lane: usize, part: f64) -> f64 {
        self.top + (lane as f64 + part) * self.lane
    }

    /// Draws bars first and messages over them.
    fn draw_lanes(&self, svg: &mut Svg) {
        for (number, lane) in self.timeline.lanes.iter().enumerate() {
            for slice in &lane.slices {
                self.draw_slice(svg, number, slice);
            }
        }
        for message in &self.timeline.messages {
            self.draw_message(svg, message);
        }
    }

    fn draw_slice(&self, svg: &mut Svg, lane: usize, slice: &Slice) {
        let (class, (above, below)) = match slice.activity {
            Activity::Computing => ("computing", BAR),
            Activity::Calling => ("calling", BAR),
            Activity::Waiting => ("waiting", BAR),
            Activity::Phase => ("phase", PHASE),
        };
        let (from, to) = (self.x(slice.start), self.x(slice.end));
        let (above, below) = (self.y(lane, above), self.y(lane, below));
        let what = if slice.label.is_empty() { slice.activity.word() } else { &slice.label };
        let span = Unit::Seconds.format(slice.end - slice.start);
        let name = &self.timeline.lanes[lane].name;
        svg.element("rect")
            .class(class)
            .xy(from, above)
            .number("width", to - from)
            .number("height", below - above)
            .tip(&format!("{name}: {what}, {span}\nfrom {}", Unit::Seconds.format(slice.start)));
    }

    fn draw_message(&self, svg: &mut Svg, message: &Flow) {
        let Flow { from, to, sent, arrived, bytes } = *message;
        let middle = (BAR.0 + BAR.1) / 2.0;
        let start = (self.x(sent), self.y(from, middle));
        let end = (self.x(arrived), self.y(to, middle));
        let name = |lane: usize| &self.timeline.lanes[lane].name;
        svg.element("g").class("message").open();
        svg.line("way", start, end);
        svg.line("head", end, end);
        svg.element("title").text(&format!(
            "{} from {} to {}: {} on its way\nsent {}",
            Unit::Bytes.format(bytes as f64),
            name(from),
            name(to),
            Unit::Seconds.format(arrived - sent),
            Unit::Seconds.format(sent)
        ));
        svg.close();
    }
}

/// A link as a strip: the darker, the busier.
fn draw_link(svg: &mut Svg, link: &NetworkLink, (left, width): (f64, f64), y: f64) {
    svg.element("rect")
        .class("idle")
        .xy(left, y + 1.0)
        .number("width", width)
        .number("height", LINK - 2.0)
        .tip(&format!("{}: busy {} of the time", link.name, Unit::Fraction.format(link.mean())));
    let step = width / link.busy.len().max(1) as f64;
    // Adjacent parts that are equally busy to a percent become one strip, to write fewer elements.
    let mut place = 0;
    for run in link.busy.chunk_by(|one, other| percent(*one) == percent(*other)) {
        let (start, length) = (left + step * place as f64, step * run.len() as f64);
        place += run.len();
        let busy = run[0];
        if percent(busy) == 0.0 {
            continue;
        }
        svg.element("rect")
            .class("busy")
            .xy(start, y + 1.0)
            .number("width", length)
            .number("height", LINK - 2.0)
            .number("opacity", (0.15 + 0.85 * busy).clamp(0.0, 1.0))
            .tip(&format!("{}: {} busy", link.name, Unit::Fraction.format(busy)));
    }
}

fn percent(part: f64) -> f64 {
    (part * 100.0).ceil()
}

/// Draws the legend of a picture's colours, right-aligned at a point.
fn draw_legend(svg: &mut Svg, (right, y): (f64, f64), links: bool) {
    let link = links.then_some(("busy", "link"));
    let entries = [("waiting", "waiting"), ("calling", "in a call"), ("computing", "computing")];
    let mut x = right;
    for (class, word) in link.into_iter().chain(entries) {
        x -= pixels(word, 11.0);
        svg.label("small", "start", (x, y), word);
        x -= 22.0;
        svg.element("rect")
            .class(class)
            .xy(x, y - 8.0)
            .number("width", 16.0)
            .number("height", 9.0)
            .empty();
        x -= 18.0;
    }
}

/// The times above the lanes at one zoom. The CSS shows only the chosen ruler.
fn ruler(window: (f64, f64), zoom: u32) -> String {
    let mut out = format!("<div class=\"ruler at{zoom}\" style=\"height:{RULER}px\">");
    for RulerMark { at, label } in marks(window, 8 * zoom) {
        out += &format!("<span style=\"left:{:.4}%\">{label}</span>", at * 100.0);
    }
    out + "</div>\n"
}

/// The legend, as colour samples.
fn legend(links: bool, phases: bool) -> String {
    let mut entries = vec![
        ("<rect class=\"computing\" y=\"3\" width=\"26\" height=\"10\"/>", "computing"),
        ("<rect class=\"calling\" y=\"3\" width=\"26\" height=\"10\"/>", "in a call"),
        ("<rect class=\"waiting\" y=\"3\" width=\"26\" height=\"10\"/>", "waiting"),
        (
            "<g class=\"message\"><line class=\"way\" x1=\"1\" y1=\"3\" x2=\"24\" y2=\"13\"/>\
             <line class=\"head\" x1=\"24\" y1=\"13\" x2=\"24\" y2=\"13\"/></g>",
            "a message, the dot where it arrives",
        ),
    ];
    if phases {
        let sample = "<rect class=\"phase\" y=\"7\" width=\"26\" height=\"3\"/>";
        entries.push((sample, "a named part of the program"));
    }
    if links {
        let sample = "<rect class=\"busy\" y=\"3\" width=\"26\" height=\"10\"/>";
        entries.push((sample, "a link carries bytes, the darker the more"));
    }
    let entry = |(sample, words): (&str, &str)| {
        format!(
            "<span><svg class=\"chart\" width=\"28\" height=\"16\">{sample}</svg>{words}</span>\n"
        )
    };
    let entries: String = entries.into_iter().map(entry).collect();
    format!("<p class=\"legend\">{entries}</p>\n")
}

/// A mark of the ruler above the lanes: its position, as a share of the window, and its label.
/// Marks have round steps, and labels have as many digits as the step needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RulerMark {
    pub(super) at: f64,
    pub(super) label: String,
}

/// About `count` marks on a window of seconds.
pub(super) fn marks((start, end): (f64, f64), count: u32) -> Vec<RulerMark> {
    let length = end - start;
    if length.partial_cmp(&0.0) != Some(std::cmp::Ordering::Greater) || !length.is_finite() {
        return Vec::new();
    }
    let step = round_step(length / f64::from(count.max(1)));
    let prefix = Unit::Seconds.prefix(end);
    let digits = (-(step / prefix.factor).log10()).ceil().clamp(0.0, 9.0) as usize;
    // Rounding may put a whole number of steps slightly above itself.
    let first = (start / step - 1e-6).ceil().max(0.0) as u64;
    let label = |time: f64| format!("{:.digits$} {}", time / prefix.factor, prefix.symbol);
    (first..first + u64::from(count) * 3)
        .map(|number| number as f64 * step)
        .take_while(|time| *time <= end + step * 1e-6)
        .map(|time| RulerMark { at: (time - start) / length, label: label(time) })
        .collect()
}

/// The smallest 1, 2 or 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fits = factors.into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_say_what_they_are() {
        let labels: Vec<String> = marks((0.0, 10e-6), 5).into_iter().map(|m| m.label).collect();
        assert_eq!(labels, ["0 µs", "2 µs", "4 µs", "6 µs", "8 µs", "10 µs"]);
        let fine = marks((1.0e-3, 1.001e-3), 4);
        assert!(fine.iter().all(|mark| (0.0..=1.0001).contains(&mark.at)), "{fine:?}");
        assert_eq!(fine[1].label, "1.0005 ms");
    }

    #[test]
    fn windows_without_length_have_no_marks() {
        for window in [(0.0, 0.0), (1.0, 0.5), (f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            assert!(marks(window, 8).is_empty(), "{window:?}");
        }
    }
}
