//! What the server knows about the commands: keys, flags, categories. A Cluster routes by them.

use taketurns_servers::{Cluster, Flavor, ServerReply, module_path, on_both, slot_of};

use crate::commands::client::{Client, Grant, is_error, server};

/// A command: words to try it with, the position of its key, its arity, flags, and categories.
struct Command {
    line: &'static str,
    key: i64,
    arity: i64,
    flags: &'static [&'static str],
    categories: &'static [&'static str],
}

const fn command(
    line: &'static str,
    key: i64,
    arity: i64,
    flags: &'static [&'static str],
    categories: &'static [&'static str],
) -> Command {
    Command { line, key, arity, flags, categories }
}

const COMMANDS: [Command; 15] = [
    command(
        "acquire lk 5",
        1,
        -3,
        &["write", "denyoom", "fast", "blocking"],
        &["write", "fast", "blocking"],
    ),
    command("release lk 5", 1, 3, &["write", "fast"], &["write", "fast"]),
    command("renew lk 5 5", 1, -4, &["write", "fast"], &["write", "fast"]),
    command("done lk 5 9", 1, -4, &["write", "fast"], &["write", "fast"]),
    command("fail lk 5 9", 1, 4, &["write", "fast"], &["write", "fast"]),
    command("undo lk", 1, 2, &["write", "fast"], &["write", "fast"]),
    command("check lk 5", 1, 3, &["write", "denyoom", "fast"], &["write", "fast"]),
    command("show lk", 1, -2, &["readonly"], &["read", "slow"]),
    command("list", 0, -1, &["readonly"], &["read", "slow"]),
    command("break lk", 1, -2, &["write"], &["write", "slow", "dangerous"]),
    command("pool add lk m", 2, -4, &["write"], &["write", "slow"]),
    command("help", 0, 1, &["loading", "stale", "fast"], &["fast"]),
    command("bind r k m mk 0 0 c", 0, 8, &["fast"], &["fast"]),
    command("do lk b tick", 1, -4, &["write", "fast"], &["write", "fast"]),
    command(
        "apply lk e",
        1,
        3,
        &["write", "skip_monitor", "skip_slowlog"],
        &["write", "slow", "admin", "dangerous"],
    ),
];

impl Command {
    fn name(&self) -> String {
        format!("fencelock.{}", self.line.split(' ').next().unwrap_or_default())
    }

    fn words(&self) -> Vec<String> {
        format!("FENCELOCK.{}", self.line).split(' ').map(str::to_owned).collect()
    }

    fn writes(&self) -> bool {
        self.flags.contains(&"write")
    }
}

/// The texts of an array.
fn texts(reply: &ServerReply) -> Vec<&str> {
    reply.array().expect("an array").iter().filter_map(ServerReply::text).collect()
}

on_both! {
    fn the_server_knows_keys_and_flags_of_every_command(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        for command in &COMMANDS {
            let name = command.name();
            let info = client.words(&["COMMAND", "INFO", &name]);
            let info = info.array().expect("one").first().expect("one").array().expect(&name);
            let named = info[0].text().expect("a name");
            assert!(named.eq_ignore_ascii_case(&name), "{named}");
            assert_eq!(info[1].int(), Some(command.arity), "{name}");
            let flags = texts(&info[2]);
            for flag in command.flags {
                assert!(flags.contains(flag), "{name} is {flag}: {flags:?}");
            }
            for flag in ["write", "readonly", "denyoom", "fast", "blocking", "noscript"] {
                assert_eq!(flags.contains(&flag), command.flags.contains(&flag), "{name}: {flag}");
            }
            let place = [command.key, command.key, i64::from(command.key > 0)];
            assert_eq!(
                [3, 4, 5].map(|at: usize| info[at].int().expect("a number")),
                place,
                "{name}"
            );
        }
        let all = client.words(&["COMMAND", "LIST", "FILTERBY", "MODULE", "fencelock"]);
        assert_eq!(texts(&all).len(), COMMANDS.len(), "no other");
    }

    fn the_server_finds_the_key_of_every_command(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        for command in &COMMANDS {
            let words = command.words();
            let mut asked = vec!["COMMAND".to_owned(), "GETKEYS".to_owned()];
            asked.extend_from_slice(&words);
            let keys = client.words(&asked);
            asked[1] = "GETKEYSANDFLAGS".to_owned();
            let flagged = client.words(&asked);
            if command.key == 0 {
                assert!(keys.error().is_some() && flagged.error().is_some(), "{words:?}: {keys}");
                continue;
            }
            assert_eq!(texts(&keys), ["lk"], "{words:?}");
            let pair = flagged.array().expect("one")[0].array().expect("a pair").to_vec();
            assert_eq!(pair[0].text(), Some("lk"));
            let flags = texts(&pair[1]);
            let expected: &[&str] =
                if command.writes() { &["RW", "access", "update"] } else { &["RO", "access"] };
            assert_eq!(flags, expected, "{words:?}");
        }
    }

    fn the_commands_are_in_their_categories(flavor: Flavor) {
        let server = server(flavor);
        let mut client = Client::of(&server);
        assert!(client.say("ACL SETUSER u on nopass ~* &* -@all +@write -@dangerous").is_ok());
        for command in &COMMANDS {
            let name = command.name();
            let info = client.words(&["COMMAND", "INFO", &name]);
            let info = info.array().expect("one").first().expect("one").array().expect(&name);
            let mut listed: Vec<&str> = texts(&info[6])
                .into_iter()
                .map(|category| category.trim_start_matches('@'))
                .collect();
            // Before 7.2, Redis modules can't set categories: users are given commands by name.
            let is_told = flavor == Flavor::Valkey;
            let mut expected = if is_told { command.categories.to_vec() } else { Vec::new() };
            listed.sort_unstable();
            expected.sort_unstable();
            assert_eq!(listed, expected, "{name}");
            let mut asked = vec!["ACL".to_owned(), "DRYRUN".to_owned(), "u".to_owned()];
            asked.extend(command.words());
            let may = expected.contains(&"write") && !expected.contains(&"dangerous");
            assert_eq!(client.words(&asked).is_ok(), may, "{name}");
        }
    }

    fn what_a_user_may_do_is_given_by_command_and_key(flavor: Flavor) {
        let server = server(flavor);
        let mut admin = Client::of(&server);
        let rules = "ACL SETUSER u on >x ~lk:* -@all +fencelock.acquire +fencelock.show";
        assert!(admin.say(rules).is_ok());
        let mut user = Client::user(&server, "u", "x");
        user.take("lk:a 600");
        assert!(user.lock("SHOW lk:a").array().is_some());
        for line in
            ["ACQUIRE other 600", "SHOW other", "RELEASE lk:a 5", "LIST", "HELP", "POOL ADD lk:a m"]
        {
            let error = user.error(line);
            assert!(error.starts_with("NOPERM "), "{line}: {error}");
        }
        let rules = "ACL SETUSER r on >x %R~lk:* -@all +fencelock.acquire +fencelock.show";
        assert!(admin.say(rules).is_ok());
        let mut reader = Client::user(&server, "r", "x");
        assert!(reader.lock("SHOW lk:a").array().is_some());
        assert!(reader.error("ACQUIRE lk:b 600").starts_with("NOPERM "), "it may read keys alone");
    }

    fn a_cluster_routes_by_the_key(flavor: Flavor) {
        let module = module_path().expect("the module is built");
        let cluster = Cluster::builder(flavor).module(&module, &[]).start().expect("a cluster");
        let mut nodes: Vec<Client> = cluster.nodes.iter().map(Client::of).collect();
        for key in ["a", "b", "c", "{a}b", "foo", "bar"] {
            let slot = slot_of(key);
            let owner = cluster.owner_of(slot).expect("an owner");
            let grant = nodes[owner].take(&format!("{key} 600"));
            for (at, node) in nodes.iter_mut().enumerate() {
                for command in COMMANDS.iter().filter(|command| command.key > 0) {
                    let mut words = command.words();
                    words[usize::try_from(command.key).expect("a place")] = key.to_owned();
                    let reply = node.words(&words);
                    let moved = is_error(&reply, "MOVED");
                    assert!(!moved || reply.to_string().contains(&format!(" {slot} ")), "{reply}");
                    assert_eq!(moved, at != owner, "{words:?} at {at}: {reply}");
                }
                assert!(node.lock("HELP").array().is_some());
                assert!(node.lock("LIST").array().is_some());
            }
            // The commands above broke it at its owner.
            let error = nodes[owner].error(&format!("RENEW {key} {} 5", grant.secret));
            assert!(error.starts_with("REVOKED "), "{key}: {error}");
            nodes[owner].give(key, &grant);
            let taken = nodes[owner].lock(&format!("ACQUIRE {key} 600 WAIT 0"));
            assert!(Grant::of(&taken).token > grant.token);
        }
    }
}
