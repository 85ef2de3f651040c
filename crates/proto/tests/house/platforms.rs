//! The seam to the operating system: code that differs between systems is in `sys`, and each other place is counted.

use std::collections::BTreeMap;

use super::{code_below, is_test, workspace};

/// Words in a `cfg` that name a system.
const SYSTEMS: [&str; 5] = ["unix", "windows", "target_os", "target_vendor", "target_family"];

/// The places outside of the folders `sys`: the file, and the number of its attributes that name a system. Both mark code
/// that only polled stdio uses, which Windows does not have.
const OUTSIDE: [(&str, usize); 2] =
    [("duet-rpc/stdio/mod.rs", 1), ("duet-rpc/transport/outbox.rs", 1)];

/// Returns `true` if a line has a `cfg` that names a system, other than for tests.
fn names_a_system(line: &str) -> bool {
    let Some((_, condition)) = line.split_once("cfg") else { return false };
    let mut words = condition.split(|c: char| !c.is_alphanumeric() && c != '_');
    let is_cfg = condition.starts_with(['(', '!', '_']);
    is_cfg && !condition.contains("test") && words.any(|word| SYSTEMS.contains(&word))
}

#[test]
fn code_for_one_system_is_in_the_seam_or_counted() {
    let mut found = BTreeMap::new();
    for package in ["proto", "duet-rpc", "macros", "trace", "cli", "api", "nats"] {
        let source = workspace().join("crates").join(package).join("src");
        for (path, code) in code_below(&source) {
            let name = path.strip_prefix(&source).expect("it is below").to_string_lossy();
            let count = code.lines().filter(|line| names_a_system(line)).count();
            if count > 0 && !name.starts_with("sys") && !is_test(&path) {
                found.insert(format!("{package}/{name}"), count);
            }
        }
    }
    let counted = OUTSIDE.map(|(path, count)| (path.to_owned(), count));
    assert_eq!(found, BTreeMap::from(counted));
}

#[test]
fn a_condition_that_names_a_system_is_found() {
    for (line, expect) in [
        ("#[cfg(unix)]", true),
        ("    #[cfg(not(target_os = \"linux\"))]", true),
        ("if cfg!(windows) {", true),
        ("#![cfg_attr(windows, allow(dead_code))]", true),
        ("#[cfg(all(test, unix))]", false),
        ("#[cfg(feature = \"unix\")]", true),
        ("#[cfg(feature = \"http\")]", false),
        ("let config = unix;", false),
    ] {
        assert_eq!(names_a_system(line), expect, "{line}");
    }
}
