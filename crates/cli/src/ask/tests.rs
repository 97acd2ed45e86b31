use super::*;

/// The arguments as the user types them.
fn typed(words: &[&str]) -> AskArgs {
    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        ask: AskArgs,
    }
    let words = ["run"].iter().chain(words).chain(&["door"]);
    <CommandLine as clap::Parser>::try_parse_from(words).expect("a command line").ask
}

#[test]
fn what_a_loading_server_took_is_taken_off_the_time_for_the_lock() {
    let second = Duration::from_secs(1);
    let limited = typed(&["-w", "5"]);
    assert_eq!(limited.wait.loading().within, Some(5 * second));
    assert_eq!(limited.wait.left(Duration::ZERO), Some(5 * second));
    assert_eq!(limited.wait.left(2 * second), Some(3 * second));
    assert_eq!(limited.wait.left(6 * second), Some(Duration::ZERO));
    assert_eq!(typed(&["-n"]).wait.loading().within, Some(Duration::ZERO));
    assert_eq!((typed(&[]).wait.loading().within, typed(&[]).wait.left(second)), (None, None));
}

#[test]
fn permits_are_k_of_n_with_k_at_most_n() {
    assert_eq!("2/4".parse(), Ok(Permits { take: 2, of: 4 }));
    assert_eq!("4".parse(), Ok(Permits { take: 1, of: 4 }));
    for bad in ["5/4", "0/4", "0", "-1", "1/", "/", "", "1/2/3", "1.5", "1000001", "x"] {
        assert!(bad.parse::<Permits>().is_err(), "{bad}");
    }
}

#[test]
fn a_lease_is_ten_milliseconds_to_a_day() {
    assert_eq!(lease("0.01"), Ok(Duration::from_millis(10)));
    assert_eq!(lease("86400"), Ok(Duration::from_secs(86_400)));
    for bad in ["0", "-1", "NaN", "inf", "-inf", "1e300", "315360000", "0.001", "", "5s"] {
        assert!(lease(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_wait_may_be_none_at_all_but_not_for_ten_years() {
    assert_eq!(wait_limit("0"), Ok(Duration::ZERO));
    assert_eq!(wait_limit("0.2"), Ok(Duration::from_millis(200)));
    assert!(wait_limit("315360000").is_err());
    assert!(wait_limit("-0.1").is_err());
    assert!(max_hold("0").is_err());
    assert!(max_hold("5").is_ok());
}
