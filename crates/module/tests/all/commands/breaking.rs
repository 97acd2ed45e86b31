//! Breaking a lock that somebody else holds.

use taketurns_servers::{Flavor, ServerReply, on_both};

use crate::commands::client::{Client, Grant, server, waiter};

/// Returns the states of a lock's holders.
fn states(client: &mut Client, key: &str) -> Vec<String> {
    let state =
        |holder: &ServerReply| holder.field("state").and_then(ServerReply::text).map(str::to_owned);
    client.holders(key).iter().filter_map(state).collect()
}

on_both! {
    fn a_broken_lock_is_not_renewed_and_is_held_until_its_deadline(flavor: Flavor) {
        let server = server(flavor);
        let (mut holder, mut other) = (Client::of(&server), Client::of(&server));
        let grant = holder.take("k 600");
        assert_eq!(other.lock("BREAK k"), ServerReply::Int(1));
        assert_eq!(states(&mut other, "k"), ["revoked"]);
        assert_eq!(other.lock("ACQUIRE k 600"), ServerReply::Nil, "it is still held");
        let error = holder.error(&format!("RENEW k {} 600", grant.secret));
        assert!(error.starts_with("REVOKED "), "{error}");
        holder.give("k", &grant);
        other.take("k 600");
    }

    fn a_broken_lock_passes_on_at_its_deadline(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let grant = holder.take("k 3");
        let mut next = waiter(&server, "k", "600 WAIT 0");
        assert_eq!(Client::of(&server).lock("BREAK k"), ServerReply::Int(1));
        assert_eq!(Client::of(&server).waiting("k"), 1, "not at once");
        assert!(Grant::of(&next.answer()).token > grant.token);
        assert_eq!(holder.renew("k", &grant), ServerReply::Nil);
    }

    fn a_lock_that_is_broken_now_passes_on_at_once(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let grant = holder.take("k 600");
        let mut next = waiter(&server, "k", "600 WAIT 0");
        assert_eq!(Client::of(&server).lock("BREAK k NOW"), ServerReply::Int(1));
        let passed = Grant::of(&next.answer());
        assert!(passed.token > grant.token);
        for line in [format!("RENEW k {} 600", grant.secret), format!("RELEASE k {}", grant.secret)]
        {
            assert_eq!(holder.lock(&line), ServerReply::Nil, "{line}");
        }
        assert!(next.renew("k", &passed).is_ok());
    }

    fn one_of_several_holders_is_broken_by_its_token(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grants = [(); 3].map(|()| client.take("k 600 SHARED"));
        assert_eq!(client.lock(&format!("BREAK k TOKEN {} NOW", grants[1].token)), ServerReply::Int(1));
        assert_eq!(client.lock(&format!("BREAK k now token {}", grants[1].token)), ServerReply::Int(0));
        assert_eq!(client.lock(&format!("BREAK k TOKEN {}", grants[2].token)), ServerReply::Int(1));
        assert_eq!(client.lock("BREAK k TOKEN 1"), ServerReply::Int(0));
        assert_eq!(states(&mut client, "k"), ["held", "revoked"]);
        assert!(client.renew("k", &grants[0]).is_ok());
        assert_eq!(client.renew("k", &grants[1]), ServerReply::Nil);
        assert_eq!(client.lock("BREAK k NOW"), ServerReply::Int(2), "all that are left");
        assert!(client.error(&format!("RENEW k {} 1", grants[0].secret)).starts_with("NOTHELD "));
    }

    fn a_lock_that_nobody_holds_can_not_be_broken(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        assert_eq!(client.lock("BREAK k"), ServerReply::Int(0));
        assert_eq!(client.lock("BREAK k NOW"), ServerReply::Int(0));
        assert_eq!(client.say("EXISTS k"), ServerReply::Int(0));
        for wrong in ["LATER", "TOKEN", "NOW NOW", "TOKEN 1 TOKEN 1"] {
            let error = client.error(&format!("BREAK k {wrong}"));
            assert!(error.starts_with("ERR syntax error"), "{wrong}: {error}");
        }
        for wrong in ["0", "-1", "x", "9007199254740992", "18446744073709551617"] {
            let error = client.error(&format!("BREAK k TOKEN {wrong}"));
            assert!(error.starts_with("ERR the token is an integer"), "{wrong}: {error}");
        }
    }

    fn to_break_needs_the_right_to_delete_the_key(flavor: Flavor) {
        let rules = [
            "plain on >x ~k +fencelock.break +fencelock.show",
            "reader on >x %R~k +fencelock.break +del",
            "elsewhere on >x ~other +fencelock.break +del",
            "breaker on >x ~k +fencelock.break +del",
        ];
        let started = rules
            .into_iter()
            .fold(crate::commands::client::builder(flavor, &[]), |builder, rules| builder.acl_user(rules));
        let server = started.start().expect("a server");
        let mut holder = Client::of(&server);
        let grant = holder.take("k 600");
        for name in ["plain", "reader", "elsewhere"] {
            for line in ["BREAK k", "BREAK k NOW"] {
                let error = Client::user(&server, name, "x").error(line);
                assert!(error.starts_with("NOPERM "), "{name}, {line}: {error}");
            }
            assert!(holder.renew("k", &grant).is_ok(), "{name}");
        }
        assert_eq!(Client::user(&server, "breaker", "x").lock("BREAK k NOW"), ServerReply::Int(1));
        assert!(holder.error(&format!("RENEW k {} 1", grant.secret)).starts_with("NOTHELD "));
    }
}
