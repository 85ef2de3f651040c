//! Where the messages of a whole stream stand, by the rules of `ndjson` and `length`.
