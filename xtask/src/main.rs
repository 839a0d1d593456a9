//! Development tasks of Fulmar, run as `cargo xtask TASK`.
//!
//! `test` is what a change must pass and needs nothing but Rust and a C compiler. `e2e` drives the drop-in
//! library with programs that other people wrote; it first installs what they need. `soak` runs what takes
//! hours when given hours. `tidy`, `deny` and `dropin` are single steps of these, for running alone.
//!
//! Nothing is skipped silently: a step that cannot run fails, and says what is missing.

mod chaos;
mod deny;
mod dropin;
mod e2e;
mod figures;
mod fuzz;
mod gate;
mod outcomes;
mod run;
mod soak;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  test           formatting, house rules, lints, documentation, every test, licences
  e2e [--full] [--release] [--stock | --plain | --fulmar | --cluster] [SUITE…]
                 real programs on the drop-in library; what they need is installed first
                 --full    whole suites where the plain run takes a part
                 --release the library that users have, and not that of the tests, which has every assertion on
                 --stock   on the system's own libsqlite3 instead, to tell our failures from theirs
                 --plain   on the drop-in with ordinary files only; --fulmar: with Fulmar databases only;
                           --cluster: with Fulmar databases on three servers only
  soak [--full]  kills, power cuts, failing disks, concurrent transfers, sqllogictest on servers, fuzzers, hostile connections, some chaos; --full is hours
  soak chaos [PROTOCOL] [SEED]
                 500 faults on real servers and clients, under each protocol or one; as root
  fuzz SECONDS   each fuzzer of what the network takes from strangers
  figures --against REVISION [BENCHMARK…]
                 benchmarks of this tree and of that revision in turn: what fell; all of sql, ycsb, replication
                 and switch, or some
  tidy           the house rules alone
  deny           licences and sources of dependencies, and who may use which
  dropin         build target/release/dropin/libsqlite3.so.0
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["test"] => gate::test(),
        ["e2e", rest @ ..] => e2e::main(rest),
        ["soak"] => soak::soak(soak::Length::Slice),
        ["soak", "--full"] => soak::soak(soak::Length::Full),
        ["soak", "chaos"] => chaos::whole(),
        ["soak", "chaos", protocol] => chaos::under(protocol, None),
        ["soak", "chaos", protocol, seed] => chaos::under(protocol, Some(seed)),
        ["fuzz", seconds] if seconds.parse::<u32>().is_ok() => fuzz::fuzz(seconds),
        ["figures", "--against", revision, benchmarks @ ..] => figures::against(revision, benchmarks),
        ["tidy"] => tidy::tidy(),
        ["deny"] => deny::deny(),
        ["dropin"] => dropin::build(run::Build::Release).map(|library| println!("{}", library.display())),
        ["--help" | "-h" | "help"] => {
            print!("{USAGE}");
            Ok(())
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}
