//! SVG, written line by line.

use std::fmt::Write as _;

/// A rectangle, in px.
#[derive(Clone, Copy)]
pub(super) struct Area {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// What was drawn so far.
#[derive(Default)]
pub(super) struct Pen(String);

impl Pen {
    /// A rectangle of a class. `more` are further attributes, `title` is what the pointer shows.
    pub(super) fn rect(&mut self, area: Area, class: &str, more: &str, title: &str) {
        let Area { x, y, width, height } = area;
        let _ = write!(
            self.0,
            r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}"{more}"#,
            Px(x),
            Px(y),
            Px(width),
            Px(height)
        );
        self.close("rect", title);
    }

    pub(super) fn path(&mut self, class: &str, d: &str, title: &str) {
        let _ = write!(self.0, r#"<path class="{class}" d="{d}""#);
        self.close("path", title);
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        self.text_at(x, y, class, "start", text);
    }

    pub(super) fn text_at(&mut self, x: f64, y: f64, class: &str, anchor: &str, text: &str) {
        let (x, y, text) = (Px(x), Px(y), escaped(text));
        let _ = writeln!(
            self.0,
            r#"<text class="{class}" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#
        );
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }

    fn close(&mut self, element: &str, title: &str) {
        let _ = match title {
            "" => writeln!(self.0, "/>"),
            title => writeln!(self.0, "><title>{}</title></{element}>", escaped(title)),
        };
    }
}

/// A length with no more digits than can be seen.
pub(super) struct Px(pub(super) f64);

impl std::fmt::Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", (self.0 * 10.0).round() / 10.0)
    }
}

/// Text as it may stand in XML, where some characters can't be at all.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '\n' | '\t' => escaped.push(letter),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            letter if letter.is_control() => escaped.push('\u{fffd}'),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// The colour of a number: neighbours are far apart, and none comes again soon.
pub(super) fn colour(number: u32, saturation: f64, lightness: f64) -> String {
    let hue = (f64::from(number) * 137.508 + 20.0) % 360.0;
    let channel = |offset: f64| {
        let place = (offset + hue / 30.0) % 12.0;
        let reach = saturation * lightness.min(1.0 - lightness);
        let value = lightness - reach * (place - 3.0).min(9.0 - place).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}
