//! Locks that nobody holds but for a test.

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use taketurns::{
    Ask, ClientId, HolderView, Kind, Label, Member, MemberView, Name, Token, View, WaiterView,
};

use super::super::app::App;
use super::super::draw;
use super::super::keys::KeyPress;

/// A lock to be.
pub(crate) struct Shape(View);

pub(crate) fn lock(name: &str, shape: Shape) -> (Name, View) {
    (Name::new(name).expect("a name"), shape.0)
}

pub(crate) fn idle() -> Shape {
    let mut view = View::default();
    view.last_token = Some(token(7));
    Shape(view)
}

/// A lock that has been held for `held_s` seconds, with `left_s` seconds left. `who` may have a reason after a bar.
pub(crate) fn held(who: &str, held_s: u64, left_s: u64) -> Shape {
    idle().holder(who, held_s, left_s, Ask::Mutex)
}

pub(crate) fn semaphore(permits: u32) -> Shape {
    idle().kind(Kind::Semaphore { permits })
}

pub(crate) fn rwlock() -> Shape {
    idle().kind(Kind::RwLock)
}

pub(crate) fn pool(members: &[&str]) -> Shape {
    let member = |name: &&str| MemberView::new(Member::new(name).expect("a member"));
    let mut pool = idle().kind(Kind::Pool);
    pool.0.members = members.iter().map(member).collect();
    pool
}

/// Work that must be done once.
pub(crate) fn once(view: View) -> Shape {
    Shape(view)
}

impl Shape {
    fn kind(mut self, kind: Kind) -> Self {
        self.0.kind = kind;
        self
    }

    pub(crate) fn holder(mut self, who: &str, held_s: u64, left_s: u64, ask: Ask) -> Self {
        let number = 1_790_000_000_000_000 + self.0.holders.len() as u64 * 7 + who.len() as u64;
        let free = self.0.members.iter_mut().find(|member| !member.held);
        let mut holder = HolderView::new(label(who), ClientId::from_bits(number), ask);
        holder.token = Some(token(number));
        holder.member = free.map(|member| {
            member.held = true;
            member.name.clone()
        });
        holder.held_for = Duration::from_secs(held_s);
        holder.left = Duration::from_secs(left_s);
        self.0.holders.push(holder);
        self.0.last_token = Some(token(number));
        self
    }

    pub(crate) fn waiting(mut self, waiting: usize) -> Self {
        self.0.waiting = waiting;
        self
    }

    /// Those who wait, with their seconds.
    pub(crate) fn queue(mut self, waiters: &[(&str, u64, Ask)]) -> Self {
        let waiter = |(who, waited_s, ask): &(&str, u64, Ask)| {
            let (client, waited_for) =
                (ClientId::from_bits(*waited_s), Duration::from_secs(*waited_s));
            WaiterView::new(label(who), client, ask.clone(), waited_for)
        };
        self.0.waiters = waiters.iter().map(waiter).collect();
        self.0.waiting = self.0.waiting.max(waiters.len());
        self
    }

    pub(crate) fn broken(mut self) -> Self {
        self.0.holders.iter_mut().for_each(|holder| holder.revoked = true);
        self
    }

    /// The holder is gone, and nobody else gets the lock for that many seconds.
    pub(crate) fn resting(mut self, left_s: u64) -> Self {
        for holder in &mut self.0.holders {
            holder.resting = true;
            holder.at_least_left = Some(Duration::from_secs(left_s));
        }
        self
    }

    pub(crate) fn quarantine(mut self, left_s: u64) -> Self {
        self.0.quarantine_left = Some(Duration::from_secs(left_s));
        self
    }
}

fn label(who: &str) -> Label {
    let (who, why) = who.split_once('|').unwrap_or((who, ""));
    Label::new(who, why).expect("a label")
}

fn token(number: u64) -> Token {
    Token::from_raw(number)
}

/// The screen of a test: an app, its size, and a clock of its own.
pub(crate) struct Stage {
    pub(crate) app: App,
    pub(crate) now: Instant,
    size: (u16, u16),
}

impl Stage {
    pub(crate) fn new(width: u16, height: u16) -> Self {
        let app = App::new("redis://locks.example:6379".to_owned(), Duration::from_secs(1));
        let mut stage = Self { app, now: Instant::now(), size: (width, height) };
        stage.fit();
        stage
    }

    fn fit(&mut self) {
        self.app.fit(draw::page(ratatui::layout::Rect::new(0, 0, self.size.0, self.size.1)));
    }

    /// A second later, this is there.
    pub(crate) fn see(&mut self, locks: impl IntoIterator<Item = (Name, View)>) {
        self.now += Duration::from_secs(1);
        self.app.see(locks.into_iter().collect(), self.now);
    }

    /// Letters stand for themselves.
    pub(crate) fn type_in(&mut self, text: &str) {
        for letter in text.chars() {
            self.app.key(KeyPress::Letter(letter), self.now);
        }
    }

    pub(crate) fn press(&mut self, key: KeyPress) -> Option<super::super::app::UserAction> {
        let action = self.app.key(key, self.now);
        self.fit();
        action
    }

    pub(crate) fn drawn(&self) -> Buffer {
        let (width, height) = self.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
        terminal.draw(|frame| draw::draw(frame, &self.app, self.now)).expect("drawn");
        terminal.backend().buffer().clone()
    }

    /// The screen as lines of text.
    pub(crate) fn text(&self) -> String {
        let buffer = self.drawn();
        let width = usize::from(buffer.area.width).max(1);
        let mut text = String::new();
        for row in buffer.content.chunks(width) {
            let mut skip = 0;
            let mut line = String::new();
            for cell in row {
                // What a wide character covers is not a blank.
                if skip == 0 {
                    line.push_str(cell.symbol());
                    skip = crate::text::width(cell.symbol()).max(1);
                }
                skip -= 1;
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// The locks on the screen, from above.
    pub(crate) fn names(&self) -> Vec<String> {
        self.app.list.visible().map(|(row, _)| row.name.to_string()).collect()
    }

    /// The one that is chosen.
    pub(crate) fn chosen(&self) -> Option<String> {
        self.app.list.chosen().map(|row| row.name.to_string())
    }
}

/// The locks of a small company at night, twice: as they were, and half a minute later.
pub(crate) fn company() -> [Vec<(Name, View)>; 2] {
    let permits = |take| Ask::Permits { take, of: 4 };
    let waiter = |who: &'static str, waited_s| (who, waited_s, Ask::Mutex);
    let queue = [
        waiter("web-3:2217 checkout|order 8841", 41),
        waiter("web-1:1904 checkout|order 8841", 37),
        waiter("web-2:2051 checkout|refund", 33),
        waiter("cron-1:311 reconcile", 12),
    ];
    let at = |later: bool| {
        let since = if later { 30 } else { 0 };
        vec![
            lock(
                "orders/8841",
                held("web-2:2051 checkout|payment", 14 + since, 26).waiting(17).queue(&queue),
            ),
            lock(
                "gpu",
                semaphore(4)
                    .holder("ml-1:880 train.py|resnet, run 12", 5_400 + since, 27, permits(2))
                    .holder("ml-2:412 train.py|embeddings", 2_220 + since, 22, permits(1))
                    .holder("ml-2:977 eval.py", 340 + since, 29, permits(1))
                    .waiting(if later { 5 } else { 4 }),
            ),
            lock(
                "browsers",
                pool(&["b-1", "b-2", "b-3"])
                    .holder("ci-4:9120 e2e|PR 2291", 95 + since, 24, Ask::Any)
                    .holder("ci-2:8807 e2e|PR 2288", 61 + since, 28, Ask::Any)
                    .holder("ci-1:8431 e2e|main", 22 + since, 21, Ask::Any)
                    .waiting(3),
            ),
            lock("backup/nightly", held("db-1:4242 pg_dump|nightly", 2_640 + since, 25).waiting(1)),
            {
                let deploy = held("ci-1:7004 make|release 3.1", 780 + since, 18).waiting(1);
                lock("deploy", if later { deploy.broken() } else { deploy })
            },
            lock(
                "imports/supplier-feed",
                held("etl-1:3310 import.py|ACME feed", 610 + since, if later { 4 } else { 29 }),
            ),
            lock("leader/scheduler", held("app-2:1 scheduler|leader", 1_036_800 + since, 9)),
            lock(
                "reports/monthly",
                rwlock().holder("bi-1:665 report.py", 71 + since, 23, Ask::Read),
            ),
            lock("stock/berlin", held("wms-1:52 count|night shift", 18 + since, 28)),
            lock("migrations", idle()),
            lock("invoices/2026-11", idle()),
        ]
    };
    [at(false), at(true)]
}
