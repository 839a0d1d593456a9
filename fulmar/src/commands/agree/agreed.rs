//! What was agreed on, as a file that proves it.

use fulmar_council::{Council, Digest, Member, Signature, Verdict};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A configuration, and who has signed that it was decided on.
///
/// Invariant: at least t + 1 of the council have.
pub(crate) struct Agreed {
    council: Council,
    configuration: String,
    /// By member.
    signatures: Vec<Option<Signature>>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Text {
    name: String,
    tolerates: usize,
    round_ms: u64,
    sha256: String,
    configuration: String,
    member: Vec<Signer>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Signer {
    address: String,
    key: String,
    signature: Option<String>,
}

const HEAD: &str =
    "# Written by fulmar agree, which can also check it. Whatever is changed here makes it invalid.\n";

impl Agreed {
    /// What members have decided on, if these verdicts are of this configuration, and valid.
    pub(super) fn new(council: Council, configuration: String, verdicts: &[Option<Verdict>]) -> Self {
        let signatures = verdicts.iter().map(|verdict| verdict.map(|verdict| verdict.signature)).collect();
        Self { council, configuration, signatures }
    }

    /// That in a file, if what it says is signed by enough.
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        let text = fs::read_to_string(path).map_err(|error| super::named(path, error))?;
        Self::parse(&text).map_err(|why| super::named(path, why).into())
    }

    fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let text: Text = toml::from_str(text)?;
        let members = text
            .member
            .iter()
            .map(|member| Ok(Member { address: member.address.clone(), key: member.key.parse()? }));
        let members = members.collect::<Result<_, Box<dyn Error>>>()?;
        let council = Council::new(text.name, members, text.tolerates, Duration::from_millis(text.round_ms))?;
        let digest = Digest::of(text.configuration.as_bytes());
        if digest.to_string() != text.sha256 {
            return Err(format!(
                "its configuration has SHA-256 {digest}, and {} was agreed on: one of them was changed",
                text.sha256
            )
            .into());
        }
        let verdict = council.verdict(Some(&digest));
        let mut signatures = Vec::new();
        for (number, (signer, member)) in (1..).zip(text.member.iter().zip(council.members())) {
            let signature = signer.signature.as_deref().map(str::parse::<Signature>).transpose()?;
            if signature.is_some_and(|signature| !member.key.has_signed(&verdict, &signature)) {
                return Err(format!(
                    "the signature of member {number} is not of this: the file was changed, or is of another council"
                )
                .into());
            }
            signatures.push(signature);
        }
        let (signed, needed) = (signatures.iter().flatten().count(), council.tolerates() + 1);
        if signed < needed {
            return Err(
                format!("only {signed} members have signed it, who may all lie: expected {needed}").into()
            );
        }
        Ok(Self { council, configuration: text.configuration, signatures })
    }

    pub(super) fn to_text(&self) -> String {
        let member = |(member, signature): (&Member, &Option<Signature>)| Signer {
            address: member.address.clone(),
            key: member.key.to_string(),
            signature: signature.map(|signature| signature.to_string()),
        };
        let text = Text {
            name: self.council.name().into(),
            tolerates: self.council.tolerates(),
            round_ms: u64::try_from(self.council.round().as_millis()).unwrap_or(u64::MAX),
            sha256: self.digest().to_string(),
            configuration: self.configuration.clone(),
            member: self.council.members().iter().zip(&self.signatures).map(member).collect(),
        };
        let text = toml::to_string_pretty(&text).expect("texts and numbers can be written");
        format!("{HEAD}{text}")
    }

    pub(crate) const fn council(&self) -> &Council {
        &self.council
    }

    pub(crate) fn configuration(&self) -> &str {
        &self.configuration
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(self.configuration.as_bytes())
    }

    pub(super) fn has_signed(&self, member: usize) -> bool {
        self.signatures[member].is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fulmar_council::Identity;

    /// What some of four have signed.
    fn agreed(configuration: &str, signers: &[usize]) -> Agreed {
        let identities = [1, 2, 3, 4].map(|seed| Identity::from_seed(&[seed; 32]));
        let member = |identity: &Identity| Member {
            address: format!("{}:7600", &identity.public().to_string()[..8]),
            key: identity.public(),
        };
        let members = identities.iter().map(member).collect();
        let council = Council::new("eggs".into(), members, 1, Duration::from_secs(2)).expect("a council");
        let verdict = council.verdict(Some(&Digest::of(configuration.as_bytes())));
        let sign = |number| signers.contains(&number).then(|| identities[number].sign(&verdict));
        Agreed { signatures: (0..4).map(sign).collect(), configuration: configuration.into(), council }
    }

    #[test]
    fn what_is_written_is_read_to_the_byte() {
        for configuration in ["members = []\n", "", "a\r\nb", "'''\"\"\"\\\t\u{7f}é\n\n", "\n\n", "\"", "\\"]
        {
            let text = agreed(configuration, &[0, 2]).to_text();
            let read = Agreed::parse(&text).unwrap_or_else(|why| panic!("{why}: {text}"));
            assert_eq!(read.configuration, configuration);
            assert_eq!([0, 1, 2, 3].map(|member| read.has_signed(member)), [true, false, true, false]);
            assert_eq!(read.to_text(), text);
        }
    }

    fn refusal(text: &str) -> String {
        Agreed::parse(text).map(|_| ()).expect_err("it is not signed").to_string()
    }

    #[test]
    fn what_is_not_signed_is_refused() {
        assert!(refusal(&agreed("a", &[2]).to_text()).contains("only 1 members"));
        let text = agreed("replicas = 3", &[0, 1, 2]).to_text();
        let changed = text.replace("replicas = 3", "replicas = 1");
        assert!(refusal(&changed).contains("one of them was changed"));
        let (old, new) = (Digest::of(b"replicas = 3").to_string(), Digest::of(b"replicas = 1").to_string());
        assert!(refusal(&changed.replace(&old, &new)).contains("the signature of member 1 is not of this"));
        assert!(refusal(&text.replace("name = \"eggs\"", "name = \"nests\"")).contains("is not of this"));
    }
}
