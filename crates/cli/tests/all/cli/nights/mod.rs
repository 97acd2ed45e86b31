//! Five machines have the same line in their crontabs, their clocks are up to a minute apart, and their processes are
//! killed at every step. Each night the work must get done if a machine lives, nothing may start after that, and work
//! may be repeated only after a kill between the work and its record.
//!
//! ```text
//!   plan.rs   who starts on a night, and where each process is killed
//!   fleet.rs  the machines: real processes, a real server, and clocks that stand still until they are moved
//!   tap.rs    the wire between one process and the server, where it is killed at a given message
//!   judge.rs  what a night may look like, and the sums of many
//! ```
//!
//! No time passes by itself: nights, and the leases of dead processes, pass when [`fleet`] moves the clocks. There are
//! few nights every day; `NIGHTS=200` runs as many as it says, and `TAKETURNS_SEED` draws others.

mod fleet;
mod judge;
mod plan;
mod tap;

use std::env;
use std::str::FromStr;

use taketurns_servers::fuzz::Dice;

use fleet::Fleet;
use judge::Sums;
use plan::Night;

/// Enough for each sort of kill, a night of overlapping work and one of work in turn.
const NIGHTS: u32 = 8;
/// From here on every single step is a place where a process was killed.
const MANY: u32 = 200;

fn number<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok().and_then(|number| number.parse().ok())
}

#[test]
fn every_night_is_done_once_whatever_is_killed() {
    let nights = number("NIGHTS").unwrap_or(NIGHTS);
    let seed = number("TAKETURNS_SEED").unwrap_or(1);
    let mut dice = Dice::new(seed);
    let mut fleet = Fleet::start();
    let steps = fleet.steps();
    let mut sums = Sums::default();
    for number in 0..nights {
        let night = Night::draw(number, steps, &mut dice);
        let record = fleet.live(number, &night);
        if let Err(why) = sums.add(&record) {
            let said = fleet.said();
            panic!("seed {seed}, night {number}: {why}\n{night:?}\n{record:#?}\n{said}");
        }
    }
    println!("seed {seed}, {} messages a run: {sums}", steps.requests + steps.replies);
    if nights >= MANY {
        let left_out: Vec<_> = steps.points().filter(|point| !sums.was_killed_at(*point)).collect();
        assert_eq!(left_out, [], "nobody was killed there");
        assert!(sums.has_everything(), "{sums}");
    }
}
