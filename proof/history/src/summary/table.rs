//! The summary as a table of at most 80 columns.

use std::fmt;

use super::{Latencies, Summary, Writes};
use crate::units::{GroupedNumber, Span};

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.title)?;
        let events = GroupedNumber(self.events);
        row(f, "history", &format!("{events} events in {}", Span(self.lasted_us)))?;
        self.operations(f)?;
        let turns = &self.turns;
        let (min, max) = (GroupedNumber(turns.min), GroupedNumber(turns.max));
        row(f, "turns", &format!("{min} to {max} each, of {} clients", turns.clients))?;
        row(f, "waits", &latencies(&self.waits))?;
        row(f, "hand-overs", &latencies(&self.hand_overs))?;
        self.stall(f)?;
        row(f, "fenced writes", &writes(&self.fenced))?;
        row(f, "unfenced writes", &writes(&self.unfenced))?;
        row(f, "order seen", &format!("in {} neighbours", GroupedNumber(self.order_judged)))?;
        self.faults(f)?;
        self.guarantees(f)
    }
}

impl Summary {
    fn operations(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.operations;
        let (asked, granted) = (GroupedNumber(all.asked), GroupedNumber(all.granted));
        row(f, "operations", &format!("{asked} asked, {granted} granted"))?;
        let also = [("cancelled", all.cancelled), ("without an outcome", all.open)];
        let failed = all.failed.iter().map(|(error, count)| (error.as_str(), *count));
        for (what, count) in also.into_iter().chain(failed).chain([("lost", all.lost)]) {
            if count > 0 {
                row(f, "", &format!("{:>9} {what}", GroupedNumber(count).to_string()))?;
            }
        }
        Ok(())
    }

    fn stall(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(stall) = &self.longest_stall else { return row(f, "longest stall", "none") };
        let (lasted, after) = (Span(stall.lasted_us), Span(stall.after_us));
        row(f, "longest stall", &format!("{lasted}, of {} after {after}", stall.lock))?;
        match stall.faults.as_slice() {
            [] => row(f, "", "with nothing wrong at the time"),
            [first] => row(f, "", &format!("during {first}")),
            [first, more @ ..] => row(f, "", &format!("during {first} and {} more", more.len())),
        }
    }

    fn faults(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.faults.is_empty() {
            return row(f, "faults", "none");
        }
        writeln!(f, "\n  {:<40} {:>9} {:>12} {:>12}", "fault", "count", "in all", "no grant for")?;
        for (kind, faults) in &self.faults {
            let [total, gap] = [faults.total_us, faults.no_grant_us].map(|time_us| match time_us {
                0 => "-".to_owned(),
                time_us => Span(time_us).to_string(),
            });
            let count = GroupedNumber(faults.count).to_string();
            writeln!(f, "  {kind:<40} {count:>9} {total:>12} {gap:>12}")?;
        }
        Ok(())
    }

    fn guarantees(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n  {:<53} {:>10} {:>8}", "guarantee", "violations", "excused")?;
        for found in &self.guarantees {
            let name = format!("{:?}", found.guarantee);
            let words = found.guarantee.words();
            let [violations, excused] =
                [found.violations, found.excused].map(|count| GroupedNumber(count).to_string());
            writeln!(f, "  {name:<5} {words:<47} {violations:>10} {excused:>8}")?;
        }
        Ok(())
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, value: &str) -> fmt::Result {
    writeln!(f, "  {name:<17}{value}")
}

fn latencies(of: &Latencies) -> String {
    if of.count == 0 {
        return "none".to_owned();
    }
    let (count, p50, p99) = (GroupedNumber(of.count), Span(of.p50_us), Span(of.p99_us));
    format!("{count}: half within {p50}, 99 % within {p99}, all within {}", Span(of.max_us))
}

fn writes(of: &Writes) -> String {
    let [accepted, refused, hurt] = [of.accepted, of.refused, of.hurt].map(GroupedNumber);
    format!("{accepted} accepted, {refused} refused; hurt {hurt} times")
}
