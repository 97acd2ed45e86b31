//! A real browser, told what to do by WebDriver.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use taketurns_servers::Port;
use tempfile::TempDir;

use super::http;
use crate::cli::helper::until;

/// Without a screen, and without asking anybody but us.
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1240,1000",
];

/// A browser with one page, closed when dropped.
pub(super) struct Browser {
    driver: Child,
    at: String,
    session: String,
    _profile: TempDir,
    _port: Port,
}

impl Browser {
    pub(super) fn open(url: &str) -> Self {
        // Left to choose, the driver takes a port of IPv6 and ends if that of IPv4 is somebody else's.
        let port = taketurns_servers::reserve().expect("a port");
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={}", port.number()));
        command.stdout(Stdio::piped()).process_group(0);
        let driver = command.spawn();
        let mut driver = driver.expect(
            "chromedriver is missing: `cargo xtask test` installs it on Debian, or install Chromium \
             with its driver",
        );
        let mut said = String::new();
        for line in BufReader::new(driver.stdout.take().expect("a pipe")).lines() {
            said += &line.expect("text");
            if said.contains("started successfully on port ") {
                break;
            }
        }
        assert!(said.contains("started successfully"), "chromedriver ended: {said}");
        let at = format!("127.0.0.1:{}", port.number());
        let profile = TempDir::new().expect("a temporary directory");
        let folder = format!("--user-data-dir={}", profile.path().display());
        let flags: Vec<&str> = FLAGS.into_iter().chain([folder.as_str()]).collect();
        let mut browser =
            Self { driver, at, session: String::new(), _profile: profile, _port: port };
        let wanted =
            json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": flags}}}});
        let made = browser.ask("POST", "/session", &wanted);
        browser.session = format!("/session/{}", made["sessionId"].as_str().expect("a session"));
        browser.post("/url", &json!({ "url": url }));
        browser
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let body = if method == "GET" { String::new() } else { body.to_string() };
        let kind = [("Content-Type", "application/json")];
        let answer = http::ask(&self.at, method, path, &kind, &body);
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.body);
        answer.json()["value"].clone()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("{}{path}", self.session), body)
    }

    /// Returns the value of a script, which is written without `return`.
    pub(super) fn value(&self, script: &str) -> Value {
        let script = format!("return {script}");
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// The text of the first element that a selector finds, as it is shown; empty if there is none.
    pub(super) fn text(&self, selector: &str) -> String {
        let found = self.value(&format!("document.querySelector({selector:?})?.innerText ?? ''"));
        found.as_str().expect("text").to_owned()
    }

    /// Waits until an element shows this.
    pub(super) fn until_shown(&self, selector: &str, text: &str) {
        until(&format!("{selector} shows {text:?}"), || self.text(selector).contains(text));
    }

    /// Clicks as a user does: the element must exist and be visible.
    pub(super) fn click(&self, selector: &str) {
        self.on(selector, "click", &json!({}));
    }

    /// Types in place of what is in a field.
    pub(super) fn write(&self, selector: &str, text: &str) {
        self.on(selector, "clear", &json!({}));
        self.press(selector, text);
    }

    /// Presses these keys on an element. A list of choices goes to the one that begins so.
    pub(super) fn press(&self, selector: &str, text: &str) {
        self.on(selector, "value", &json!({ "text": text }));
    }

    fn on(&self, selector: &str, action: &str, body: &Value) {
        let by = json!({"using": "css selector", "value": selector});
        let found = self.post("/element", &by);
        let id = found.as_object().and_then(|object| object.values().next()?.as_str());
        self.post(&format!("/element/{}/{action}", id.expect("an element")), body);
    }

    /// Has the system's colours be light or dark.
    pub(super) fn prefer(&self, scheme: &str) {
        let media = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let emulate = json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": media}});
        self.post("/goog/cdp/execute", &emulate);
    }

    /// The page as a picture: PNG, in Base64.
    pub(super) fn picture(&self) -> String {
        let picture = self.ask("GET", &format!("{}/screenshot", self.session), &Value::Null);
        picture.as_str().expect("a picture").to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver ends the browser, which is in a session of its own; then it ends itself, with what is
        // left of them.
        let _ = http::try_ask(&self.at, "DELETE", &self.session, &[], "");
        let _ = kill_process_group(Pid::from_child(&self.driver), Signal::KILL);
        let _ = self.driver.wait();
    }
}
