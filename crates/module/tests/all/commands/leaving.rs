//! Clients that leave the queue: they disconnect, are killed or unblocked, and the waiters behind
//! them move up.

use taketurns_servers::{Flavor, Server, ServerReply, eventually, on_both};

use crate::commands::client::{Client, Grant, connection_at, info, is_error, server, waiter};

/// A held lock with five waiters.
struct Queue {
    server: Server,
    holder: Client,
    grant: Grant,
    waiters: Vec<Option<Client>>,
}

impl Queue {
    fn new(flavor: Flavor) -> Self {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let grant = holder.take("k 600");
        let waiters = (0..5).map(|_| Some(waiter(&server, "k", "600 WAIT 0"))).collect();
        Self { server, holder, grant, waiters }
    }

    /// Asserts that only the remaining waiters are granted the lock, in order.
    #[track_caller]
    fn goes_on(mut self) {
        let here = self.waiters.iter().flatten().count();
        self.holder.until_waiting("k", here as i64);
        for mut client in self.waiters.into_iter().flatten() {
            self.holder.give("k", &self.grant);
            self.grant = Grant::of(&client.answer());
        }
        self.holder.give("k", &self.grant);
        assert_eq!(info(&self.server, "blocked_clients"), 0);
        assert_eq!(info(&self.server, "hand_overs"), here as u64);
    }
}

on_both! {
    fn who_hangs_up_at_the_head_is_passed_by(flavor: Flavor) {
        let mut queue = Queue::new(flavor);
        queue.waiters[0] = None;
        queue.goes_on();
    }

    fn who_hangs_up_in_the_middle_is_passed_by(flavor: Flavor) {
        let mut queue = Queue::new(flavor);
        (queue.waiters[1], queue.waiters[3]) = (None, None);
        queue.goes_on();
    }

    fn when_all_hang_up_the_lock_is_free_afterwards(flavor: Flavor) {
        let mut queue = Queue::new(flavor);
        queue.waiters.clear();
        queue.holder.until_waiting("k", 0);
        queue.holder.give("k", &queue.grant);
        queue.holder.take("k 600");
        assert_eq!(info(&queue.server, "blocked_clients"), 0);
    }

    fn who_hangs_up_makes_way_for_those_whom_it_held_up(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        client.take("k 600 SHARED");
        let writer = waiter(&server, "k", "600 WAIT 0 EXCLUSIVE");
        let mut reader = waiter(&server, "k", "600 WAIT 0 SHARED");
        drop(writer);
        // Nobody sends anything: the server itself must grant it.
        Grant::of(&reader.answer());
    }

    fn who_is_killed_is_passed_by(flavor: Flavor) {
        for at in [0, 2] {
            let mut queue = Queue::new(flavor);
            let id = connection_at(&mut queue.holder, "k", at);
            assert_eq!(queue.holder.say(&format!("CLIENT KILL ID {id}")), ServerReply::Int(1));
            let mut killed = queue.waiters[at].take().expect("a waiter");
            assert_eq!(killed.answer_or_end(), None);
            queue.goes_on();
        }
    }

    fn who_is_unblocked_is_told_and_passed_by(flavor: Flavor) {
        for at in [0, 2] {
            let mut queue = Queue::new(flavor);
            let id = connection_at(&mut queue.holder, "k", at);
            assert_eq!(queue.holder.say(&format!("CLIENT UNBLOCK {id} TIMEOUT")), ServerReply::Int(1));
            let mut waiter = queue.waiters[at].take().expect("a waiter");
            assert_eq!(waiter.answer(), ServerReply::Nil, "as if its time was up");
            assert_eq!(waiter.say("PING").text(), Some("PONG"));
            let id = connection_at(&mut queue.holder, "k", at);
            assert_eq!(queue.holder.say(&format!("CLIENT UNBLOCK {id} ERROR")), ServerReply::Int(1));
            let mut waiter = queue.waiters[at + 1].take().expect("a waiter");
            let reply = waiter.answer();
            assert!(is_error(&reply, "UNBLOCKED"), "{reply}");
            assert_eq!(waiter.say("PING").text(), Some("PONG"));
            queue.goes_on();
        }
    }

    fn who_left_may_come_again_at_the_end(flavor: Flavor) {
        let mut queue = Queue::new(flavor);
        let id = connection_at(&mut queue.holder, "k", 0);
        queue.holder.say(&format!("CLIENT UNBLOCK {id}"));
        let mut again = queue.waiters.remove(0).expect("a waiter");
        assert_eq!(again.answer(), ServerReply::Nil);
        queue.holder.until_waiting("k", 4);
        again.begin("ACQUIRE k 600 WAIT 0");
        queue.holder.until_waiting("k", 5);
        queue.waiters.push(Some(again));
        queue.goes_on();
    }

    fn a_process_that_is_killed_while_it_waits_is_passed_by(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let grant = holder.take("k 600");
        let mut process = server.redis_cli();
        let process = process.args(["FENCELOCK.ACQUIRE", "k", "600", "WAIT", "0"]);
        let mut process = process.stdout(std::process::Stdio::null()).spawn().expect("a client");
        holder.until_waiting("k", 1);
        let mut next = waiter(&server, "k", "600 WAIT 0");
        process.kill().expect("it is killed");
        process.wait().expect("it ends");
        holder.until_waiting("k", 1);
        holder.give("k", &grant);
        Grant::of(&next.answer());
    }

    fn nothing_is_left_of_a_thousand_who_left(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = Client::of(&server);
        let grant = holder.take("k 600");
        for round in 0..20 {
            let mut clients: Vec<Client> = (0..50).map(|_| Client::of(&server)).collect();
            let bound = if round % 2 == 0 { "" } else { " BOUND" };
            clients
                .iter_mut()
                .for_each(|client| client.begin(&format!("ACQUIRE k 600 WAIT 0{bound}")));
            holder.until_waiting("k", 50);
            drop(clients);
            holder.until_waiting("k", 0);
        }
        holder.give("k", &grant);
        let left =
            || (info(&server, "blocked_clients") + info(&server, "bound_locks") == 0).then_some(());
        eventually("nobody is left", left).expect("nobody");
        assert_eq!(info(&server, "hand_overs"), 0);
    }
}
