//! Sharing one output matrix among workers without locks.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A matrix `[row_len, n_rows]`, fastest extent first, cut along the fastest extent into stripes that workers claim one by one.
pub struct Stripes<'a, T> {
    data: *mut T,
    row_len: usize,
    n_rows: usize,
    grain: usize,
    next: AtomicUsize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: threads get at the data only through `claim`, which gives every element to one stripe only.
unsafe impl<T: Send> Sync for Stripes<'_, T> {}
// SAFETY: a `Stripes` stands for the exclusive borrow it was made from.
unsafe impl<T: Send> Send for Stripes<'_, T> {}

impl<'a, T> Stripes<'a, T> {
    /// Cuts `data` of shape `[row_len, data.len() / row_len]` into stripes of up to `grain` elements per row. Elements beyond the last
    /// whole row belong to no stripe.
    pub fn new(data: &'a mut [T], row_len: usize, grain: usize) -> Stripes<'a, T> {
        Stripes {
            n_rows: data.len().checked_div(row_len).unwrap_or(0),
            data: data.as_mut_ptr(),
            row_len,
            grain: grain.clamp(1, row_len.max(1)),
            next: AtomicUsize::new(0),
            owner: PhantomData,
        }
    }

    /// The next stripe that nobody has, or `None` when all are taken.
    pub fn claim(&self) -> Option<Stripe<'_, T>> {
        // Claims stop counting at the end, so the counter cannot wrap around and give a stripe twice.
        if self.next.load(Ordering::Relaxed) >= self.row_len {
            return None;
        }
        let start = self.next.fetch_add(self.grain, Ordering::Relaxed);
        let end = self.row_len.min(start.saturating_add(self.grain));
        (start < end).then_some(Stripe { stripes: self, range: start..end, owner: PhantomData })
    }
}

/// The elements `range` of every row: one worker's exclusive share of a matrix.
pub struct Stripe<'a, T> {
    stripes: &'a Stripes<'a, T>,
    range: Range<usize>,
    owner: PhantomData<&'a mut [T]>,
}

impl<T> Stripe<'_, T> {
    /// Which elements of each row these are.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// This stripe's part of row `row`. Panics if there is no such row.
    pub fn row_mut(&mut self, row: usize) -> &mut [T] {
        assert!(row < self.stripes.n_rows, "row {row} of a matrix of {} rows", self.stripes.n_rows);
        let start = row * self.stripes.row_len + self.range.start;
        // SAFETY: the range lies inside a row inside the borrowed slice; ranges of different stripes do not overlap, and
        // `&mut self` lends one row of this stripe at a time.
        unsafe { std::slice::from_raw_parts_mut(self.stripes.data.add(start), self.range.len()) }
    }
}
