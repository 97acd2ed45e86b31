//! CPU time of processes, which a noisy machine repeats better than any wall-clock time.

use std::fs;

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
        let text = fs::read_to_string(thread.map_err(said)?.path().join("schedstat"));
        nanoseconds += running_ns(&text.map_err(said)?)?;
    }
    Ok(nanoseconds / 1e3)
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
        let before = cpu_us(std::process::id()).expect("Linux tells it");
        let own = own_cpu_us();
        while own_cpu_us() < own + 50_000.0 {}
        let spent = cpu_us(std::process::id()).expect("Linux tells it") - before;
        // Other tests run in this process, and the kernel adds up at its ticks.
        assert!(spent >= 25_000.0, "{spent}");
        assert!(running_ns("").is_err() && running_ns("1 2 3\n") == Ok(1.0));
    }
}
