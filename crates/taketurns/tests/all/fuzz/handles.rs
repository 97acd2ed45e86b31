//! Handles, which people and scripts carry around.

use taketurns::Handle;
use taketurns_servers::fuzz;

#[test]
fn a_handle_that_is_read_is_the_same_when_it_is_carried_on_and_shows_no_secret() {
    let genuine = [
        "tt1.0123456789abcdef0123456789abcdef.1790000000000001.30000.99.orders/42",
        "tt1.000000000000000000000000000000ab.7.10.0.a.b c",
        "tt1.ffffffffffffffffffffffffffffffff.0.86400000.18446744073709551615.ü\n",
    ];
    fuzz::rounds("handles", 20_000, |dice| {
        let text = dice.damaged_text(&genuine);
        let handle = match Handle::parse(&text) {
            Ok(handle) => handle,
            Err(error) => {
                let said = format!("{error} {error:?}");
                assert!(!said.contains("tt1.") && !said.contains("0123456"), "{said}");
                return false;
            }
        };
        let exposed = handle.expose();
        let Ok(again) = Handle::parse(&exposed) else { panic!("{exposed:?} of {text:?}") };
        assert_eq!((&again, again.expose()), (&handle, exposed.clone()), "{text:?}");
        let secret = exposed.split('.').nth(1).expect("an owner");
        let shown = format!("{handle:?}");
        // Two that were written into one another have one in their name.
        let is_named = handle.name().as_str().contains(secret);
        assert!(secret.len() == 32 && (is_named || !shown.contains(secret)), "{shown}");
        assert!(text.contains(handle.name().as_str()), "{text:?}");
        true
    });
}
