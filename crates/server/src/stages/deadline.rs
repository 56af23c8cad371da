//! Stage *deadline*: `maxTimeMS` is read and the deadline armed (facts/server.md 3.1, 3.2).

use std::time::Duration;

use tokio::time::Instant;

use crate::error::{CommandError, Result};
use crate::net::Request;
use crate::ops::Op;
use crate::profile::{DeadlineOrigin, Profile};
use crate::value::View;

/// The largest `maxTimeMS`.
const MAX_MS: i64 = i32::MAX as i64;

/// Arms the operation's deadline. On `getMore` the field is the await time and no deadline.
///
/// # Errors
/// 2 for a value that is not a time.
pub fn arm(op: &Op, request: &Request) -> Result<()> {
    let Some(value) = request.get("maxTimeMS") else { return Ok(()) };
    let max_time_ms = parse(value, op.shared.profile)?;
    if max_time_ms > 0 && request.command_name() != "getMore" {
        let origin = match op.shared.profile.deadline_origin {
            DeadlineOrigin::Armed => Instant::now(),
            DeadlineOrigin::CommandStart => op.received,
        };
        op.set_deadline(origin + Duration::from_millis(max_time_ms));
    }
    Ok(())
}

/// Reads a `maxTimeMS`.
///
/// # Errors
/// 2 with the texts of facts/server.md 3.1.
pub fn parse(value: View<'_>, profile: &Profile) -> Result<u64> {
    let number = match value {
        View::Int32(number) => i64::from(number),
        View::Int64(number) => number,
        View::Double(number) if number.fract() == 0.0 && number.abs() < 9e18 => number as i64,
        View::Double(_) => return Err(CommandError::bad_value("maxTimeMS has non-integral value")),
        View::Decimal(number) => match number.to_string().parse::<f64>() {
            Ok(number) if number.fract() == 0.0 && number.abs() < 9e18 => number as i64,
            _ => return Err(CommandError::bad_value("maxTimeMS has non-integral value")),
        },
        _ => return Err(CommandError::bad_value("maxTimeMS must be a number")),
    };
    if (0..=MAX_MS).contains(&number) {
        return Ok(number as u64);
    }
    Err(CommandError::bad_value(if profile.max_time_text_names_range {
        format!("{number} value for maxTimeMS is out of range [0, {MAX_MS}]")
    } else {
        "maxTimeMS is out of range".to_owned()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{V4_4, V7_0};
    use bson::{Bson, bson};

    #[test]
    fn values_are_read_or_refused_with_the_versions_text() {
        let check = |value: Bson, profile: &Profile| parse(View::from(&value), profile).map_err(|error| error.message);
        assert_eq!(check(bson!(5), &V4_4), Ok(5));
        assert_eq!(check(bson!(5.0), &V4_4), Ok(5));
        for (value, old, new) in [
            (bson!(-1), "maxTimeMS is out of range", "-1 value for maxTimeMS is out of range [0, 2147483647]"),
            (
                bson!(3_000_000_000_i64),
                "maxTimeMS is out of range",
                "3000000000 value for maxTimeMS is out of range [0, 2147483647]",
            ),
            (bson!("a"), "maxTimeMS must be a number", "maxTimeMS must be a number"),
            (bson!(1.5), "maxTimeMS has non-integral value", "maxTimeMS has non-integral value"),
            (bson!(f64::NAN), "maxTimeMS has non-integral value", "maxTimeMS has non-integral value"),
        ] {
            assert_eq!(check(value.clone(), &V4_4), Err(old.to_owned()));
            assert_eq!(check(value, &V7_0), Err(new.to_owned()));
        }
    }
}
