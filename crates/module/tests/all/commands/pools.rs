//! Pools: members that come and go, any of them or a named one.

use taketurns_servers::{Flavor, ServerReply, on_both};

use crate::commands::client::{Client, Grant, server, waiter};

/// The most members of a pool.
const MEMBERS_MAX: i64 = 1_024;

fn member(grant: &Grant) -> &str {
    grant.member.as_deref().expect("a member")
}

/// Returns the members and their states, as SHOW reports them.
fn members(client: &mut Client, key: &str) -> Vec<(String, String)> {
    let shown = client.lock(&format!("SHOW {key}"));
    let members = shown.field("members").and_then(ServerReply::array).expect("members");
    let text = |member: &ServerReply, field| {
        member.field(field).and_then(ServerReply::text).expect("text").to_owned()
    };
    members.iter().map(|member| (text(member, "name"), text(member, "state"))).collect()
}

on_both! {
    fn any_is_the_member_that_has_been_free_for_longest(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        assert_eq!(client.lock("POOL ADD p z y x"), ServerReply::Int(3));
        let grants = ["z", "y", "x"].map(|expected| {
            let grant = client.take("p 600 ANY");
            assert_eq!(member(&grant), expected);
            grant
        });
        assert_eq!(client.lock("ACQUIRE p 600 ANY"), ServerReply::Nil);
        for at in [1, 2, 0] {
            client.give("p", &grants[at]);
        }
        for expected in ["y", "x", "z"] {
            assert_eq!(member(&client.take("p 600 ANY")), expected);
        }
    }

    fn a_named_member_is_taken_if_it_is_free(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        assert_eq!(client.lock("POOL ADD p a b"), ServerReply::Int(2));
        assert_eq!(member(&client.take("p 600 MEMBER b")), "b");
        assert_eq!(client.lock("ACQUIRE p 600 MEMBER b"), ServerReply::Nil);
        assert_eq!(client.lock("ACQUIRE p 600 MEMBER nobody"), ServerReply::Nil);
        assert_eq!(member(&client.take("p 600 ANY")), "a");
        let long = "m".repeat(513);
        for wrong in [&b""[..], b"a\nb", b"\xff", long.as_bytes()] {
            for words in [
                vec![&b"FENCELOCK.ACQUIRE"[..], b"p", b"600", b"MEMBER", wrong],
                vec![b"FENCELOCK.POOL", b"ADD", b"p", wrong],
                vec![b"FENCELOCK.POOL", b"REM", b"p", wrong],
            ] {
                let reply = client.words(&words);
                let error = reply.error().expect("no name");
                assert!(error.starts_with("ERR a member's name is "), "{error}");
            }
        }
        let any = client.words(&["FENCELOCK.POOL", "ADD", "p", "any", "two words"]);
        assert_eq!(any, ServerReply::Int(2), "a member may be called anything");
        let reply = client.words(&["FENCELOCK.ACQUIRE", "p", "600", "MEMBER", "two words"]);
        assert_eq!(member(&Grant::of(&reply)), "two words");
    }

    fn a_wait_for_a_member_that_is_not_there_ends_when_it_is_added(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let mut named = waiter(&server, "p", "600 WAIT 0 MEMBER late");
        let mut any = waiter(&server, "p", "600 WAIT 0 ANY");
        assert_eq!(client.lock("POOL ADD p early"), ServerReply::Int(1));
        assert_eq!(member(&Grant::of(&any.answer())), "early");
        assert_eq!(client.waiting("p"), 1);
        assert_eq!(client.lock("POOL ADD p early late"), ServerReply::Int(1), "one of them is new");
        assert_eq!(member(&Grant::of(&named.answer())), "late");
    }

    fn who_waits_for_one_member_does_not_hold_up_who_waits_for_another(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.lock("POOL ADD p a b");
        let (a, b) = (client.take("p 600 MEMBER a"), client.take("p 600 MEMBER b"));
        let mut for_a = waiter(&server, "p", "600 WAIT 0 MEMBER a");
        let mut for_b = waiter(&server, "p", "600 WAIT 0 MEMBER b");
        let mut for_any = waiter(&server, "p", "600 WAIT 0 ANY");
        client.give("p", &b);
        let b = Grant::of(&for_b.answer());
        assert_eq!(client.waiting("p"), 2);
        client.give("p", &b);
        assert_eq!(member(&Grant::of(&for_any.answer())), "b");
        client.give("p", &a);
        assert_eq!(member(&Grant::of(&for_a.answer())), "a");
    }

    fn a_held_member_that_is_removed_goes_at_its_release(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.lock("POOL ADD p free held");
        let grant = client.take("p 600 MEMBER held");
        assert_eq!(client.lock("POOL REM p free held nobody"), ServerReply::Int(2));
        assert_eq!(members(&mut client, "p"), [("held".to_owned(), "leaving".to_owned())]);
        assert!(client.renew("p", &grant).is_ok(), "its holder notices nothing");
        let mut waits = waiter(&server, "p", "600 WAIT 0 MEMBER held");
        client.give("p", &grant);
        assert_eq!(members(&mut client, "p"), []);
        assert_eq!(client.waiting("p"), 1, "it was not handed on");
        assert_eq!(client.lock("POOL REM p held"), ServerReply::Int(0));
        assert_eq!(client.lock("POOL ADD p held"), ServerReply::Int(1));
        assert_eq!(member(&Grant::of(&waits.answer())), "held");
        assert_eq!(members(&mut client, "p"), [("held".to_owned(), "held".to_owned())]);
    }

    fn a_member_that_is_leaving_stays_if_it_is_added_again(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.lock("POOL ADD p m");
        let grant = client.take("p 600 ANY");
        assert_eq!(client.lock("POOL REM p m"), ServerReply::Int(1));
        assert_eq!(client.lock("POOL ADD p m"), ServerReply::Int(1));
        client.give("p", &grant);
        assert_eq!(members(&mut client, "p"), [("m".to_owned(), "free".to_owned())]);
    }

    fn a_pool_that_is_full_takes_no_more(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let names: Vec<String> = (0..MEMBERS_MAX - 1).map(|n| n.to_string()).collect();
        let added = client.lock(&format!("POOL ADD p {}", names.join(" ")));
        assert_eq!(added, ServerReply::Int(MEMBERS_MAX - 1));
        assert_eq!(client.lock("POOL ADD p last too-many"), ServerReply::Int(1), "as far as it went");
        assert!(client.error("POOL ADD p too-many").starts_with("POOLFULL "));
        assert_eq!(client.lock("POOL ADD p last"), ServerReply::Int(0), "it is there");
        assert_eq!(client.lock("POOL REM p last"), ServerReply::Int(1));
        assert_eq!(client.lock("POOL ADD p another"), ServerReply::Int(1));
    }

    fn a_pool_that_is_empty_leaves_no_key(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        assert_eq!(client.lock("POOL REM p m"), ServerReply::Int(0));
        assert_eq!(client.lock("ACQUIRE p 600 ANY"), ServerReply::Nil);
        assert_eq!(client.say("EXISTS p"), ServerReply::Int(0));
        assert_eq!(client.lock("POOL ADD p m"), ServerReply::Int(1));
        assert_eq!(client.say("PTTL p"), ServerReply::Int(-1), "members stay until they are removed");
        assert_eq!(client.lock("POOL REM p m"), ServerReply::Int(1));
        assert_eq!(client.say("EXISTS p"), ServerReply::Int(0));
    }
}
