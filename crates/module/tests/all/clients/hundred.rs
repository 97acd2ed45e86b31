//! A hundred clients of one kind wait at once, and each has its turn.

use taketurns_servers::{Flavor, ServerReply, clients, on_both};

use crate::clients::party::Process;
use crate::clients::{KEY, server, show};

const COUNT: usize = 100;

on_both! {
    fn a_hundred_that_wait_are_granted_in_the_order_in_which_they_came(flavor: Flavor) {
        let server = server(flavor);
        let mut holder = server.connect().expect("a connection");
        let grant = holder.command(&["FENCELOCK.ACQUIRE", KEY, "600"]).expect("a reply");
        let [secret, mut last] = [0, 1].map(|at| grant.array().and_then(|all| all[at].int()));
        let program = include_str!("programs/hundred.py");
        let command = clients::python(program, [&server.url(), KEY, &COUNT.to_string()]);
        let mut program = Process::start(command.expect("redis-py"));
        for number in 0..COUNT {
            assert_eq!(program.line(), format!("queued {number}"));
        }
        let shown = show(&server);
        let waiters = shown.field("waiters").and_then(ServerReply::array).expect("waiters");
        let labels: Vec<_> = waiters.iter().filter_map(|one| one.field("label")?.text()).collect();
        let came: Vec<_> = (0..COUNT).map(|number| format!("client-{number}")).collect();
        assert_eq!(labels, came);
        let secret = secret.expect("granted").to_string();
        let released = holder.command(&["FENCELOCK.RELEASE", KEY, &secret]).expect("a reply");
        assert!(released.is_ok(), "{released}");
        for number in 0..COUNT {
            let line = program.line();
            let token = line.strip_prefix(&format!("granted {number} "));
            let token = token.unwrap_or_else(|| panic!("{number} is next, and not: {line}"));
            let token = token.parse().ok();
            assert!(token > last, "{token:?} after {last:?}");
            last = token;
        }
    }
}
