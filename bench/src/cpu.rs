//! CPU time of processes, which a noisy machine repeats better than any wall-clock time.

use std::{fs, io};

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::setup::{BenchError, said};

/// The CPU time of this process so far, in µs.
pub(crate) fn own_cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

/// The CPU time so far of all threads that a process has now, in µs.
pub(crate) fn cpu_us(pid: u32) -> Result<f64, BenchError> {
    let mut nanoseconds = 0.0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).map_err(said)? {
        match fs::read_to_string(thread.map_err(said)?.path().join("schedstat")) {
            Ok(text) => nanoseconds += running_ns(&text)?,
            // It has ended since the folder was read.
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(said(error)),
        }
    }
    Ok(nanoseconds / 1e3)
}

fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || Errno::from_io_error(error) == Some(Errno::SRCH)
}

/// The first of the three figures: time on a processor, time in its queue, and how many turns it had.
fn running_ns(schedstat: &str) -> Result<f64, BenchError> {
    let first = schedstat.split(' ').next().and_then(|text| text.parse().ok());
    first.ok_or_else(|| format!("not a schedstat: {schedstat}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_and_the_own_clock_agree_on_what_was_spent() {
        let told = || cpu_us(std::process::id()).expect("Linux tells it");
        let (before, own) = (told(), own_cpu_us());
        // The kernel adds up at its ticks, and forgets the threads of other tests when they end.
        while told() < before + 25_000.0 {
            assert!(own_cpu_us() < own + 60_000_000.0, "{} and {before}", told());
        }
        assert!(running_ns("").is_err() && running_ns("1 2 3\n") == Ok(1.0));
    }
}
