//! Whole services: several files, several modules, both languages.

use crate::describe::{analyze, describe};

#[track_caller]
fn check(sources: &str, expected: &str) {
    let got = describe(&analyze(sources));
    assert_eq!(got.trim(), expected.trim(), "got:\n{got}");
}

#[test]
fn a_java_service_with_templates_repositories_and_a_custom_fragment() {
    check(include_str!("samples/stock-java.txt"), include_str!("samples/stock-java.expected.txt"));
}

#[test]
fn a_kotlin_service_with_retry_topics_and_properties_classes() {
    check(include_str!("samples/orders-kotlin.txt"), include_str!("samples/orders-kotlin.expected.txt"));
}

#[test]
fn an_older_java_service_with_its_handlers_and_reactive_parts() {
    check(include_str!("samples/legacy-java.txt"), include_str!("samples/legacy-java.expected.txt"));
}

#[test]
fn modules_of_both_languages_that_call_each_other() {
    check(include_str!("samples/billing-mixed.txt"), include_str!("samples/billing-mixed.expected.txt"));
}
