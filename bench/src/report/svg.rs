//! SVG, written line by line.

use std::fmt::Write as _;

/// What was drawn so far.
pub(super) struct Svg {
    text: String,
    width: f64,
}

/// Light and dark, as the reader likes it.
const STYLE: &str = "\
text { fill: #23272e; font: 12px system-ui, sans-serif } text.s { fill: #6a7280; font-size: 11px }
text.h { font-size: 15px; font-weight: 600 } .bg { fill: #fdfdfb } .grid { stroke: #d9dde2 }
.c0 { fill: #3566a8; stroke: #3566a8 } .c1 { fill: #8a93a0; stroke: #8a93a0 } .c2 { fill: #c07a2c; stroke: #c07a2c }
.c3 { fill: #2f8f6b; stroke: #2f8f6b } .c4 { fill: #8e5aa8; stroke: #8e5aa8 } path { fill: none !important; stroke-width: 2 }
rect { stroke: none !important } .whisker { stroke: #23272e; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
text { fill: #e3e6ea } text.s { fill: #9aa3b0 } .bg { fill: #15181d } .grid { stroke: #323842 }
.c0 { fill: #6d9fe0; stroke: #6d9fe0 } .c1 { fill: #79828f; stroke: #79828f } .c2 { fill: #dd9a50; stroke: #dd9a50 }
.c3 { fill: #52b892; stroke: #52b892 } .c4 { fill: #b98ad0; stroke: #b98ad0 } .whisker { stroke: #e3e6ea }
}";

impl Svg {
    pub(super) fn new(width: f64, height: f64, title: &str, words: &str) -> Self {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\">\n<style>\n{STYLE}\n</style>\n\
             <rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n"
        );
        let mut svg = Self { text, width };
        svg.write(16.0, 26.0, "h", "start", title);
        svg.write(16.0, 44.0, "s", "start", words);
        svg
    }

    pub(super) const fn width(&self) -> f64 {
        self.width
    }

    pub(super) fn write(&mut self, x: f64, y: f64, class: &str, anchor: &str, words: &str) {
        let words = escaped(words);
        let _ = writeln!(
            self.text,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
        );
    }

    pub(super) fn rect(&mut self, [x, y, width, height]: [f64; 4], class: &str, title: &str) {
        let _ = writeln!(
            self.text,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"><title>{}</title></rect>",
            escaped(title)
        );
    }

    pub(super) fn line(&mut self, [x1, y1, x2, y2]: [f64; 4], class: &str) {
        let _ = writeln!(
            self.text,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// Through these points, each with a dot.
    pub(super) fn curve(&mut self, points: &[(f64, f64)], class: &str) {
        let steps = points.iter().enumerate().map(|(place, (x, y))| {
            let step = if place == 0 { 'M' } else { 'L' };
            format!("{step}{x:.1} {y:.1}")
        });
        let steps: String = steps.collect();
        let _ = writeln!(self.text, "<path class=\"{class}\" d=\"{steps}\"/>");
        for (x, y) in points {
            let _ = writeln!(
                self.text,
                "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"
            );
        }
    }

    pub(super) fn end(self) -> String {
        self.text + "</svg>\n"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
