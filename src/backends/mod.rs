//! backends.
