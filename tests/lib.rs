//! Suites that cross crates; the lab is in support/.
