//! The mode of a fail point: when it fires.

use bson::{Bson, Document};

use crate::error::{CommandError, Result};
use crate::value::View;

/// When a fail point fires (facts/server.md 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Mode {
    /// Never.
    #[default]
    Off,
    /// At every matching evaluation.
    AlwaysOn,
    /// At the next `n` matching evaluations; `{times: 0}` still fires once.
    Times(i64),
    /// Lets `n` matching evaluations pass, then at every one.
    Skip(i64),
    /// With this probability per matching evaluation.
    Probability(f64),
}

impl Mode {
    /// Whether it can fire no more.
    pub fn is_off(self) -> bool {
        self == Mode::Off
    }

    /// Counts a matching evaluation; true when it fires.
    pub fn hit(&mut self, random: impl FnOnce() -> f64) -> bool {
        match self {
            Mode::Off => false,
            Mode::AlwaysOn => true,
            Mode::Times(left) => {
                *self = if *left > 1 { Mode::Times(*left - 1) } else { Mode::Off };
                true
            }
            Mode::Skip(left) if *left > 0 => {
                *left -= 1;
                false
            }
            Mode::Skip(_) => true,
            Mode::Probability(probability) => random() < *probability,
        }
    }

    /// A mongod's number for it.
    pub fn number(self) -> i32 {
        match self {
            Mode::Off => 0,
            Mode::AlwaysOn => 1,
            Mode::Probability(_) => 2,
            Mode::Times(_) => 3,
            Mode::Skip(_) => 4,
        }
    }

    /// Reads the `mode` field of `configureFailPoint`. The first of `times`, `skip`, `activationProbability` counts.
    ///
    /// # Errors
    /// With the codes and texts of facts/server.md 4.3.
    pub fn parse(mode: Option<&Bson>) -> Result<Self> {
        match mode {
            None => Err(CommandError::new(20, "When setting a failpoint, you must supply a 'mode'")),
            Some(Bson::String(word)) => match word.as_str() {
                "off" => Ok(Mode::Off),
                "alwaysOn" => Ok(Mode::AlwaysOn),
                other => Err(CommandError::bad_value(format!("unknown mode: {other}"))),
            },
            Some(Bson::Document(options)) => Self::parse_options(options),
            Some(_) => Err(CommandError::type_mismatch("'mode' must be a string or JSON object")),
        }
    }

    fn parse_options(options: &Document) -> Result<Self> {
        if let Some(times) = options.get("times") {
            return Ok(Mode::Times(count("times", times)?));
        }
        if let Some(skip) = options.get("skip") {
            return Ok(Mode::Skip(count("skip", skip)?));
        }
        match options.get("activationProbability") {
            Some(Bson::Double(probability)) if (0.0..=1.0).contains(probability) => Ok(Mode::Probability(*probability)),
            Some(Bson::Int32(probability @ 0..=1)) => Ok(Mode::Probability(f64::from(*probability))),
            Some(Bson::Int64(probability @ 0..=1)) => Ok(Mode::Probability(*probability as f64)),
            Some(number @ (Bson::Double(_) | Bson::Int32(_) | Bson::Int64(_))) => {
                Err(CommandError::bad_value(format!(
                    "activationProbability must be between 0.0 and 1.0; found {:.1}",
                    number
                        .as_f64()
                        .or(number.as_i32().map(f64::from))
                        .or(number.as_i64().map(|number| number as f64))
                        .unwrap_or(f64::NAN)
                )))
            }
            Some(_) => Err(CommandError::type_mismatch(
                "the 'activationProbability' option to 'mode' must be a double between 0 and 1",
            )),
            None => Err(CommandError::bad_value(
                "'mode' must be one of 'off', 'alwaysOn', '{times:n}', '{skip:n}' or '{activationProbability:p}'",
            )),
        }
    }
}

fn count(option: &str, value: &Bson) -> Result<i64> {
    let number = match value {
        Bson::Int32(number) => i64::from(*number),
        Bson::Int64(number) => *number,
        Bson::Double(number) => *number as i64,
        other => {
            let found = View::from(other).type_name();
            return Err(CommandError::type_mismatch(format!(
                "Expected field \"{option}\" to have numeric type, but found {found}"
            )));
        }
    };
    match number {
        ..0 => Err(CommandError::bad_value(format!("'{option}' option to 'mode' must be positive"))),
        0..=0x7fff_ffff => Ok(number),
        _ => Err(CommandError::bad_value(format!("'{option}' option to 'mode' is too large"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{bson, doc};

    fn fires(mut mode: Mode, evaluations: usize) -> Vec<bool> {
        (0..evaluations).map(|_| mode.hit(|| 0.5)).collect()
    }

    #[test]
    fn modes_count_as_the_facts_say() {
        assert_eq!(fires(Mode::Times(2), 4), [true, true, false, false]);
        assert_eq!(fires(Mode::Times(0), 2), [true, false]);
        assert_eq!(fires(Mode::Skip(2), 4), [false, false, true, true]);
        assert_eq!(fires(Mode::Probability(0.6), 2), [true, true]);
        assert_eq!(fires(Mode::Probability(0.4), 2), [false, false]);
        assert_eq!(fires(Mode::AlwaysOn, 2), [true, true]);
    }

    #[test]
    fn modes_parse_or_say_why_not() {
        for (mode, expected) in [
            (bson!("off"), Ok(Mode::Off)),
            (bson!({"times": 3, "skip": 1}), Ok(Mode::Times(3))),
            (bson!({"skip": 3_i64}), Ok(Mode::Skip(3))),
            (bson!({"activationProbability": 1}), Ok(Mode::Probability(1.0))),
            (bson!("sometimes"), Err((2, "unknown mode: sometimes"))),
            (bson!({"times": -1}), Err((2, "'times' option to 'mode' must be positive"))),
            (bson!({"skip": 3_000_000_000_i64}), Err((2, "'skip' option to 'mode' is too large"))),
            (bson!({"times": "x"}), Err((14, "Expected field \"times\" to have numeric type, but found string"))),
            (
                bson!({"activationProbability": 2.0}),
                Err((2, "activationProbability must be between 0.0 and 1.0; found 2.0")),
            ),
            (bson!(3), Err((14, "'mode' must be a string or JSON object"))),
        ] {
            let parsed = Mode::parse(Some(&mode)).map_err(|error| (error.code, error.message));
            assert_eq!(parsed, expected.map_err(|(code, text)| (code, text.to_string())), "{mode}");
        }
        assert_eq!(Mode::parse(None).unwrap_err().code, 20);
        assert_eq!(Mode::parse(doc! {"m": {}}.get("m")).unwrap_err().code, 2);
    }
}
