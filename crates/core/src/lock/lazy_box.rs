//! A box that is allocated when its content first changes. Most locks never need a queue, members
//! or tombstones, and take little memory without them.

use std::ops::{Deref, DerefMut};

/// A box whose content is the default until it changes. Until then it takes one word.
#[derive(Clone, Debug)]
pub(super) struct LazyBox<T>(Option<Box<T>>);

/// A default that can be borrowed for `'static`: the content of a [`LazyBox`] before it changes.
pub(super) trait StaticDefault: Default + 'static {
    fn static_default() -> &'static Self;
}

impl<T> Default for LazyBox<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: StaticDefault> Deref for LazyBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::static_default())
    }
}

impl<T: StaticDefault> DerefMut for LazyBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T> From<T> for LazyBox<T> {
    fn from(part: T) -> Self {
        Self(Some(Box::new(part)))
    }
}

impl<T: StaticDefault + PartialEq> PartialEq for LazyBox<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: StaticDefault + Eq> Eq for LazyBox<T> {}
