//! The terminal: given back as it was, whatever ends the program; and its keys, read by a thread, so
//! that nothing that takes long keeps them waiting.

use std::io;
use std::thread;

use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, enable_raw_mode};
use ratatui::layout::{Position, Rect};
use ratatui::{DefaultTerminal, Frame};
use rustix::process::{Signal, kill_current_process_group};
use tokio::sync::mpsc;

use crate::exit::ExitFailure;

/// The size of the buffer for keys that were pressed and not yet handled. The reader is quick.
const KEYS_MAX: usize = 64;

/// The screen, in a mode of its own until it is dropped. A panic gives it back, too.
pub(crate) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    pub(crate) fn enter() -> Result<Self, ExitFailure> {
        let terminal = ratatui::try_init().inspect_err(|_| give_back());
        Ok(Self { terminal: terminal? })
    }

    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), ExitFailure> {
        self.terminal.draw(draw)?;
        Ok(())
    }

    /// Gives the terminal back to the shell until it continues us.
    pub(crate) fn suspend(&mut self) -> Result<(), ExitFailure> {
        self.terminal.show_cursor()?;
        give_back();
        // Stops us here. Where there is no shell to continue us the kernel ignores it.
        let _ = kill_current_process_group(Signal::TSTP);
        self.take_again()
    }

    /// We were stopped, and somebody may have changed the terminal meanwhile.
    pub(crate) fn resume(&mut self) -> Result<(), ExitFailure> {
        give_back();
        self.take_again()
    }

    fn take_again(&mut self) -> Result<(), ExitFailure> {
        enable_raw_mode()?;
        execute!(io::stdout(), EnterAlternateScreen)?;
        // Draws everything anew. To ask where the cursor is, as clearing does, would be to wait for an
        // answer that the thread reads which reads keys.
        let size = self.terminal.size()?;
        Ok(self.terminal.resize(Rect::from((Position::ORIGIN, size)))?)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.terminal.show_cursor();
        // After a panic it was given back before that was told, and to do so again would put the cursor
        // where it was, which is above what was told.
        if !thread::panicking() {
            give_back();
        }
    }
}

/// It may be gone itself, and then there is nobody to tell.
fn give_back() {
    let _ = ratatui::try_restore();
}

/// What the terminal says, from now on. Ends if it has nothing more to say.
pub(crate) fn events() -> mpsc::Receiver<Event> {
    let (sender, receiver) = mpsc::channel(KEYS_MAX);
    // It ends with the program: there is no way to make it stop waiting for a key.
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Nobody is left at the terminal.
pub(crate) fn gone() -> ExitFailure {
    io::Error::from(io::ErrorKind::BrokenPipe).into()
}
