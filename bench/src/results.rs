//! The results of a run, and how to look them up.

use std::collections::BTreeMap;

use crate::setup::BenchError;
use crate::stats::{Rounds, Spread, present, ratios};
use crate::workloads::{ContestantGroup, Figure, Measure, Workload};

/// Of all workloads that were run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub(crate) workloads: Vec<WorkloadResult>,
}

/// of one workload.
#[derive(Clone, Debug)]
pub(crate) struct WorkloadResult {
    pub(crate) letter: &'static str,
    pub(crate) title: &'static str,
    pub(crate) about: &'static str,
    pub(crate) measures: &'static [Measure],
    pub(crate) pictures: &'static [Figure],
    pub(crate) rows: Vec<Row>,
}

/// Of one contestant.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) party: ContestantGroup,
    pub(crate) reference: Option<String>,
    /// By measure.
    pub(crate) values: BTreeMap<&'static str, Rounds>,
    pub(crate) not_run: Option<BenchError>,
}

impl WorkloadResult {
    pub(crate) fn of(workload: &Workload, rows: Vec<Row>) -> Self {
        let &Workload { letter, title, about, measures, pictures, .. } = workload;
        Self { letter, title, about, measures, pictures, rows }
    }

    pub(crate) fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// The ratios of a row to its reference, by the first measure.
    pub(crate) fn against<'a>(&self, row: &'a Row) -> Option<(&'a str, Spread)> {
        Some((row.reference.as_deref()?, self.ratio(row, self.measures.first()?)?))
    }

    /// The ratios of a row to its reference, by any measure.
    pub(crate) fn ratio(&self, row: &Row, measure: &Measure) -> Option<Spread> {
        let of = self.row(row.reference.as_ref()?)?;
        Spread::of(&ratios(row.rounds(measure.name), of.rounds(measure.name)))
    }
}

impl Row {
    pub(crate) fn rounds(&self, measure: &str) -> &[Option<f64>] {
        self.values.get(measure).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn spread(&self, measure: &str) -> Option<Spread> {
        Spread::of(&present(self.rounds(measure)))
    }
}

impl Results {
    pub(crate) fn workload(&self, letter: &str) -> Option<&WorkloadResult> {
        self.workloads.iter().find(|workload| workload.letter == letter)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::workloads::BARS;

    pub(crate) const RATE: Measure =
        Measure { name: "rate", unit: "1/s", is_rate: true, is_compared: false };

    /// A workload with one measure, [`RATE`], of contestants with these rounds.
    pub(crate) fn done(
        letter: &'static str,
        rows: &[(&str, ContestantGroup, &[f64])],
    ) -> WorkloadResult {
        let rows = rows.iter().map(|&(name, party, rounds)| Row {
            name: name.to_owned(),
            party,
            reference: Some("floor".to_owned()),
            values: [("rate", rounds.iter().copied().map(Some).collect())].into(),
            not_run: None,
        });
        let rows = rows.collect();
        let (title, about) = ("A work", "It is done.");
        WorkloadResult { letter, title, about, measures: &[RATE], pictures: BARS, rows }
    }

    #[test]
    fn a_row_is_compared_with_its_reference_round_by_round() {
        let rows: [(&str, ContestantGroup, &[f64]); 2] = [
            ("floor", ContestantGroup::Floor, &[1.0, 2.0, 4.0]),
            ("ours", ContestantGroup::Ours, &[2.0, 2.0, 2.0]),
        ];
        let workload = done("a", &rows);
        let (name, spread) = workload.against(&workload.rows[1]).expect("both ran");
        assert_eq!((name, spread), ("floor", Spread { median: 1.0, min: 0.5, max: 2.0 }));
    }
}
