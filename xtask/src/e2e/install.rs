//! What the suites need beyond Rust and a C compiler: Debian packages, a Python environment, source packages.
//! Downloads and environments are kept in the tools folder.

use crate::run::{Result, cargo, command, output, root, run, tools};
use std::path::{Path, PathBuf};

/// Debian packages: the Python whose sqlite3 module is tested, the library that it would use otherwise, and the shell whose
/// answers are expected of ours; the programs that use a switch, and what makes and asks hosts beside it; drivers of other languages.
const DEBIAN: [&str; 16] = [
    "python3",
    "python3-venv",
    "libsqlite3-0",
    "sqlite3",
    "openvswitch-common",
    "openvswitch-switch",
    "openvswitch-testcontroller",
    "iproute2",
    "iputils-ping",
    "ethtool",
    "php-cli",
    "php-sqlite3",
    "ruby-sqlite3",
    "libdbd-sqlite3-perl",
    "tcl",
    "libsqlite3-tcl",
];

/// Debian's own Python, which links libsqlite3 dynamically.
const PYTHON: &str = "/usr/bin/python3";

/// Installs the Debian packages that are missing.
pub(super) fn debian_packages() -> Result {
    let installed = |package: &&str| {
        let status =
            output(&mut command("dpkg-query", &["--show", "--showformat=${db:Status-Status}", package]));
        status.is_ok_and(|status| status == "installed")
    };
    let missing: Vec<&str> = DEBIAN.into_iter().filter(|package| !installed(package)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let advice =
        |error| format!("{error}\nthe end-to-end tests need these Debian packages: {}", missing.join(" "));
    run(&mut command("apt-get", &["update", "-qq"])).map_err(advice)?;
    let mut install = command("apt-get", &["install", "-y", "--no-install-recommends"]);
    // In single-user mode no daemon is started.
    install.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
    run(install.args(&missing)).map_err(advice)
}

/// The interpreter of an environment with what the suites import. Made anew when the requirements change.
pub(super) fn python() -> Result<PathBuf> {
    let requirements = root().join("e2e/requirements.txt");
    once("python", &read(&requirements)?, |folder| {
        run(&mut command(PYTHON, &["-m", "venv", &path(folder)]))?;
        let pip = folder.join("bin/pip");
        run(&mut command(pip, &["install", "--quiet", "--requirement", &path(&requirements)]))
    })
    .map(|folder| folder.join("bin/python"))
}

/// The unpacked source package of a PyPI project.
pub(super) fn pypi_source(package: &str, version: &str) -> Result<PathBuf> {
    let python = python()?;
    once(package, version, |folder| {
        let requirement = format!("{package}=={version}");
        let mut download =
            command(&python, &["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=:all:"]);
        run(download.args(["--no-build-isolation", "--dest", &path(folder), &requirement]))?;
        unpack(folder)
    })
    .map(|folder| folder.join(format!("{package}-{version}")))
}

/// CPython's tests of its sqlite3 module, of the version that Debian ships, as a folder for PYTHONPATH. They are
/// in no Debian binary package, so they come from the source package, through the machine's own apt sources.
pub(super) fn cpython_tests() -> Result<PathBuf> {
    let version = output(&mut command(PYTHON, &["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]))?;
    let version = version.trim();
    once("cpython", version, |folder| {
        let sources =
            output(&mut command("sh", &["-c", "cat /etc/apt/sources.list.d/*.sources 2>/dev/null || :"]))?;
        let lists = output(&mut command("sh", &["-c", "cat /etc/apt/sources.list 2>/dev/null || :"]))?;
        let parts = folder.join("sources");
        let state = folder.join("lists");
        for made in [&parts, &state] {
            std::fs::create_dir_all(made).map_err(|error| format!("{}: {error}", made.display()))?;
        }
        write(&parts.join("source.sources"), &sources.replace("Types: deb\n", "Types: deb-src\n"))?;
        let lists: String = lists.lines().filter(|line| line.starts_with("deb ")).map(source_line).collect();
        write(&parts.join("source.list"), &lists)?;

        let options = [
            "Dir::Etc::SourceList=/dev/null".to_owned(),
            format!("Dir::Etc::SourceParts={}", parts.display()),
            format!("Dir::State::Lists={}", state.display()),
            "APT::Sandbox::User=root".to_owned(),
        ];
        let apt = |arguments: &[&str]| {
            let mut apt = command("apt-get", &["-qq"]);
            apt.args(options.iter().flat_map(|option| ["-o", option])).args(arguments).current_dir(folder);
            run(&mut apt)
        };
        apt(&["update"])?;
        apt(&["source", "--only-source", "--download-only", "--tar-only", &format!("python{version}")])?;
        unpack(folder)
    })
    .and_then(|folder| {
        let unpacked =
            entries(&folder)?.into_iter().find(|entry| entry.join("Lib/test/test_sqlite3").is_dir());
        let unpacked = unpacked.ok_or_else(|| format!("no tests of sqlite3 in {}", folder.display()))?;
        // Only the package of tests: the rest of that library belongs to another build of Python.
        let alone = folder.join("tests");
        if !alone.exists() {
            std::fs::create_dir(&alone).map_err(|error| format!("{}: {error}", alone.display()))?;
            let test = unpacked.join("Lib/test");
            std::os::unix::fs::symlink(&test, alone.join("test")).map_err(|error| format!("{error}"))?;
        }
        Ok(alone)
    })
}

/// The original `sqlite3` shell, compiled into `folder` on a library.
pub(super) fn sqlite3_shell(library: &Path, folder: &Path) -> Result<PathBuf> {
    const PACKAGE: &str = "sqlite3-src-0.7.1/Cargo.toml";
    let manifest = root().join("e2e/shell/Cargo.toml");
    let metadata = ["metadata", "--locked", "--format-version=1", "--manifest-path", &path(&manifest)];
    let metadata = output(&mut cargo(&metadata))?;
    let found = metadata.split('"').find(|word| word.ends_with(PACKAGE));
    let source = found.and_then(|found| Path::new(found).parent()).map(|package| package.join("source"));
    let source = source.ok_or_else(|| format!("cargo metadata does not name {PACKAGE}"))?;
    let shell = folder.join("sqlite3");
    let mut compile =
        command("cc", &["-O1", "-w", "-DUSE_SYSTEM_SQLITE=1", "-I", &path(&source), "-o", &path(&shell)]);
    run(compile.arg(source.join("shell.c")).arg(library).args(["-lm", "-ldl", "-lpthread"]))?;
    Ok(shell)
}

/// Turns `deb [options] …` into `deb-src [options] …`.
fn source_line(line: &str) -> String {
    format!("deb-src{}\n", line.trim_start_matches("deb"))
}

/// A folder of the tools, filled by `fill` if that has not been done for this `stamp`.
fn once(name: &str, stamp: &str, fill: impl FnOnce(&Path) -> Result) -> Result<PathBuf> {
    let folder = tools().join(name);
    let mark = folder.join(".complete");
    if std::fs::read_to_string(&mark).is_ok_and(|found| found == stamp) {
        return Ok(folder);
    }
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    fill(&folder)?;
    write(&mark, stamp)?;
    Ok(folder)
}

/// Unpacks the one archive in `folder` there.
fn unpack(folder: &Path) -> Result {
    let archive = entries(folder)?.into_iter().find(|entry| path(entry).contains(".tar."));
    let archive = archive.ok_or_else(|| format!("no archive in {}", folder.display()))?;
    let folder = path(folder);
    run(&mut command("tar", &["--extract", "--file", &path(&archive), "--directory", &folder]))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

fn path(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn write(path: &Path, text: &str) -> Result {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_source_becomes_a_source_source() {
        assert_eq!(
            source_line("deb [trusted=yes] http://a b main"),
            "deb-src [trusted=yes] http://a b main\n"
        );
    }
}
