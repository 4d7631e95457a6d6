//! Safe entries to functions that need the instruction set.

/// Defines a safe function `$name` that calls the `target_feature` function `$inner`.
macro_rules! entry {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? = $inner:ident) => {
        $(#[$doc])*
        pub(in crate::vec_ops) fn $name($($arg: $ty),*) $(-> $ret)? {
            // SAFETY: only the tables name these functions, and they hand them out where AVX2, FMA and F16C
            // were detected.
            unsafe { $inner($($arg),*) }
        }
    };
}

pub(super) use entry;
