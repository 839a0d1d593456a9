//! What pages tell a newcomer to type is typed, and says what the pages say.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Begins the output of a command; its number follows.
const MARK: &str = "----- command ";
/// What stands for anything in the rest of a line.
const ANYTHING: char = '…';
/// What the shell asks a person with.
const PROMPT: &str = "fulmar> ";

/// A command of a page, what is typed when it asks, and what it is to print.
#[derive(Debug)]
struct Step {
    line: usize,
    command: String,
    input: Vec<String>,
    output: Vec<String>,
}

impl Step {
    /// The line of a script. What asks is given a terminal, which shows neither what is typed nor the prompts.
    fn script(&self) -> String {
        let Self { command, input, .. } = self;
        if input.is_empty() {
            return format!("{command}\n");
        }
        let typed = input.join("\n");
        format!(
            "TERM=dumb script -E never -qec '{command}' /dev/null << 'END' | sed 's/\\r//; s/{PROMPT}//g'\n{typed}\nEND\n"
        )
    }
}

/// The commands in the blocks of a page that are of the console.
fn steps(page: &str) -> Vec<Step> {
    let (mut steps, mut is_console): (Vec<Step>, bool) = (Vec::new(), false);
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            is_console = line == "```console";
        } else if !is_console {
            continue;
        } else if let Some(command) = line.strip_prefix("$ ") {
            let (input, output) = Default::default();
            steps.push(Step { line: number + 1, command: command.into(), input, output });
        } else if let Some(step) = steps.last_mut() {
            if let Some(typed) = line.strip_prefix(PROMPT) {
                step.input.push(typed.into());
                continue;
            }
            match line.strip_prefix("> ") {
                Some(more) if step.output.is_empty() => step.command.extend(["\n", more]),
                _ => step.output.push(line.trim_end().into()),
            }
        }
    }
    steps
}

/// Whether a line is as printed, where a page may leave parts of it out.
fn is_like(line: &str, printed: &str) -> bool {
    let mut parts = printed.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
        last = Some(part);
    }
    // What comes after the last ellipsis ends the line.
    last.map_or(rest.is_empty(), |part| part.is_empty() || rest.is_empty())
}

/// Types the commands of a page in one shell, in a directory and a network of its own, after what the page takes for granted.
fn follow(page: &str, granted: &str) {
    follow_with(&["--map-root-user"], page, granted);
}

/// The same with other rights, if that is said.
pub(crate) fn follow_with(rights: &[&str], page: &str, granted: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = fs::read_to_string(root.join(page)).expect("a page");
    let steps = steps(&text);
    assert!(!steps.is_empty(), "{page} says nothing to type");
    let folder = tempfile::tempdir().expect("a directory");
    let path = Path::new(env!("CARGO_BIN_EXE_fulmar")).parent().expect("a directory");
    let mut script = format!("ip link set lo up\n{granted}\n");
    for (number, step) in steps.iter().enumerate() {
        script.push_str(&format!("echo; echo '{MARK}{number}'\n{}", step.script()));
    }
    script.push_str("for job in $(jobs -p); do kill -9 $job; done\n");
    let file = folder.path().join("script");
    let mut written = fs::File::create(&file).expect("a file");
    written.write_all(script.as_bytes()).expect("there is room");
    written.set_permissions(fs::Permissions::from_mode(0o700)).expect("it is ours");
    let output = Command::new("unshare")
        .args(rights)
        .args(["--net", "--mount-proc", "--pid", "--fork", "--kill-child", "timeout", "120", "bash"])
        .arg(&file)
        .current_dir(folder.path())
        .env("PATH", format!("{}:{}", path.display(), std::env::var("PATH").unwrap_or_default()))
        .stdin(Stdio::null())
        .output()
        .expect("`unshare` is there");
    let told = String::from_utf8_lossy(&output.stdout);
    let all = || format!("{told}\n{}", String::from_utf8_lossy(&output.stderr));
    for (number, step) in steps.iter().enumerate() {
        let mark = format!("{MARK}{number}\n");
        let after = told
            .split_once(&mark)
            .unwrap_or_else(|| panic!("{page}:{}: not reached\n{}", step.line, all()))
            .1;
        let own = after.split_once(MARK).map_or(after, |(own, _)| own);
        let lines: Vec<&str> = own.trim_end().lines().map(str::trim_end).collect();
        let printed: Vec<&str> = step.output.iter().map(String::as_str).collect();
        let is_so = lines.len() == printed.len()
            && lines.iter().zip(&printed).all(|(line, printed)| is_like(line, printed));
        assert!(
            is_so,
            "{page}:{}: `{}` prints\n{own}\nand not\n{}\n{}",
            step.line,
            step.command,
            printed.join("\n"),
            all()
        );
    }
}

#[test]
fn an_ellipsis_stands_for_anything() {
    assert!(
        is_like("clock 17, lag 3", "clock …, lag 3") && is_like("clock 17", "clock …") && is_like("a", "a")
    );
    assert!(
        !is_like("clock 17, lag 4", "clock …, lag 3")
            && !is_like("clocks", "clock")
            && !is_like("clock", "clocks …")
    );
    assert!(!is_like("clock 17, lag 3 and more", "clock …, lag 3"));
}

#[test]
fn a_first_cluster_is_built_as_its_page_says() {
    follow("docs/first-cluster.md", "");
}

#[test]
fn machines_find_each_other_as_the_page_says() {
    follow("docs/discover.md", "");
}

#[test]
fn databases_are_imported_exported_and_backed_up_as_the_page_says() {
    follow("docs/transfer.md", "");
}

#[test]
fn processes_share_a_database_as_the_page_says() {
    // The order in which `ls` lists files.
    follow("docs/sharing.md", "export LC_ALL=C");
}

#[test]
fn the_shell_is_started_as_its_page_says() {
    follow("docs/shell.md", "");
}

#[test]
fn servers_join_and_are_drained_as_their_page_says() {
    follow("docs/server.md", "");
}

#[test]
fn machines_agree_on_a_configuration_as_the_page_says() {
    follow("docs/agree.md", "");
}

#[test]
fn timestamps_and_locks_are_served_as_their_page_says() {
    follow("docs/replication.md", "");
}

#[test]
fn operators_bring_servers_back_as_their_page_says() {
    follow("docs/operations.md", "");
}

#[test]
fn databases_come_and_go_as_the_front_page_says() {
    // It is built already.
    let granted = "cargo() { :; }; mkdir -p target/release && ln -s $(command -v fulmar) target/release/fulmar\n\
        touch old.db && fulmar sql old.db 'CREATE TABLE a(x); CREATE TABLE b(x); CREATE TABLE c(x); CREATE INDEX cx ON c(x)'\n\
        fulmar sql old.db 'INSERT INTO a SELECT value FROM generate_series(1, 1200)'";
    follow("README.md", granted);
}
