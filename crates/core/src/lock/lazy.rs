//! Parts that most locks never need: made when they are first changed, so that a lock without them
//! takes little memory.

use std::ops::{Deref, DerefMut};

/// A part that is blank at first, and takes one word until it is changed.
#[derive(Clone, Debug)]
pub(super) struct Lazy<T>(Option<Box<T>>);

/// What a part is before it is changed.
pub(super) trait Blank: Default + 'static {
    fn blank() -> &'static Self;
}

impl<T> Default for Lazy<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Blank> Deref for Lazy<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or_else(|| T::blank())
    }
}

impl<T: Blank> DerefMut for Lazy<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T> From<T> for Lazy<T> {
    fn from(part: T) -> Self {
        Self(Some(Box::new(part)))
    }
}

impl<T: Blank + PartialEq> PartialEq for Lazy<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Blank + Eq> Eq for Lazy<T> {}
