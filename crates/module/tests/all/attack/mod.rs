//! What the server does by itself, when something else goes wrong at the same time: its clock is set,
//! it must not take writes, it has forgotten what it promised, somebody dies at the head of a queue.

mod clock;
mod dead;
mod forgotten;
mod line;
mod refused;
