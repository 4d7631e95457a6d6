//! The compute graph and its stages: build, assign, fuse, allocate, split, execute.
