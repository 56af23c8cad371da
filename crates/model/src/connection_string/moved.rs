//! The settings of one deployment's connection string for another deployment: one plain server.

use super::options::{Effect, OptionName};
use super::value::{Value, W};
use super::{ConnectionString, Error, Host, Scheme};

/// A connection string for another server, and what had to be changed in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Moved {
    /// The connection string.
    pub uri: ConnectionString,
    /// What was left out or replaced, beside the hosts, each with its reason. No secret is in it.
    pub changes: Vec<String>,
}

/// Options that choose among the members of a set, or need more than one.
const CHOICE_OF_MEMBERS: [OptionName; 3] =
    [OptionName::ReadPreference, OptionName::ReadPreferenceTags, OptionName::MaxStalenessSeconds];

impl ConnectionString {
    /// The same settings for a server at `host` that has no authentication, no TLS and no proxy, alone or as the one member
    /// of the set `replica_set`. What would keep a driver from reaching or using it is left out or replaced.
    ///
    /// # Errors
    /// When the result is no valid connection string.
    pub fn moved_to(&self, host: &Host, replica_set: Option<&str>) -> Result<Moved, Error> {
        let mut moved = Self { scheme: Scheme::Mongodb, hosts: vec![host.clone()], ..self.clone() };
        let mut changes = Vec::new();
        if self.needs_dns() {
            changes.push("mongodb+srv:// is read as mongodb://: there is nothing to look up in DNS".to_owned());
            moved.leave_out(|option| option.spec().srv_only);
        }
        let mut credentials = moved.leave_out(|option| option.spec().effect == Effect::Authentication);
        if moved.user.take().is_some() {
            credentials.insert(0, "the user");
        }
        if moved.password.take().is_some() {
            credentials.insert(credentials.len().min(1), "the password");
        }
        left_out(&mut changes, &credentials, "the lab server has no authentication");
        let mut tls = moved.leave_out(|option| option.spec().effect == Effect::Tls);
        if tls.is_empty() && self.tls() {
            tls.push("the encryption that mongodb+srv:// means");
        }
        left_out(&mut changes, &tls, "the lab server has no TLS");
        let proxy = moved.leave_out(|option| option.spec().effect == Effect::Proxy);
        left_out(&mut changes, &proxy, "the lab server is reached directly");
        let balanced = moved.leave_out(|option| option == OptionName::LoadBalanced);
        left_out(&mut changes, &balanced, "the lab server is no load balancer");
        if self.replica_set().is_some_and(|set| Some(set) != replica_set) {
            match replica_set {
                Some(own) => {
                    moved.set(OptionName::ReplicaSet, own.to_owned());
                    changes.push(format!("replicaSet is {own}, the lab server's"));
                }
                None => {
                    let set = moved.leave_out(|option| option == OptionName::ReplicaSet);
                    left_out(&mut changes, &set, "the lab server is in no replica set");
                }
            }
        }
        let choice = if self.can_choose_nobody() {
            moved.leave_out(|option| CHOICE_OF_MEMBERS.contains(&option))
        } else {
            Vec::new()
        };
        left_out(&mut changes, &choice, "the lab server has no secondaries");
        if self.needs_several_members() {
            moved.set(OptionName::W, "majority".to_owned());
            changes.push("w is majority: the lab server has no other members".to_owned());
        }
        Ok(Moved { uri: Self::parse(&moved.to_uri_string())?, changes })
    }

    /// Whether reads might find no member at all in a set of one.
    fn can_choose_nobody(&self) -> bool {
        let has_tags = !self.read_preference_tags().is_empty();
        self.read_preference() == "secondary" || (has_tags && self.read_preference() == "nearest")
    }

    /// Whether the write concern cannot be fulfilled by one member.
    fn needs_several_members(&self) -> bool {
        match self.value(OptionName::W) {
            Some(Value::W(W::Nodes(nodes))) => *nodes > 1,
            Some(Value::W(W::Tag(tag))) => tag != "majority",
            _ => false,
        }
    }

    /// Takes all occurrences of some options out; says which there were.
    fn leave_out(&mut self, is_meant: impl Fn(OptionName) -> bool) -> Vec<&'static str> {
        let mut names = Vec::new();
        self.occurrences.retain(|occurrence| {
            let meant = occurrence.option.filter(|option| is_meant(*option));
            if let Some(option) = meant
                && !names.contains(&option.spec().name)
            {
                names.push(option.spec().name);
            }
            meant.is_none()
        });
        names
    }
}

fn left_out(changes: &mut Vec<String>, what: &[&str], why: &str) {
    let is = if what.len() == 1 { "is" } else { "are" };
    if let Some((last, rest)) = what.split_last() {
        let what = if rest.is_empty() { (*last).to_owned() } else { format!("{} and {last}", rest.join(", ")) };
        changes.push(format!("{what} {is} left out: {why}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What becomes of a string at `lab:1`, in the set `rs0`, and what is said of it.
    fn check(uri: &str, expected: &str, changes: &[&str]) {
        let moved = uri.parse::<ConnectionString>().unwrap().moved_to(&"lab:1".parse().unwrap(), Some("rs0")).unwrap();
        assert_eq!(
            (moved.uri.to_uri_string().as_str(), moved.changes),
            (expected, changes.iter().map(|change| (*change).to_owned()).collect())
        );
    }

    #[test]
    fn what_belongs_to_the_deployment_is_replaced_and_the_rest_stays() {
        check("mongodb://a,b/db?retryWrites=false&w=1", "mongodb://lab:1/db?retryWrites=false&w=1", &[]);
        check(
            "mongodb://u:p%40w@a/db?authSource=admin&socketTimeoutMS=5",
            "mongodb://lab:1/db?socketTimeoutMS=5",
            &["the user, the password and authSource are left out: the lab server has no authentication"],
        );
        check(
            "mongodb+srv://db.example.com/?srvMaxHosts=2&appName=x",
            "mongodb://lab:1/?appName=x",
            &[
                "mongodb+srv:// is read as mongodb://: there is nothing to look up in DNS",
                "the encryption that mongodb+srv:// means is left out: the lab server has no TLS",
            ],
        );
        check(
            "mongodb://a/?ssl=true&tlsInsecure=true",
            "mongodb://lab:1/",
            &["tls and tlsInsecure are left out: the lab server has no TLS"],
        );
        check(
            "mongodb://a/?replicaSet=rsX",
            "mongodb://lab:1/?replicaSet=rs0",
            &["replicaSet is rs0, the lab server's"],
        );
        check("mongodb://a/?replicaSet=rs0", "mongodb://lab:1/?replicaSet=rs0", &[]);
        check(
            "mongodb://a/?proxyHost=p&proxyPort=1&loadBalanced=true",
            "mongodb://lab:1/",
            &[
                "proxyHost and proxyPort are left out: the lab server is reached directly",
                "loadBalanced is left out: the lab server is no load balancer",
            ],
        );
        check(
            "mongodb://a/?readPreference=secondary&maxStalenessSeconds=90&w=3",
            "mongodb://lab:1/?w=majority",
            &[
                "readPreference and maxStalenessSeconds are left out: the lab server has no secondaries",
                "w is majority: the lab server has no other members",
            ],
        );
        check(
            "mongodb://a/?readPreference=secondaryPreferred&w=majority",
            "mongodb://lab:1/?readPreference=secondaryPreferred&w=majority",
            &[],
        );
    }

    #[test]
    fn a_standalone_has_no_set() {
        let uri: ConnectionString = "mongodb://a/?replicaSet=rsX".parse().unwrap();
        let moved = uri.moved_to(&"lab".parse().unwrap(), None).unwrap();
        assert_eq!(moved.uri.to_uri_string(), "mongodb://lab/");
        assert_eq!(moved.changes, ["replicaSet is left out: the lab server is in no replica set"]);
    }
}
