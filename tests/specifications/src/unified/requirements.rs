//! What a test wants the server to be.

use backfire_server::profile::Profile;
use bson::Document;

use crate::failure::{Checked, Failure, fail};
use crate::fields::Fields;
use crate::skip::Reason;

/// A `runOnRequirement`.
#[derive(Debug, Default)]
pub struct Requirement {
    min_version: Option<Version>,
    max_version: Option<Version>,
    topologies: Option<Vec<String>>,
    serverless: Option<String>,
    auth: Option<bool>,
    csfle: Option<bool>,
    server_parameters: Option<Document>,
}

type Version = [i32; 3];

fn version(text: &str) -> Checked<Version> {
    let mut parts = [0; 3];
    for (position, part) in text.split('.').enumerate() {
        match (parts.get_mut(position), part.parse()) {
            (Some(slot), Ok(number)) => *slot = number,
            _ => fail!("'{text}' is not a version"),
        }
    }
    Ok(parts)
}

impl Requirement {
    /// Reads `runOnRequirements`.
    ///
    /// # Errors
    /// When there is something in it that is not known.
    pub fn read_all(fields: &mut Fields) -> Checked<Vec<Self>> {
        let all: Option<Vec<Document>> = fields.optional("runOnRequirements")?;
        all.unwrap_or_default().into_iter().map(Self::read).collect()
    }

    fn read(document: Document) -> Checked<Self> {
        let mut fields = Fields::new("runOnRequirement", document);
        let bound = |text: Option<String>| text.as_deref().map(version).transpose();
        let requirement = Self {
            min_version: bound(fields.optional("minServerVersion")?)?,
            max_version: bound(fields.optional("maxServerVersion")?)?,
            topologies: fields.optional("topologies")?,
            serverless: fields.optional("serverless")?,
            auth: fields.optional("auth")?,
            csfle: fields.optional("csfle")?,
            server_parameters: fields.optional("serverParameters")?,
        };
        fields.done()?;
        Ok(requirement)
    }

    /// Whether clients must log in; `None`: it does not matter.
    pub fn auth(&self) -> Option<bool> {
        self.auth
    }

    /// Why it is not met by a replica set of one, of this version.
    ///
    /// # Errors
    /// When it wants something that this runner cannot judge.
    pub fn unmet(&self, profile: &Profile) -> Checked<Option<Reason>> {
        if let Some(parameters) = &self.server_parameters {
            return Err(Failure::new(format!("serverParameters {parameters} are not supported")));
        }
        match self.serverless.as_deref() {
            None | Some("forbid" | "allow") => {}
            Some("require") => return Ok(Some(Reason::Topology)),
            Some(other) => fail!("serverless: '{other}' is not known"),
        }
        if self.csfle == Some(true) {
            return Ok(Some(Reason::Encryption));
        }
        if let Some(topologies) = &self.topologies {
            const KNOWN: [&str; 5] = ["single", "replicaset", "sharded", "load-balanced", "sharded-replicaset"];
            if let Some(other) = topologies.iter().find(|name| !KNOWN.contains(&name.as_str())) {
                fail!("topology '{other}' is not known");
            }
            if !topologies.iter().any(|name| name == "replicaset") {
                return Ok(Some(Reason::Topology));
            }
        }
        let [major, minor, patch, _] = profile.version_array;
        let own = [major, minor, patch];
        if self.min_version.is_some_and(|least| own < least) || self.max_version.is_some_and(|most| own > most) {
            return Ok(Some(Reason::Version));
        }
        Ok(None)
    }
}

/// Those of `profiles` that meet all the lists, each of which wants one of its requirements met; if there is none, what
/// is missing where the least is.
///
/// # Errors
/// As [`Requirement::unmet`].
pub fn fitting(
    lists: &[&[Requirement]],
    profiles: &[&'static Profile],
) -> Checked<Result<Vec<&'static Profile>, Reason>> {
    let (mut fit, mut least) = (Vec::new(), None);
    for profile in profiles {
        let mut missing = None;
        for list in lists.iter().filter(|list| !list.is_empty()) {
            let unmet: Vec<_> = list.iter().map(|one| one.unmet(profile)).collect::<Checked<_>>()?;
            // `None` is less than any reason.
            missing = missing.max(unmet.into_iter().min().flatten());
        }
        match (missing, least) {
            (None, _) => fit.push(*profile),
            (Some(reason), None) => least = Some(reason),
            (Some(reason), Some(other)) => least = Some(reason.min(other)),
        }
    }
    Ok(if fit.is_empty() { Err(least.unwrap_or(Reason::Version)) } else { Ok(fit) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use backfire_server::profile::{V4_4, V7_0, V8_0};
    use bson::{Bson, bson};

    fn check(requirements: Bson, expected: Result<&[&str], Reason>) {
        let mut fields = Fields::new("test", bson::doc! {"runOnRequirements": requirements.clone()});
        let list = Requirement::read_all(&mut fields).expect("requirements");
        let found = fitting(&[&list], &[&V4_4, &V7_0, &V8_0]).expect("something to judge");
        let found = found.map(|profiles| profiles.iter().map(|profile| profile.name).collect::<Vec<_>>());
        assert_eq!(found, expected.map(<[&str]>::to_vec), "{requirements}");
    }

    #[test]
    fn every_profile_that_fits_is_chosen() {
        check(bson!([]), Ok(&["4.4", "7.0", "8.0"]));
        check(bson!([{"minServerVersion": "4.4"}]), Ok(&["4.4", "7.0", "8.0"]));
        check(bson!([{"maxServerVersion": "7.99"}]), Ok(&["4.4", "7.0"]));
        check(bson!([{"maxServerVersion": "4.4.99", "topologies": ["single", "replicaset"]}]), Ok(&["4.4"]));
        check(bson!([{"minServerVersion": "8.2"}, {"maxServerVersion": "4.4"}]), Ok(&["4.4"]));
    }

    #[test]
    fn the_nearest_reason_is_named() {
        check(bson!([{"minServerVersion": "8.2"}]), Err(Reason::Version));
        check(bson!([{"topologies": ["sharded"]}]), Err(Reason::Topology));
        check(bson!([{"topologies": ["sharded"]}, {"minServerVersion": "9.0"}]), Err(Reason::Version));
        check(bson!([{"auth": true, "minServerVersion": "8.0"}]), Ok(&["8.0"]));
        check(bson!([{"csfle": true}]), Err(Reason::Encryption));
    }
}
