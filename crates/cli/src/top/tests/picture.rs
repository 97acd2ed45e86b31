//! The picture of the screen in the docs is what is drawn.

use std::path::PathBuf;

use super::super::keys::KeyPress;
use super::scene::{Stage, company};
use super::svg::svg;

#[test]
fn the_picture_in_the_docs_is_what_is_drawn() {
    let mut stage = Stage::new(94, 16);
    for picture in company() {
        stage.see(picture);
    }
    stage.press(KeyPress::Down);
    let picture = svg(&stage.drawn());
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/top.svg");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &picture).expect("written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == picture, "docs/top.svg is of another time: UPDATE_GOLDEN=1 draws it anew");
}
