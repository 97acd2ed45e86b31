//! All that the screen shows and all that keys do to it. Pure: time and what the store said come in,
//! wishes go out.

use std::time::{Duration, Instant};

use taketurns::{HolderView, Name, Token, View};

use super::keys::{Key, moves};
use super::list::List;
use super::open::Open;
use super::order;
use crate::output::count;

/// How long a notice stays, unless a key is pressed.
const NOTICE: Duration = Duration::from_secs(15);

/// What to do for the user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Quit,
    /// Ctrl-Z.
    Suspend,
    /// Look now.
    Look,
    Break(Break),
}

/// A break that was confirmed: of these holders and no others, who may have come since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Break {
    pub(crate) name: Name,
    /// None if the store has no tokens: then it is of whoever holds it.
    pub(crate) tokens: Vec<Token>,
    pub(crate) at_once: bool,
}

/// A break that the user is asked about.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) name: Name,
    pub(crate) view: View,
    pub(crate) at_once: bool,
}

/// What lies over the screen and takes the keys.
#[derive(Debug, Default)]
pub(crate) enum Over {
    #[default]
    Nothing,
    /// The filter is being typed.
    Filter,
    Help,
    Break(Question),
}

/// The store could not be looked at.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) since: Instant,
    pub(crate) why: String,
}

/// Something to tell.
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
    pub(crate) list: List,
    pub(crate) open: Option<Open>,
    pub(crate) over: Over,
    pub(crate) paused: bool,
    /// When all locks were looked at.
    seen: Option<Instant>,
    pub(crate) trouble: Option<Trouble>,
    notice: Option<Notice>,
    /// How often it looks, and how often it should.
    pub(crate) interval: Duration,
    pub(crate) every: Duration,
}

impl App {
    pub(crate) fn new(store: String, every: Duration) -> Self {
        Self {
            store,
            list: List::default(),
            open: None,
            over: Over::Nothing,
            paused: false,
            seen: None,
            trouble: None,
            notice: None,
            interval: every,
            every,
        }
    }

    /// So many lines fit between header and keys.
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
        self.trouble = Some(Trouble { since, why: why.to_string() });
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
        asked: &Break,
        outcome: &Result<u32, taketurns::Error>,
        now: Instant,
    ) {
        self.tell(told(asked, outcome), now);
    }

    /// What a key means where the user is.
    pub(crate) fn key(&mut self, key: Key, now: Instant) -> Option<Action> {
        self.notice = None;
        match key {
            Key::Interrupt => return Some(Action::Quit),
            Key::Suspend => return Some(Action::Suspend),
            _ => {}
        }
        match &mut self.over {
            Over::Filter => self.key_in_filter(key),
            Over::Help => self.over = Over::Nothing,
            Over::Break(question) => match key {
                Key::Letter('y' | 'Y') => {
                    let asked = question.answer();
                    self.over = Over::Nothing;
                    return Some(Action::Break(asked));
                }
                Key::Letter('n' | 'N') => question.at_once = !question.at_once,
                Key::Escape | Key::Letter('q') => {
                    let left = format!("{} was left alone", question.name);
                    self.over = Over::Nothing;
                    self.tell(left, now);
                }
                _ => {}
            },
            Over::Nothing => return self.key_on_screen(key, now),
        }
        None
    }

    fn key_in_filter(&mut self, key: Key) {
        let mut filter = self.list.filter.clone();
        match key {
            Key::Letter(letter) => filter.push(letter),
            Key::Backspace => drop(filter.pop()),
            Key::Enter => self.over = Over::Nothing,
            Key::Escape => {
                self.over = Over::Nothing;
                filter.clear();
            }
            // To choose among what is left without leaving the filter.
            Key::Up | Key::Down => {
                self.over = Over::Nothing;
                if let Some(way) = moves(key, 1) {
                    self.list.go(way);
                }
            }
            _ => {}
        }
        self.list.filter(filter);
    }

    fn key_on_screen(&mut self, key: Key, now: Instant) -> Option<Action> {
        match key {
            Key::Letter('p' | ' ') => self.paused = !self.paused,
            Key::Letter('r') => return Some(Action::Look),
            Key::Letter('?' | 'h') => self.over = Over::Help,
            Key::Letter('b') => self.ask_to_break(now),
            _ if self.open.is_some() => return self.key_in_open(key),
            _ => return self.key_in_list(key),
        }
        None
    }

    fn key_in_open(&mut self, key: Key) -> Option<Action> {
        let open = self.open.as_mut()?;
        if let Some(way) = moves(key, open.page()) {
            open.go(way);
        } else if matches!(key, Key::Escape | Key::Backspace | Key::Letter('q')) {
            self.open = None;
        }
        None
    }

    fn key_in_list(&mut self, key: Key) -> Option<Action> {
        if let Some(way) = moves(key, self.list.page()) {
            self.list.go(way);
            return None;
        }
        match key {
            Key::Letter('q') => return Some(Action::Quit),
            Key::Letter('/') => self.over = Over::Filter,
            Key::Letter('s' | '>') => self.list.sort_by(order::next(self.list.sort)),
            Key::Letter('<' | 'S') => self.list.sort_by(order::previous(self.list.sort)),
            Key::Escape if self.list.filter.is_empty() => self.list.let_go(),
            Key::Escape => self.list.filter(String::new()),
            Key::Enter => {
                if self.list.chosen().is_none() {
                    self.list.go(super::keys::Move::On(0));
                }
                let chosen = self.list.chosen()?;
                self.open = Some(Open::new(chosen.name.clone(), chosen.view.clone(), self.seen));
                return Some(Action::Look);
            }
            _ => {}
        }
        None
    }

    fn ask_to_break(&mut self, now: Instant) {
        let row = self.open.as_ref().map(|open| &open.row).or_else(|| self.list.chosen());
        let Some(row) = row else {
            return self.tell("which lock? choose one with the arrows first", now);
        };
        let (name, view) = (row.name.clone(), row.view.clone());
        if view.holders.is_empty() {
            return self.tell(format_args!("{name}: nobody holds it, nothing to break"), now);
        }
        self.over = Over::Break(Question { name, view, at_once: false });
    }
}

impl Question {
    fn answer(&self) -> Break {
        let tokens: Option<Vec<Token>> =
            self.view.holders.iter().map(|holder: &HolderView| holder.token).collect();
        Break { name: self.name.clone(), tokens: tokens.unwrap_or_default(), at_once: self.at_once }
    }
}

/// What has become of a break.
pub(crate) fn told(asked: &Break, outcome: &Result<u32, taketurns::Error>) -> String {
    let name = &asked.name;
    match outcome {
        Ok(0) => format!("{name}: let go of meanwhile, nothing was broken"),
        Ok(broken) if asked.at_once => {
            format!("{name}: taken from {}", count(*broken as usize, "holder"))
        }
        Ok(broken) => {
            let holders = count(*broken as usize, "holder");
            format!("{name}: broken for {holders}; free when let go of, or when the lease ends")
        }
        Err(error) => format!("{name} was not broken: {error}"),
    }
}
