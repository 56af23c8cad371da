//! Whatever the files hold, a check ends with a report or an error: never a panic, never a password in the output.

use std::fs;
use std::path::{Path, PathBuf};

use backfire_check::source::SourceFile;
use backfire_check::{Request, check, format, output, stated};
use proptest::prelude::*;

fn fixtures() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut found = Vec::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    found.push((path.strip_prefix(&root).unwrap().to_path_buf(), fs::read_to_string(&path).unwrap()))
                }
            }
        }
    }
    found.sort();
    found
}

fn outputs(request: &Request) -> Vec<String> {
    match check(request) {
        Ok(report) => vec![
            output::text::report(&report),
            output::json::report(&report).to_string(),
            output::sarif::report(&report).to_string(),
            output::github::report(&report),
        ],
        Err(error) => vec![error.to_string()],
    }
}

/// A change of a text: cut, doubled, replaced by an unlikely piece.
fn mutated(text: &str, at: usize, length: usize, piece: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let at = at % (bytes.len() + 1);
    let end = (at + length).min(bytes.len());
    bytes.splice(at..end, piece.bytes());
    bytes
}

const PIECES: &[&str] = &[
    "",
    "\u{0}",
    "${",
    "}",
    "${A:${A}}",
    ": ",
    "- ",
    "\t",
    "\"",
    "'",
    "<",
    "&a *a",
    "[[",
    "\\u12",
    "999999999999999999999",
    "\u{feff}",
    "é",
    "---\n",
    "{{",
    "<!--",
    "mongodb://",
    "-1",
    "1e9",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_fixtures_never_panic(
        service in 0usize..1_000,
        changes in prop::collection::vec((0usize..10_000, 0usize..10_000, 0usize..40, 0usize..PIECES.len()), 1..8),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let all = fixtures();
        let service = all[service % all.len()].0.components().next().unwrap().as_os_str().to_owned();
        let mut files: Vec<(PathBuf, Vec<u8>)> = all
            .into_iter()
            .filter(|(path, _)| path.starts_with(&service))
            .map(|(path, text)| (path, text.into_bytes()))
            .collect();
        for (which, at, length, piece) in changes {
            let index = which % files.len();
            let text = String::from_utf8_lossy(&files[index].1).into_owned();
            files[index].1 = mutated(&text, at, length, PIECES[piece]);
        }
        for (path, bytes) in &files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
        outputs(&Request { paths: vec![folder.path().to_path_buf()], ..Request::default() });
    }

    #[test]
    fn a_password_is_in_no_output(
        first in "[A-Z]{3}[0-9]{4}",
        middle in "[A-Za-z0-9!$'()*+,;=@:/?#%&~._-]{0,9}",
        last in "[A-Z]{3}[0-9]{4}",
        options in "[a-zA-Z=&]{0,20}",
        form in 0usize..6,
    ) {
        let password = format!("{first}{middle}{last}");
        let folder = tempfile::tempdir().unwrap();
        let uri = format!("mongodb://app:{password}@mongo:27017/db?{options}");
        let quoted = serde_json::to_string(&uri).unwrap();
        let (name, text) = match form {
            0 => ("application.yml", format!("spring:\n  data:\n    mongodb:\n      uri: {quoted}\n")),
            1 => ("application.properties", format!("spring.data.mongodb.uri={uri}\nspring.kafka.consumer.max-poll-interval-ms=1\n")),
            2 => ("sink.json", format!("{{\"connector.class\": \"com.mongodb.kafka.connect.MongoSinkConnector\", \"connection.uri\": {quoted}}}")),
            3 => ("backfire.toml", format!("[client]\nuri = {quoted}\n")),
            4 => ("application.yml", format!("spring.data.mongodb.uri: ${{URI:{uri}}}\n")),
            _ => ("application.yml", format!("spring:\n  data.mongodb.uri: {uri}\n")),
        };
        fs::write(folder.path().join(name), text).unwrap();
        let file = Request { paths: vec![folder.path().to_path_buf()], ..Request::default() };
        let argument = Request { uri: Some(uri.clone()), ..Request::default() };
        for text in outputs(&file).into_iter().chain(outputs(&argument)) {
            prop_assert!(!text.contains(&first) && !text.contains(&last), "{password} in {text}");
        }
    }

    #[test]
    fn readers_take_any_text(text in "(?s).{0,300}") {
        let file = SourceFile::new("a", text.clone());
        let (documents, _) = format::yaml::read(&file);
        documents.iter().for_each(|document| drop(backfire_check::spring::files::flatten(document)));
        format::properties::read(&file);
        drop(format::json::read(&file));
        drop(stated::read(&file));
        backfire_check::source::masked(&text);
        for at in 0..text.len().min(50) {
            backfire_check::source::Place::new(&file, at..at + 3).shown_line();
        }
    }
}

#[test]
fn broken_files_of_every_kind_are_findings_or_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    };
    let listener = "class L { MongoTemplate t; @KafkaListener(topics = \"t\") void on(String s) { t.save(s); }";
    write("pom.xml", b"<project><dependencies>");
    write("src/main/resources/application.yml", b"spring: [");
    write("src/main/resources/application-x.properties", b"spring.a=\\u12\n");
    write("src/main/resources/application-y.yml", b"a: \xff");
    // A class that does not end, an old encoding, and a class that is its own superclass.
    write("src/main/java/L.java", listener.as_bytes());
    write(
        "src/main/java/Old.java",
        b"class Old { /* gr\xfc\xdfe */ @KafkaListener(topics = \"o\") void on(String s) { } }",
    );
    write(
        "src/main/java/Self.java",
        b"class Self extends Self { @KafkaListener(topics = \"p\") void on(Self s) { on(s); } }",
    );
    write("src/main/kotlin/K.kt", b"class K { @KafkaListener(topics = [\"k\") fun on(s: String = ");
    write("src/main/java/Zero.java", &[0; 3_000]);
    let large = fs::File::create(folder.path().join("src/main/java/Large.java")).unwrap();
    large.set_len(100 << 20).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path(), folder.path().join("src/main/java/loop")).unwrap();
    let report = check(&Request { paths: vec![folder.path().to_path_buf()], ..Request::default() }).unwrap();
    let said = |name: &str| {
        report.findings.iter().any(|finding| {
            let place = finding.place.as_ref().map(|place| place.path().to_owned()).unwrap_or_default();
            matches!(finding.rule, "BF038" | "BF047") && (place.ends_with(name) || finding.message.contains(name))
        })
    };
    for name in
        ["pom.xml", "application.yml", "application-x.properties", "application-y.yml", "L.java", "K.kt", "Large.java"]
    {
        assert!(said(name), "{name}: {:?}", report.findings);
    }
    assert!(!said("Old.java"), "{:?}", report.findings);
    assert!(report.services[0].predictions.iter().any(|prediction| prediction.listener == "L.on"));
}

#[test]
fn deep_nesting_and_cycles_end() {
    let folder = tempfile::tempdir().unwrap();
    let resources = folder.path().join("src/main/resources");
    fs::create_dir_all(&resources).unwrap();
    let depth = 50_000;
    fs::write(folder.path().join("pom.xml"), "<a>".repeat(depth)).unwrap();
    fs::write(resources.join("application.yml"), "{a: ".repeat(depth)).unwrap();
    fs::write(resources.join("application-b.yml"), "spring.config.import: file:c.yml\n").unwrap();
    fs::write(resources.join("c.yml"), "spring.config.import: [file:application-b.yml, file:c.yml]\n").unwrap();
    fs::write(folder.path().join("A.java"), format!("class A {{ @KafkaListener void x(A a) {{ {}", "(".repeat(depth)))
        .unwrap();
    fs::write(
        folder.path().join("B.kt"),
        format!("class B {{ @KafkaListener fun x(a: A) = {}", "a.b { ".repeat(depth)),
    )
    .unwrap();
    fs::write(folder.path().join("sink.json"), format!("{{\"connector.class\": {}", "[".repeat(depth))).unwrap();
    fs::write(folder.path().join("build.gradle"), "(\"".repeat(depth)).unwrap();
    fs::write(folder.path().join("backfire.toml"), format!("a = {}", "[".repeat(depth))).unwrap();
    let request =
        Request { paths: vec![folder.path().to_path_buf()], profiles: vec!["b".into()], ..Request::default() };
    assert!(!outputs(&request).is_empty());
    fs::remove_file(folder.path().join("backfire.toml")).unwrap();
    assert!(!outputs(&request).is_empty());
}
