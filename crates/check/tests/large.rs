//! Services of 2,000 source files: one in which some files listen, and one in which each does. The bar is one second and 200 MiB
//! with optimisations: `cargo test --release -p backfire-check --test large -- --include-ignored --test-threads 1`.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use backfire_check::{Amount, Request, check};

/// How many groups of five files there are.
const GROUPS: usize = 400;
/// In how many groups something listens.
const LISTENING: usize = 20;

/// Methods that have nothing to do with any of this, as most code has not.
fn filler() -> String {
    (0..12).fold(String::new(), |mut text, n| {
        let _ = write!(
            text,
            "    public int compute{n}(int a, String b, List<String> c) {{\n        int total = 0;\n        for (String s : c) {{\n            \
             if (s.equals(b)) {{ total += a * {n} + s.length(); }} else {{ total -= map.getOrDefault(s, {n}); }}\n        }}\n        \
             try {{ total += Integer.parseInt(b); }} catch (NumberFormatException e) {{ total = -1; }}\n        \
             return total > {n} ? total : helper{n}(total, b);\n    }}\n    private int helper{n}(int a, String b) {{ return a + b.length(); }}\n"
        );
        text
    })
}

fn write_files(root: &Path, sources: impl IntoIterator<Item = (String, String)>) {
    let pom = "<project><parent><groupId>org.springframework.boot</groupId><artifactId>spring-boot-starter-parent</artifactId>\
               <version>3.5.16</version></parent><artifactId>shop</artifactId></project>";
    let configuration = [
        ("pom.xml".to_owned(), pom.to_owned()),
        (
            "src/main/resources/application.yml".to_owned(),
            "spring.data.mongodb.uri: mongodb://h/?socketTimeoutMS=5000\n".to_owned(),
        ),
    ];
    for (name, text) in configuration.into_iter().chain(sources) {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Listener, controller, service, repository and entity of each group; `LISTENING` of them listen.
fn write_service(root: &Path) {
    let filler = filler();
    let mut files = Vec::new();
    let map = "private final Map<String, Integer> map = new HashMap<>();";
    for n in 0..GROUPS {
        let package = format!("shop.area{}", n % 40);
        let listens =
            if n % (GROUPS / LISTENING) == 0 { format!("@KafkaListener(topics = \"t{n}\")") } else { String::new() };
        for (name, body) in [
            (
                format!("Item{n}"),
                format!(
                    "public class Item{n} {{ @Id private String id; public String getId() {{ return id; }} {map}\n{filler}}}"
                ),
            ),
            (
                format!("ItemRepository{n}"),
                format!("public interface ItemRepository{n} extends MongoRepository<Item{n}, String> {{ }}"),
            ),
            (
                format!("ItemService{n}"),
                format!(
                    "@Service\npublic class ItemService{n} {{\n    private final ItemRepository{n} repository;\n    {map}\n    \
                     ItemService{n}(ItemRepository{n} repository) {{ this.repository = repository; }}\n    \
                     void store(Item{n} item) {{ compute1(1, \"2\", List.of()); repository.save(item); }}\n{filler}}}"
                ),
            ),
            (
                format!("ItemController{n}"),
                format!(
                    "@RestController\npublic class ItemController{n} {{\n    @Autowired ItemService{n} service;\n    {map}\n    \
                     @PostMapping(\"/items\") void post(@RequestBody Item{n} item) {{ service.store(item); }}\n{filler}}}"
                ),
            ),
            (
                format!("ItemListener{n}"),
                format!(
                    "@Component\npublic class ItemListener{n} {{\n    @Autowired ItemService{n} service;\n    {map}\n    {listens}\n    \
                     void on(Item{n} item) {{ service.store(item); }}\n{filler}}}"
                ),
            ),
        ] {
            let imports = match name.trim_end_matches(char::is_numeric) {
                "Item" => "import org.springframework.data.annotation.Id;\n",
                "ItemRepository" => "import org.springframework.data.mongodb.repository.MongoRepository;\n",
                "ItemListener" => "import org.springframework.kafka.annotation.KafkaListener;\n",
                _ => "import org.springframework.stereotype.Service;\n",
            };
            let path = format!("src/main/java/{}/{name}.java", package.replace('.', "/"));
            files.push((path, format!("package {package};\n\nimport java.util.*;\n{imports}\n{body}\n")));
        }
    }
    write_files(root, files);
}

/// A listener in each of 2,000 files, which writes by itself.
fn write_listeners(root: &Path) {
    let filler = filler();
    let files = (0..5 * GROUPS).map(|n| {
        let package = format!("shop.area{}", n % 40);
        let text = format!(
            "package {package};\n\nimport java.util.*;\nimport org.springframework.data.mongodb.core.MongoTemplate;\n\
             import org.springframework.kafka.annotation.KafkaListener;\n\n@Component\npublic class ItemListener{n} {{\n    \
             @Autowired MongoTemplate template;\n    private final Map<String, Integer> map = new HashMap<>();\n    \
             @KafkaListener(topics = \"t{n}\")\n    void on(Order order) {{ compute1(1, \"2\", List.of()); \
             template.insert(new Stored(order.sku()), \"c{n}\"); }}\n    record Stored(String sku) {{}}\n{filler}}}\n"
        );
        (format!("src/main/java/{}/ItemListener{n}.java", package.replace('.', "/")), text)
    });
    write_files(root, files);
}

/// The processor time of this process so far, in milliseconds, and the most memory it had, in KiB; Linux only.
fn spent() -> Option<(u64, u64)> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some((ticks * 10, peak.split_whitespace().next()?.parse().ok()?))
}

fn within(write: fn(&Path), listening: usize, limit_ms: u64, limit_kib: u64) {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let before = spent();
    let report = check(&Request { paths: vec![folder.path().to_path_buf()], ..Request::default() }).unwrap();
    let text = backfire_check::output::text::report(&report);
    let after = spent();
    assert_eq!(report.files, 5 * GROUPS + 2);
    let predictions = &report.services[0].predictions;
    assert_eq!(predictions.len(), listening);
    assert!(predictions.iter().all(|prediction| prediction.sends == Amount::Exact(20)), "{predictions:?}");
    assert!(text.lines().filter(|line| line.ends_with("longer than all retries")).count() == listening);
    if let (Some((before_ms, _)), Some((after_ms, peak_kib))) = (before, after) {
        let took_ms = after_ms - before_ms;
        assert!(took_ms <= limit_ms && peak_kib <= limit_kib, "{took_ms} ms, {peak_kib} KiB");
        let _ = writeln!(std::io::stderr(), "{took_ms} ms of processor time, {peak_kib} KiB at most");
    }
}

/// A limit that holds without optimisations and on a busy machine.
#[test]
fn two_thousand_files_are_checked() {
    within(write_service, LISTENING, 60_000, 512 << 10);
}

/// The same.
#[test]
fn two_thousand_listeners_are_checked() {
    within(write_listeners, 5 * GROUPS, 60_000, 512 << 10);
}

/// The bar. Processor time: what a busy machine adds does not count, and several threads count each.
#[test]
#[ignore = "measures; needs --release"]
fn two_thousand_files_within_the_bar() {
    within(write_service, LISTENING, 1_000, 200 << 10);
}

/// The same bar.
#[test]
#[ignore = "measures; needs --release"]
fn two_thousand_listeners_within_the_bar() {
    within(write_listeners, 5 * GROUPS, 1_000, 200 << 10);
}
