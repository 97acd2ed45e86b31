//! One lock: who held it, and how many waited.

use std::collections::{BTreeMap, BTreeSet};

use super::pen::{Area, Pen};
use super::scale::Scale;
use super::{times, waiters};
use crate::units::GroupedNumber;
use crate::{HistoryAsk, LockKind, Op};

/// More holders at a time share rows.
const ROWS_MAX: usize = 8;
/// In px.
const ROW: f64 = 15.0;
const GAP: f64 = 2.0;
const WAITERS: f64 = 24.0;
/// A bar of this width has room for a client's number.
const ROOM_FOR_A_NAME: f64 = 24.0;
/// Shares of time held that can be told apart.
const SHADES: u64 = 5;

pub(super) struct Lane<'a> {
    pub(super) lock: &'a str,
    pub(super) top: f64,
    kind: Option<LockKind>,
    ops: Vec<&'a Op<'a>>,
    rows: Vec<Row<'a>>,
}

/// A line of turns that do not overlap, as far as there is room.
#[derive(Default)]
struct Row<'a> {
    member: Option<&'a str>,
    free_us: u64,
    turns: Vec<LaneTurn<'a>>,
}

struct LaneTurn<'a> {
    from_us: u64,
    until_us: u64,
    op: &'a Op<'a>,
}

impl<'a> Lane<'a> {
    pub(super) fn new(
        lock: &'a str,
        kind: Option<LockKind>,
        ops: Vec<&'a Op<'a>>,
        top: f64,
    ) -> Self {
        let mut turns: Vec<LaneTurn<'_>> = ops
            .iter()
            .filter_map(|op| {
                op.span().map(|(from_us, until_us)| LaneTurn { from_us, until_us, op })
            })
            .collect();
        turns.sort_by_key(|turn| (turn.from_us, turn.op.op));
        let mut rows: Vec<Row<'_>> = Vec::new();
        for turn in turns {
            let member = turn.op.member;
            let is_free = |row: &Row<'_>| row.member == member && row.free_us <= turn.from_us;
            let row = match rows.iter().position(is_free) {
                Some(free) => free,
                None if rows.len() < ROWS_MAX => {
                    rows.push(Row { member, ..Row::default() });
                    rows.len() - 1
                }
                None => {
                    let soonest = rows.iter().enumerate().min_by_key(|(_, row)| row.free_us);
                    soonest.map_or(0, |(index, _)| index)
                }
            };
            rows[row].free_us = rows[row].free_us.max(turn.until_us);
            rows[row].turns.push(turn);
        }
        if rows.is_empty() {
            rows.push(Row::default());
        }
        rows.sort_by_key(|row| row.member);
        Self { lock, top, kind, ops, rows }
    }

    pub(super) fn bottom(&self) -> f64 {
        self.holders_bottom() + WAITERS
    }

    fn holders_bottom(&self) -> f64 {
        self.top + self.rows.len() as f64 * (ROW + GAP)
    }

    pub(super) fn draw(&self, pen: &mut Pen, scale: &Scale, least_px: f64) {
        let name_y = self.top + ROW - 3.0;
        pen.text(20.0, name_y, "n", &shortened(self.lock));
        pen.text(20.0, name_y + 14.0, "s", &kind_words(self.kind));
        for (index, row) in self.rows.iter().enumerate() {
            let y = self.top + index as f64 * (ROW + GAP);
            let area = Area { x: scale.left, y, width: scale.right - scale.left, height: ROW };
            pen.rect(area, "row", "", "");
            if let Some(member) = row.member {
                pen.text_at(scale.left - 6.0, y + ROW - 4.0, "s", "end", &shortened(member));
            }
            row.draw(pen, scale, y, least_px);
        }
        let top = self.holders_bottom();
        let most = waiters::draw(pen, &self.ops, scale, top + 2.0, WAITERS - 2.0);
        let words = format!("≤ {most} wait");
        pen.text_at(scale.left - 6.0, top + WAITERS - 3.0, "s", "end", &words);
    }
}

impl Row<'_> {
    fn draw(&self, pen: &mut Pen, scale: &Scale, y: f64, least_px: f64) {
        // Turns too short to be seen, by where they are.
        let cell_px = least_px.max(2.0);
        let mut cells: BTreeMap<u64, Crowd> = BTreeMap::new();
        for turn in self.turns.iter().filter(|turn| scale.shows(turn.from_us, turn.until_us)) {
            let (left, right) = (scale.x(turn.from_us), scale.x(turn.until_us));
            if right - left >= least_px {
                turn.draw(pen, scale, Area { x: left, y, width: right - left, height: ROW });
            } else {
                let cell = (f64::midpoint(left, right) - scale.left) / cell_px;
                cells.entry(cell as u64).or_default().add(turn);
            }
        }
        let cell_us = (cell_px * scale.px_us()) as u64;
        let mut run: Option<(u64, u64, Crowd)> = None;
        for (cell, crowd) in cells {
            let shade = crowd.shade_in(cell_us);
            let apart =
                |(_, end, before): &mut (_, u64, Crowd)| *end != cell || before.shade != shade;
            if let Some((from, end, before)) = run.take_if(apart) {
                before.draw(pen, scale, y, (from, end), cell_px);
            }
            let (_, end, all) =
                run.get_or_insert((cell, cell, Crowd { shade, ..Crowd::default() }));
            all.join(crowd);
            *end = cell + 1;
        }
        if let Some((from, end, crowd)) = run {
            crowd.draw(pen, scale, y, (from, end), cell_px);
        }
    }
}

impl LaneTurn<'_> {
    fn draw(&self, pen: &mut Pen, scale: &Scale, area: Area) {
        let Op { op, client, token, lost_us, .. } = self.op;
        let mut class = format!("c{client}");
        let reads = *self.op.ask == HistoryAsk::Read;
        if reads {
            class += " read";
        }
        let lost = lost_us.map_or("", |_| ", lost");
        if lost_us.is_some() {
            class += " lost";
        }
        let token = token.map_or("no token".to_owned(), |token| format!("token {token}"));
        let times = times(scale, self.from_us, self.until_us);
        pen.rect(
            area,
            &class,
            "",
            &format!("operation {op} of client {client}, {token}\n{times}{lost}"),
        );
        if area.width > ROOM_FOR_A_NAME {
            let x = area.x + area.width / 2.0;
            let name = if reads { "l" } else { "w" };
            pen.text_at(x, area.y + ROW - 4.0, name, "middle", &client.to_string());
        }
    }
}

/// Turns that are drawn together.
#[derive(Default)]
struct Crowd {
    turns: u64,
    held_us: u64,
    from_us: Option<u64>,
    until_us: u64,
    clients: BTreeSet<u32>,
    shade: u64,
}

impl Crowd {
    fn add(&mut self, turn: &LaneTurn<'_>) {
        self.turns += 1;
        self.held_us += turn.until_us - turn.from_us;
        self.from_us.get_or_insert(turn.from_us);
        self.until_us = self.until_us.max(turn.until_us);
        self.clients.insert(turn.op.client);
    }

    fn join(&mut self, other: Self) {
        self.turns += other.turns;
        self.held_us += other.held_us;
        self.from_us = self.from_us.or(other.from_us);
        self.until_us = self.until_us.max(other.until_us);
        self.clients.extend(other.clients);
    }

    fn shade_in(&self, cell_us: u64) -> u64 {
        (self.held_us * SHADES / cell_us.max(1)).min(SHADES - 1)
    }

    fn draw(&self, pen: &mut Pen, scale: &Scale, y: f64, (from, end): (u64, u64), cell_px: f64) {
        let (left, right) = (scale.left + from as f64 * cell_px, scale.left + end as f64 * cell_px);
        let area = Area { x: left, y, width: right.min(scale.right) - left, height: ROW };
        let turns = GroupedNumber(self.turns);
        let times = times(scale, self.from_us.unwrap_or_default(), self.until_us);
        let title = match self.clients.first() {
            Some(client) if self.clients.len() == 1 => {
                format!("{turns} turns of client {client}\n{times}")
            }
            _ => format!("{turns} turns of {} clients\n{times}", self.clients.len()),
        };
        let opacity = (self.shade + 1) as f64 / SHADES as f64;
        pen.rect(area, "many", &format!(r#" opacity="{opacity}""#), &title);
    }
}

fn kind_words(kind: Option<LockKind>) -> String {
    match kind {
        Some(LockKind::Mutex) => "mutex".to_owned(),
        Some(LockKind::Rwlock) => "read-write lock".to_owned(),
        Some(LockKind::Semaphore(permits)) => format!("{permits} permits"),
        Some(LockKind::Pool) => "pool".to_owned(),
        Some(LockKind::Once) => "once".to_owned(),
        None => String::new(),
    }
}

/// A name as far as there is room for it.
fn shortened(name: &str) -> String {
    const ROOM: usize = 17;
    match name.char_indices().nth(ROOM) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
