//! The tables of facts/client.md D2 and of report R75, and the laws of a series.

use proptest::prelude::*;

use super::*;

const V6: SpringVersion = SpringVersion::V6_1;
const V7: SpringVersion = SpringVersion::V7_1;

fn growing(initial_interval_ms: i64, multiplier: f64) -> Exponential {
    Exponential::new(initial_interval_ms, multiplier)
}

fn max_retries(max_retries: i64, initial_interval_ms: i64, multiplier: f64, max_interval_ms: i64) -> BackOff {
    BackOff::ExponentialMaxRetries(ExponentialMaxRetries {
        initial_interval_ms,
        multiplier,
        max_interval_ms,
        ..ExponentialMaxRetries::new(max_retries)
    })
}

/// The series ends after exactly these waits, and the number of executions says so.
fn check(back_off: &BackOff, waits_ms: &[u64]) {
    check_in(back_off, V6, waits_ms);
}

fn check_in(back_off: &BackOff, version: SpringVersion, waits_ms: &[u64]) {
    let series: Vec<u64> = back_off.series(version, no_random).unwrap().take(waits_ms.len() + 5).collect();
    assert_eq!(series, waits_ms, "{back_off:?}");
    assert_eq!(back_off.executions(version), Ok(Some(waits_ms.len() as u64 + 1)), "{back_off:?}");
}

/// The series begins with these waits and has no end.
fn check_endless(back_off: &BackOff, waits_ms: &[u64]) {
    let series: Vec<u64> = back_off.series(V6, no_random).unwrap().take(waits_ms.len()).collect();
    assert_eq!(series, waits_ms, "{back_off:?}");
    assert_eq!(back_off.executions(V6), Ok(None), "{back_off:?}");
    assert!(back_off.series(V6, no_random).unwrap().nth(10_000).is_some());
}

fn check_error(back_off: &BackOff, version: SpringVersion, text: &str) {
    assert_eq!(back_off.validate(version).map_err(|error| error.to_string()), Err(text.to_owned()), "{back_off:?}");
}

#[test]
fn a_fixed_back_off_waits_the_same_and_makes_one_execution_more_than_retries() {
    check(&BackOff::None, &[]);
    check(&BackOff::fixed(1_000, 0), &[]);
    check(&BackOff::fixed(0, 3), &[0, 0, 0]);
    check(&BackOff::fixed(250, 2), &[250, 250]);
    check(&BackOff::default(), &[0; 9]);
}

#[test]
fn unlimited_forms_have_no_number_of_executions() {
    check_endless(&BackOff::Fixed(Fixed::default()), &[5_000; 20]);
    check_endless(&BackOff::fixed_unlimited(1_000), &[1_000; 20]);
    check_endless(&BackOff::fixed(1_000, i64::MAX), &[1_000; 20]);
    let defaults = [2_000, 3_000, 4_500, 6_750, 10_125, 15_187, 22_780, 30_000, 30_000, 30_000];
    check_endless(&BackOff::Exponential(Exponential::default()), &defaults);
    check_endless(&BackOff::Exponential(growing(1_000, 2.0)), &[1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    let no_waits = Exponential { max_elapsed_ms: Some(10_000), ..growing(0, 2.0) };
    check_endless(&BackOff::Exponential(no_waits), &[0; 20]);
}

#[test]
fn elapsed_time_is_the_sum_of_waits_and_the_last_wait_may_pass_it() {
    let elapsed = |max: i64| BackOff::Exponential(Exponential { max_elapsed_ms: Some(max), ..growing(1_000, 2.0) });
    check(&elapsed(10_000), &[1_000, 2_000, 4_000, 8_000]);
    check(&elapsed(7_000), &[1_000, 2_000, 4_000]);
    check(&elapsed(7_001), &[1_000, 2_000, 4_000, 8_000]);
    check(&elapsed(0), &[]);
    check(&elapsed(120_000), &[1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
    let both = Exponential { max_elapsed_ms: Some(10_000), max_attempts: Some(2), ..growing(1_000, 2.0) };
    check(&BackOff::Exponential(both), &[1_000, 2_000]);
}

#[test]
fn max_attempts_counts_retries() {
    let attempts = |max: i64| BackOff::Exponential(Exponential { max_attempts: Some(max), ..growing(1_000, 2.0) });
    check(&attempts(0), &[]);
    check(&attempts(3), &[1_000, 2_000, 4_000]);
}

#[test]
fn exponential_with_max_retries_gives_that_many_waits_and_at_least_one() {
    let ten = [2_000, 3_000, 4_500, 6_750, 10_125, 15_187, 22_780, 30_000, 30_000, 30_000];
    check(&BackOff::ExponentialMaxRetries(ExponentialMaxRetries::new(10)), &ten);
    let capped = [1_000, 2_000, 4_000, 8_000, 10_000, 10_000, 10_000, 10_000, 10_000, 10_000];
    check(&max_retries(10, 1_000, 2.0, 10_000), &capped);
    check(&max_retries(6, 1_000, 2.0, 10_000), &[1_000, 2_000, 4_000, 8_000, 10_000, 10_000]);
    check(&max_retries(3, 500, 2.0, 30_000), &[500, 1_000, 2_000]);
    check(&max_retries(0, 1_000, 2.0, 10_000), &[1_000]);
    check(&max_retries(1, 1_000, 2.0, 10_000), &[1_000]);
    check(&max_retries(5, 0, 2.0, 10_000), &[]);
    check(&max_retries(3, 5_000, 2.0, 2_000), &[2_000, 2_000, 2_000]);
    check_in(&max_retries(3, 5_000, 2.0, 2_000), V7, &[2_000, 2_000, 2_000]);
}

#[test]
fn the_back_off_annotation() {
    let annotation = |delay_ms, max_delay_ms, multiplier, attempts| {
        let annotation = BackOffAnnotation { delay_ms, max_delay_ms, multiplier, attempts };
        (annotation.series().unwrap().take(20).collect::<Vec<u64>>(), annotation.executions().unwrap())
    };
    let series = BackOffAnnotation::default().series().unwrap().collect::<Vec<u64>>();
    assert_eq!(series, [1_000, 1_000]);
    let capped = vec![1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000];
    assert_eq!(annotation(1_000, 0, 2.0, 8), (capped, Some(8)));
    assert_eq!(annotation(1_000, 3_000, 2.0, 4), (vec![1_000, 2_000, 3_000], Some(4)));
    assert_eq!(annotation(1_000, 0, 2.0, 1), (vec![], Some(1)));
    let none = BackOffAnnotation { attempts: 0, ..BackOffAnnotation::default() };
    assert_eq!(none.executions(), Err(BackOffError::Attempts { value: 0 }));
}

#[test]
fn jitter_stays_between_its_bounds_and_version_7_0_scales_it_by_whole_numbers() {
    let jitter =
        |jitter_ms| BackOff::Exponential(Exponential { jitter_ms, max_attempts: Some(4), ..growing(1_000, 1.5) });
    let waits = |version, random: f64| jitter(400).series(version, move || random).unwrap().collect::<Vec<u64>>();
    // Intervals 1000 1500 2250 3375; whole factors 1 1 2 3, fractions 1 1.5 2.25 3.375; never below 1000.
    assert_eq!(waits(SpringVersion::V7_0_10, 0.0), [1_000, 1_100, 1_450, 2_175]);
    assert_eq!(waits(SpringVersion::V7_0_10, 0.5), [1_200, 1_500, 2_250, 3_375]);
    assert_eq!(waits(V7, 0.0), [1_000, 1_000, 1_350, 2_025]);
    assert_eq!(waits(V7, 0.5), [1_200, 1_550, 2_250, 3_375]);
    assert_eq!(waits(V7, 1.0_f64.next_down()), [1_399, 2_099, 3_149, 4_724]);
}

#[test]
fn jitter_makes_the_number_of_retries_of_exponential_with_max_retries_inexact() {
    // D2: N = 10 gave 11 to 15 retries in 2000 runs, N = 6 gave 6 to 9, N = 3 gave 3 or 4.
    for (n, seen) in [(10, 11..=15_u64), (6, 6..=9), (3, 3..=4)] {
        let back_off = BackOff::ExponentialMaxRetries(ExponentialMaxRetries {
            initial_interval_ms: 1_000,
            multiplier: 2.0,
            max_interval_ms: 10_000,
            jitter_ms: 500,
            max_retries: n,
        });
        let fewest = back_off.fewest_executions(SpringVersion::V7_0_10).unwrap().unwrap() - 1;
        let most = back_off.executions(SpringVersion::V7_0_10).unwrap().unwrap() - 1;
        assert!(fewest <= *seen.start() && *seen.end() <= most, "{n}: {fewest} to {most}");
        assert_ne!(fewest, most, "{n}");
    }
}

#[test]
fn bad_settings_are_named() {
    let negative = "max_retries is -1; it must be 0 or more. Leave it out for no limit";
    check_error(&BackOff::fixed(0, -1), V6, negative);
    check_error(&BackOff::fixed(-5, 1), V6, "interval_ms is -5; it must be 0 or more");
    check_error(&max_retries(-1, 1, 1.0, 1), V6, "max_retries is -1; it must be 0 or more");
    let multiplier = "multiplier is 0.5; it must be 1 or more (1: every wait is the same)";
    check_error(&BackOff::Exponential(growing(1, 0.5)), V6, multiplier);
    assert!(BackOff::Exponential(growing(1, f64::NAN)).validate(V6).is_err());
    let attempts = Exponential { max_attempts: Some(1), ..Exponential::default() };
    let text = "max_attempts does not exist in Spring Framework 5.3; it came with 6.1";
    check_error(&BackOff::Exponential(attempts), SpringVersion::V5_3, text);
    let jitter = Exponential { jitter_ms: 1, ..Exponential::default() };
    check_error(
        &BackOff::Exponential(jitter),
        V6,
        "jitter_ms does not exist in Spring Framework 6.1; it came with 7.0",
    );
    let zero = BackOff::Exponential(Exponential { jitter_ms: 1, ..growing(0, 2.0) });
    let text = "initial_interval_ms is 0 and jitter_ms is 1; Spring Framework 7.0.0 divides by zero here (repaired by \
                7.0.10)";
    check_error(&zero, SpringVersion::V7_0_0, text);
    assert_eq!(zero.validate(SpringVersion::V7_0_10), Ok(()));
}

#[test]
fn sums_that_do_not_fit_are_refused() {
    let text = "the waits add up to more than 9223372036854775807 ms; lower max_retries or max_interval_ms";
    check_error(&max_retries(3, i64::MAX / 2, 1.0, i64::MAX), V6, text);
    check_error(&max_retries(100, 1_000, 10.0, i64::MAX), V6, text);
    let text = "max_retries is 3000000000; the largest possible number is 2147483647";
    check_error(&max_retries(3_000_000_000, 1, 1.0, 1), V6, text);
    assert_eq!(max_retries(i64::from(i32::MAX), 1_000, 2.0, 10_000).executions(V6), Ok(Some(1 << 31)));
}

#[test]
fn settings_are_read_by_name() {
    let read = |text: &str| toml::from_str::<BackOff>(text).map_err(|error| error.message().to_owned());
    assert_eq!(read("kind = 'fixed'\ninterval_ms = 0\nmax_retries = 3"), Ok(BackOff::fixed(0, 3)));
    assert_eq!(read("kind = 'fixed'"), Ok(BackOff::Fixed(Fixed::default())));
    assert_eq!(read("kind = 'none'"), Ok(BackOff::None));
    assert_eq!(read("kind = 'exponential'"), Ok(BackOff::Exponential(Exponential::default())));
    let six = ExponentialMaxRetries { multiplier: 2.0, ..ExponentialMaxRetries::new(6) };
    let text = "kind = 'exponential-max-retries'\nmax_retries = 6\nmultiplier = 2.0";
    assert_eq!(read(text), Ok(BackOff::ExponentialMaxRetries(six)));
    assert!(read("kind = 'none'\nretries = 3").is_err());
    assert!(read("kind = 'fixed'\nretries = 3").unwrap_err().contains("unknown field `retries`"));
    assert!(read("kind = 'exponential-max-retries'").unwrap_err().contains("max_retries"));
}

fn any_back_off() -> impl Strategy<Value = BackOff> {
    let limit = |most: i64| prop_oneof![Just(None), (0..most).prop_map(Some)];
    let growth = || (0_i64..5_000, prop_oneof![Just(1.0), 1.0..4.0], 0_i64..20_000, prop_oneof![Just(0), 0_i64..900]);
    prop_oneof![
        Just(BackOff::None),
        (0_i64..5_000, limit(40))
            .prop_map(|(interval_ms, max_retries)| BackOff::Fixed(Fixed { interval_ms, max_retries })),
        (growth(), limit(90_000), limit(40)).prop_map(|((initial, multiplier, max, jitter), elapsed, attempts)| {
            BackOff::Exponential(Exponential {
                initial_interval_ms: initial,
                multiplier,
                max_interval_ms: max,
                jitter_ms: jitter,
                max_elapsed_ms: elapsed,
                max_attempts: attempts,
            })
        }),
        (growth(), 0_i64..40).prop_map(|((initial, multiplier, max, jitter), retries)| {
            BackOff::ExponentialMaxRetries(ExponentialMaxRetries {
                max_retries: retries,
                initial_interval_ms: initial,
                multiplier,
                max_interval_ms: max,
                jitter_ms: jitter,
            })
        }),
    ]
}

proptest! {
    /// What is written as TOML is read back the same.
    #[test]
    fn settings_survive_writing(back_off in any_back_off()) {
        let text = toml::to_string(&back_off).unwrap();
        prop_assert_eq!(toml::from_str::<BackOff>(&text).unwrap(), back_off, "{}", text);
    }

    /// A series has as many waits as the number of executions promises, whatever the random numbers.
    #[test]
    fn a_series_is_as_long_as_predicted(back_off in any_back_off(), seed in any::<u64>()) {
        const CUT: u64 = 20_000;
        let mut state = seed;
        let random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let executions = back_off.series(V7, random).unwrap().take(CUT as usize).count() as u64 + 1;
        let fewest = back_off.fewest_executions(V7).unwrap();
        let most = back_off.executions(V7).unwrap();
        prop_assert!(executions >= fewest.unwrap_or(CUT).min(CUT), "{executions} of {fewest:?} to {most:?}");
        prop_assert!(executions <= most.unwrap_or(CUT + 1), "{executions} of {fewest:?} to {most:?}");
    }

    /// Waits never shrink without jitter, and never pass the maximum.
    #[test]
    fn waits_grow_up_to_the_maximum(initial in 0_i64..5_000, multiplier in 1.0..4.0, max in 0_i64..20_000) {
        let back_off = BackOff::Exponential(Exponential { max_interval_ms: max, ..growing(initial, multiplier) });
        let waits: Vec<u64> = back_off.series(V6, no_random).unwrap().take(60).collect();
        prop_assert!(waits.is_sorted() && waits.iter().all(|wait| *wait <= max.unsigned_abs()));
        prop_assert_eq!(waits, back_off.series(V7, no_random).unwrap().take(60).collect::<Vec<u64>>());
    }

    /// A restarted series is the series from its beginning.
    #[test]
    fn a_restart_begins_anew(back_off in any_back_off(), taken in 0_usize..50) {
        let mut series = back_off.series(V7, no_random).unwrap();
        let first: Vec<u64> = series.by_ref().take(50).collect();
        series.restart();
        series.by_ref().take(taken).for_each(drop);
        series.restart();
        prop_assert_eq!(series.retries(), 0);
        prop_assert_eq!(series.take(50).collect::<Vec<u64>>(), first);
    }

    /// No settings make the arithmetic panic.
    #[test]
    fn any_numbers_are_handled(
        initial_interval_ms in any::<i64>(),
        multiplier in any::<f64>(),
        max_interval_ms in any::<i64>(),
        jitter_ms in any::<i64>(),
        limit in any::<i64>(),
    ) {
        let max_elapsed_ms = Some(limit);
        let back_offs = [
            BackOff::Exponential(Exponential {
                initial_interval_ms, multiplier, max_interval_ms, jitter_ms, max_elapsed_ms, max_attempts: None,
            }),
            BackOff::ExponentialMaxRetries(ExponentialMaxRetries {
                initial_interval_ms, multiplier, max_interval_ms, jitter_ms, max_retries: limit,
            }),
            BackOff::fixed(initial_interval_ms, limit),
        ];
        for (row, back_off) in SPRING_VERSIONS.iter().flat_map(|row| back_offs.iter().map(move |b| (row, b))) {
            if let Ok(series) = back_off.series(row.version, || 0.999) {
                series.take(100).for_each(drop);
            }
            let _ = back_off.executions(row.version);
        }
    }
}

#[test]
fn scaling_shortens_waits_and_keeps_their_number() {
    check(&BackOff::fixed(1_000, 2).scaled(0.05), &[50, 50]);
    check(&BackOff::fixed(0, 3).scaled(0.05), &[0, 0, 0]);
    check(&max_retries(4, 1_000, 2.0, 4_000).scaled(0.5), &[500, 1_000, 2_000, 2_000]);
    check_endless(&BackOff::fixed_unlimited(1_000).scaled(0.1), &[100; 3]);
}
