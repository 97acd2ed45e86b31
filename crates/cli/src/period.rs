//! The periods of `once --every`, and lengths of time with a unit. Pure: nothing here reads a clock or a time zone.
//!
//! A period is due at a time in UTC, the time at which cron starts the work. It *begins* before that, so that a machine
//! whose clock is fast is not taken for a late one of the period before:
//!
//! ```text
//!   day@02:30   ─┬─────────┬───────────────────────────────┬─────────┬──►  the store's clock
//!              00:30  due 02:30                          00:30  due 02:30
//!                └ early ─┘  starts from here to the next 00:30 are one period
//! ```

use std::str::FromStr;
use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;

/// Longest period, and longest time for which the store remembers work, in seconds.
const LENGTH_MAX: u64 = 31 * DAY;

/// How long before it is due a period begins, at most, in seconds. It is longer than the hour by which summer time
/// moves a crontab in local time.
const EARLY_MAX: u64 = 2 * HOUR;

/// 1970-01-01 was a Thursday, so the first Monday came this many days later.
const FIRST_MONDAY: u64 = 4;
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// A part of time that comes again and again: a night, an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    length: u64,
    /// When it is due for the first time since 1970, in seconds.
    due: u64,
}

impl Period {
    pub(crate) fn length(self) -> Duration {
        Duration::from_secs(self.length)
    }

    /// When the first period since 1970 begins.
    pub(crate) fn offset(self) -> Duration {
        let begins_ms = (self.due + self.length) * 1_000 - self.early_ms();
        Duration::from_millis(begins_ms % (self.length * 1_000))
    }

    /// How long before it is due it begins: a quarter of it, or two hours.
    fn early_ms(self) -> u64 {
        (self.length * 1_000 / 4).min(EARLY_MAX * 1_000)
    }
}

/// `hour`, `day@02:30`, `mon@06:00`, `15m`, `6h@02:30`.
impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (unit, at) = match text.split_once('@') {
            Some((unit, at)) => (unit, Some(at)),
            None => (text, None),
        };
        let weekday = WEEKDAYS.iter().position(|weekday| *weekday == unit);
        let (length, first_day) = match (unit, weekday) {
            (_, Some(day)) => (WEEK, (FIRST_MONDAY + day as u64) % 7),
            ("minute", _) => (MINUTE, 0),
            ("hour", _) => (HOUR, 0),
            ("day", _) => (DAY, 0),
            ("week", _) if at.is_some() => return Err("name its day: mon@02:30".into()),
            ("week", _) => (WEEK, FIRST_MONDAY),
            ("month" | "year", _) => {
                return Err(format!(
                    "a {unit} has no fixed length: put it into the name instead, as in \
                     report-$(date -u +%Y-%m), with --for 31d"
                ));
            }
            _ => (whole_seconds(unit)?, 0),
        };
        let at = at.map_or(Ok(0), |at| time_of(at, length))?;
        Ok(Self { length, due: first_day * DAY + at })
    }
}

/// The time behind the @: minutes of the hour for a period of up to an hour, else hours and minutes of the day.
fn time_of(text: &str, length: u64) -> Result<u64, String> {
    let number = |text: &str, below: u64| {
        let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| is_plain && *number < below)
    };
    if length <= HOUR {
        if !HOUR.is_multiple_of(length) {
            return Err(
                "periods that don't divide an hour are due at no fixed minute: leave out @".into(),
            );
        }
        let minutes = number(text, 60).map(|minutes: u64| minutes * MINUTE);
        return minutes
            .filter(|at| *at < length)
            .ok_or_else(|| "behind the @ belong its minutes: hour@30".into());
    }
    if !DAY.is_multiple_of(length) && !length.is_multiple_of(DAY) {
        return Err("periods that don't divide a day are due at no fixed time: leave out @".into());
    }
    let time = text.split_once(':').and_then(|(hours, minutes)| {
        Some(number(hours, 24)? * HOUR + number(minutes, 60)? * MINUTE)
    });
    // Of several times in a day any may be named.
    time.map(|time| time % length)
        .ok_or_else(|| "behind the @ belongs a time in UTC: day@02:30".into())
}

fn whole_seconds(text: &str) -> Result<u64, String> {
    let refused =
        || "write hour, day, week, a weekday (mon), or a length such as 15m or 6h".to_owned();
    let length = length(text).map_err(|_| refused())?;
    if length.subsec_nanos() > 0 {
        return Err("a period is a whole number of seconds".into());
    }
    match length.as_secs() {
        seconds @ 1..=LENGTH_MAX => Ok(seconds),
        _ => Err("a period is between 1 second and 31 days".into()),
    }
}

/// A length of time with a unit: `90s`, `15m`, `24h`, `7d`, `2w`. Without a unit it is in seconds.
pub(crate) fn length(text: &str) -> Result<Duration, String> {
    let units = [('s', 1), ('m', MINUTE), ('h', HOUR), ('d', DAY), ('w', WEEK)];
    let unit = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, *seconds)));
    let (number, seconds) = unit.unwrap_or((text, 1));
    let is_plain = number.starts_with(|c: char| c.is_ascii_digit());
    let number: Option<f64> = number.parse().ok().filter(|_| is_plain);
    let length = number.map(|number| Duration::try_from_secs_f64(number * seconds as f64));
    match length {
        Some(Ok(length)) => Ok(length),
        _ => Err("write a number of seconds, or a number and a unit: 90s, 15m, 24h, 7d".into()),
    }
}

/// How long the store remembers that work is done.
pub(crate) fn remembered(text: &str) -> Result<Duration, String> {
    let length = length(text)?;
    match length >= Duration::from_secs(1) && length <= Duration::from_secs(LENGTH_MAX) {
        true => Ok(length),
        false => Err("it is between 1 second and 31 days".into()),
    }
}

/// A pause between two attempts.
pub(crate) fn pause(text: &str) -> Result<Duration, String> {
    let length = length(text)?;
    if length > Duration::from_secs(DAY) {
        Err("it is at most 24 hours".into())
    } else {
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-16, a Monday, at midnight.
    const MONDAY: u64 = 20_773 * DAY;

    fn begins(period: &str, before: u64) -> u64 {
        let period: Period = period.parse().unwrap_or_else(|error| panic!("{period}: {error}"));
        let (length, offset) = (period.length().as_secs(), period.offset().as_secs());
        (before - offset) / length * length + offset
    }

    #[test]
    fn a_period_begins_some_time_before_it_is_due() {
        let cases = [
            // What it is, when somebody asks, and when the period began.
            ("day@02:30", MONDAY + 2 * HOUR + 30 * MINUTE, MONDAY + 30 * MINUTE),
            ("day@02:30", MONDAY + 30 * MINUTE, MONDAY + 30 * MINUTE),
            ("day@02:30", MONDAY + 30 * MINUTE - 1, MONDAY + 30 * MINUTE - DAY),
            ("day", MONDAY, MONDAY - 2 * HOUR),
            ("hour", MONDAY, MONDAY - 15 * MINUTE),
            ("hour@30", MONDAY + 20 * MINUTE, MONDAY + 15 * MINUTE),
            ("15m", MONDAY, MONDAY - 225),
            ("15m@05", MONDAY + 5 * MINUTE, MONDAY + 75),
            ("6h@02:30", MONDAY + 20 * HOUR, MONDAY + 19 * HOUR),
            ("6h@20:30", MONDAY + 20 * HOUR, MONDAY + 19 * HOUR),
            ("mon@06:00", MONDAY + 6 * HOUR, MONDAY + 4 * HOUR),
            ("sun@00:00", MONDAY - DAY, MONDAY - DAY - 2 * HOUR),
            ("fri@06:00", MONDAY, MONDAY - 3 * DAY + 4 * HOUR),
            ("week", MONDAY, MONDAY - 2 * HOUR),
            ("minute", MONDAY, MONDAY - 15),
        ];
        for (period, asked, began) in cases {
            assert_eq!(begins(period, asked), began, "{period}");
        }
    }

    #[test]
    fn machines_whose_clocks_differ_start_in_one_period() {
        for (period, due) in [("day@02:30", MONDAY + 9_000), ("hour", MONDAY), ("15m", MONDAY)] {
            let [fast, slow] = [due - MINUTE, due + MINUTE].map(|start| begins(period, start));
            assert_eq!(fast, slow, "{period}");
        }
        // A crontab in local time starts an hour earlier in summer.
        assert_eq!(begins("day@02:30", MONDAY + 9_000), begins("day@02:30", MONDAY + 9_000 - HOUR));
    }

    #[test]
    fn a_short_period_begins_early_by_parts_of_a_second() {
        let period: Period = "1s".parse().unwrap();
        assert_eq!(period.offset(), Duration::from_millis(750));
    }

    #[test]
    fn offsets_are_shorter_than_their_periods() {
        let periods = ["1s", "7s", "90m", "5h", "31d", "2d@23:59", "sun@23:59", "day@23:59"];
        for period in periods {
            let parsed: Period = period.parse().unwrap();
            assert!(parsed.offset() < parsed.length(), "{period}");
        }
    }

    #[test]
    fn what_is_no_period_says_what_to_write() {
        let cases = [
            ("", "write hour, day"),
            ("nightly", "write hour, day"),
            ("-1h", "write hour, day"),
            ("month", "report-$(date -u +%Y-%m)"),
            ("week@02:30", "mon@02:30"),
            ("day@2:30", "day@02:30"),
            ("day@24:00", "day@02:30"),
            ("day@02:30:00", "day@02:30"),
            ("day@", "day@02:30"),
            ("day@+2:30", "day@02:30"),
            ("hour@02:30", "hour@30"),
            ("15m@20", "hour@30"),
            ("5h@00:30", "leave out @"),
            ("7m@01", "leave out @"),
            ("0h", "between 1 second and 31 days"),
            ("32d", "between 1 second and 31 days"),
            ("1.5s", "whole number of seconds"),
        ];
        for (text, expected) in cases {
            let error = text.parse::<Period>().expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn lengths_have_units() {
        let cases =
            [("90", 90), ("90s", 90), ("1.5m", 90), ("24h", DAY), ("7d", WEEK), ("2w", 2 * WEEK)];
        for (text, seconds) in cases {
            assert_eq!(length(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "h", "-1", "1y", "inf", "nan", "1e400", "1 h", "١h", "."] {
            assert!(length(text).is_err(), "{text}");
        }
        assert!(remembered("0.5").is_err() && remembered("32d").is_err());
        assert!(pause("24h").is_ok() && pause("25h").is_err());
        assert_eq!(remembered("31d"), Ok(Duration::from_secs(LENGTH_MAX)));
    }
}
