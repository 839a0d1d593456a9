//! `fulmar agree`: the first configuration of a cluster, agreed on in spite of liars.

mod agreed;
mod cluster;
mod settings;

pub(crate) use agreed::Agreed;
pub(crate) use cluster::{Cluster, Own};

use crate::ending::{BadUsage, exit_code};
use crate::files::{named, settings};
use crate::log;
use clap::{Args, Subcommand};
use fulmar_byzantine::Agreement;
use fulmar_council::{Digest, Identity, Meeting, Report};
use fulmar_files::write_whole;
use serde_json::json;
use settings::Settings;
use std::error::Error;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

/// `fulmar agree`
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(
    after_help = "Example:\n  fulmar agree keygen agree.key          # on each machine; prints the key to write below\n  \
                        fulmar agree --config agree.toml       # on each machine\n  \
                        fulmar serve --config node.toml --genesis agreed.toml\n\n\
                        with agree.toml, which is the same everywhere:\n  name = \"birds, at first\"     # the occasion; another one each time\n  \
                        tolerates = 1                # so many may lie, of more than three times as many\n  \
                        round_ms = 2000              # more than three times what a message and computing take\n  \
                        wait_s = 600                 # how long to wait until all are there; then most will do\n  \
                        key = \"agree.key\"            # this machine's own, which nobody else can read\n  \
                        proposal = \"cluster.toml\"    # the configuration that this machine's operator wants\n  \
                        member = [\n    { address = \"10.0.0.1:7600\", key = \"…\" }, # and so on, in the same order everywhere\n  ]\n\n\
                        Exit status: 0 agreed on what was proposed here, 1 not, 2 bad usage."
)]
pub struct Agree {
    #[command(subcommand)]
    command: Option<Command>,
    /// Settings in TOML
    #[arg(long, value_name = "FILE", required = true)]
    config: Option<PathBuf>,
    /// Where to write what was agreed on
    #[arg(long, value_name = "FILE", default_value = "agreed.toml")]
    out: PathBuf,
    /// Lies, for tests: silence, equivocate, garbage, late, replay or anything-SEED
    #[cfg(debug_assertions)]
    #[arg(long, value_name = "STRATEGY", hide = true)]
    byzantine: Option<fulmar_council::Strategy>,
}

#[derive(Subcommand)]
enum Command {
    /// Makes a key, and prints the half of it that the others write down
    #[command(after_help = "Example:\n  fulmar agree keygen agree.key")]
    Keygen {
        /// Where to write it
        #[arg(value_name = "FILE")]
        key: PathBuf,
    },
    /// Verifies what was agreed on, and says what that proves
    #[command(after_help = "Example:\n  fulmar agree check agreed.toml")]
    Check {
        /// As `fulmar agree` has written it
        #[arg(value_name = "FILE")]
        agreed: PathBuf,
        /// One object a line: of each member, and of what all have agreed on
        #[arg(long)]
        json: bool,
    },
}

/// Takes part in an agreement.
pub fn run(agree: &Agree) -> ExitCode {
    exit_code(match (&agree.command, &agree.config) {
        (Some(Command::Keygen { key }), _) => keygen(key),
        (Some(Command::Check { agreed, json }), _) => check(agreed, *json),
        (None, Some(config)) => take_part(agree, config),
        (None, None) => Err(BadUsage::new("there are no settings: expected --config FILE").into()),
    })
}

fn keygen(path: &Path) -> Result<(), Box<dyn Error>> {
    let pem = Identity::generate()?;
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|why| named(path, why))?;
    file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()).map_err(|why| named(path, why))?;
    println!("{}", Identity::from_pem(pem.as_bytes())?.public());
    Ok(())
}

fn check(path: &Path, json: bool) -> Result<(), Box<dyn Error>> {
    let agreed = Agreed::read(path)?;
    if json {
        print_json(&agreed);
        return Ok(());
    }
    println!("configuration {}, of \"{}\"", agreed.digest(), agreed.council().name());
    for (number, member) in (1..).zip(agreed.council().members()) {
        let did = if agreed.has_signed(number - 1) { "signed" } else { "did not sign" };
        println!("member {number}, {}, key {}: {did}", member.address, member.key);
    }
    println!(
        "If no more than {} of these members lie, all others have decided on this configuration, and it was proposed by \
         some of them.\nThat these are the right members, compare by their council:\ncouncil = \"{}\"",
        agreed.council().tolerates(),
        agreed.council().digest()
    );
    Ok(())
}

fn print_json(agreed: &Agreed) {
    for (number, member) in (1..).zip(agreed.council().members()) {
        println!(
            "{}",
            json!({
                "member": number, "address": member.address, "key": member.key.to_string(),
                "signed": agreed.has_signed(number - 1),
            })
        );
    }
    println!(
        "{}",
        json!({
            "configuration": agreed.digest().to_string(), "name": agreed.council().name(),
            "tolerates": agreed.council().tolerates(), "council": agreed.council().digest().to_string(),
        })
    );
}

fn take_part(agree: &Agree, config: &Path) -> Result<(), Box<dyn Error>> {
    let settings: Settings = settings(config)?;
    let wrong = |path: &Path, why: &dyn Display| BadUsage::new(named(path, why));
    let pem = fs::read(&settings.key).map_err(|why| wrong(&settings.key, &why))?;
    let identity = Identity::from_pem(&pem).map_err(|why| wrong(&settings.key, &why))?;
    let configuration =
        fs::read_to_string(&settings.proposal).map_err(|why| wrong(&settings.proposal, &why))?;
    Cluster::parse(&configuration).map_err(|why| wrong(&settings.proposal, &why))?;
    if agree.out.exists() {
        let why = "it is there already, from an earlier agreement: move it away, or name another by --out";
        return Err(wrong(&agree.out, &why).into());
    }
    let council = settings.council().map_err(BadUsage::new)?;
    let patience = settings.patience();
    let public = identity.public();
    let meeting = Meeting::new(council.clone(), identity, patience).ok_or_else(|| {
        wrong(&settings.key, &format_args!("its key, {public}, is no member's in {}", config.display()))
    })?;
    let own = meeting.own();
    let listen = settings.listen.as_ref().unwrap_or_else(|| &council.members()[own].address);
    let listener =
        TcpListener::bind(listen).map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let proposed = Digest::of(configuration.as_bytes());
    #[cfg(debug_assertions)]
    let meeting = match agree.byzantine {
        Some(strategy) => meeting.lying(strategy, proposed),
        None => meeting,
    };
    let (n, t) = (council.members().len(), council.tolerates());
    println!("member {} of {n} proposes {proposed} ({})", own + 1, settings.proposal.display());
    let protocol = Agreement::new(n, t, own, Some(proposed))?;
    let written_at_the_end = log::begin();
    let report = |report: &Report| tracing::info!("{report}");
    let (outcome, protocol) = meeting.run(&Arc::new(listener), protocol, report)?;
    drop(written_at_the_end);
    let rounds = outcome.decided;
    match outcome.value {
        Some(value) => println!("decided {value}, in {rounds} round{}", if rounds == 1 { "" } else { "s" }),
        None => println!("decided on nothing, in {rounds} rounds"),
    }
    for &(member, round, fault) in &outcome.faulty {
        println!("faulty: member {}, in round {round}: {fault}", member + 1);
    }
    let is_known = |member: usize| outcome.faulty.iter().any(|(known, ..)| *known == member);
    for member in protocol.faulty().iter().map(usize::from).filter(|&member| !is_known(member)) {
        println!("faulty: member {}: what it said contradicts what others said", member + 1);
    }
    let Some(value) = outcome.value else {
        return Err(
            "too few proposed the same: compare the SHA-256 of everybody's proposal, and agree again \
                    under another name"
                .into(),
        );
    };
    if value != proposed {
        return Err(format!(
            "the others' proposal was agreed on, and not {}: look at theirs in the file that they have written, of which a \
             copy is as good (`fulmar agree check` verifies it)",
            settings.proposal.display()
        )
        .into());
    }
    let agreed = Agreed::new(council, configuration, &outcome.verdicts);
    write_whole(&agree.out, agreed.to_text().as_bytes(), 0o666).map_err(|why| named(&agree.out, why))?;
    let signatures = outcome.verdicts.iter().flatten().count();
    println!("wrote {}, which {signatures} of {n} members have signed; for node.toml:", agree.out.display());
    println!("council = \"{}\"", agreed.council().digest());
    Ok(())
}
