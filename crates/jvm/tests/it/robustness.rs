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

#[test]
fn syntax_of_today_is_read_without_a_problem() {
    let java = r#"
        package a; import java.util.*;
        sealed interface Shape permits Circle, Square { }
        record Circle(double r) implements Shape { Circle { if (r < 0) throw new IllegalArgumentException("x"); } }
        record Square(double a) implements Shape { static <T extends Comparable<? super T>> T max(List<? extends T> l) { return null; } }
        enum Kind { A { int f() { return 1; } }, B; int f() { return 0; } }
        @interface Own { String[] value() default {}; Class<? extends Throwable>[] on() default { Exception.class }; }
        class L {
            MongoTemplate template;
            @Own({"a", "b"}) @KafkaListener(topics = "t")
            public void on(@Payload Order order, @Header(name = "k", required = false) String key) throws Exception {
                String text = """
                    { "a": "%s" }
                    """.formatted(key);
                double area = switch (shape(order)) {
                    case Circle(double r) when r > 1 -> { yield r * r; }
                    case Circle(var r) -> r;
                    case Square s -> s.a();
                    default -> 0;
                };
                if (shape(order) instanceof Circle(double r) && r > 0) { log(r); }
                Map<String, List<int[]>> m = new HashMap<>() {{ put("a", List.of(new int[] {1, 2})); }};
                try (var in = open(); var out = open()) { in.read(); } catch (IllegalStateException | IllegalArgumentException e) { }
                list.forEach((a, _) -> { });
                outer: for (int i = 0, n = 3; i < n; i++) { continue outer; }
                Function<Integer, Integer> f = (final var x) -> x + 1;
                Supplier<L> s = L::new; int[][] grid = new int[3][]; char c = 'ü'; long n = 0xFF_FFL; var neg = -1 >>> 2;
                synchronized (this) { template.save(order); }
                assert area > 0 : "positive";
            }
            Shape shape(Order order) { return new Circle(1); }
            static { System.out.println(); }
        }
    "#;
    let kotlin = r#"
        @file:Suppress("x")
        package a
        import java.util.*
        import kotlin.time.Duration.Companion.seconds as secs
        typealias Handler = suspend (String) -> Unit
        sealed interface Shape { data class Circle(val r: Double) : Shape; data object None : Shape }
        @JvmInline value class Id(val raw: String)
        enum class Kind(val n: Int) { A(1) { override fun f() = 1 }, B(2); open fun f() = n }
        inline fun <reified T : Any, R> T.with(noinline block: (T) -> R): R where R : Comparable<R> = block(this)
        operator fun Id.plus(other: Id) = Id(raw + other.raw)
        class L<in T>(private val template: MongoTemplate, val x: Int = 3) : Base(x), Other by lazyOther {
            private val cache by lazy { mutableMapOf<String, Int?>() }
            lateinit var late: String
            var prop: Int = 0
                get() = field + 1
                private set(value) { field = value }
            init { require(x > 0) { "x is $x and ${x + 1}" } }
            constructor(template: MongoTemplate) : this(template, 1)
            @KafkaListener(topics = ["t", "u"], properties = ["a=b"])
            suspend fun on(@Payload order: Order?, vararg more: String) {
                val (a, _) = Pair(1, 2)
                val area = when (val s = shape()) {
                    is Shape.Circle -> s.r * 2
                    Shape.None, null -> 0.0
                    else -> return
                }
                val text = """raw $a ${"nested ${a}"} """.trimIndent()
                list.filter { it.first != null && it.second in 1..10 }.map { (k, v) -> k to v!! }.forEach(::println)
                val n = order?.items?.firstOrNull { it?.id?.let { id -> id.isNotEmpty() } ?: false } ?: return@on
                try { template.save(order!!) } catch (e: DuplicateKeyException) { log.info("x") } finally { done() }
                loop@ for (i in 0 until 3 step 2) { if (i == 1) continue@loop else break@loop }
                val anonymous = object : Runnable { override fun run() = Unit }
                do { val y = x as? Int } while (y != null)
                val fn = fun(x: Int): Int { return x }
                prop += if (a > 1) 1 else 2
                val bits = 0xFF and 0b11 shl 2; val c = 'c'; val u = 3u
            }
            companion object : KLogging() { const val MAX = 1_000L; @JvmStatic fun of() = L<String>(t) }
        }
    "#;
    let order = "package a; class Order { String id; }";
    for (path, text) in [("L.java", java), ("L.kt", kotlin)] {
        let files = [
            SourceFile { path: path.into(), text: text.into() },
            SourceFile { path: "Order.java".into(), text: order.into() },
        ];
        let analysis = Project::parse(&files).analyze();
        let problems: Vec<_> =
            analysis.problems.iter().map(|it| format!("{}:{} {}", path, it.span.line, it.message)).collect();
        assert_eq!(problems, [""; 0]);
        assert_eq!(analysis.listeners[0].writes.len(), 1, "{path}");
    }
}
