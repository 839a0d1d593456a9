//! `fulmar lab`: what it prints, and what it refuses.

#![allow(clippy::unwrap_used, reason = "a test that cannot run a program has failed")]

use std::process::{Command, Output};

fn lab(arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_fulmar"));
    program.args(["lab", "speculative-paxos"]).args(arguments).output().unwrap()
}

#[test]
fn each_figure_is_a_line_and_has_the_papers_beside_it() {
    let output = lab(&["--only", "table1", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let figures: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(figures.len(), 3 * 9);
    let name = "lab.speculative_paxos.table1.speculative_bottleneck_3";
    let figure = figures.iter().find(|figure| figure["figure"] == name).unwrap();
    assert_eq!((&figure["value"], &figure["paper"]), (&2.4.into(), &2.6.into()));
    assert_eq!((&figure["unit"], &figure["better"]), (&"messages".into(), &"lower".into()));
}

#[test]
fn people_get_a_table() {
    let output = lab(&["--only", "table1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let row = text.lines().find(|line| line.starts_with("fast paxos") && line.contains(" 5 ")).unwrap();
    let words: Vec<&str> = row.split_whitespace().skip(2).collect();
    assert_eq!(words, ["5", "3", "(3)", "10", "(10)", "6", "(10)"]);
}

#[test]
fn applications_are_beside_the_papers() {
    let output = lab(&["--only", "table2", "--runs", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for (name, lines, of_rollback) in [
        ("timestamp server", "(154)", "(10)"),
        ("lock manager", "(606)", "(75)"),
        ("key-value store", "(2011)", "(248)"),
    ] {
        let row = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((words.len(), words[1], words[3]), (6, lines, of_rollback), "{row}");
    }
}

#[test]
fn bad_usage_is_named() {
    for (arguments, expected) in [
        (&["--only", "figure7"][..], "possible values: table1, figure8, figure9, table2, figure10"),
        (&["--runs", "0"], "invalid value '0' for '--runs <N>'"),
        (&["--seconds", "1"], "--loopback"),
        (&["--loopback", "--seconds", "0"], "expected 0.01 to 86400"),
        (&["--only", "table1,table2", "--plot", "unused.svg"], "--plot draws figures 8 to 10"),
    ] {
        let output = lab(arguments);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
        assert!(complaint.contains(expected), "{arguments:?}: {complaint}");
    }
    let output = lab(&["--only", "figure9", "--plot", "/no/such/folder/figures.svg"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("/no/such/folder/figures.svg: No such file"));
}
