//! What `docs/kubernetes.md` gives to Kubernetes: it is YAML, it is whole, and what its containers run is a command
//! that works, with the password from where the manifest puts it. (No cluster looks at it.)

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;
use taketurns_servers::clients;
use taketurns_servers::{Flavor, Server, ServerReply};

use crate::docs::page::Page;
use crate::docs::place::PROGRAM;

/// What the page calls the server, and who logs in there.
const SERVER: &str = "redis.example:6379";
const USER: &str = "app";

/// The documents of a text, read by a parser of YAML that Kubernetes has nothing to do with.
fn documents(text: &str) -> Result<Vec<Value>, String> {
    let script =
        "import json, sys, yaml; json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)";
    let mut python = clients::python_program().expect("installed");
    python.args(["-c", script]);
    python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut python = python.spawn().expect("Python");
    python.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("read");
    let output = python.wait_with_output().expect("its end");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())
}

/// All manifests of the page, each with its line.
fn manifests() -> Vec<(usize, Value)> {
    let page = Page::read("docs/kubernetes.md");
    let blocks = page.blocks().into_iter().filter(|block| block.language == "yaml");
    let read = |block: crate::docs::page::Block| {
        let documents = documents(&block.text);
        let documents =
            documents.unwrap_or_else(|error| panic!("{}:{}: {error}", page.path, block.line));
        documents.into_iter().map(move |document| (block.line, document)).collect::<Vec<_>>()
    };
    blocks.flat_map(read).collect()
}

/// What a manifest says of pods, wherever it does.
fn pods(value: &Value) -> Vec<&Value> {
    let below: Vec<&Value> = match value {
        Value::Object(fields) => fields.values().collect(),
        Value::Array(values) => values.iter().collect(),
        _ => Vec::new(),
    };
    let own = value.get("containers").is_some().then_some(value);
    own.into_iter().chain(below.into_iter().flat_map(pods)).collect()
}

fn all<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

fn words(value: &Value, field: &str) -> Vec<String> {
    let word =
        |word: &Value| word.as_str().expect("a word, in quotes if it is a number").to_owned();
    all(value, field).iter().map(word).collect()
}

#[test]
fn every_manifest_says_what_it_is() {
    let manifests = manifests();
    assert!(manifests.len() >= 4, "{manifests:?}");
    for (line, manifest) in manifests {
        for field in ["/apiVersion", "/kind", "/metadata/name"] {
            let is_there = manifest.pointer(field).is_some_and(Value::is_string);
            assert!(is_there, "docs/kubernetes.md:{line}: {field} is missing");
        }
    }
}

#[test]
fn what_the_containers_run_works_with_the_password_that_is_mounted() {
    let manifests = manifests();
    let secrets: Vec<&Value> = manifests
        .iter()
        .map(|(_, manifest)| manifest)
        .filter(|manifest| manifest["kind"] == "Secret")
        .collect();
    let server = Server::start(Flavor::Redis).expect("a server");
    let mut ran = 0;
    for (line, manifest) in &manifests {
        for pod in pods(manifest) {
            for container in all(pod, "containers") {
                run(&server, pod, container, &secrets)
                    .unwrap_or_else(|why| panic!("docs/kubernetes.md:{line}: {why}"));
                ran += 1;
            }
        }
    }
    assert!(ran >= 2, "{ran}");
}

/// Runs what a container would, but for the command under the lock, which is ours.
fn run(server: &Server, pod: &Value, container: &Value, secrets: &[&Value]) -> Result<(), String> {
    let mut argv = [words(container, "command"), words(container, "args")].concat();
    let end = argv.iter().position(|word| word == "--").ok_or("it runs no command")?;
    argv.truncate(end + 1);
    if argv.remove(0) != "taketurns" {
        return Err("it does not run taketurns".to_owned());
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(PROGRAM);
    command.args(argv).args(["sh", "-c", "test -n \"$TAKETURNS_TOKEN\""]);
    for mount in all(container, "volumeMounts") {
        let secret = secret_of(pod, mount, secrets)?;
        for (name, text) in secret["stringData"].as_object().into_iter().flatten() {
            let text = text.as_str().ok_or("a secret is text")?;
            fs::write(folder.path().join(name), text).expect("written");
            let rule = format!(">{text}");
            let reply =
                server.cli(&["ACL", "SETUSER", USER, "reset", "on", &rule, "~*", "&*", "+@all"]);
            assert_eq!(reply, ServerReply::Simple("OK".to_owned()));
        }
        for variable in all(container, "env") {
            let [name, value] =
                ["name", "value"].map(|field| variable[field].as_str().unwrap_or_default());
            let path = mount["mountPath"].as_str().ok_or("it is mounted nowhere")?;
            let value = value.replace(SERVER, &format!("127.0.0.1:{}", server.port()));
            command.env(name, value.replace(path, folder.path().to_str().expect("text")));
        }
    }
    let output = command.output().expect("the program");
    let said = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("{}: {said}", output.status))
}

/// The secret behind a mount.
fn secret_of<'a>(pod: &Value, mount: &Value, secrets: &[&'a Value]) -> Result<&'a Value, String> {
    let volume = all(pod, "volumes").iter().find(|volume| volume["name"] == mount["name"]);
    let volume = volume.ok_or_else(|| format!("there is no volume {}", mount["name"]))?;
    let name = &volume["secret"]["secretName"];
    let secret = secrets.iter().find(|secret| secret["metadata"]["name"] == *name);
    secret.copied().ok_or_else(|| format!("there is no secret {name}"))
}
