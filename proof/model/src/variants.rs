//! The protocol with one thing broken at a time. A check that does not find each of them finds nothing.

use crate::broken::BrokenPromises;

/// What is broken on purpose.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Variant {
    /// Nothing: the protocol as it is meant.
    Sound,
    /// A majority of votes is enough to hold with the largest of their tokens; none votes for it.
    NoWriteBack,
    /// A renewal sets a node's token, even if another candidate holds there or newer tokens were given out since.
    BlindWriteBack,
    /// Holders are not told of lower tickets that wait.
    NoInquire,
    /// A yield names its owner and no grant, so a late one gives back the next grant.
    YieldByOwner,
    /// A client believes late replies about a grant that it yielded.
    NoFloor,
    /// A client's ticket is what its clock says.
    ClientClockTickets,
    /// A node that restarted empty grants at once.
    NoQuarantine,
    /// A node that restarted empty begins with token 1 again, whatever its clock says.
    NoClockFloor,
    /// A node may raise a client's ticket and not lower it.
    RaiseOnlyTickets,
    /// A ticket that a client sets does not count for those who come later.
    NextForgetsTickets,
    /// A grant does not say at which ticket it is held; the client takes the grant's number for it.
    GrantWithoutTicket,
    /// A yield is not carried out where nobody with a lower ticket waits any more.
    YieldOnlyIfInquired,
    /// A yield is not sent again when the node still takes the client for its holder.
    YieldOnce,
    /// A vote at a node that does not answer counts as one that may still confirm.
    SilentVotesCount,
    /// A client that was in line takes equal tokens of wake-ups for a hold, and their lease for a full one.
    NoConfirm,
    /// A client whose hold was over holds again when it has its votes back.
    HeldAgain,
    /// A release leaves nothing behind that refuses a late acquire.
    NoBurial,
}

impl Variant {
    /// All that are broken.
    pub const BROKEN: [Variant; 17] = [
        Variant::NoWriteBack,
        Variant::BlindWriteBack,
        Variant::NoInquire,
        Variant::YieldByOwner,
        Variant::NoFloor,
        Variant::ClientClockTickets,
        Variant::NoQuarantine,
        Variant::NoClockFloor,
        Variant::RaiseOnlyTickets,
        Variant::NextForgetsTickets,
        Variant::GrantWithoutTicket,
        Variant::YieldOnlyIfInquired,
        Variant::YieldOnce,
        Variant::SilentVotesCount,
        Variant::NoConfirm,
        Variant::HeldAgain,
        Variant::NoBurial,
    ];

    /// The promises that it may be the first to break.
    pub fn breaks(self) -> BrokenPromises {
        match self {
            Variant::Sound => BrokenPromises::default(),
            Variant::YieldByOwner | Variant::NoFloor | Variant::NoConfirm => {
                BrokenPromises::EXCLUSION
            }
            Variant::NoWriteBack | Variant::HeldAgain => BrokenPromises::TOKENS,
            Variant::ClientClockTickets | Variant::NextForgetsTickets => BrokenPromises::ORDER,
            Variant::NoQuarantine => BrokenPromises::EXCLUSION.or(BrokenPromises::TOKENS),
            // A token that goes back brings grants that clients take for old ones.
            Variant::BlindWriteBack | Variant::NoClockFloor => {
                BrokenPromises::TOKENS.or(BrokenPromises::PROGRESS)
            }
            Variant::NoInquire
            | Variant::RaiseOnlyTickets
            | Variant::GrantWithoutTicket
            | Variant::YieldOnlyIfInquired
            | Variant::YieldOnce
            | Variant::SilentVotesCount
            | Variant::NoBurial => BrokenPromises::PROGRESS,
        }
    }
}
