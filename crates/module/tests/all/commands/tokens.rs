//! The resource's side of fencing: which tokens it admits.

use std::time::{SystemTime, UNIX_EPOCH};

use taketurns_servers::{Flavor, ServerReply, on_both};

use crate::commands::client::{Client, info, is_error, server};

/// How long an unused lock is remembered, in the unit of tokens.
const RETENTION_US: i64 = 60 * 60 * 1_000_000;

/// Writes only if the token is admitted.
const GUARDED: &str = "redis.call('FENCELOCK.CHECK', KEYS[1], ARGV[1]); \
                       redis.call('SET', KEYS[2], ARGV[1]); return 'written'";

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock");
    i64::try_from(since.as_micros()).expect("a number")
}

on_both! {
    fn a_token_is_admitted_until_a_newer_one_was(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let tokens = [(); 3].map(|()| {
            let grant = client.take("k 600");
            client.give("k", &grant);
            grant.token
        });
        let check = |token| format!("CHECK k {token}");
        assert!(client.lock(&check(tokens[1])).is_ok(), "newer than any");
        assert!(client.lock(&check(tokens[1])).is_ok(), "the same again");
        let error = client.error(&check(tokens[0]));
        assert_eq!(error, format!("STALE token {} is older than {}", tokens[0], tokens[1]));
        assert!(client.lock(&check(tokens[2])).is_ok(), "newer");
        for old in &tokens[..2] {
            assert!(client.error(&check(*old)).starts_with("STALE "));
        }
        assert_eq!((info(&server, "tokens_admitted"), info(&server, "tokens_stale")), (3, 3));
        let shown = client.lock("SHOW k");
        assert_eq!(shown.field("admitted"), Some(&ServerReply::Int(tokens[2])));
    }

    fn the_token_of_whoever_holds_the_lock_is_admitted(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let lost = client.take("k 10 MS");
        client.until_held("k", 0);
        let held = client.take("k 600");
        assert!(client.lock(&format!("CHECK k {}", held.token)).is_ok());
        assert!(client.error(&format!("CHECK k {}", lost.token)).starts_with("STALE "));
        assert!(client.renew("k", &held).is_ok(), "a check takes nothing away");
    }

    fn of_a_lock_that_is_forgotten_no_old_token_is_admitted(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let minute_us = 60 * 1_000_000;
        for token in [1, now_us() - RETENTION_US - minute_us] {
            let error = client.error(&format!("CHECK k {token}"));
            assert_eq!(
                error,
                format!(
                    "STALE token {token} is too old: nothing is remembered of a time so long ago"
                )
            );
        }
        assert_eq!(client.say("EXISTS k"), ServerReply::Int(0), "a refusal leaves nothing");
        let recent = now_us() - RETENTION_US + minute_us;
        assert!(client.lock(&format!("CHECK k {recent}")).is_ok());
        assert!(client.error(&format!("CHECK k {}", recent - 1)).starts_with("STALE "));
        let grant = client.take("gone 600");
        assert!(client.lock(&format!("CHECK gone {}", grant.token)).is_ok());
        assert_eq!(client.say("DEL gone"), ServerReply::Int(1));
        assert!(client.lock(&format!("CHECK gone {}", grant.token)).is_ok(), "young enough");
    }

    fn a_token_that_was_never_given_out_is_not_admitted(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take("k 600");
        for token in [now_us() + RETENTION_US + 60 * 1_000_000, (1 << 53) - 1] {
            for key in ["k", "unused"] {
                let error = client.error(&format!("CHECK {key} {token}"));
                assert_eq!(error, format!("STALE token {token} was never given out"));
            }
        }
        assert!(client.lock(&format!("CHECK k {}", grant.token)).is_ok(), "nothing was shut out");
        for wrong in ["0", "-1", "x", "", "1.5", "9007199254740992", "18446744073709551617"] {
            let error = client.error(&format!("CHECK k {wrong}"));
            assert!(error.starts_with("ERR the token is an integer"), "{wrong}: {error}");
        }
    }

    fn a_script_stops_at_a_stale_token_before_it_writes(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let (old, new) = {
            let old = client.take("{k} 600");
            client.give("{k}", &old);
            (old, client.take("{k} 600"))
        };
        let mut write = |token: i64| {
            client.words(&["EVAL", GUARDED, "2", "{k}", "{k}data", &token.to_string()])
        };
        assert_eq!(write(new.token).text(), Some("written"));
        let refused = write(old.token);
        let error = refused.error().expect("a refusal");
        assert!(error.starts_with("STALE "), "the code comes through: {error}");
        assert_eq!(client.say("GET {k}data").text(), Some(new.token.to_string().as_str()));
    }

    fn a_transaction_tells_which_of_its_commands_was_refused(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take("k 600");
        let replies = client.multi(&[
            format!("FENCELOCK.CHECK k {}", grant.token),
            "FENCELOCK.CHECK k 1".to_owned(),
            format!("FENCELOCK.RELEASE k {}", grant.secret),
        ]);
        assert!(replies[0].is_ok() && replies[2].is_ok(), "{replies:?}");
        assert!(is_error(&replies[1], "STALE"));
    }
}
