//! A program that dies at the head of a queue delays the others by at most its waiter lease, even
//! if nothing else happens to the lock: the waiters behind it are blocked and can't ask.

use taketurns_servers::{Flavor, on_both};

use crate::attack::line::{Line, asks, builder};

on_both! {
    fn a_reader_behind_a_writer_that_died_reads_beside_the_others(flavor: Flavor) {
        let server = builder(flavor).start().expect("a server");
        let (mut holder, mut program) = (Line::to(&server), Line::to(&server));
        holder.take("k 3600 SHARED");
        let binding = program.bind(&server);
        let reply = program.does("k", &binding, &asks(7, "w", 1_000, 1_000));
        assert!(reply.contains(" Q "), "{reply}");
        Line::to(&server).take("k 600 SHARED WAIT 0");
        assert_eq!(holder.number("k", "waiting"), 0);
    }

    fn one_who_wants_few_permits_is_served_behind_a_dead_one_who_wants_many(flavor: Flavor) {
        let server = builder(flavor).start().expect("a server");
        let (mut holder, mut program) = (Line::to(&server), Line::to(&server));
        holder.take("k 3600 PERMITS 2 4");
        let binding = program.bind(&server);
        // Two dead programs; the second dies later.
        for (number, waiter_lease_ms) in [(7, 1_000), (8, 1_500)] {
            let reply = program.does("k", &binding, &asks(number, "s3/4", 1_000, waiter_lease_ms));
            assert!(reply.contains(" Q "), "{reply}");
        }
        Line::to(&server).take("k 600 PERMITS 2 4 WAIT 0");
    }
}
