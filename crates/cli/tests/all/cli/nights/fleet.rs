//! The machines: each is a clock and, on most nights, a process of the program with the same command line. The work
//! that the program runs says over a connection of its own when it begins and when it is over, and goes on only when
//! it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use taketurns::blocking::Wait;
use taketurns::{Locks, View};
use taketurns_servers::{Flavor, Server, ServerClock};

use super::judge::{Event, NightRecord};
use super::plan::{AHEAD, KillPoint, Night, Start, Steps};
use super::tap::Tap;
use crate::cli::helper::{HANG, Store};

const NAME: &str = "nightly";
const LINE: [&str; 5] = ["once", "--quiet", "--every", "day@02:30", "--why"];
const DUE: Duration = Duration::from_secs(2 * 3_600 + 30 * 60);
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// How long nothing happens before the store is looked at again.
const LOOK: Duration = Duration::from_millis(50);

const WORK: &str = "exec 3<>/dev/tcp/127.0.0.1/$REPORT; echo began $MACHINE $TAKETURNS_TOKEN >&3; \
                    read -u 3 && echo worked $MACHINE $TAKETURNS_TOKEN >&3 && read -u 3";

/// What a process, or its work, says.
enum News {
    Began { machine: usize, token: u64, go: TcpStream },
    Worked { machine: usize, token: u64, go: TcpStream },
    Ended { machine: usize, status: ExitStatus },
}

/// A process that has not ended.
struct Process {
    pid: Pid,
    tap: Tap,
    kill: Option<KillPoint>,
    /// Its work, which waits for the others to start.
    waits: Option<TcpStream>,
    is_at_work: bool,
}

pub(super) struct Fleet {
    server: Server,
    /// Of each machine, and last the server's.
    clocks: Vec<ServerClock>,
    locks: Locks,
    store: Store,
    report: u16,
    news: Receiver<News>,
    teller: Sender<News>,
    processes: BTreeMap<usize, Process>,
    /// The reasons, by which the store knows them, of the processes that were killed.
    dead: BTreeSet<String>,
    night: String,
    /// Work that begins waits until all have started.
    hold: bool,
    record: NightRecord,
    /// What passed between the server and the process that ended last.
    passed: Option<Steps>,
    /// By the server's clock, since 1970.
    now: Duration,
    first_day: u32,
}

impl Fleet {
    pub(super) fn start() -> Self {
        let clock = |ahead: i64| {
            let clock = ServerClock::stopped().expect("a clock");
            clock.set(ahead).expect("set");
            clock
        };
        let clocks: Vec<_> = AHEAD.into_iter().chain([0]).map(clock).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        let server = Server::builder(Flavor::Redis).clock(&clocks[AHEAD.len()]);
        let server = server.start().expect("a server");
        let url = format!("redis://127.0.0.1:{}", server.port());
        let (teller, news) = channel();
        Self {
            locks: taketurns::connect(&url).wait().expect("connected"),
            store: Store::at(url),
            report: listen(teller.clone()),
            server,
            clocks,
            news,
            teller,
            processes: BTreeMap::new(),
            dead: BTreeSet::new(),
            night: String::new(),
            hold: false,
            record: NightRecord::default(),
            passed: None,
            now,
            first_day: (now.as_secs() / DAY.as_secs()) as u32 + 1,
        }
    }

    /// How often a process sends and receives something that nobody disturbs.
    pub(super) fn steps(&mut self) -> Steps {
        // The first one also makes the server's marker.
        for night in ["first", "second"] {
            self.night = night.to_owned();
            self.start_process(Start { machine: 0, kill: None });
            self.until_all_have_ended();
            assert!(self.locks.once(NAME).undo().wait().expect("an answer"), "it was done");
        }
        self.record = NightRecord::default();
        self.passed.expect("they have ended")
    }

    /// Lives through a night.
    pub(super) fn live(&mut self, number: u32, night: &Night) -> NightRecord {
        self.night = format!("night {number}");
        self.hold = night.overlap;
        let due = DAY * (self.first_day + number) + DUE;
        for (place, start) in night.starts.iter().enumerate() {
            // Not before the first one, when the store still remembers the night before.
            if !night.overlap && place > 0 {
                self.until_all_have_ended();
            }
            // While somebody works no time passes, or its lease would: the work takes as long as the clocks differ.
            if !night.overlap || place == 0 {
                let ahead = Duration::from_secs(AHEAD[start.machine].unsigned_abs());
                let at = if AHEAD[start.machine] > 0 { due - ahead } else { due + ahead };
                self.pass(at.saturating_sub(self.now));
            }
            self.start_process(*start);
            if night.overlap {
                self.until_placed(start.machine);
            }
        }
        self.hold = false;
        for process in self.processes.values_mut() {
            if let Some(work) = process.waits.take() {
                go_on(work);
            }
        }
        self.until_all_have_ended();
        std::mem::take(&mut self.record)
    }

    /// What processes printed on stderr.
    pub(super) fn said(&self) -> String {
        fs::read_to_string(self.store.path("said")).unwrap_or_default()
    }

    fn start_process(&mut self, Start { machine, kill }: Start) {
        let tap = Tap::start(self.server.port(), kill);
        let why = self.why(machine);
        let args = [&LINE[..], &[&why, NAME, "--", "bash", "-c", WORK]].concat();
        let mut command = self.store.command(&args);
        command.env("TAKETURNS_STORE", tap.url()).envs(self.clocks[machine].env());
        command.env("MACHINE", machine.to_string()).env("REPORT", self.report.to_string());
        let said = File::options().create(true).append(true).open(self.store.path("said"));
        command.stderr(said.expect("a file"));
        let mut child = command.spawn().expect("the program starts");
        let pid = Pid::from_child(&child);
        tap.is_of(pid);
        let teller = self.teller.clone();
        thread::spawn(move || {
            let status = child.wait().expect("our child");
            teller.send(News::Ended { machine, status })
        });
        let process = Process { pid, tap, kill, waits: None, is_at_work: false };
        self.processes.insert(machine, process);
    }

    /// What the store and its users know a process by.
    fn why(&self, machine: usize) -> String {
        format!("{}, machine {machine}", self.night)
    }

    fn until_all_have_ended(&mut self) {
        self.until(|fleet, _| fleet.processes.is_empty());
    }

    /// Waits until a process waits, works, or has ended.
    fn until_placed(&mut self, machine: usize) {
        let why = self.why(machine);
        self.until(|fleet, view| {
            let is_waiting = view.waiters.iter().any(|waiter| waiter.label.why() == why);
            is_waiting || fleet.processes.get(&machine).is_none_or(|process| process.is_at_work)
        });
    }

    fn until(&mut self, is_so: impl Fn(&Self, &View) -> bool) {
        let since = Instant::now();
        loop {
            let view = self.look();
            if is_so(self, &view) {
                return;
            }
            let seen = &self.record.events;
            assert!(since.elapsed() < HANG, "{} hangs: {seen:#?}\n{view:#?}", self.night);
            if let Ok(news) = self.news.recv_timeout(LOOK) {
                self.handle(news);
            }
        }
    }

    fn handle(&mut self, news: News) {
        match news {
            News::Began { machine, token, go } => {
                self.note(machine, Event::Began { machine, token });
                let Some(process) = self.processes.get_mut(&machine) else { return };
                process.is_at_work = true;
                match process.kill {
                    Some(KillPoint::InWork) => kill(process.pid),
                    _ if self.hold => process.waits = Some(go),
                    _ => go_on(go),
                }
            }
            News::Worked { machine, token, go } => {
                self.note(machine, Event::Worked { machine, token });
                let Some(process) = self.processes.get_mut(&machine) else { return };
                match process.kill {
                    Some(KillPoint::AfterWork) => kill(process.pid),
                    _ => go_on(go),
                }
            }
            News::Ended { machine, status } => {
                let process = self.processes.remove(&machine).expect("it was started");
                self.passed = Some(process.tap.steps());
                self.record.events.push(match status.code() {
                    Some(code) => Event::Exited { machine, code },
                    None => {
                        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
                        self.dead.insert(self.why(machine));
                        let point = process.kill.expect("nobody else kills");
                        self.record.killed_at.insert(machine, point);
                        Event::Killed { machine }
                    }
                });
            }
        }
    }

    /// Notes what work said: before the end of its process, though that may have been told first.
    fn note(&mut self, machine: usize, event: Event) {
        let events = &mut self.record.events;
        let killed = events.iter().position(|event| *event == Event::Killed { machine });
        events.insert(killed.unwrap_or(events.len()), event);
    }

    /// Looks at the work. Notes that it is done, and lets the lease of a dead process pass.
    fn look(&mut self) -> View {
        loop {
            let view = self.locks.inspect(NAME).wait().expect("an answer").unwrap_or_default();
            if let Some(done) = view.work.as_ref().and_then(|work| work.done.as_ref()) {
                let event = Event::Done { token: done.token.raw() };
                if !self.record.events.contains(&event) {
                    self.record.events.push(event);
                }
            }
            match view.holders.first() {
                Some(holder) if self.dead.contains(holder.label.why()) => {
                    self.pass(holder.left + Duration::from_millis(1));
                }
                _ => return view,
            }
        }
    }

    /// Time passes for all.
    fn pass(&mut self, time: Duration) {
        for clock in &self.clocks {
            clock.pass(time).expect("set");
        }
        self.now += time;
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for process in self.processes.values() {
            kill(process.pid);
        }
    }
}

fn kill(process: Pid) {
    let _ = kill_process(process, Signal::KILL);
}

fn go_on(mut work: TcpStream) {
    // It may be dead.
    let _ = work.write_all(b"go\n");
}

/// A port at which work reports.
fn listen(teller: Sender<News>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        for work in listener.incoming().map_while(Result::ok) {
            let teller = teller.clone();
            thread::spawn(move || report(work, &teller));
        }
    });
    port
}

/// Passes on what work says, until it ends or nobody listens any more.
fn report(work: TcpStream, teller: &Sender<News>) -> Option<()> {
    let said = BufReader::new(work.try_clone().ok()?);
    for line in said.lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let (word, machine, token) = (words.next()?, words.next()?, words.next()?);
        let (machine, token) = (machine.parse().ok()?, token.parse().ok()?);
        let go = work.try_clone().ok()?;
        let news = match word {
            "began" => News::Began { machine, token, go },
            _ => News::Worked { machine, token, go },
        };
        teller.send(news).ok()?;
    }
    Some(())
}
