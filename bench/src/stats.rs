//! From values of rounds to what is shown: medians, spreads, and ratios of the same round.

/// The middle, and how far the rounds are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        Some(Self { median: middle(&sorted)?, min: *sorted.first()?, max: *sorted.last()? })
    }
}

/// A value per round; `None` for a round without one.
pub(crate) type Rounds = Vec<Option<f64>>;

/// What there is of it.
pub(crate) fn present(rounds: &[Option<f64>]) -> Vec<f64> {
    rounds.iter().copied().flatten().collect()
}

/// Each round's value divided by the same round's of the other. Rounds that one of them lacks are
/// left out: values of different rounds were not measured side by side.
pub(crate) fn ratios(values: &[Option<f64>], of: &[Option<f64>]) -> Vec<f64> {
    let both = values.iter().zip(of).filter_map(|(value, of)| Some(((*value)?, (*of)?)));
    both.filter(|&(_, of)| of > 0.0).map(|(value, of)| value / of).collect()
}

/// The value that this share of all do not exceed, from 0 to 1. Nothing if there are none.
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(values);
    let place = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied()
}

/// The middle value, or the mean of the two.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    middle(&sorted(values))
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    Some(match sorted.len() % 2 {
        0 => f64::midpoint(sorted[sorted.len() / 2 - 1], upper),
        _ => upper,
    })
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_middle_and_both_ends() {
        let odd = Spread::of(&[3.0, 1.0, 2.0]).expect("three values");
        assert_eq!(odd, Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!((Spread::of(&[]), median(&[])), (None, None));
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let ours = [Some(2.0), None, Some(9.0), Some(1.0)];
        let floor = [Some(1.0), Some(1.0), Some(3.0), None];
        assert_eq!(ratios(&ours, &floor), [2.0, 3.0]);
        assert_eq!(ratios(&[Some(1.0)], &[Some(0.0)]), [0.0; 0], "nothing to divide by");
    }

    #[test]
    fn a_percentile_is_a_value_that_was_there() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&hundred, 0.5), Some(50.0));
        assert_eq!(percentile(&hundred, 0.99), Some(99.0));
        assert_eq!(percentile(&hundred, 1.0), Some(100.0));
        assert_eq!(percentile(&[7.0], 0.01), Some(7.0));
        assert_eq!(percentile(&[1.0, 2.0, 3.0], 0.5), Some(2.0), "and no less than the share");
        assert_eq!(percentile(&[], 0.5), None);
    }
}
