//! Work that is done once, by clients in any language; and locks that stay taken.

use taketurns_servers::{Flavor, ServerReply, on_both};

use crate::commands::client::{Client, Grant, crash, replica_of, server, waiter};

const WORK: &str = "ONCE 3600";

/// By whom the work was done, with which token and result.
#[track_caller]
fn done(reply: &ServerReply) -> (i64, String, String) {
    match reply.array() {
        Some(
            [
                word,
                ServerReply::Int(token),
                by,
                ServerReply::Int(at),
                ServerReply::Int(until),
                result,
            ],
        ) => {
            assert_eq!((word.text(), until - at), (Some("DONE"), 3_600_000), "{reply}");
            let text = |reply: &ServerReply| reply.text().expect("text").to_owned();
            (*token, text(by), text(result))
        }
        _ => panic!("it is not done: {reply}"),
    }
}

on_both! {
    fn everybody_is_told_who_did_the_work(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take(&format!("k 600 {WORK} LABEL web-3"));
        let mut waiting = waiter(&server, "k", &format!("600 WAIT 0 {WORK}"));
        assert_eq!(client.lock(&format!("ACQUIRE k 600 {WORK}")), ServerReply::Nil, "somebody does it");
        let Grant { secret, token, .. } = grant;
        assert_eq!(client.lock(&format!("DONE k {} {token}", secret - 1)), ServerReply::Nil);
        assert_eq!(client.lock(&format!("DONE k {secret} {}", token - 1)), ServerReply::Nil);
        let say = format!("DONE k {secret} {token} RESULT three");
        assert_eq!(client.lock(&say).text(), Some("OK"));
        assert_eq!(client.lock(&say).text(), Some("OK"), "sent again");
        let expected = (token, "web-3".to_owned(), "three".to_owned());
        assert_eq!(done(&waiting.answer()), expected);
        assert_eq!(done(&client.lock(&format!("ACQUIRE k 600 {WORK}"))), expected);
        assert_eq!(done(&client.lock(&format!("ACQUIRE k 600 {WORK} WAIT 0"))), expected);
        assert!(client.error("ACQUIRE k 600").starts_with("KIND the lock is in use as a once: use"));
        assert_eq!(client.lock("UNDO k"), ServerReply::Int(1));
        assert_eq!(client.lock("UNDO k"), ServerReply::Int(0));
        assert!(client.take(&format!("k 600 {WORK}")).token > token + 1);
    }

    fn work_that_failed_is_tried_again_until_the_limit(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let ask = format!("600 {WORK} ATTEMPTS 2");
        let first = client.take(&format!("k {ask}"));
        let mut waiting = waiter(&server, "k", &format!("{ask} WAIT 0"));
        let mut too_late = waiter(&server, "k", &format!("{ask} WAIT 0"));
        let fail = |grant: &Grant| format!("FAIL k {} {}", grant.secret, grant.token);
        assert_eq!(client.lock(&fail(&first)).text(), Some("OK"));
        let second = Grant::of(&waiting.answer());
        assert_eq!(client.lock(&fail(&first)), ServerReply::Nil, "it is another's turn");
        assert_eq!(client.lock(&format!("RELEASE k {}", second.secret)).text(), Some("OK"));
        assert!(too_late.answer().error().is_some_and(|error| error.starts_with("EXHAUSTED ")));
        assert!(client.error(&format!("ACQUIRE k {ask}")).starts_with("EXHAUSTED its work failed 2"));
    }

    fn a_lock_stays_taken_for_at_least_so_long(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        let grant = client.take("k 600 ATLEAST 600");
        client.give("k", &grant);
        assert_eq!(client.lock("ACQUIRE k 600"), ServerReply::Nil);
        assert_eq!(client.lock("BREAK k"), ServerReply::Int(1));
        client.take("k 600");
    }

    fn what_makes_no_sense_is_an_error(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        for line in ["ONCE 0", "ONCE 2678401", "ONCE 60 PERIOD 60", "ONCE 60 ATTEMPTS 0", "ONCE 60 ATLEAST 5"] {
            let error = client.error(&format!("ACQUIRE k 5 {line}"));
            assert!(error.starts_with("ERR ONCE takes seconds"), "{line}: {error}");
        }
        for line in ["ACQUIRE k 5 PAUSE 5", "DONE k 5 9 RESULT", "DONE k 5 9 TEXT x", "FAIL k 5"] {
            assert!(client.error(line).starts_with("ERR "), "{line}");
        }
        assert!(client.error("DONE k 5 9").starts_with("NOTHELD"), "nobody does it");
        let long = format!("DONE k 5 9 RESULT {}", "x".repeat(257));
        assert!(client.error(&long).starts_with("ERR a result is at most 256 bytes"));
    }

    fn what_is_done_is_on_a_replica_and_in_the_log(flavor: Flavor) {
        let master = server(flavor);
        let replica = replica_of(&master);
        let mut client = Client::of(&master);
        let grant = client.take(&format!("k 600 {WORK}"));
        let line = format!("DONE k {} {} RESULT three", grant.secret, grant.token);
        assert_eq!(client.lock(&line).text(), Some("OK"));
        let failed = client.take(&format!("f 600 {WORK} ATTEMPTS 1"));
        client.lock(&format!("FAIL f {} {}", failed.secret, failed.token));
        assert_eq!(client.words(&["WAIT", "1", "0"]), ServerReply::Int(1));
        let of = |client: &mut Client| client.words(&["DEBUG", "DIGEST-VALUE", "k", "f"]).to_string();
        let mut other = Client::of(&replica);
        assert_eq!(of(&mut client), of(&mut other), "both have the same state");
        crash(&master);
        assert_eq!(other.words(&["REPLICAOF", "NO", "ONE"]).text(), Some("OK"));
        let (token, _, result) = done(&other.lock(&format!("ACQUIRE k 600 {WORK}")));
        assert_eq!((token, result.as_str()), (grant.token, "three"));
        assert!(other.error(&format!("ACQUIRE f 600 {WORK} ATTEMPTS 1")).starts_with("EXHAUSTED "));
    }
}
