//! Something to be asked of whichever server has the key, and in which way: by the module there, or
//! by scripts. What the way is, and when it is another, is the errand's to say.

use redis::Cmd;

use super::session::Session;
use super::words::{Out, Words};

/// How a server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Scripts,
    Module,
}

/// What to do about a key of another type: it was asked in one way, and not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It goes the other way from now on.
    Over,
    /// There may be another way by now: the server has to be greeted before anybody can tell. If
    /// there is none, perhaps because of this.
    Look(Option<String>),
    /// There is no other way, perhaps because of this.
    Never(Option<String>),
}

pub(crate) trait Errand: Send + Sync {
    /// How this server is to be asked now.
    fn way(&self, _session: &Session) -> Way {
        Way::Scripts
    }

    /// Writes the command for this server.
    fn write(&self, session: &Session, way: Way, out: &mut Out);

    /// That way led to a key of another type.
    fn turn(&self, _session: &Session, _way: Way) -> Turn {
        Turn::Never(None)
    }
}

/// What is the same in every way.
impl<F: Fn(&Session) -> Cmd + Send + Sync> Errand for F {
    fn write(&self, session: &Session, _way: Way, out: &mut Out) {
        self(session).write(out);
    }
}

/// An errand to one server, in one way.
pub(crate) struct To<'a> {
    pub(crate) errand: &'a dyn Errand,
    pub(crate) session: &'a Session,
    pub(crate) way: Way,
}

impl Words for To<'_> {
    fn write(&self, out: &mut Out) {
        self.errand.write(self.session, self.way, out);
    }
}
