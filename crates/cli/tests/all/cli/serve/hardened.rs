//! What keeps the server up, and what it refuses.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use taketurns_servers::Certificates;

use super::http::{ask, get};
use super::{Serving, TOKEN, command};
use crate::cli::helper::{Done, HANG, Running, Store, until};

/// As many viewers as the server allows.
const STREAMS_MAX: usize = 256;

fn curl(args: &[&str]) -> Done {
    Done::of(Command::new("curl").args(["--silent", "--show-error"]).args(args))
}

fn breaks(at: &str, order: &Value) -> super::http::Answer {
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Content-Type", "application/json"), ("Authorization", bearer.as_str())];
    ask(at, "POST", "/api/break", &headers, &order.to_string())
}

#[test]
fn a_unix_socket_is_served_and_removed() {
    let store = Store::new();
    let socket = store.path("locks.sock");
    let listen = format!("unix:{}", socket.display());
    let mut serving =
        Running::start(&mut store.command(&["serve", "--every", "0.2", "--listen", &listen]));
    assert!(serving.line().starts_with(&listen));
    let socket_path = socket.to_str().expect("text");
    let asks =
        |host: &str| curl(&["--unix-socket", socket_path, &format!("http://{host}/api/status")]);
    until("it has looked", || asks("localhost").json()["up"] == true);
    assert!(asks("evil.example").stdout.contains("does not go by that name"));
    store.run(&["serve", "--listen", &listen]).failed(69, "another server listens there");
    serving.signal(Signal::TERM);
    assert_eq!(serving.code(), 0);
    assert!(!socket.exists());
    store.run(&["serve", "--listen", "unix:/nonexistent/x"]).failed(69, "can't be listened on");
}

#[test]
fn over_tls_a_renewed_certificate_needs_no_restart() {
    let (store, old, new) =
        (Store::new(), Certificates::new().unwrap(), Certificates::new().unwrap());
    let (cert, key) = (store.path("cert.pem"), store.path("key.pem"));
    let install = |from: &Certificates| {
        fs::copy(from.server_key(), &key).unwrap();
        fs::copy(from.server_cert(), &cert).unwrap();
    };
    install(&old);
    let (cert_path, key_path) = (cert.to_str().unwrap(), key.to_str().unwrap());
    let args = ["--tls-cert", cert_path, "--tls-key", key_path];
    let mut serving = Running::start(&mut command(&store, &args));
    let line = serving.line();
    let url = line.split(' ').next().unwrap();
    assert!(url.starts_with("https://127.0.0.1:"), "{line}");
    let openapi = format!("{}openapi.json", url.replace("127.0.0.1", "localhost"));
    let trusting = |ca: &Path| curl(&["--fail", "--cacert", ca.to_str().unwrap(), &openapi]);
    trusting(&old.ca()).ok();
    assert_ne!(trusting(&new.ca()).code, 0);
    install(&new);
    trusting(&new.ca()).ok();
    // Half a certificate: what was read before stays.
    fs::write(&cert, "-----BEGIN CERTIFICATE-----\n").unwrap();
    trusting(&new.ca()).ok();
    assert_ne!(curl(&["--fail", &openapi.replace("https", "http")]).code, 0);

    let serve = |args: &[&str]| store.run(&[&["serve", "--listen", "127.0.0.1:0"], args].concat());
    serve(&args).failed(64, "cert.pem");
    serve(&["--tls-cert", key_path, "--tls-key", key_path]).failed(64, "key.pem");
    serve(&["--tls-cert", cert_path]).failed(64, "--tls-key");
}

#[test]
fn a_server_that_only_shows_breaks_nothing() {
    let store = Store::new();
    let serving = Serving::start(&store, &["--read-only"]);
    let _holder = store.hold(&["door"]);
    let refused = breaks(&serving.at, &json!({"name": "door", "why": "a test"}));
    assert_eq!(refused.status, 403);
    assert!(refused.error().contains("--read-only"), "{refused:?}");
    assert_eq!(store.show("door")["holders"][0]["broken"], false);
    assert_eq!(get(&serving.at, "/api/status").json()["can_break"], false);
}

#[test]
fn a_break_is_in_the_audit_log_or_is_not_carried_out() {
    let store = Store::new();
    let log = store.path("audit.log");
    let serving = Serving::start(&store, &["--audit-log", log.to_str().unwrap()]);
    let mut holder = store.hold(&["door"]);
    let order = json!({"name": "door", "why": "its host is gone"});
    assert_eq!(breaks(&serving.at, &json!({"name": "door", "why": ""})).status, 400);
    assert_eq!(breaks(&serving.at, &order).status, 200);
    assert_eq!(holder.code(), 76);
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let field = |name: &str| -> Vec<&Value> { lines.iter().map(|line| &line[name]).collect() };
    assert_eq!(field("event"), ["asked", "ended"]);
    assert_eq!(field("why"), ["its host is gone"; 2]);
    assert_eq!(field("broken"), [&Value::Null, &json!(1)]);
    assert!(text.contains("\"peer\":\"127.0.0.1:") && !text.contains(TOKEN), "{text}");

    // A directory in its place can't be written.
    fs::rename(&log, store.path("audit.log.1")).unwrap();
    fs::create_dir(&log).unwrap();
    let _holder = store.hold(&["door"]);
    let refused = breaks(&serving.at, &order);
    assert_eq!(refused.status, 500);
    assert!(refused.error().contains("nothing is broken"), "{refused:?}");
    assert_eq!(store.show("door")["holders"][0]["broken"], false);
    let wrong = store.run(&["serve", "--listen", "127.0.0.1:0", "--audit-log", "/nonexistent/x"]);
    wrong.failed(69, "--audit-log /nonexistent/x: can't write it");
}

#[test]
fn a_header_that_is_there_twice_is_refused() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let host = ("Host", serving.at.as_str());
    let twice = ask(&serving.at, "GET", "/api/status", &[host, ("Host", "evil.example")], "");
    assert_eq!(twice.status, 400);
    let origin = format!("http://{}", serving.at);
    let origins = [("Origin", origin.as_str()), ("Origin", "http://evil.example")];
    assert_eq!(ask(&serving.at, "GET", "/api/status", &origins, "").status, 400);
    assert_eq!(get(&serving.at, "/api/status").status, 200);
}

#[test]
fn there_are_no_more_viewers_than_the_server_allows() {
    let store = Store::new();
    let serving = Serving::start(&store, &[]);
    let watch = || {
        let mut stream = TcpStream::connect(&serving.at).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        write!(stream, "GET /api/events HTTP/1.1\r\nHost: {}\r\n\r\n", serving.at).unwrap();
        let mut status = String::new();
        BufReader::new(&stream).read_line(&mut status).unwrap();
        (status, stream)
    };
    let mut viewers: Vec<_> = (0..STREAMS_MAX).map(|_| watch()).collect();
    assert!(viewers.iter().all(|(status, _)| status.contains(" 200 ")));
    assert!(watch().0.contains(" 503 "));
    assert_eq!(get(&serving.at, "/api/status").status, 200, "other requests are answered");
    viewers.pop();
    until("there is a place again", || watch().0.contains(" 200 "));
}
