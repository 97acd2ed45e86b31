//! Renewals.

use taketurns_servers::{Flavor, ServerReply, on_both};

use crate::commands::client::{Client, Grant, server, waiter};

on_both! {
    fn a_renewal_holds_a_lock_for_longer_and_never_for_less(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take("k 60");
        assert!(client.of_holder("k", "left_ms") <= 60_000);
        assert!(client.lock(&format!("RENEW k {} 600", grant.secret)).is_ok());
        assert!(client.of_holder("k", "left_ms") > 300_000);
        for shorter in ["1", "10 MS"] {
            assert!(client.lock(&format!("RENEW k {} {shorter}", grant.secret)).is_ok());
            assert!(client.of_holder("k", "left_ms") > 300_000, "{shorter}");
        }
        assert!(client.lock(&format!("RENEW k {} 3600000 MS", grant.secret)).is_ok());
        assert!(client.of_holder("k", "left_ms") > 1_800_000);
        assert_eq!(client.of_holder("k", "token"), grant.token, "it is the same grant");
    }

    fn a_lock_renewed_in_time_outlives_its_first_lease(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take("k 4");
        // With a waiter there is a timer for the deadline, which a renewal must put off.
        let mut next = waiter(&server, "k", "600 WAIT 0");
        assert!(client.renew("k", &grant).is_ok());
        client.take("later 4500 MS");
        Grant::of(&Client::of(&server).lock("ACQUIRE later 600 WAIT 0"));
        assert_eq!(client.waiting("k"), 1, "the first lease is over by now");
        client.give("k", &grant);
        Grant::of(&next.answer());
    }

    fn only_the_secret_renews(flavor: Flavor) {
        let server = server(flavor);
        let (mut client, mut other) = (Client::of(&server), Client::of(&server));
        assert!(client.error("RENEW k 7 600").starts_with("NOTHELD "));
        assert_eq!(client.say("EXISTS k"), ServerReply::Int(0));
        let grant = client.take("k 60");
        assert_eq!(other.lock(&format!("RENEW k {} 600", grant.secret ^ 1)), ServerReply::Nil);
        assert_eq!(other.lock(&format!("RENEW k {} 600", grant.token)), ServerReply::Nil);
        assert!(client.of_holder("k", "left_ms") <= 60_000);
        assert!(other.renew("k", &grant).is_ok(), "from whichever connection");
        client.give("k", &grant);
        assert!(client.error(&format!("RENEW k {} 600", grant.secret)).starts_with("NOTHELD "));
    }

    fn a_lease_that_ran_out_is_not_renewed(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let lost = client.take("k 10 MS");
        client.until_held("k", 0);
        assert!(client.error(&format!("RENEW k {} 600", lost.secret)).starts_with("NOTHELD "));
        let next = client.take("k 600");
        assert!(next.token > lost.token);
        assert_eq!(client.renew("k", &lost), ServerReply::Nil);
        assert_eq!(client.lock(&format!("RELEASE k {}", lost.secret)), ServerReply::Nil);
        assert!(client.renew("k", &next).is_ok());
    }

    fn one_of_several_holders_is_renewed_alone(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let (one, other) = (client.take("k 60 SHARED"), client.take("k 60 SHARED"));
        assert!(client.renew("k", &one).is_ok());
        let left = client.holders("k").into_iter().map(|holder| {
            let number = |field| holder.field(field).and_then(ServerReply::int).expect("a number");
            (number("token"), number("left_ms"))
        });
        for (token, left_ms) in left.collect::<Vec<_>>() {
            assert_eq!(left_ms > 60_000, token == one.token, "{left_ms}");
        }
        client.give("k", &other);
        assert!(client.renew("k", &one).is_ok());
    }
}
