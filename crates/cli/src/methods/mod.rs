//! What the daemon serves.
