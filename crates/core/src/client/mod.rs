//! What a client decides on its own, as pure functions of time and events: until when a grant counts
//! as held ([`Anchor`], [`Sight`]), when to renew and when to give up ([`Hold`]), when to refresh a place and
//! ask again ([`Vigil`]), how long to pause after a failure ([`Backoff`]).
//!
//! Local times are microseconds on any clock of the client's that never goes back and does not stop
//! while the machine sleeps. Engine times are milliseconds on the engine's clock. Only an [`Anchor`]
//! turns one into the other.

mod anchor;
mod backoff;
mod hold;
mod sight;
mod vigil;

pub use anchor::{Anchor, Anchors, Origin};
pub use backoff::Backoff;
pub use hold::{Due, Hold, LossCause};
pub use sight::Sight;
pub use vigil::Vigil;
