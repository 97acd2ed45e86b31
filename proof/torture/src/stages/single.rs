//! One server, behind a proxy, with a log and a clock that can be set.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use taketurns_history::Guarantee::{G1, G5};
use taketurns_servers::{Flavor, Proxy, Server, ServerClock, module_path};

use super::TortureStage;
use super::servers::{FORGETS, cut_log, empty, fill, forget, kill_clients, left_at, options, say};
use crate::dice::RunDice;
use crate::faults::{Fallible, Injection, StepResult, StoreFault};

const SERVER: &str = "the server";

/// The stage.
pub(super) struct SingleServerStage {
    server: Server,
    proxy: Proxy,
    clock: ServerClock,
    /// How far the clock is ahead.
    ahead_s: AtomicI64,
    module: bool,
}

impl SingleServerStage {
    pub(super) fn start(flavor: Flavor, module: bool) -> Fallible<Self> {
        let clock = ServerClock::ahead(0)?;
        let mut builder = Server::builder(flavor).appendonly(true).clock(&clock);
        if module {
            builder = builder.module(&module_path()?, &[]);
        }
        let server = builder.start()?;
        let proxy = Proxy::start(server.port())?;
        Ok(Self { server, proxy, clock, ahead_s: AtomicI64::new(0), module })
    }

    fn set_clock(&self, by_s: i64) -> std::io::Result<()> {
        self.clock.set(self.ahead_s.fetch_add(by_s, Ordering::Relaxed) + by_s)
    }

    /// Ends it like a crash, does something to what it has written, and starts it again.
    fn crash<'a>(
        &'a self,
        dice: &mut RunDice,
        then: impl FnOnce(&Server) -> StepResult + 'a,
    ) -> Injection<'a> {
        // Mostly so quick that those who hold a lock still do.
        let out = if dice.once_in(3) { dice.time(500, 3_000) } else { dice.time(0, 200) };
        Injection::on(SERVER)
            .begin(|| {
                self.server.kill();
                then(&self.server)
            })
            .lasting(out)
            .end(|| self.server.restart())
    }

    fn process_faults(&self) -> Vec<StoreFault<'_>> {
        vec![
            StoreFault::new("kill -9", move |dice| self.crash(dice, |_| Ok(()))),
            StoreFault::new("kill -9, tail of the log cut", move |dice| {
                let bytes = dice.between(1, 4_000);
                self.crash(dice, move |server| cut_log(server, bytes))
            })
            .excusing(FORGETS),
            StoreFault::new("kill -9, back empty", move |dice| self.crash(dice, forget))
                .excusing(FORGETS),
            StoreFault::new("server stopped", move |dice| {
                Injection::on(SERVER)
                    .begin(|| self.server.pause())
                    .lasting(dice.time(200, 4_000))
                    .end(|| self.server.resume())
            }),
            StoreFault::new("DEBUG SLEEP", move |dice| {
                let seconds = dice.time(100, 2_000).as_secs_f64().to_string();
                Injection::on(SERVER)
                    .begin(move || say(&self.server, &["DEBUG", "SLEEP", &seconds]))
            }),
            // Leases end early or late together with the deadlines of those who wait. Tokens are not
            // below those before as long as it remembers, and no other fault comes before it has
            // caught up.
            StoreFault::new("clock set back", move |_| {
                let back = Duration::from_secs(2);
                Injection::on(SERVER).begin(|| self.set_clock(-2)).lasting(back)
            }),
            // docs/redis.md, Clocks: it must not be set forward within a lease. Holders are told when
            // they next hear from the server, and others may be granted before.
            StoreFault::new("clock set forward", move |_| {
                Injection::on(SERVER).begin(|| self.set_clock(3))
            })
            .excusing(&[G1, G5]),
        ]
    }

    fn command_faults(&self) -> Vec<StoreFault<'_>> {
        let command = |kind, words: &'static [&'static str]| {
            StoreFault::new(kind, move |_| {
                Injection::on(SERVER).begin(move || say(&self.server, words))
            })
        };
        vec![
            command("SCRIPT FLUSH", &["SCRIPT", "FLUSH"]),
            // docs/redis.md, Quarantine: noticed by everybody at their next step there.
            command("FLUSHALL", &["FLUSHALL"]).excusing(FORGETS),
            StoreFault::new("CLIENT KILL", move |_| {
                Injection::on(SERVER).begin(|| kill_clients(&self.server))
            }),
            StoreFault::new("memory full", move |dice| {
                Injection::on(SERVER)
                    .begin(|| fill(&self.server))
                    .lasting(dice.time(200, 3_000))
                    .end(|| empty(&self.server))
            }),
        ]
    }
}

impl TortureStage for SingleServerStage {
    fn url(&self) -> String {
        let module = if self.module { "&module=required" } else { "" };
        format!("{}{}{module}", self.proxy.url(), options())
    }

    fn faults(&self) -> Vec<StoreFault<'_>> {
        let mut faults = self.process_faults();
        faults.extend(self.command_faults());
        faults.extend(super::network::faults(SERVER, &self.proxy));
        faults.extend(super::network::push_faults(SERVER, &self.proxy));
        faults
    }

    fn left(&self, _killed: usize) -> Vec<String> {
        left_at(&self.server)
    }
}
