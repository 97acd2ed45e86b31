//! A wait that times out just as the lock becomes free: the client gets the lock or the timeout,
//! and always a reply.

use taketurns_servers::{Connection, Flavor, Server, ServerReply, module_path, on_both};

fn acquire(client: &mut Connection, words: &str) {
    let text = format!("FENCELOCK.ACQUIRE {words}");
    let words: Vec<&str> = text.split(' ').collect();
    client.send(&words).expect("sent");
}

on_both! {
    fn a_wait_that_ends_with_the_lease_it_waits_for_is_answered(flavor: Flavor) {
        let module = module_path().expect("the module was built");
        let server = Server::builder(flavor).module(&module, &[]).start().expect("a server");
        let mut holder = server.connect().expect("a connection");
        let mut waiter = server.connect().expect("a connection");
        for round in 0..300 {
            acquire(&mut holder, &format!("k{round} 20 MS"));
            assert!(holder.read().expect("a grant").array().is_some());
            acquire(&mut waiter, &format!("k{round} 600 WAIT 0.020"));
            let reply = waiter.read().expect("a reply");
            assert!(reply == ServerReply::Nil || reply.array().is_some(), "{reply}");
        }
    }
}
