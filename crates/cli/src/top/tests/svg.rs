//! A screen as a picture, with the colours of a dark terminal.

use std::fmt::Write;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

use crate::text::width;

const BACKGROUND: &str = "#16181d";
const FOREGROUND: &str = "#d7dae0";
const CELL: (f64, f64) = (8.4, 18.0);
const FONT_SIZE: f64 = 14.0;
const MARGIN: f64 = 14.0;
/// Above the screen: the frame of a window.
const BAR: f64 = 26.0;

/// How a run of cells looks.
#[derive(Clone, Copy, PartialEq)]
struct Look {
    ink: &'static str,
    paper: &'static str,
    bold: bool,
    dim: bool,
    underlined: bool,
}

/// The whole screen.
pub(super) fn svg(buffer: &Buffer) -> String {
    let (columns, rows) = (f64::from(buffer.area.width), f64::from(buffer.area.height));
    let (width, height) = (columns * CELL.0 + 2.0 * MARGIN, rows * CELL.1 + MARGIN + BAR);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"{FONT_SIZE}\">\n\
         <title>taketurns top</title>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for (at, colour) in ["#e0655c", "#e3b34c", "#63b35f"].iter().enumerate() {
        let x = MARGIN + 4.0 + at as f64 * 18.0;
        let _ = writeln!(out, "<circle cx=\"{x}\" cy=\"13\" r=\"5\" fill=\"{colour}\"/>");
    }
    for (row, cells) in buffer.content.chunks(buffer.area.width.into()).enumerate() {
        for (column, look, text) in runs(cells) {
            draw(&mut out, row, column, look, &text);
        }
    }
    out + "</svg>\n"
}

/// Neighbours that look alike, with where they begin.
fn runs(cells: &[Cell]) -> Vec<(usize, Look, String)> {
    let mut runs: Vec<(usize, Look, String)> = Vec::new();
    let mut column = 0;
    while let Some(cell) = cells.get(column) {
        let look = look(cell);
        match runs.last_mut() {
            Some((_, last, text)) if *last == look => text.push_str(cell.symbol()),
            _ => runs.push((column, look, cell.symbol().to_owned())),
        }
        column += width(cell.symbol()).max(1);
    }
    runs
}

fn look(cell: &Cell) -> Look {
    let has = |modifier| cell.modifier.contains(modifier);
    let (ink, paper) = (colour(cell.fg, FOREGROUND), colour(cell.bg, BACKGROUND));
    let (ink, paper) = if has(Modifier::REVERSED) { (paper, ink) } else { (ink, paper) };
    Look {
        ink,
        paper,
        bold: has(Modifier::BOLD),
        dim: has(Modifier::DIM),
        underlined: has(Modifier::UNDERLINED),
    }
}

fn colour(colour: Color, otherwise: &'static str) -> &'static str {
    match colour {
        Color::Black => "#16181d",
        Color::Red => "#f0716a",
        Color::Green => "#7cc379",
        Color::Yellow => "#e5c07b",
        Color::Blue => "#2f5d9e",
        Color::Magenta => "#cd8be6",
        Color::Cyan => "#5cc2cf",
        Color::White => "#ffffff",
        _ => otherwise,
    }
}

fn draw(out: &mut String, row: usize, column: usize, look: Look, text: &str) {
    let cells = width(text) as f64 * CELL.0;
    let (x, y) = (MARGIN + column as f64 * CELL.0, BAR + row as f64 * CELL.1);
    if look.paper != BACKGROUND {
        let _ = writeln!(
            out,
            "<rect shape-rendering=\"crispEdges\" x=\"{x:.1}\" y=\"{y}\" width=\"{cells:.1}\" height=\"{}\" fill=\"{}\"/>",
            CELL.1, look.paper
        );
    }
    if look.underlined {
        let line = y + CELL.1 - 2.0;
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {line}h{cells:.1}\" stroke=\"{}\" stroke-opacity=\".6\"/>",
            look.ink
        );
    }
    for (at, piece) in pieces(text) {
        let mut style = String::new();
        if look.bold {
            style += " font-weight=\"bold\"";
        }
        if look.dim {
            style += " opacity=\".55\"";
        }
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" textLength=\"{:.1}\" fill=\"{}\"{style} \
             xml:space=\"preserve\">{}</text>",
            x + at as f64 * CELL.0,
            y + 13.5,
            width(piece) as f64 * CELL.0,
            look.ink,
            escaped(piece)
        );
    }
}

/// Words apart from the blanks around them: each is where it belongs, whatever font there is.
fn pieces(text: &str) -> Vec<(usize, &str)> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut at = 0;
    while !rest.trim_start().is_empty() {
        let blanks = rest.len() - rest.trim_start().len();
        let end = rest[blanks..].find("  ").map_or(rest.trim_end().len(), |end| blanks + end);
        let piece = &rest[blanks..end];
        pieces.push((at + blanks, piece));
        at += blanks + width(piece);
        rest = &rest[end..];
    }
    pieces
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn words_are_placed_by_their_cells() {
    assert_eq!(pieces("  a b   倉庫  c "), [(2, "a b"), (8, "倉庫"), (14, "c")]);
    assert_eq!(pieces("   "), []);
    assert_eq!(escaped("<a&b>"), "&lt;a&amp;b&gt;");
}
