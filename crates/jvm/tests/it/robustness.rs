//! Whatever the text, the analysis ends and does not panic.

use backfire_jvm::{Project, SourceFile};
use proptest::prelude::*;

use crate::describe::{analyze, describe, files};

const SAMPLES: [&str; 4] = [
    include_str!("samples/stock-java.txt"),
    include_str!("samples/orders-kotlin.txt"),
    include_str!("samples/legacy-java.txt"),
    include_str!("samples/billing-mixed.txt"),
];

const PIECES: [&str; 24] = [
    "{",
    "}",
    "(",
    ")",
    "<",
    ">",
    "\"",
    "\"\"\"",
    "'",
    "/*",
    "*/",
    "//",
    "@",
    "::",
    "->",
    ";",
    ",",
    "${",
    "#{",
    "\\u00",
    "ü",
    "\0",
    "class A extends A {",
    "fun A.x() = x()",
];

/// A change of a text: at a place, some bytes go and a piece comes.
fn change() -> impl Strategy<Value = (prop::sample::Index, usize, Option<usize>)> {
    (any::<prop::sample::Index>(), 0_usize..60, prop::option::of(0..PIECES.len()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn changed_samples_are_analysed_all_the_same(
        sample in 0..SAMPLES.len(),
        changes in prop::collection::vec(change(), 1..12),
    ) {
        let mut sources = files(SAMPLES[sample]);
        for (at, length, piece) in changes {
            let file = at.index(sources.len());
            let text = sources[file].text.to_mut();
            let mut from = at.index(text.len() + 1);
            while !text.is_char_boundary(from) { from -= 1; }
            let mut to = (from + length).min(text.len());
            while !text.is_char_boundary(to) { to += 1; }
            text.replace_range(from..to, piece.map_or("", |piece| PIECES[piece]));
        }
        let analysis = Project::parse(&sources).analyze();
        // Every place is one of its file.
        for problem in &analysis.problems {
            let text = &sources.iter().find(|file| *file.path == *problem.span.file).expect("a file of the project").text;
            prop_assert!(problem.span.start_byte <= problem.span.end_byte);
            prop_assert!(problem.span.end_byte as usize <= text.len());
        }
        serde_json::to_string(&analysis).expect("serialisable");
        describe(&analysis);
    }

    #[test]
    fn any_text_is_analysed(text in "\\PC{0,200}", kotlin: bool) {
        let path = if kotlin { "A.kt" } else { "A.java" };
        let files = [SourceFile { path: path.into(), text: format!("class A {{ @KafkaListener void x(A a) {{ {text} }} }}").into() }];
        Project::parse(&files).analyze();
    }
}

fn one(path: &str, text: String) -> backfire_jvm::Analysis {
    let files = [SourceFile { path: path.into(), text: text.into() }];
    Project::parse(&files).analyze()
}

#[test]
fn deep_nesting_is_cut_and_said() {
    let deep = 5_000;
    let cases = [
        ("A.java", format!("int x = {}1{};", "(".repeat(deep), ")".repeat(deep))),
        ("A.java", format!("int x = {}1;", "1 + ".repeat(deep))),
        ("A.java", format!("{}{}", "{".repeat(deep), "}".repeat(deep))),
        ("A.java", format!("a{};", ".b()".repeat(deep))),
        ("A.java", format!("{}x();", "if (a) x(); else ".repeat(deep))),
        ("A.kt", format!("val x = {}1{}", "(".repeat(deep), ")".repeat(deep))),
        ("A.kt", format!("a{}", ".b { ".repeat(deep))),
        ("A.java", format!("Map{}x;", "<Map".repeat(deep))),
    ];
    for (path, body) in cases {
        let method = if path.ends_with("kt") { "fun x(a: A)" } else { "void x(A a)" };
        let analysis = one(path, format!("class A {{ @KafkaListener {method} {{ {body} }} }}"));
        assert!(!analysis.problems.is_empty(), "{}", &body[..40]);
    }
}

#[test]
fn large_files_are_left_out_and_said() {
    let text = format!("class A {{ @KafkaListener void x(A a) {{ }} }} // {}", "x".repeat(10_000_000));
    let analysis = one("Big.java", text);
    assert!(analysis.listeners.is_empty());
    assert_eq!(analysis.problems.len(), 1);
    assert!(analysis.problems[0].message.contains("limit"), "{}", analysis.problems[0].message);
}

#[test]
fn a_large_file_of_nonsense_ends() {
    for piece in ["{(", "\"${", "a<b<", "fun fun ", "@A("] {
        for path in ["A.java", "A.kt"] {
            one(path, format!("class KafkaListener {}", piece.repeat(60_000)));
        }
    }
}

#[test]
fn cycles_end() {
    analyze(
        "class A extends B { @KafkaListener void x(A a) { y(); } void y() { x(null); new A(); } A() { new A(); } } class B extends A { }",
    );
    analyze(
        "interface A<T extends A<T>> extends A<A<T>> { } class C implements A<C> { @KafkaListener void x(C c) { } }",
    );
    analyze(
        "class A { static int X = B.Y; @KafkaListener(topics = \"\" + A.X) void x(A a) { } } class B { static int Y = A.X; }",
    );
    analyze(
        "class A { val x: Int get() = y\nval y: Int get() = x\n@KafkaListener(properties = [\"\"])\nfun on(a: A) { x } }",
    );
    analyze(
        "class A { @Autowired B b; @KafkaListener void x(A a) { b.f(r -> b.f(null)); } } class B { void f(Runnable r) { r.run(); f(r); } }",
    );
    let analysis = analyze(
        "class C { @Bean A a(B b) { return new A(b); } @Bean B b(A a) { return new B(a); } @KafkaListener void x(String s) { } }
         class A { A(B b) { } } class B { B(A a) { } }",
    );
    assert_eq!(analysis.listeners.len(), 1);
}

#[test]
fn a_text_or_value_that_doubles_stays_small() {
    let doubling = "s = s + s; ".repeat(200);
    let text = format!(
        "class A {{ @KafkaListener void x(A a) {{ String s = \"x\"; {doubling} t.getCollection(s).insertOne(null); }} MongoTemplate t; }}"
    );
    analyze(&text);
    let text = format!(
        "class A {{ @Value(\"${{k}}\") int s; @KafkaListener void x(A a) {{ {doubling} t.getCollection(\"\" + s).insertOne(null); }} MongoTemplate t; }}"
    );
    analyze(&text);
}

#[test]
fn a_call_graph_that_branches_everywhere_reaches_a_limit() {
    // Each method calls the next one three times: 3^30 ways.
    let methods: String = (0..30).map(|n| format!("void m{n}() {{ m{m}(); m{m}(); m{m}(); }}", m = n + 1)).collect();
    let text = format!(
        "class A {{ @KafkaListener void x(A a) {{ m0(); }} {methods} void m30() {{ t.insert(null); }} MongoTemplate t; }}"
    );
    let analysis = analyze(&text);
    assert!(analysis.listeners[0].cut);
    assert!(analysis.problems.iter().any(|problem| problem.message.contains("too many calls")));
}
