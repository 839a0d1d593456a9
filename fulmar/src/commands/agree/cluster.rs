//! A cluster's configuration: what its nodes must say alike.

use crate::commands::serve::{Protocol, Serviced as Service};
use crate::files::Addresses;
use serde::Deserialize;
use std::error::Error;
use std::fmt::Display;

/// What operators agree on. Whatever concerns one node alone (where its data are, how much it caches) is not in it.
#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cluster {
    /// All nodes' `HOST:PORT`; of databases, the first is the one that founds it.
    pub(crate) members: Addresses,
    /// What is served, if not databases.
    pub(crate) service: Option<Service>,
    /// How many servers hold each row of a new database.
    pub(crate) replicas: Option<u16>,
    /// How they agree.
    #[serde(default)]
    pub(crate) replication: Protocol,
}

/// What a node's own settings come to, as far as others have a say in it.
pub(crate) struct Own<'a> {
    /// Where others find it.
    pub(crate) address: &'a str,
    /// What it is to join; databases only.
    pub(crate) join: Option<&'a [String]>,
    /// The same as in [`Cluster`]; `members` are a service's.
    pub(crate) members: Option<&'a [String]>,
    pub(crate) service: Option<Service>,
    pub(crate) replicas: Option<u16>,
    pub(crate) replication: Protocol,
}

impl Cluster {
    pub(crate) fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let cluster: Self = toml::from_str(text)?;
        if cluster.members.0.is_empty() {
            return Err("`members` is empty: expected all nodes' HOST:PORT".into());
        }
        Ok(cluster)
    }

    /// Requires that a node's settings are those agreed on.
    pub(crate) fn require(&self, own: &Own<'_>) -> Result<(), String> {
        equal("service", self.service, own.service)?;
        let members = &self.members.0;
        let is_member = |address: &str| members.iter().any(|member| member == address);
        if !is_member(own.address) {
            return Err(format!("{} is none of the agreed members, {}", own.address, members.join(", ")));
        }
        if self.service.is_some() {
            if own.members != Some(members) {
                return Err(format!("`members` must be as agreed, in the same order: {members:?}"));
            }
            return equal("replication", Some(self.replication), Some(own.replication));
        }
        match own.join {
            None if own.address != members[0] => Err(format!(
                "without `join` a server founds a cluster, and it was agreed that {} does, the first of the members",
                members[0]
            )),
            None => {
                equal("replicas", self.replicas, own.replicas)?;
                equal("replication", Some(self.replication), Some(own.replication))
            }
            Some(join) => match join.iter().find(|address| !is_member(address)) {
                Some(stranger) => Err(format!(
                    "`join` names {stranger}, which is none of the agreed members, {}",
                    members.join(", ")
                )),
                None => Ok(()),
            },
        }
    }
}

/// Requires that a setting is the same in both.
fn equal<T: PartialEq + Display>(name: &str, agreed: Option<T>, own: Option<T>) -> Result<(), String> {
    if agreed == own {
        return Ok(());
    }
    let said = |value: Option<T>| value.map_or_else(|| "not set".into(), |value| value.to_string());
    Err(format!(
        "`{name}` is {} in this node's settings, and {} in what was agreed on",
        said(own),
        said(agreed)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Own<'_> = Own {
        address: "10.0.0.1:7400",
        join: None,
        members: None,
        service: None,
        replicas: Some(3),
        replication: Protocol::Viewstamped,
    };

    fn cluster(more: &str) -> Cluster {
        let members = "members = [\"10.0.0.1:7400\", \"10.0.0.2:7400\", \"10.0.0.3:7400\"]\n";
        Cluster::parse(&format!("{members}{more}")).expect("it is one")
    }

    #[test]
    fn a_cluster_of_databases_is_founded_by_its_first_and_joined_by_the_others() {
        let agreed = cluster("replicas = 3");
        assert_eq!(agreed.require(&FIRST), Ok(()));
        let others = ["10.0.0.3:7400", "10.0.0.1:7400"].map(String::from);
        let strangers = ["10.0.0.1:7400", "10.0.0.9:7400"].map(String::from);
        let second = Own { address: "10.0.0.2:7400", replicas: None, ..FIRST };
        assert_eq!(agreed.require(&Own { join: Some(&others), ..second }), Ok(()));
        let second = Own { address: "10.0.0.2:7400", replicas: None, ..FIRST };
        let wrong = [
            (
                Own { replicas: Some(1), ..FIRST },
                "`replicas` is 1 in this node's settings, and 3 in what was agreed on",
            ),
            (Own { replicas: None, ..FIRST }, "`replicas` is not set in this node's settings"),
            (Own { replication: Protocol::FastPaxos, ..FIRST }, "`replication` is fast-paxos"),
            (Own { service: Some(Service::Locks), ..FIRST }, "`service` is locks"),
            (Own { address: "10.0.0.4:7400", ..FIRST }, "10.0.0.4:7400 is none of the agreed members"),
            (Own { join: Some(&strangers), ..FIRST }, "`join` names 10.0.0.9:7400"),
            (second, "it was agreed that 10.0.0.1:7400 does"),
        ];
        for (own, expected) in wrong {
            let refusal = agreed.require(&own).expect_err("it differs");
            assert!(refusal.contains(expected), "{refusal}");
        }
    }

    #[test]
    fn a_service_has_the_members_agreed_on_in_their_order() {
        let agreed = cluster("service = \"locks\"\nreplication = \"fast-paxos\"");
        let members = agreed.members.0.clone();
        let replica = || Own {
            members: Some(&members),
            service: Some(Service::Locks),
            replication: Protocol::FastPaxos,
            ..FIRST
        };
        assert_eq!(agreed.require(&replica()), Ok(()));
        let reversed = members.iter().rev().cloned().collect::<Vec<_>>();
        let refusal = agreed.require(&Own { members: Some(&reversed), ..replica() });
        assert!(refusal.is_err_and(|why| why.contains("in the same order")));
        let refusal = agreed.require(&Own { replication: Protocol::Viewstamped, ..replica() });
        assert!(refusal.is_err_and(|why| why.contains("`replication` is viewstamped")));
    }

    #[test]
    fn what_is_no_configuration_is_refused() {
        assert!(Cluster::parse("members = []").is_err());
        let error = Cluster::parse("members = [\"a:1\"]\ndata = \"/var\"").expect_err("that is a node's own");
        assert!(error.to_string().contains("unknown field `data`"), "{error}");
    }
}
