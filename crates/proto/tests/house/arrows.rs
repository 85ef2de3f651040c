//! Dependencies between modules: the tables in ARCHITECTURE.md match the code.
//!
//! The page has a table for each crate, under a heading that names its folder:
//!
//! ```text
//! ### `crates/proto/src`
//!
//! | module | uses | contents |
//! |---|---|---|
//! | `frame` | `fault`, `text` | … |
//! ```
//!
//! A module uses another if its code, apart from tests, has a path `crate::other`. A name of the
//! crate's root counts as `lib`. Lines `pub use crate::…` are re-exports and do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::{code_below, is_test, workspace};

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The dependencies in the tables of a page, by the folder of the crate.
fn claimed(page: &str) -> BTreeMap<String, Arrows> {
    let mut crates = BTreeMap::<String, Arrows>::new();
    let mut folder = None;
    for line in page.lines() {
        if line.starts_with('#') {
            let name = line.strip_prefix("### `").and_then(|rest| rest.strip_suffix('`'));
            folder = name.filter(|name| name.ends_with("/src")).map(str::to_owned);
        } else if let (Some(folder), Some(row)) = (&folder, line.strip_prefix("| `")) {
            let mut cells = row.split('|');
            let module = cells.next().unwrap_or_default().trim().trim_matches('`').to_owned();
            let uses = cells.next().unwrap_or_default();
            let uses = uses.split('`').skip(1).step_by(2).map(str::to_owned).collect();
            let before = crates.entry(folder.clone()).or_default().insert(module.clone(), uses);
            assert!(before.is_none(), "{module} stands twice in the table of {folder}");
        }
    }
    crates
}

/// The dependencies in the code below a folder.
fn real(source: &Path) -> Arrows {
    let mut arrows = Arrows::new();
    for (path, code) in code_below(source) {
        let name = path.strip_prefix(source).expect("it is below");
        let module = name.components().next().expect("it has a name").as_os_str();
        let module = module.to_string_lossy().trim_end_matches(".rs").to_owned();
        if is_test(name) || ["lib", "main"].contains(&&*module) {
            continue;
        }
        let uses = arrows.entry(module.clone()).or_default();
        uses.extend(used(&code).into_iter().filter(|other| *other != module));
    }
    arrows
}

/// The modules that code uses, without its tests.
fn used(code: &str) -> BTreeSet<String> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_export = |statement: &&str| !statement.trim_start().contains("pub use crate::");
    let code = code.split_inclusive(';').filter(is_export).collect::<String>();
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let paths = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => {
                rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
            }
        };
        for path in paths.split(',').map(str::trim).filter(|path| !path.is_empty()) {
            let name = path.split("::").next().unwrap_or_default();
            let is_type = name.starts_with(|c: char| c.is_uppercase());
            found.insert(if is_type { "lib" } else { name }.to_owned());
        }
    }
    found
}

fn check(page: &str, source: &str, real: &Arrows) -> Result<(), String> {
    let claimed = claimed(page);
    let claimed = claimed.get(source).ok_or_else(|| format!("there is no table of {source}"))?;
    let modules = claimed.keys().chain(real.keys()).collect::<BTreeSet<_>>();
    for module in modules {
        let (claims, uses) = (claimed.get(module), real.get(module));
        if claims != uses {
            return Err(format!("{source}, {module}: the page has {claims:?}, the code {uses:?}"));
        }
    }
    Ok(())
}

#[test]
fn module_dependencies_match_architecture_md() {
    let page = fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("it can be read");
    let sources = [
        "crates/proto/src",
        "crates/duet-rpc/src",
        "crates/trace/src",
        "crates/api/src",
        "crates/cli/src",
    ];
    let wrong: Vec<_> = sources
        .iter()
        .filter_map(|source| check(&page, source, &real(&workspace().join(source))).err())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_missing_or_extra_dependency_is_reported() {
    let page = "### `crates/x/src`\n\n| module | uses |\n|---|---|\n| `a` | `b` |\n| `b` | |\n";
    let arrows = |uses: &[&str]| {
        let uses = uses.iter().map(|name| (*name).to_owned()).collect();
        Arrows::from([("a".to_owned(), uses), ("b".to_owned(), BTreeSet::new())])
    };
    assert_eq!(check(page, "crates/x/src", &arrows(&["b"])), Ok(()));
    for uses in [&[][..], &["b", "lib"]] {
        assert!(check(page, "crates/x/src", &arrows(uses)).is_err(), "{uses:?}");
    }
    assert!(check(page, "crates/y/src", &arrows(&["b"])).is_err(), "another crate");
}

#[test]
fn uses_are_found_in_every_form() {
    let code = "use crate::{a, b::C};\nfn f() { crate::d::e() }\nuse crate::Type;\n\
                pub use crate::f::G;\n#[cfg(test)]\nmod tests {\n use crate::h;\n}";
    let expect = ["a", "b", "d", "lib"].map(str::to_owned);
    assert_eq!(used(code), BTreeSet::from(expect));
}
