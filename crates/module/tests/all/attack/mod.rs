//! What the server does by itself when something else goes wrong at the same time: its clock is set, it must not take
//! writes, its state is stale, a client dies at the head of a queue.

mod clock;
mod dead;
mod forgotten;
mod line;
mod refused;
