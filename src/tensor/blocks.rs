//! Block layouts.
