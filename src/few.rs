//! A list that is nearly always of one element, which then needs no allocation.

use std::ops::{Deref, DerefMut};

/// Elements, read as a slice.
pub enum Few<T> {
    /// Just one.
    One(T),
    /// Another number of them.
    Many(Vec<T>),
}

impl<T> FromIterator<T> for Few<T> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut elements = elements.into_iter();
        match (elements.next(), elements.next()) {
            (None, _) => Self::Many(Vec::new()),
            (Some(one), None) => Self::One(one),
            (Some(first), Some(second)) => {
                let mut many = Vec::with_capacity(2 + elements.size_hint().0);
                many.extend([first, second]);
                many.extend(elements);
                Self::Many(many)
            }
        }
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }
}

impl<T> DerefMut for Few<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(one) => std::slice::from_mut(one),
            Self::Many(many) => many,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_any_number() {
        for count in 0..5 {
            let few: Few<usize> = (0..count).collect();
            assert_eq!(few.to_vec(), (0..count).collect::<Vec<_>>());
            assert_eq!(matches!(few, Few::One(_)), count == 1);
        }
    }
}
