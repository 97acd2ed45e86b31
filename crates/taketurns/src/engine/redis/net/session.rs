//! A link, and what is known of the run at its other end.

use std::sync::Arc;

use super::errand::Turn;
use super::failure::Failure;
use super::link::Link;
use crate::engine::EngineFuture;
use crate::engine::redis::greeter::Bound;

/// Replaced as a whole when what is known changes; the link stays.
pub(crate) struct Session {
    pub(crate) link: Arc<Link>,
    pub(crate) bound: Bound,
    /// The key under which the marker of this server is. Empty on a node of a Cluster that has no
    /// slot, and so can have no key.
    pub(crate) home_key: Vec<u8>,
}

/// Gets to know the servers.
pub(crate) trait Greet: Send + Sync {
    /// A link was opened, or a script answered that it has to be looked at again.
    fn greet<'a>(
        &'a self,
        link: &'a Link,
        home_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Bound, Failure>>;

    /// The server does not know the scripts.
    fn load<'a>(
        &'a self,
        link: &'a Link,
        home_key: Vec<u8>,
    ) -> EngineFuture<'a, Result<Bound, Failure>>;
}

/// What has to be done before a command can be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    Load,
    Greet,
}

/// How a command is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Now,
    After(Again),
}

/// How often one call may be sent again after each: twice, since somebody else may flush scripts
/// just then; not for ever.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    loads: u8,
    greets: u8,
    turns: u8,
    looked: bool,
}

const TIMES_MAX: u8 = 2;
/// A lock may be taken over, forgotten and made anew between one turn and the next. Hardly twice.
const TURNS_MAX: u8 = 4;

impl Patience {
    /// How to send it again, or what to give up with. `turn` is asked about a key of another type.
    pub(crate) fn again(
        &mut self,
        failure: Failure,
        turn: impl FnOnce() -> Turn,
    ) -> Result<Next, Failure> {
        let (again, count) = match failure {
            Failure::NoScript => (Again::Load, &mut self.loads),
            Failure::Reverify => (Again::Greet, &mut self.greets),
            Failure::WrongType(why) => return self.turn(why, turn()),
            failure => return Err(failure),
        };
        *count += 1;
        if *count <= TIMES_MAX { Ok(Next::After(again)) } else { Err(failure) }
    }

    fn turn(&mut self, why: String, turn: Turn) -> Result<Next, Failure> {
        let perhaps = match turn {
            Turn::Over if self.turns < TURNS_MAX => {
                self.turns += 1;
                return Ok(Next::Now);
            }
            Turn::Look(_) if !self.looked => {
                self.looked = true;
                return Ok(Next::After(Again::Greet));
            }
            Turn::Over => None,
            Turn::Look(perhaps) | Turn::Never(perhaps) => perhaps,
        };
        Err(Failure::WrongType(match perhaps {
            Some(perhaps) => format!("{why} (or it is a lock of the server's module: {perhaps})"),
            None => why,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong_type() -> Failure {
        Failure::WrongType("something else".to_owned())
    }

    #[test]
    fn a_key_that_is_of_another_type_each_way_is_given_up() {
        let mut patience = Patience::default();
        for _ in 0..TURNS_MAX {
            assert_eq!(patience.again(wrong_type(), || Turn::Over), Ok(Next::Now));
        }
        assert_eq!(patience.again(wrong_type(), || Turn::Over), Err(wrong_type()));
    }

    #[test]
    fn a_server_is_greeted_once_to_find_another_way() {
        let mut patience = Patience::default();
        let greet = Ok(Next::After(Again::Greet));
        assert_eq!(patience.again(wrong_type(), || Turn::Look(None)), greet);
        assert_eq!(patience.again(wrong_type(), || Turn::Over), Ok(Next::Now));
        assert_eq!(patience.again(wrong_type(), || Turn::Look(None)), Err(wrong_type()));
        // What it is greeted for otherwise is counted apart.
        assert_eq!(patience.again(Failure::Reverify, || Turn::Over), greet);
    }

    #[test]
    fn why_there_is_no_other_way_is_said() {
        for turn in [Turn::Look(Some("denied".to_owned())), Turn::Never(Some("denied".to_owned()))]
        {
            let mut patience = Patience { looked: true, ..Patience::default() };
            let Err(Failure::WrongType(why)) = patience.again(wrong_type(), || turn) else {
                panic!("it is not given up");
            };
            assert!(why.starts_with("something else") && why.contains("denied"), "{why}");
        }
    }
}
