//! Clients in other languages: each is there, of the version that was asked for, and reaches a
//! server.

use std::process::Command;

use taketurns_servers::clients::{
    Environment, IOREDIS, Library, NODE_REDLOCK, PYTHON, REDIS_PY, REDLOCK_PY, node, python,
};
use taketurns_servers::{Flavor, Server, SetupError, on_both};

const PYTHON_PING: &str = "
import sys, redis
client = redis.Redis.from_url(sys.argv[1])
print(redis.__version__, client.ping(), sys.argv[2])
";

const NODE_PING: &str = r#"
const [url, word] = process.argv.slice(1);
const client = new (require("ioredis"))(url);
client.ping().then((pong) => {
  console.log(require("ioredis/package.json").version, pong, word);
  client.disconnect();
});
"#;

fn said(mut command: Command) -> String {
    let output = command.output().expect("it is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

on_both! {
    fn python_reaches_a_server(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let command = python(PYTHON_PING, [&server.url(), "--two words"]).expect("redis-py");
        assert_eq!(said(command), format!("{} True --two words\n", REDIS_PY.version));
    }

    fn node_reaches_a_server(flavor: Flavor) {
        let server = Server::start(flavor).expect("a server");
        let command = node(NODE_PING, [&server.url(), "--two words"]).expect("ioredis");
        assert_eq!(said(command), format!("{} PONG --two words\n", IOREDIS.version));
    }
}

#[test]
fn redlock_is_there_for_both() {
    let script = "import importlib.metadata as m, redlock; print(m.version('redlock-py'))";
    let none: [&str; 0] = [];
    let command = python(script, none).expect("redlock-py");
    assert_eq!(said(command), format!("{}\n", REDLOCK_PY.version));
    // Its package does not let itself be asked, so it is made to do something first.
    let script = r#"
const { default: Redlock } = require("redlock");
new Redlock([{}]);
const file = require.resolve("redlock").replace("dist/cjs/index.js", "package.json");
console.log(JSON.parse(require("fs").readFileSync(file)).version);
"#;
    let command = node(script, none).expect("node-redlock");
    assert_eq!(said(command), format!("v{}\n", NODE_REDLOCK.version), "as it has it itself");
}

#[test]
fn another_version_is_not_taken_for_the_one_that_is_wanted() {
    const OTHER: Environment =
        Environment { libraries: &[Library { version: "0.0.1", ..REDIS_PY }], ..PYTHON };
    let error = OTHER.find().expect_err("nobody installs that");
    assert!(matches!(error, SetupError::NoEnvironment(environment) if environment == OTHER));
    assert_eq!(
        error.to_string(),
        "the python libraries are missing (redis 0.0.1): `cargo xtask test` installs them"
    );
}
