//! Records, and where they go (G1–G6).

mod level;

pub(crate) use level::Level;
