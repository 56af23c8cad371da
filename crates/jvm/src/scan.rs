//! A quick look at every file: what it declares and whether it can matter. Only files that can are parsed.
//!
//! Parsing thousands of files with a grammar takes seconds; this takes milliseconds. It errs on the side of "can matter".

/// A word or a mark of a source text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Word(&'a str),
    Mark(u8),
}

/// The words and marks of Java or Kotlin, without comments, texts and numbers.
pub(crate) struct Tokens<'a> {
    text: &'a str,
    at: usize,
    /// Whether `"${ .. }"` may hold texts of its own, as in Kotlin.
    has_templates: bool,
}

impl<'a> Tokens<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, has_templates: true }
    }

    /// Those of a text that is Java for sure.
    pub(crate) fn java(text: &'a str) -> Self {
        Self { text, at: 0, has_templates: false }
    }

    /// The byte behind the token that came last.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    fn skip_text(&mut self, quote: u8) {
        let bytes = self.text.as_bytes();
        if quote == b'"' && bytes[self.at..].starts_with(b"\"\"\"") {
            self.at += 3;
            while self.at < bytes.len() && !bytes[self.at..].starts_with(b"\"\"\"") {
                self.at += 1;
            }
            self.at += 3;
            // A fourth quote belongs to the text.
            while bytes.get(self.at) == Some(&b'"') {
                self.at += 1;
            }
            return;
        }
        self.at += 1;
        let mut holes = 0_u32;
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b'\\' => self.at += 1,
                // Kotlin's `"${ .. }"` may hold texts of its own.
                b'$' if self.has_templates && quote == b'"' && bytes.get(self.at + 1) == Some(&b'{') => {
                    holes += 1;
                    self.at += 1;
                }
                b'{' if holes > 0 => holes += 1,
                b'}' if holes > 0 => holes -= 1,
                b'\n' => return,
                _ if *byte == quote && holes == 0 => {
                    self.at += 1;
                    return;
                }
                _ => {}
            }
            self.at += 1;
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let bytes = self.text.as_bytes();
        loop {
            let byte = *bytes.get(self.at)?;
            match byte {
                b'/' if bytes.get(self.at + 1) == Some(&b'/') => {
                    let rest = &bytes[self.at..];
                    self.at += rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                }
                b'/' if bytes.get(self.at + 1) == Some(&b'*') => {
                    let rest = &bytes[self.at + 2..];
                    let end = rest.windows(2).position(|pair| pair == b"*/");
                    self.at += end.map_or(rest.len() + 2, |end| end + 4);
                }
                b'"' | b'\'' => self.skip_text(byte),
                b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80.. => {
                    let rest = &bytes[self.at..];
                    let is_word = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | 0x80..);
                    let length = rest.iter().position(|b| !is_word(b)).unwrap_or(rest.len());
                    let word = self.text.get(self.at..self.at + length).unwrap_or_default();
                    self.at += length;
                    return Some(Token::Word(word));
                }
                b'0'..=b'9' => {
                    let rest = &bytes[self.at..];
                    self.at += rest.iter().position(|b| !b.is_ascii_alphanumeric() && *b != b'_').unwrap_or(rest.len());
                }
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                _ => {
                    self.at += 1;
                    return Some(Token::Mark(byte));
                }
            }
        }
    }
}

/// What a file declares.
#[derive(Debug, Default)]
pub(crate) struct Scan<'a> {
    /// `a.b.c`.
    pub package: String,
    /// Classes at any depth.
    pub declares: Vec<&'a str>,
    /// Words between a class's name and its body: its supertypes are among them.
    pub heads: Vec<&'a str>,
    /// Kotlin's functions and properties outside classes.
    pub top_level: Vec<&'a str>,
    /// Declares an annotation, and names `KafkaListener`.
    pub meta_listener: bool,
    /// A listener, an error handler, a client's settings: analysis starts here.
    pub seed: bool,
    /// Declares beans.
    pub beans: bool,
}

/// How many words of a class's head are looked at.
const HEAD_MAX: usize = 400;

pub(crate) fn scan<'a>(text: &'a str, kotlin: bool) -> Scan<'a> {
    let mut scan = Scan::default();
    let mut tokens = Tokens::new(text).peekable();
    let mut depth = 0_u32;
    let mut annotation = false;
    let mut listener = false;
    let mut before = Token::Mark(b';');
    while let Some(token) = tokens.next() {
        match token {
            Token::Mark(b'{') => depth += 1,
            Token::Mark(b'}') => depth = depth.saturating_sub(1),
            Token::Word("package") if scan.package.is_empty() && depth == 0 => {
                while let Some(Token::Word(word)) = tokens.peek() {
                    scan.package.push_str(word);
                    tokens.next();
                    if tokens.peek() != Some(&Token::Mark(b'.')) {
                        break;
                    }
                    scan.package.push('.');
                    tokens.next();
                }
            }
            // What is imported matters where it is used.
            Token::Word("import") if depth == 0 => {
                let mut word = tokens.next_if_eq(&Token::Word("static")).or(Some(token));
                while word.is_some() {
                    word = tokens.next_if(|token| matches!(token, Token::Word(_)));
                    if tokens.next_if_eq(&Token::Mark(b'.')).is_none() {
                        break;
                    }
                }
            }
            Token::Word("class" | "interface" | "record" | "enum" | "object")
                if before != Token::Mark(b'.') && before != Token::Mark(b':') =>
            {
                annotation |= before == Token::Mark(b'@') || before == Token::Word("annotation");
                let name = match tokens.peek().copied() {
                    Some(Token::Word(name)) if name != "class" => name,
                    _ => {
                        before = token;
                        continue;
                    }
                };
                tokens.next();
                scan.declares.push(name);
                for _ in 0..HEAD_MAX {
                    match tokens.peek().copied() {
                        Some(Token::Word(word)) => {
                            note_word(word, before, &mut scan, &mut listener);
                            // A Kotlin class without a body.
                            if matches!(word, "class" | "interface" | "object" | "fun") {
                                break;
                            }
                            scan.heads.push(word);
                        }
                        Some(Token::Mark(b'{' | b'}' | b';')) | None => break,
                        Some(_) => {}
                    }
                    before = tokens.next().unwrap_or(before);
                }
            }
            Token::Word("fun" | "val" | "var") if kotlin && depth == 0 => {
                let mut last = None;
                for _ in 0..40 {
                    match tokens.peek().copied() {
                        Some(Token::Word("interface")) => break,
                        Some(Token::Word(word)) => last = Some(word),
                        Some(Token::Mark(b'(' | b'=' | b':' | b'{' | b'}')) | None => break,
                        Some(_) => {}
                    }
                    tokens.next();
                }
                scan.top_level.extend(last);
            }
            Token::Word(word) => note_word(word, before, &mut scan, &mut listener),
            Token::Mark(_) => {}
        }
        before = token;
    }
    scan.meta_listener = annotation && listener;
    scan
}

fn note_word(word: &str, before: Token<'_>, scan: &mut Scan<'_>, listener: &mut bool) {
    let bytes = word.as_bytes();
    if !bytes.first().is_some_and(u8::is_ascii_uppercase) || bytes.len() < 4 {
        return;
    }
    match word {
        "Bean" => scan.beans |= before == Token::Mark(b'@'),
        "KafkaListener" | "KafkaHandler" | "RetryableTopic" => {
            scan.seed = true;
            *listener = true;
        }
        "RetryTopicConfiguration"
        | "RetryTopicConfigurationBuilder"
        | "RetryTopicConfigurationSupport"
        | "MessageListener"
        | "AcknowledgingMessageListener"
        | "BatchMessageListener"
        | "BatchAcknowledgingMessageListener"
        | "AcknowledgingConsumerAwareMessageListener"
        | "ContainerProperties"
        | "ConcurrentKafkaListenerContainerFactory"
        | "ConcurrentMessageListenerContainer"
        | "KafkaMessageListenerContainer"
        | "DefaultKafkaConsumerFactory"
        | "DefaultKafkaConsumerFactoryCustomizer"
        | "ConsumerConfig"
        | "ContainerPausingBackOffHandler"
        | "DefaultAfterRollbackProcessor"
        | "DeadLetterPublishingRecoverer"
        | "FixedBackOff"
        | "ExponentialBackOff"
        | "ExponentialBackOffWithMaxRetries"
        | "MongoClientSettings"
        | "MongoClientSettingsBuilderCustomizer"
        | "MongoClients"
        | "MongoTransactionManager"
        | "ReactiveMongoTransactionManager"
        | "ReactiveKafkaConsumerTemplate"
        | "KafkaReceiver"
        | "AbstractMongoClientConfiguration"
        | "AbstractReactiveMongoConfiguration" => scan.seed = true,
        _ if word.ends_with("ErrorHandler") && word.len() > 12 && is_kafka_handler(word) => scan.seed = true,
        _ => {}
    }
}

fn is_kafka_handler(word: &str) -> bool {
    matches!(
        word,
        "DefaultErrorHandler"
            | "CommonErrorHandler"
            | "CommonContainerStoppingErrorHandler"
            | "CommonLoggingErrorHandler"
            | "CommonDelegatingErrorHandler"
            | "CommonMixedErrorHandler"
            | "SeekToCurrentErrorHandler"
            | "SeekToCurrentBatchErrorHandler"
            | "RetryingBatchErrorHandler"
            | "RecoveringBatchErrorHandler"
            | "ContainerStoppingErrorHandler"
            | "ContainerStoppingBatchErrorHandler"
            | "LoggingErrorHandler"
            | "KafkaListenerErrorHandler"
            | "ContainerAwareErrorHandler"
            | "BatchErrorHandler"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, kotlin: bool, expected: &str) {
        let scan = scan(text, kotlin);
        let flags = [(scan.seed, "seed"), (scan.beans, "beans"), (scan.meta_listener, "meta")];
        let flags: Vec<_> = flags.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
        let got = format!(
            "{} | {} | {} | {} | {}",
            scan.package,
            scan.declares.join(" "),
            scan.heads.join(" "),
            scan.top_level.join(" "),
            flags.join(" ")
        );
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn what_a_file_declares_and_whether_it_can_matter() {
        check(
            "package a.b; class A<T> extends B<T> implements C { class D {} }",
            false,
            "a.b | A D | T extends B T implements C |  | ",
        );
        check(
            "package a; // class X\n/* class Y */ record R(int a) { String s = \"class Z\"; }",
            false,
            "a | R | int a |  | ",
        );
        check(
            "import a.KafkaListener; import static b.MongoClients.create; import c.*;\nclass A { create x; }",
            false,
            " | A |  |  | ",
        );
        check("import a.KafkaListener\nimport b.MongoClients as M\n@KafkaListener class A", true, " | A |  |  | seed");
        check("@KafkaListener @interface L {}", false, " | L |  |  | seed meta");
        check("class A { @Bean DefaultErrorHandler h() { return null; } }", false, " | A |  |  | seed beans");
        check(
            "package a\nfun Order.toDoc() = 1\nval x = \"${m[\"class Q\"]}\"\nclass K(val r: R) : B(r)",
            true,
            "a | K | val r R B r | toDoc x | ",
        );
        check("val c = Foo::class\nenum class E { A }\nfun interface F", true, " | E F |  | c | ");
    }
}
