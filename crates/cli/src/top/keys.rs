//! Keys, as far as they mean something here.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Letter(char),
    /// Ctrl-C, wherever one is.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
}

/// What the terminal says, if it is a key of ours.
pub(crate) fn key(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
    if *kind == KeyEventKind::Release {
        return None;
    }
    if modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return match code {
            KeyCode::Char('c') => Some(Key::Interrupt),
            KeyCode::Char('z') => Some(Key::Suspend),
            KeyCode::Char('h') => Some(Key::Backspace),
            _ => None,
        };
    }
    Some(match code {
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Char(letter) => Key::Letter(*letter),
        _ => return None,
    })
}

/// How far a key moves, if it moves at all, where a page is so long.
pub(crate) fn moves(key: Key, page: usize) -> Option<Move> {
    Some(match key {
        Key::Up | Key::Letter('k') => Move::Back(1),
        Key::Down | Key::Letter('j') => Move::On(1),
        Key::PageUp => Move::Back(page),
        Key::PageDown => Move::On(page),
        Key::Home | Key::Letter('g') => Move::First,
        Key::End | Key::Letter('G') => Move::Last,
        _ => return None,
    })
}

/// A way through a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Back(usize),
    On(usize),
    First,
    Last,
}

impl Move {
    /// Where one gets from a place, if the last place is there.
    pub(crate) fn from(self, place: usize, last: usize) -> usize {
        match self {
            Self::Back(by) => place.saturating_sub(by),
            Self::On(by) => place.saturating_add(by).min(last),
            Self::First => 0,
            Self::Last => last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Option<Key> {
        key(&Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn letters_are_letters_and_ctrl_c_is_not_one() {
        assert_eq!(pressed(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Key::Letter('G')));
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Interrupt));
        assert_eq!(pressed(KeyCode::Char('z'), KeyModifiers::CONTROL), Some(Key::Suspend));
        assert_eq!(pressed(KeyCode::Char('b'), KeyModifiers::CONTROL), None);
        assert_eq!(pressed(KeyCode::F(1), KeyModifiers::NONE), None);
    }

    #[test]
    fn moves_end_at_the_ends() {
        let on = |key, place| moves(key, 10).expect("a move").from(place, 24);
        assert_eq!([on(Key::Up, 0), on(Key::Up, 5), on(Key::PageUp, 7)], [0, 4, 0]);
        assert_eq!([on(Key::Down, 24), on(Key::PageDown, 3), on(Key::PageDown, 20)], [24, 13, 24]);
        assert_eq!([on(Key::Letter('g'), 9), on(Key::Letter('G'), 9)], [0, 24]);
        assert_eq!(moves(Key::Enter, 10), None);
    }
}
