//! Calls for the command: none, because the crates that it uses have safe ones.
