//! Licences and sources of the dependencies, and who may depend on what.
//!
//! (By `cargo metadata`; a tool that does more, `cargo deny`, takes longer to compile than most of the gate to run.)

use crate::run::{Result, metadata};
use serde_json::Value;
use spdx::{Expression, ParseMode};
use std::collections::BTreeMap;

/// What a dependency's licence may be.
const LICENCES: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "Unicode-3.0",
    "Zlib",
];
/// Where it may come from, if it is not in the work tree.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Crates that only some may use. The table of threads that wait of `parking_lot` does not survive a fork, and programs that use databases fork: they have
/// `fulmar-locks`. The process of a switch does not.
const RESERVED: [(&str, &[&str]); 1] = [(
    "parking_lot",
    &[
        "fulmar-bridge",
        "fulmar-conntrack",
        "fulmar-net",
        "fulmar-ovsdb",
        "fulmar-session",
        "fulmar-vswitch",
        "tokio-postgres",
    ],
)];
/// Where Fulmar runs.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

pub(crate) fn deny() -> Result {
    let platforms = PLATFORMS.iter().flat_map(|platform| ["--filter-platform", platform]);
    let metadata = metadata(&["--all-features"].into_iter().chain(platforms).collect::<Vec<_>>())?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata tells of no packages")?;
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or("cargo metadata tells of no dependencies")?;
    let names = packages.iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
    let misuses = nodes.iter().flat_map(|node| misuses(node, &names));
    let problems: Vec<String> = packages.iter().flat_map(problems).chain(misuses).collect();
    println!("{} crates looked at", packages.len());
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What is wrong with a package, as `cargo metadata` describes it.
fn problems(package: &Value) -> Vec<String> {
    let (name, source, licence) = (text(&package["name"]), &package["source"], text(&package["license"]));
    let mut problems = Vec::new();
    if !source.is_null() && source != REGISTRY {
        problems.push(format!("{name} comes from {source}, not from {REGISTRY}"));
    }
    if !is_allowed(licence) {
        problems.push(format!("{name} has the licence {licence:?}, which is not met by {LICENCES:?}"));
    }
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        if dependency["req"] == "*" && dependency["path"].is_null() {
            problems.push(format!("{name} takes any version of {}", dependency["name"]));
        }
    }
    problems
}

/// What a package, as it is resolved, depends on and must not. Packages have these names by their identifiers.
fn misuses(node: &Value, names: &BTreeMap<&str, &str>) -> Vec<String> {
    let name = |id: &Value| names.get(text(id)).copied().unwrap_or_default();
    let user = name(&node["id"]);
    let used = node["deps"].as_array().into_iter().flatten().map(|dependency| name(&dependency["pkg"]));
    let is_reserved =
        |used: &str| RESERVED.iter().any(|(name, users)| *name == used && !users.contains(&user));
    used.filter(|used| is_reserved(used)).map(|used| format!("{user} is not to use {used}")).collect()
}

/// Whether the terms of a licence, an SPDX expression, can be met by what is allowed.
fn is_allowed(licence: &str) -> bool {
    // Older manifests write a slash for OR.
    let terms = Expression::parse_mode(licence, ParseMode::LAX);
    terms.is_ok_and(|terms| terms.evaluate(|requirement| LICENCES.contains(&&*requirement.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_of_several_licences_is_enough_where_there_is_a_choice() {
        for licence in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 OR GPL-2.0-only",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0-only",
        ] {
            assert!(is_allowed(licence), "{licence}");
        }
        for licence in ["", "GPL-3.0-only", "MIT AND GPL-2.0-only", "Proprietary"] {
            assert!(!is_allowed(licence), "{licence}");
        }
    }

    #[test]
    fn each_kind_of_problem_is_told() {
        let package = |source: Value, requirement: &str| {
            let dependencies = json!([{"name": "regex", "req": requirement, "path": null}]);
            json!({"name": "egg", "license": "MIT", "source": source, "dependencies": dependencies})
        };
        let found = |package| problems(&package).len();
        assert_eq!(found(package(Value::Null, "^1")), 0);
        assert_eq!(found(package(json!(REGISTRY), "^1")), 0);
        assert_eq!(found(package(json!("git+https://example.org/egg"), "^1")), 1);
        assert_eq!(found(package(Value::Null, "*")), 1);
        let names = BTreeMap::from([("1", "fulmar-net"), ("2", "fulmar-kv"), ("3", "parking_lot")]);
        let user = |id: &str| misuses(&json!({"id": id, "deps": [{"pkg": "3"}]}), &names);
        assert!(user("1").is_empty());
        assert_eq!(user("2"), ["fulmar-kv is not to use parking_lot"]);
    }
}
