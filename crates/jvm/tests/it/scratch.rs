#[test]
fn scratch() {
    let text = std::fs::read_to_string(std::env::var("SCRATCH").unwrap_or("/tmp/s1.txt".into())).unwrap();
    println!("{}", crate::describe::describe(&crate::describe::analyze(&text)));
}
