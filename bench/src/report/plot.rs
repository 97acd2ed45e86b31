//! Measures of a workload as pictures: bars, or lines over the number in the names.

use super::figure;
use super::svg::Svg;
use crate::results::{Row, WorkloadResult};
use crate::stats::Spread;
use crate::workloads::{ContestantGroup, Figure, Measure, Plot};

const WIDTH: f64 = 760.0;
const TOP: f64 = 60.0;

/// The pictures of a workload that show something, each with the name of its file.
pub(super) fn all(workload: &WorkloadResult) -> Vec<(String, String)> {
    let picture = |(place, picture): (usize, &Figure)| {
        let name = match place {
            0 => format!("{}.svg", workload.letter),
            _ => format!("{}-{}.svg", workload.letter, place + 1),
        };
        let measure = workload.measures.get(picture.measure)?;
        let drawn = match picture.plot {
            Plot::Bars => bars(workload, measure),
            Plot::Lines => lines(workload, measure),
        };
        Some((name, drawn?))
    };
    workload.pictures.iter().enumerate().filter_map(picture).collect()
}

/// The middle of a contestant's rounds, and how far they are apart.
fn values<'a>(workload: &'a WorkloadResult, measure: &Measure) -> Vec<(&'a Row, Spread)> {
    workload.rows.iter().filter_map(|row| Some((row, row.spread(measure.name)?))).collect()
}

fn words(measure: &Measure) -> String {
    let direction = if measure.is_rate { "more is better" } else { "less is better" };
    format!("{}, {} ({direction})", measure.name, measure.unit)
}

const fn class(party: ContestantGroup) -> &'static str {
    match party {
        ContestantGroup::Ours => "c0",
        ContestantGroup::Floor => "c1",
        ContestantGroup::Library => "c2",
        ContestantGroup::Other => "c3",
    }
}

/// A bar for each, with a thin line over all of its rounds.
fn bars(workload: &WorkloadResult, measure: &Measure) -> Option<String> {
    const LEFT: f64 = 230.0;
    const RIGHT: f64 = 90.0;
    const ROW: f64 = 24.0;
    let values = values(workload, measure);
    let most = values.iter().map(|(_, spread)| spread.max).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let height = TOP + ROW * values.len() as f64 + 16.0;
    let mut svg = Svg::new(WIDTH, height, workload.title, &words(measure));
    let scale = (svg.width() - LEFT - RIGHT) / most;
    for (place, (row, Spread { median, min, max })) in values.into_iter().enumerate() {
        let y = TOP + ROW * place as f64;
        svg.write(LEFT - 8.0, y + 14.0, "", "end", &row.name);
        let title = format!("{} ({} to {})", figure(median), figure(min), figure(max));
        svg.rect([LEFT, y + 3.0, (median * scale).max(1.0), ROW - 8.0], class(row.party), &title);
        let middle = y + 11.0;
        svg.line([LEFT + min * scale, middle, LEFT + max * scale, middle], "whisker");
        svg.write(LEFT + max * scale + 6.0, y + 14.0, "s", "start", &figure(median));
    }
    Some(svg.end())
}

/// `name, 256` is the point 256 of the line `name`. Who has no number is a level over all.
fn lines(workload: &WorkloadResult, measure: &Measure) -> Option<String> {
    const LEFT: f64 = 60.0;
    const RIGHT: f64 = 190.0;
    const HEIGHT: f64 = 300.0;
    let mut series: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
    let mut levels = Vec::new();
    for (row, spread) in values(workload, measure) {
        match row.name.rsplit_once(", ").and_then(|(name, at)| Some((name, at.parse().ok()?))) {
            Some((name, at)) => match series.iter_mut().find(|(of, _)| *of == name) {
                Some((_, points)) => points.push((at, spread.median)),
                None => series.push((name, vec![(at, spread.median)])),
            },
            None => levels.push((row.name.as_str(), spread.median)),
        }
    }
    let points = || series.iter().flat_map(|(_, points)| points);
    let most = points().map(|point| point.1).chain(levels.iter().map(|level| level.1));
    let most = most.fold(0.0, f64::max) * 1.1;
    let [from, to] = [
        points().map(|point| point.0).reduce(f64::min)?,
        points().map(|point| point.0).reduce(f64::max)?,
    ];
    let mut svg = Svg::new(WIDTH, HEIGHT, workload.title, &words(measure));
    let (right, bottom) = (svg.width() - RIGHT, HEIGHT - 32.0);
    // Ten times as many are as far away everywhere.
    let x = |at: f64| LEFT + (right - LEFT) * (at / from).ln() / (to / from).max(1.001).ln();
    let y = |value: f64| bottom - (bottom - TOP) * value / most;
    for step in 0..=4 {
        let value = most * f64::from(step) / 4.0;
        svg.line([LEFT, y(value), right, y(value)], "grid");
        svg.write(LEFT - 8.0, y(value) + 4.0, "s", "end", &figure(value));
    }
    for &(at, _) in &series.first()?.1 {
        svg.write(x(at), bottom + 18.0, "s", "middle", &format!("{at:.0}"));
    }
    let mut named = Vec::new();
    for &(name, level) in &levels {
        svg.curve(&[(LEFT, y(level)), (right, y(level))], "c1");
        named.push((y(level), name, "c1"));
    }
    for (place, (name, points)) in series.iter().enumerate() {
        let class = ["c0", "c2", "c3", "c4"][place % 4];
        let points: Vec<(f64, f64)> = points.iter().map(|&(at, value)| (x(at), y(value))).collect();
        svg.curve(&points, class);
        named.push((points.last()?.1, name, class));
    }
    legend(&mut svg, named, right);
    Some(svg.end())
}

/// Names at the ends of their lines, moved apart where they would meet.
fn legend(svg: &mut Svg, mut named: Vec<(f64, &str, &str)>, right: f64) {
    named.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut free = 0.0_f64;
    for (y, name, class) in named {
        let y = y.max(free);
        svg.rect([right + 10.0, y - 5.0, 10.0, 10.0], class, name);
        svg.write(right + 26.0, y + 4.0, "", "start", name);
        free = y + 16.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::done;

    /// Every element is closed in the order in which it was opened.
    fn is_well_formed(text: &str) -> bool {
        let mut open = Vec::new();
        for tag in text.split('<').skip(1) {
            let Some((tag, words)) = tag.split_once('>') else { return false };
            let name = tag.split(' ').next().unwrap_or_default();
            if words.contains('&') && !words.contains("&lt;") && !words.contains("&amp;") {
                return false;
            }
            match name.strip_prefix('/') {
                Some(name) if open.pop() != Some(name) => return false,
                None if !tag.ends_with('/') => open.push(name),
                _ => {}
            }
        }
        open.is_empty()
    }

    #[test]
    fn bars_are_of_all_who_ran() {
        let rows: [(&str, ContestantGroup, &[f64]); 3] = [
            ("floor & co", ContestantGroup::Floor, &[1.0, 2.0]),
            ("<ours>", ContestantGroup::Ours, &[4.0]),
            ("peer", ContestantGroup::Library, &[]),
        ];
        let [(name, text)] = &all(&done("a", &rows))[..] else { panic!("one picture") };
        assert_eq!(name, "a.svg");
        assert!(is_well_formed(text), "{text}");
        assert!(text.contains("floor &amp; co") && text.contains("&lt;ours&gt;"));
        assert!(!text.contains("peer"), "it has no figure");
        assert!(all(&done("a", &rows[2..])).is_empty(), "nothing to be seen");
    }

    #[test]
    fn lines_go_over_the_numbers_in_the_names() {
        let rows: [(&str, ContestantGroup, &[f64]); 4] = [
            ("hop", ContestantGroup::Floor, &[50.0]),
            ("scripts, 2", ContestantGroup::Ours, &[60.0]),
            ("scripts, 256", ContestantGroup::Ours, &[61.0]),
            ("module, 2", ContestantGroup::Ours, &[55.0]),
        ];
        const BOTH: &[Figure] =
            &[Figure { measure: 0, plot: Plot::Bars }, Figure { measure: 0, plot: Plot::Lines }];
        let workload = WorkloadResult { pictures: BOTH, ..done("c", &rows) };
        let [_, (name, text)] = &all(&workload)[..] else { panic!("two pictures") };
        assert!(is_well_formed(text), "{text}");
        assert_eq!(name, "c-2.svg");
        assert_eq!(text.matches("<path").count(), 3, "two lines and a level");
        assert_eq!(text.matches("<circle").count(), 2 + 3);
        assert!(text.contains(">256<"));
    }
}
