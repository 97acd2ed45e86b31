//! Keys, as far as they mean something here.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyPress {
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
pub(crate) fn key(event: &Event) -> Option<KeyPress> {
    let Event::Key(KeyEvent { code, modifiers, kind, .. }) = event else { return None };
    if *kind == KeyEventKind::Release {
        return None;
    }
    if modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
        return match code {
            KeyCode::Char('c') => Some(KeyPress::Interrupt),
            KeyCode::Char('z') => Some(KeyPress::Suspend),
            KeyCode::Char('h') => Some(KeyPress::Backspace),
            _ => None,
        };
    }
    Some(match code {
        KeyCode::Up => KeyPress::Up,
        KeyCode::Down => KeyPress::Down,
        KeyCode::PageUp => KeyPress::PageUp,
        KeyCode::PageDown => KeyPress::PageDown,
        KeyCode::Home => KeyPress::Home,
        KeyCode::End => KeyPress::End,
        KeyCode::Enter => KeyPress::Enter,
        KeyCode::Esc => KeyPress::Escape,
        KeyCode::Backspace => KeyPress::Backspace,
        KeyCode::Char(letter) => KeyPress::Letter(*letter),
        _ => return None,
    })
}

/// How far a key moves, if it moves at all, where a page is so long.
pub(crate) fn moves(key: KeyPress, page: usize) -> Option<ListMove> {
    Some(match key {
        KeyPress::Up | KeyPress::Letter('k') => ListMove::Back(1),
        KeyPress::Down | KeyPress::Letter('j') => ListMove::On(1),
        KeyPress::PageUp => ListMove::Back(page),
        KeyPress::PageDown => ListMove::On(page),
        KeyPress::Home | KeyPress::Letter('g') => ListMove::First,
        KeyPress::End | KeyPress::Letter('G') => ListMove::Last,
        _ => return None,
    })
}

/// A way through a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListMove {
    Back(usize),
    On(usize),
    First,
    Last,
}

impl ListMove {
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

    fn pressed(code: KeyCode, modifiers: KeyModifiers) -> Option<KeyPress> {
        key(&Event::Key(KeyEvent::new(code, modifiers)))
    }

    #[test]
    fn letters_are_letters_and_ctrl_c_is_not_one() {
        assert_eq!(pressed(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(KeyPress::Letter('G')));
        assert_eq!(pressed(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(KeyPress::Interrupt));
        assert_eq!(pressed(KeyCode::Char('z'), KeyModifiers::CONTROL), Some(KeyPress::Suspend));
        assert_eq!(pressed(KeyCode::Char('b'), KeyModifiers::CONTROL), None);
        assert_eq!(pressed(KeyCode::F(1), KeyModifiers::NONE), None);
    }

    #[test]
    fn moves_end_at_the_ends() {
        let on = |key, place| moves(key, 10).expect("a move").from(place, 24);
        assert_eq!([on(KeyPress::Up, 0), on(KeyPress::Up, 5), on(KeyPress::PageUp, 7)], [0, 4, 0]);
        assert_eq!(
            [on(KeyPress::Down, 24), on(KeyPress::PageDown, 3), on(KeyPress::PageDown, 20)],
            [24, 13, 24]
        );
        assert_eq!([on(KeyPress::Letter('g'), 9), on(KeyPress::Letter('G'), 9)], [0, 24]);
        assert_eq!(moves(KeyPress::Enter, 10), None);
    }
}
