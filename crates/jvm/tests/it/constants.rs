//! Constants, arithmetic and settings from configuration.

use crate::describe::{analyze, value};

/// The value of the last listener's `properties`, which takes any expression.
#[track_caller]
fn check(text: &str, expected: &str) {
    let analysis = analyze(text);
    let setting = analysis.listeners.last().and_then(|listener| listener.properties.clone());
    let got = setting.map(|setting| value(&setting.value)).unwrap_or_default();
    assert_eq!(got, expected, "of\n{text}\nproblems {:?}", analysis.problems);
}

#[track_caller]
fn java(expr: &str, expected: &str) {
    check(
        &format!("class C {{ static final int N = 3; @KafkaListener(properties = {expr}) void on(String s) {{ }} }}"),
        expected,
    );
}

#[track_caller]
fn kotlin(expr: &str, expected: &str) {
    check(
        &format!("const val N = 3\nclass C {{ @KafkaListener(properties = {expr})\nfun on(s: String) {{ }} }}"),
        expected,
    );
}

#[test]
fn literals_and_arithmetic_in_java() {
    java("1_000L", "1000");
    java("0x10 + 0b11 + 010", "27");
    java("(2 + 3) * 4 - 7 / 2", "17");
    java("7 % 4", "3");
    java("1.5 * 2", "3.0");
    java("-N", "-3");
    java("1 << 10", "1024");
    java("\"a\" + 1 + 'c' + true", "'a1ctrue'");
    java("\"tab\\tand \\u0041\"", "'tab\tand A'");
    java("N > 2 ? \"big\" : \"small\"", "'big'");
    java("Long.MAX_VALUE", "MAX");
    java("Duration.ofMinutes(2).toMillis() / 1000", "120");
    java("Duration.ofSeconds(3).plusMillis(500)", "3500ms");
    java("Duration.parse(\"PT2S\")", "2000ms");
    java("TimeUnit.MINUTES.toMillis(2)", "120000");
    java("Math.max(N, 7)", "7");
    java("Integer.parseInt(\"42\")", "42");
    java("9223372036854775807L + 1", "add(MAX, 1)");
}

#[test]
fn literals_and_arithmetic_in_kotlin() {
    kotlin("[\"a$N\", \"b${N + 1}\"]", "['a3', 'b4']");
    kotlin("30.seconds", "30000ms");
    kotlin("30.seconds.inWholeMilliseconds * 2", "60000");
    kotlin("maxOf(N, 5)", "5");
    kotlin("if (N > 5) 1 else 2", "2");
    kotlin("when (N) { 1 -> \"one\"; 3 -> \"three\"; else -> \"?\" }", "'three'");
    kotlin("N.toLong().coerceAtLeast(10)", "10");
    kotlin("\"\"\"raw \\n $N\"\"\"", "'raw \\n 3'");
}

#[test]
fn constants_of_other_classes_and_files() {
    check(
        "== a/A.java
         package a; import static b.B.TEXT; import b.*;
         class A { @KafkaListener(properties = {TEXT, B.Inner.DEEP, K.FROM_KOTLIN, b.B.TEXT}) void on(String s) {} }
         == b/B.java
         package b; public class B { public static final String TEXT = \"b-\" + Inner.DEEP;
           public static class Inner { public static final String DEEP = \"deep\"; } }
         == b/K.kt
         package b
         object K { const val FROM_KOTLIN = \"k\" }",
        "['b-deep', 'deep', 'k', 'b-deep']",
    );
    check(
        "interface Limits { String A = \"a\" + Sizes.BIG.text(); }
         enum Sizes { BIG(9), SMALL(1); private final int n; Sizes(int n) { this.n = n; } String text() { return \"n\" + n; } }
         class C implements Limits { @KafkaListener(properties = A) void on(String s) {} }",
        "'an9'",
    );
    check(
        "class C { companion object { const val A = 1; val B = A + 1 }\n@KafkaListener(properties = [B])\nfun on(s: String) { } }",
        "[2]",
    );
}

#[test]
fn what_refers_to_itself_is_unknown() {
    java("C.LOOP", "?{C.LOOP: nothing sets it}");
    check(
        "class C { static final int A = B; static final int B = A; @KafkaListener(properties = A) void on(String s) {} }",
        "?{A: the method calls itself}",
    );
}

#[test]
fn placeholders() {
    java("\"${a.b}\"", "${a.b}");
    java("\"${a.b:10}\"", "${a.b:'10'}");
    java("\"${a:${b:c}}\"", "${a:${b:'c'}}");
    java("\"x-${a}-y\"", "concat('x-', ${a}, '-y')");
    java("\"#{'${a}'.split(',')}\"", "split(${a})");
    java("\"#{@bean.name}\"", "?{#{@bean.name}: an expression in Spring's expression language}");
    kotlin("[\"\\${a.b:1}\"]", "[${a.b:'1'}]");
}
