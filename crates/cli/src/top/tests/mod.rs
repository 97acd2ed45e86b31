//! The screen and its keys, tried without a terminal and without a store. Screens are compared with
//! texts that anyone can read; `UPDATE_GOLDEN=1` writes what comes out, to be looked at.

mod picture;
pub(super) mod scene;
mod screens;
mod state;
mod svg;
