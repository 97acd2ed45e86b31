//! The orders in which locks can be shown, one after the other.

use crate::watch::order::Sort;

const ALL: [Sort; 4] = [Sort::Waiting, Sort::Held, Sort::Left, Sort::Name];

pub(crate) fn next(sort: Sort) -> Sort {
    ALL[(place(sort) + 1) % ALL.len()]
}

pub(crate) fn previous(sort: Sort) -> Sort {
    ALL[(place(sort) + ALL.len() - 1) % ALL.len()]
}

fn place(sort: Sort) -> usize {
    ALL.iter().position(|other| *other == sort).unwrap_or_default()
}

/// As the screen says it.
pub(crate) const fn says(sort: Sort) -> &'static str {
    match sort {
        Sort::Waiting => "busiest first",
        Sort::Held => "longest held first",
        Sort::Left => "least left first",
        Sort::Name => "by name",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_go_round_in_both_directions() {
        let there = ALL.map(next);
        assert_eq!(there, [Sort::Held, Sort::Left, Sort::Name, Sort::Waiting]);
        assert_eq!(there.map(previous), ALL);
    }
}
