//! How many wait, as an area below a lock's holders.

use std::fmt::Write as _;

use super::pen::{Pen, Px};
use super::scale::Scale;
use crate::Op;

/// Draws the most who waited in each px, and says how many that was at most.
pub(super) fn draw(
    pen: &mut Pen,
    of_lock: &[&Op<'_>],
    scale: &Scale,
    top: f64,
    height: f64,
) -> u64 {
    let columns = most_waiting(of_lock, scale);
    let most = columns.iter().copied().max().unwrap_or_default();
    if most == 0 {
        return 0;
    }
    let bottom = top + height;
    let mut line = format!("M{} {}", Px(scale.left), Px(bottom));
    let mut at = 0;
    for (column, &waiting) in columns.iter().enumerate() {
        if waiting != at {
            at = waiting;
            let x = scale.left + column as f64;
            let y = bottom - height * waiting as f64 / most as f64;
            let _ = write!(line, "H{}V{}", Px(x), Px(y));
        }
    }
    let _ = write!(line, "H{}V{}Z", Px(scale.right), Px(bottom));
    pen.path("wait", &line, &format!("at most {most} wait at a time"));
    most
}

fn most_waiting(of_lock: &[&Op<'_>], scale: &Scale) -> Vec<u64> {
    // When one more waits, and when one less.
    let mut steps: Vec<(u64, bool)> = Vec::new();
    for op in of_lock {
        steps.push((op.asked_us, true));
        steps.extend(op.granted_us.or(op.ended_us).map(|at_us| (at_us, false)));
    }
    steps.sort_unstable();
    let mut columns = vec![0; (scale.right - scale.left) as usize];
    let (mut waiting, mut drawn): (u64, usize) = (0, 0);
    for (at_us, more) in steps {
        let column = ((scale.x(at_us) - scale.left) as usize).min(columns.len() - 1);
        if at_us > scale.until_us {
            break;
        }
        // Up to here as many as before.
        for between in &mut columns[drawn..=column] {
            *between = (*between).max(waiting);
        }
        waiting = if more { waiting + 1 } else { waiting.saturating_sub(1) };
        if at_us >= scale.from_us {
            columns[column] = columns[column].max(waiting);
        } else {
            columns[column] = 0;
        }
        drawn = column;
    }
    for rest in &mut columns[drawn..] {
        *rest = (*rest).max(waiting);
    }
    columns
}
