//! Error handlers, back-offs and recoverers.

use crate::describe::check;

#[test]
fn back_offs() {
    let case = |made: &str, expected: &str| {
        let java = format!("class C {{ @Bean DefaultErrorHandler h() {{ {made} }} }}");
        check(&["handler"], &java, &format!("handler h default{expected}"));
    };
    case("return new DefaultErrorHandler();", "");
    case("return new DefaultErrorHandler(new FixedBackOff(1000L, 3));", " [fixed initial=1000 retries=3]");
    case("return new DefaultErrorHandler(new FixedBackOff());", " [fixed]");
    case(
        "return new DefaultErrorHandler(new FixedBackOff(0, FixedBackOff.UNLIMITED_ATTEMPTS));",
        " [fixed initial=0 retries=MAX]",
    );
    case(
        "var b = new ExponentialBackOffWithMaxRetries(2 * 3); b.setInitialInterval(500); b.setMultiplier(2.0); \
         b.setMaxInterval(Duration.ofSeconds(10).toMillis()); return new DefaultErrorHandler((r, e) -> log(r), b);",
        " [exponential-max-retries initial=500 multiplier=2.0 max=10000 retries=6] recoverer(custom {(r, e) -> log(r)})",
    );
    case(
        "ExponentialBackOff b = new ExponentialBackOff(1000, 2); b.setMaxElapsedTime(60_000L); b.setJitter(100); \
         return new DefaultErrorHandler(b);",
        " [exponential initial=1000 multiplier=2 elapsed=60000 jitter=100]",
    );
    case("return new DefaultErrorHandler(() -> new Mine());", " recoverer(custom {() -> new Mine()})");
    case(
        "return new DefaultErrorHandler(null, fast ? new FixedBackOff(0, 1) : new FixedBackOff(9, 9));",
        " [fixed initial=0 retries=1 | fixed initial=9 retries=9]",
    );
}
