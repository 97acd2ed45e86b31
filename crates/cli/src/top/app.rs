//! All that the screen shows and all that keys do to it. Pure: time and what the store said come in,
//! wishes go out.

use std::time::{Duration, Instant};

use taketurns::{HolderView, Name, Token, View};

use super::details::LockDetails;
use super::keys::{KeyPress, moves};
use super::list::LockList;
use super::order;
use crate::output::count;

/// How long a notice stays, unless a key is pressed.
const NOTICE: Duration = Duration::from_secs(15);

/// What a key makes the program do.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UserAction {
    Quit,
    /// Ctrl-Z.
    Suspend,
    /// Look now.
    Look,
    Break(BreakOrder),
}

/// A break that was confirmed: of these holders and no others, who may have come since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BreakOrder {
    pub(crate) name: Name,
    /// Empty if the store has no tokens: then the order breaks the lock for every holder.
    pub(crate) tokens: Vec<Token>,
    pub(crate) at_once: bool,
}

/// A break that the user is asked about.
#[derive(Debug)]
pub(crate) struct BreakQuestion {
    pub(crate) name: Name,
    pub(crate) view: View,
    pub(crate) at_once: bool,
}

/// A dialog over the screen, which takes the keys.
#[derive(Debug, Default)]
pub(crate) enum Overlay {
    #[default]
    Nothing,
    /// The filter is being typed.
    Filter,
    Help,
    Break(Box<BreakQuestion>),
}

/// Why the store could not be read, and since when.
#[derive(Debug)]
pub(crate) struct StoreTrouble {
    pub(crate) since: Instant,
    pub(crate) why: String,
}

/// A message to the user.
#[derive(Debug)]
struct Notice {
    text: String,
    at: Instant,
}

/// The state of the screen.
#[derive(Debug)]
pub(crate) struct App {
    /// As the user knows it.
    pub(crate) store: String,
    pub(crate) list: LockList,
    pub(crate) open: Option<LockDetails>,
    pub(crate) over: Overlay,
    pub(crate) paused: bool,
    /// When all locks were looked at.
    seen: Option<Instant>,
    pub(crate) trouble: Option<StoreTrouble>,
    notice: Option<Notice>,
    /// How often it looks, and how often it should.
    pub(crate) interval: Duration,
    pub(crate) every: Duration,
}

impl App {
    pub(crate) fn new(store: String, every: Duration) -> Self {
        Self {
            store,
            list: LockList::default(),
            open: None,
            over: Overlay::Nothing,
            paused: false,
            seen: None,
            trouble: None,
            notice: None,
            interval: every,
            every,
        }
    }

    /// Sets the number of lines between the header and the keys.
    pub(crate) fn fit(&mut self, lines: usize) {
        // One is for the names of the columns.
        self.list.fit(lines.saturating_sub(1));
        if let Some(open) = &mut self.open {
            open.fit(lines);
        }
    }

    /// A look at all locks.
    pub(crate) fn see(&mut self, listed: Vec<(Name, View)>, now: Instant) {
        self.list.see(listed);
        (self.seen, self.trouble) = (Some(now), None);
    }

    /// A look at one lock. It may have been closed since.
    pub(crate) fn see_one(&mut self, name: &Name, view: Option<View>, now: Instant) {
        if let Some(open) = self.open.as_mut().filter(|open| open.row.name == *name) {
            open.see(view, now);
            self.trouble = None;
        }
    }

    /// When what is on the screen was seen.
    pub(crate) fn seen(&self) -> Option<Instant> {
        self.open.as_ref().map_or(self.seen, |open| open.seen)
    }

    /// A look that failed. What was seen before stays.
    pub(crate) fn fail(&mut self, why: impl ToString, now: Instant) {
        let since = self.trouble.as_ref().map_or(now, |trouble| trouble.since);
        self.trouble = Some(StoreTrouble { since, why: why.to_string() });
    }

    /// Tells the user something.
    pub(crate) fn tell(&mut self, text: impl ToString, now: Instant) {
        self.notice = Some(Notice { text: text.to_string(), at: now });
    }

    pub(crate) fn notice(&self, now: Instant) -> Option<&str> {
        let notice = self.notice.as_ref().filter(|notice| now < notice.at + NOTICE);
        notice.map(|notice| notice.text.as_str())
    }

    /// A break has come to its end.
    pub(crate) fn broke(
        &mut self,
        asked: &BreakOrder,
        outcome: &Result<u32, taketurns::Error>,
        now: Instant,
    ) {
        self.tell(told(asked, outcome), now);
    }

    /// What a key means where the user is.
    pub(crate) fn key(&mut self, key: KeyPress, now: Instant) -> Option<UserAction> {
        self.notice = None;
        match key {
            KeyPress::Interrupt => return Some(UserAction::Quit),
            KeyPress::Suspend => return Some(UserAction::Suspend),
            _ => {}
        }
        match &mut self.over {
            Overlay::Filter => self.key_in_filter(key),
            Overlay::Help => self.over = Overlay::Nothing,
            Overlay::Break(question) => match key {
                KeyPress::Letter('y' | 'Y') => {
                    let asked = question.answer();
                    self.over = Overlay::Nothing;
                    return Some(UserAction::Break(asked));
                }
                KeyPress::Letter('n' | 'N') => question.at_once = !question.at_once,
                KeyPress::Escape | KeyPress::Letter('q') => {
                    let left = format!("{} was not broken", question.name);
                    self.over = Overlay::Nothing;
                    self.tell(left, now);
                }
                _ => {}
            },
            Overlay::Nothing => return self.key_on_screen(key, now),
        }
        None
    }

    fn key_in_filter(&mut self, key: KeyPress) {
        let mut filter = self.list.filter.clone();
        match key {
            KeyPress::Letter(letter) => filter.push(letter),
            KeyPress::Backspace => drop(filter.pop()),
            KeyPress::Enter => self.over = Overlay::Nothing,
            KeyPress::Escape => {
                self.over = Overlay::Nothing;
                filter.clear();
            }
            // To choose among what is left without leaving the filter.
            KeyPress::Up | KeyPress::Down => {
                self.over = Overlay::Nothing;
                if let Some(way) = moves(key, 1) {
                    self.list.go(way);
                }
            }
            _ => {}
        }
        self.list.filter(filter);
    }

    fn key_on_screen(&mut self, key: KeyPress, now: Instant) -> Option<UserAction> {
        match key {
            KeyPress::Letter('p' | ' ') => self.paused = !self.paused,
            KeyPress::Letter('r') => return Some(UserAction::Look),
            KeyPress::Letter('?' | 'h') => self.over = Overlay::Help,
            KeyPress::Letter('b') => self.ask_to_break(now),
            _ if self.open.is_some() => return self.key_in_open(key),
            _ => return self.key_in_list(key),
        }
        None
    }

    fn key_in_open(&mut self, key: KeyPress) -> Option<UserAction> {
        let open = self.open.as_mut()?;
        if let Some(way) = moves(key, open.page()) {
            open.go(way);
        } else if matches!(key, KeyPress::Escape | KeyPress::Backspace | KeyPress::Letter('q')) {
            self.open = None;
        }
        None
    }

    fn key_in_list(&mut self, key: KeyPress) -> Option<UserAction> {
        if let Some(way) = moves(key, self.list.page()) {
            self.list.go(way);
            return None;
        }
        match key {
            KeyPress::Letter('q') => return Some(UserAction::Quit),
            KeyPress::Letter('/') => self.over = Overlay::Filter,
            KeyPress::Letter('s' | '>') => self.list.sort_by(order::next(self.list.sort)),
            KeyPress::Letter('<' | 'S') => self.list.sort_by(order::previous(self.list.sort)),
            KeyPress::Escape if self.list.filter.is_empty() => self.list.let_go(),
            KeyPress::Escape => self.list.filter(String::new()),
            KeyPress::Enter => {
                if self.list.chosen().is_none() {
                    self.list.go(super::keys::ListMove::On(0));
                }
                let chosen = self.list.chosen()?;
                self.open =
                    Some(LockDetails::new(chosen.name.clone(), chosen.view.clone(), self.seen));
                return Some(UserAction::Look);
            }
            _ => {}
        }
        None
    }

    fn ask_to_break(&mut self, now: Instant) {
        let row = self.open.as_ref().map(|open| &open.row).or_else(|| self.list.chosen());
        let Some(row) = row else {
            return self.tell("choose a lock with the arrows first", now);
        };
        let (name, view) = (row.name.clone(), row.view.clone());
        if view.holders.is_empty() {
            return self.tell(format_args!("{name}: no holder, nothing to break"), now);
        }
        let question = BreakQuestion { name, view, at_once: false };
        self.over = Overlay::Break(Box::new(question));
    }
}

impl BreakQuestion {
    fn answer(&self) -> BreakOrder {
        let tokens: Option<Vec<Token>> =
            self.view.holders.iter().map(|holder: &HolderView| holder.token).collect();
        BreakOrder {
            name: self.name.clone(),
            tokens: tokens.unwrap_or_default(),
            at_once: self.at_once,
        }
    }
}

/// What has become of a break.
pub(crate) fn told(asked: &BreakOrder, outcome: &Result<u32, taketurns::Error>) -> String {
    let name = &asked.name;
    match outcome {
        Ok(0) => format!("{name}: released meanwhile, nothing to break"),
        Ok(broken) if asked.at_once => {
            format!("{name}: taken from {}", count(*broken as usize, "holder"))
        }
        Ok(broken) => {
            let holders = count(*broken as usize, "holder");
            format!("{name}: broken for {holders}; free when the holder stops or its lease ends")
        }
        Err(error) => format!("{name} was not broken: {error}"),
    }
}
