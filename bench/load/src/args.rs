//! The arguments.

use std::path::PathBuf;
use std::time::Duration;

/// What to run, and for how long.
pub struct Args {
    /// The program `backfire`.
    pub backfire: PathBuf,
    /// The class path of mongo-java-server.
    pub java_classes: Option<String>,
    /// The program `ferretdb`.
    pub ferretdb: Option<PathBuf>,
    /// The program `mongod`.
    pub mongod: Option<PathBuf>,
    /// The length of one measurement.
    pub time: Duration,
    /// How often each is repeated; the median counts.
    pub rounds: usize,
    /// The largest collection of the growth table.
    pub most_documents: usize,
    parts: Vec<String>,
}

impl Args {
    /// Reads `--name value` pairs.
    ///
    /// # Errors
    /// A text for people.
    pub fn parse(arguments: Vec<String>) -> Result<Self, String> {
        let mut args = Self {
            backfire: PathBuf::new(),
            java_classes: None,
            ferretdb: None,
            mongod: None,
            time: Duration::from_secs(4),
            rounds: 3,
            most_documents: 1_000_000,
            parts: Vec::new(),
        };
        let mut rest = arguments.into_iter();
        while let Some(name) = rest.next() {
            let value = rest.next().filter(|value| !value.is_empty()).ok_or(format!("{name} needs a value"))?;
            let number =
                || value.parse::<usize>().ok().filter(|n| *n > 0).ok_or(format!("{name} '{value}': a number above 0"));
            match name.as_str() {
                "--backfire" => args.backfire = value.into(),
                "--java-classes" => args.java_classes = Some(value),
                "--ferretdb" => args.ferretdb = Some(value.into()),
                "--mongod" => args.mongod = Some(value.into()),
                "--seconds" => args.time = Duration::from_secs(number()? as u64),
                "--rounds" => args.rounds = number()?,
                "--documents" => args.most_documents = number()?,
                "--part" if ["driver", "raw", "growth"].contains(&value.as_str()) => args.parts.push(value),
                "--part" => return Err(format!("no part '{value}'; there are driver, raw and growth")),
                _ => return Err(format!("unknown argument '{name}'")),
            }
        }
        if args.backfire.as_os_str().is_empty() {
            return Err("--backfire is missing".into());
        }
        Ok(args)
    }

    /// Whether a part of the bench is wanted.
    pub fn does(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}
