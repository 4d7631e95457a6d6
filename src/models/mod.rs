//! models.
