//! Dependencies: their source, licence, versions and features.
//!
//! `deny.toml` lists the allowed sources and licences, and the exceptions. cargo-deny checks all of
//! its rules (`scripts/supply-chain`). The checks here cover a part of them, need no other tool, and
//! run with all other tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use super::{files, workspace};

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text between the quotes after `key = "` in a line.
fn quoted<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split(&format!("{key} = \"")).nth(1)?.split('"').next()
}

/// A package of a lock file.
struct Locked {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
}

fn locked(path: &str) -> Vec<Locked> {
    let text = read(path);
    let packages: Vec<_> = text
        .split("[[package]]")
        .skip(1)
        .map(|package| {
            let value = |key: &str| {
                let mut lines = package.lines().filter(|line| line.starts_with(key));
                lines.find_map(|line| quoted(line, key)).map(str::to_owned)
            };
            Locked {
                name: value("name").expect("a name"),
                version: value("version").expect("a version"),
                source: value("source"),
                checksum: value("checksum"),
            }
        })
        .collect();
    assert!(packages.len() > 5, "{path} is not parsed correctly");
    packages
}

#[test]
fn every_foreign_package_comes_from_crates_io_with_a_checksum() {
    let ours = [
        ("Cargo.lock", "duet-rpc"),
        ("fuzz/Cargo.lock", "duet-rpc"),
        ("bench/Cargo.lock", "bench-"),
        ("bench/peers/Cargo.lock", "peer-"),
    ];
    for (path, prefix) in ours {
        for package in locked(path) {
            let Locked { name, version, source, checksum } = package;
            let Some(source) = source else {
                let is_ours = name.starts_with(prefix) || name.starts_with("duet-rpc");
                assert!(is_ours, "{path}: {name} {version} has no source");
                continue;
            };
            assert_eq!(
                source, "registry+https://github.com/rust-lang/crates.io-index",
                "{path}: {name} {version}"
            );
            let is_sum =
                |sum: &String| sum.len() == 64 && sum.bytes().all(|b| b.is_ascii_hexdigit());
            assert!(checksum.as_ref().is_some_and(is_sum), "{path}: {name} {version}");
        }
    }
}

/// The exceptions of `deny.toml`: `name@version`, each with its reason.
fn exceptions() -> BTreeSet<String> {
    let deny = read("deny.toml");
    let lines = deny.lines().filter(|line| line.contains("crate = \"") && line.contains('@'));
    lines
        .map(|line| {
            let reason = quoted(line, "reason").unwrap_or_default();
            assert!(reason.len() > 10, "an exception has no reason: {line}");
            quoted(line, "crate").expect("a crate").to_owned()
        })
        .collect()
}

#[test]
fn every_duplicate_version_has_a_reason_in_deny_toml() {
    let exceptions = exceptions();
    let mut met = BTreeSet::new();
    // Not the lock files of the stacks that the benchmarks compare: users of this library do not
    // build them.
    for path in ["Cargo.lock", "fuzz/Cargo.lock", "bench/Cargo.lock"] {
        let mut versions = BTreeMap::<_, Vec<_>>::new();
        for Locked { name, version, .. } in locked(path) {
            let is_named = exceptions.contains(&format!("{name}@{version}"));
            if is_named {
                met.insert(format!("{name}@{version}"));
            } else {
                versions.entry(name).or_default().push(version);
            }
        }
        for (name, versions) in versions {
            assert_eq!(versions.len(), 1, "{path}: {name} has several versions: {versions:?}");
        }
    }
    assert_eq!(met, exceptions, "an exception in deny.toml is not needed any more");
}

/// True if the allowed licences cover this SPDX expression.
fn is_allowed(license: &str, allowed: &[String]) -> bool {
    // Older packages write a slash for OR.
    let text = license.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<_> = text.split_whitespace().collect();
    let (is_allowed, rest) = either(&words, allowed);
    is_allowed && rest.is_empty()
}

fn either<'a>(words: &'a [&'a str], allowed: &[String]) -> (bool, &'a [&'a str]) {
    let (mut is_one, mut rest) = both(words, allowed);
    while let ["OR", behind @ ..] = rest {
        let (is_other, behind) = both(behind, allowed);
        (is_one, rest) = (is_one || is_other, behind);
    }
    (is_one, rest)
}

fn both<'a>(words: &'a [&'a str], allowed: &[String]) -> (bool, &'a [&'a str]) {
    let (mut is_one, mut rest) = single(words, allowed);
    while let ["AND", behind @ ..] = rest {
        let (is_other, behind) = single(behind, allowed);
        (is_one, rest) = (is_one && is_other, behind);
    }
    (is_one, rest)
}

fn single<'a>(words: &'a [&'a str], allowed: &[String]) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inside @ ..] => match either(inside, allowed) {
            (is_allowed, [")", rest @ ..]) => (is_allowed, rest),
            _ => (false, &[]),
        },
        // A licence with an exception counts as a separate licence.
        [name, "WITH", more, rest @ ..] => (allowed.contains(&format!("{name} WITH {more}")), rest),
        [name, rest @ ..] => (allowed.contains(&(*name).to_owned()), rest),
        [] => (false, &[]),
    }
}

#[test]
fn every_licence_is_allowed() {
    let deny = read("deny.toml");
    let list = deny.split("\nallow = [").nth(1).and_then(|rest| rest.split(']').next());
    let allowed: Vec<_> = list.expect("a list").split('"').skip(1).step_by(2).collect();
    let allowed: Vec<_> = allowed.into_iter().map(str::to_owned).collect();
    assert!(allowed.contains(&"MIT".to_owned()), "{allowed:?}");
    for (license, expect) in [
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0", false),
        ("MIT AND GPL-3.0", false),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
        ("(MIT OR Apache-2.0) AND GPL-3.0", false),
        ("Apache-2.0 WITH LLVM-exception", false),
        ("Unlicense/MIT", true),
        ("MIT)", false),
        ("", false),
    ] {
        assert_eq!(is_allowed(license, &allowed), expect, "{license}");
    }

    // The packages built on this platform; cargo-deny covers the others too.
    let host = Command::new(env!("CARGO")).args(["-vV"]).output().expect("cargo runs").stdout;
    let host = String::from_utf8(host).expect("it is text");
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host");
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--locked", "--all-features"])
        .args(["--filter-platform", host])
        .current_dir(workspace())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 40, "{} packages", packages.len());
    for package in packages {
        let license = package["license"].as_str().unwrap_or_default();
        assert!(is_allowed(license, &allowed), "{}: {license}", package["name"]);
    }
}

/// The dependencies in the sections of a manifest with this title: the name and value of each line.
fn dependencies(manifest: &str, section: &str) -> Vec<(String, String)> {
    let (mut found, mut is_in) = (Vec::new(), false);
    for line in manifest.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            let name = name.trim_end_matches(']');
            // `[target.'cfg(unix)'.dependencies]` is also such a section.
            is_in = name == section || name.ends_with(&format!("'.{section}"));
        } else if let Some((name, value)) = line.split_once('=').filter(|_| is_in) {
            let name = name.trim().trim_end_matches(".workspace");
            found.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    found
}

fn features(value: &str) -> BTreeSet<String> {
    let list = value.split(" features = [").nth(1).and_then(|rest| rest.split(']').next());
    list.unwrap_or_default().split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_feature_of_a_dependency_has_a_reason() {
    let mut used = BTreeMap::<_, BTreeSet<_>>::new();
    let shared = dependencies(&read("Cargo.toml"), "workspace.dependencies");
    assert!(shared.len() > 15, "{shared:?}");
    for (name, value) in &shared {
        assert!(!value.contains('*'), "{name}: any version");
        let is_ours = name.starts_with("duet-rpc");
        assert!(is_ours || value.contains("default-features = false"), "{name}: {value}");
    }
    for package in ["proto", "macros", "duet-rpc", "trace", "cli"] {
        let manifest = read(&format!("crates/{package}/Cargo.toml"));
        let section = |section: &str| dependencies(&manifest, section);
        for (name, value) in section("dependencies").iter().chain(&section("dev-dependencies")) {
            let is_shared = value == "true" || value.contains("workspace = true");
            assert!(is_shared, "{package}: {name} does not use the shared version: {value}");
        }
        for (name, value) in section("dependencies") {
            let (_, common) = shared.iter().find(|(it, _)| *it == name).expect("it is shared");
            let features = features(&value).into_iter().chain(features(common));
            used.entry(name).or_default().extend(features);
        }
    }
    used.retain(|name, _| !name.starts_with("duet-rpc"));
    let page = read("SECURITY.md");
    for (name, features) in used {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("SECURITY.md does not say what {name} is for"));
        for feature in features {
            assert!(
                row.contains(&format!("`{feature}`")),
                "{name}: no reason for `{feature}`: {row}"
            );
        }
    }
}

#[test]
fn every_dependency_is_used() {
    for package in ["proto", "macros", "duet-rpc", "trace", "cli"] {
        let manifest = read(&format!("crates/{package}/Cargo.toml"));
        let code = |folders: &[&str]| {
            let root = workspace().join("crates").join(package);
            let paths = folders.iter().flat_map(|folder| files(&root.join(folder)));
            let read = |path| fs::read_to_string(path).expect("it is text");
            let mut code: String = paths.map(read).collect();
            // Tests of the command share files with tests of the library.
            if code.contains("duet-rpc/tests/support/") {
                let shared = files(&workspace().join("crates/duet-rpc/tests/support"));
                code.extend(shared.into_iter().map(read));
            }
            code
        };
        let everywhere = ["src", "tests", "benches", "examples"];
        for (section, folders) in
            [("dependencies", &everywhere[..1]), ("dev-dependencies", &everywhere)]
        {
            let code = code(folders);
            for (name, _) in dependencies(&manifest, section) {
                let is_used = code.contains(&format!("{}::", name.replace('-', "_")));
                assert!(is_used, "{package} does not use {name}, of its {section}");
            }
        }
    }
}
