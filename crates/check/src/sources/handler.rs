//! Error handlers: what Spring Kafka's classes do with a failed record (facts/client.md D1, D4).

use backfire_jvm::{BackOff, BackOffKind, ErrorHandler, HandlerKind, Link, Listener, RecovererKind, Setting as Found};
use backfire_model::back_off as model;

use super::exception;
use super::reader::Reader;
use crate::service::{Handler, ListenerKind, Recoverer, Retries};
use crate::setting::{Setting, Source};

/// What error handlers are read with.
pub struct Handlers<'a> {
    /// Values and places.
    pub reader: &'a Reader<'a>,
    /// All handlers of the sources.
    pub all: &'a [ErrorHandler],
    /// Spring Kafka's default.
    pub default: &'a Handler,
    /// What a stall raises (see [`exception::of_stall`]).
    pub raised: &'a [&'static str],
}

/// How deep delegates are followed.
const DELEGATES_MAX: usize = 4;

impl Handlers<'_> {
    /// The handler of a listener.
    pub fn of(&self, listener: &Listener, kind: ListenerKind) -> Handler {
        let mut handler = self.linked(&listener.handler, &listener.span, kind, 0);
        if let Some(first) = &listener.error_handler {
            let why = "the listener's own errorHandler sees the failure first";
            handler.retries = self.reader.unknown(why, &first.span);
        }
        handler
    }

    /// The handler that a link names.
    pub fn linked(&self, link: &Link, at: &backfire_jvm::Span, kind: ListenerKind, depth: usize) -> Handler {
        let unknown = |why: String| Handler {
            retries: self.reader.unknown(why, at),
            is_default: false,
            not_retryable: None,
            place: self.reader.place(at),
            ..self.default.clone()
        };
        match link {
            Link::Default | Link::Boot => self.default.clone(),
            Link::Unknown { why } => unknown(format!("its error handler is not known: {why}")),
            Link::Missing { name } => unknown(format!("no bean {name} is in the sources")),
            Link::Found { .. } | Link::Ambiguous { .. } => {
                let mut found: Vec<Handler> = Vec::new();
                for index in link.candidates() {
                    if let Some(handler) = self.all.get(*index) {
                        let handler = self.read(handler, kind, depth);
                        if !found.iter().any(|known| known.retries.value == handler.retries.value) {
                            found.push(handler);
                        }
                    }
                }
                match (found.len(), found.pop()) {
                    (1, Some(only)) => only,
                    (number, _) => unknown(format!(
                        "it can be one of {number} error handlers; Spring Boot takes one that is the only one or @Primary, else its default"
                    )),
                }
            }
        }
    }

    fn read(&self, handler: &ErrorHandler, kind: ListenerKind, depth: usize) -> Handler {
        let reader = self.reader;
        let unlimited = |interval_ms: i64| model::BackOff::Fixed(model::Fixed { interval_ms, max_retries: None });
        let class = handler.class.as_str();
        let mut result = Handler {
            is_default: false,
            not_retryable: Some(handler.not_retryable.iter().map(|class| class.name.clone()).collect()),
            place: reader.place(&handler.span),
            ..self.default.clone()
        };
        let once = |result: &mut Handler, recoverer: Recoverer| {
            result.retries = reader.made(Retries::Times(1), &handler.span);
            result.recoverer = reader.made(recoverer, &handler.span);
        };
        match handler.kind {
            HandlerKind::Stopping => {
                once(&mut result, Recoverer::Stop);
                return result;
            }
            HandlerKind::Logging => {
                once(&mut result, Recoverer::Log);
                return result;
            }
            HandlerKind::Delegating | HandlerKind::Mixed if depth < DELEGATES_MAX => {
                return self.delegated(handler, kind, depth);
            }
            HandlerKind::Delegating | HandlerKind::Mixed | HandlerKind::Custom => {
                result.retries = reader.unknown(format!("{class} is the application's own"), &handler.span);
                result.recoverer = reader.unknown(format!("{class} is the application's own"), &handler.span);
                result.not_retryable = None;
                return result;
            }
            HandlerKind::SeekToCurrentBatch => {
                // The whole batch again, without a wait and without end (facts D4 of the handlers before 2.8).
                result.retries = reader.made(Retries::BackOff(unlimited(0)), &handler.span);
            }
            HandlerKind::RetryingBatch => {
                result.retries = reader.made(Retries::BackOff(unlimited(5_000)), &handler.span);
            }
            HandlerKind::Default
            | HandlerKind::CustomDefault
            | HandlerKind::SeekToCurrent
            | HandlerKind::RecoveringBatch
            | HandlerKind::AfterRollback => {}
        }
        if let Some(retries) = self.back_offs(handler) {
            result.retries = retries;
        }
        if let Some(span) = &handler.back_off_function {
            let why = "setBackOffFunction chooses a back-off for each record and exception";
            result.retries = reader.unknown(why, span);
        }
        if handler.kind == HandlerKind::CustomDefault && !handler.overrides.is_empty() {
            let why = format!("{class} has a {} of its own", handler.overrides.join(" and a "));
            result.retries = reader.unknown(why, &handler.span);
        }
        self.recoverer(handler, &mut result);
        self.settings(handler, &mut result);
        self.classify(handler, &mut result);
        result
    }

    /// The back-off that is set; `None`: none is.
    fn back_offs(&self, handler: &ErrorHandler) -> Option<Setting<Retries>> {
        let mut found: Vec<Setting<Retries>> = Vec::new();
        for back_off in &handler.back_offs {
            let setting = self.back_off(back_off);
            if !found.iter().any(|known| known.value.is_some() && known.value == setting.value) {
                found.push(setting);
            }
        }
        match found.len() {
            0 | 1 => found.pop(),
            number => Some(self.reader.unknown(format!("it can be one of {number} back-offs"), &handler.span)),
        }
    }

    /// A back-off, configuration looked up.
    fn back_off(&self, back_off: &BackOff) -> Setting<Retries> {
        let reader = self.reader;
        match &back_off.kind {
            BackOffKind::Custom { text } => {
                return reader.unknown(format!("a back-off of the application's own: {text}"), &back_off.span);
            }
            BackOffKind::Unknown { why } => return reader.unknown(format!("the back-off: {why}"), &back_off.span),
            _ => {}
        }
        let parts: [(&str, &Option<Found>); 6] = [
            ("interval", &back_off.initial_interval_ms),
            ("multiplier", &back_off.multiplier),
            ("maxInterval", &back_off.max_interval_ms),
            ("maxElapsedTime", &back_off.max_elapsed_ms),
            ("retries", &back_off.max_retries),
            ("jitter", &back_off.jitter_ms),
        ];
        for (name, part) in parts {
            let Some(part) = part else { continue };
            let why = match part.conditional {
                true => Some("it is set under a condition".to_owned()),
                false => reader.resolve(&part.value).err(),
            };
            if let Some(why) = why {
                return reader.unknown(format!("{name} of the back-off: {why}"), &part.span);
            }
        }
        match back_off.to_model(&mut |property| reader.text(property)) {
            Ok(model) => reader.made(Retries::BackOff(model), &back_off.span),
            Err(open) => {
                let first = open.first();
                let name = first.map_or("a value", |open| open.name);
                let span = first.map_or(&back_off.span, |open| &open.span);
                reader.unknown(format!("{name} of the back-off is no number"), span)
            }
        }
    }

    fn recoverer(&self, handler: &ErrorHandler, result: &mut Handler) {
        let reader = self.reader;
        let Some(recoverer) = handler.recoverers.first() else { return };
        result.recoverer = match &recoverer.kind {
            RecovererKind::DeadLetter => reader.made(Recoverer::DeadLetter, &recoverer.span),
            RecovererKind::Custom { .. } => reader.made(Recoverer::Own, &recoverer.span),
            RecovererKind::Unknown { why } => reader.unknown(format!("the recoverer: {why}"), &recoverer.span),
        };
        for named in &recoverer.settings {
            match named.name.as_str() {
                // Then it does not wait for the broker's answer (facts D3).
                "failIfSendResultIsError" if reader.flag(&named.setting).value == Some(false) => {
                    result.dead_letter_wait_ms = 0;
                }
                "waitForSendResultTimeout" => {
                    let least_ms = reader.ms(&named.setting).value.unwrap_or(0);
                    result.dead_letter_wait_ms = result.dead_letter_wait_ms.max(least_ms);
                }
                _ => {}
            }
        }
    }

    fn settings(&self, handler: &ErrorHandler, result: &mut Handler) {
        let reader = self.reader;
        for named in &handler.settings {
            match named.name.as_str() {
                "resetStateOnExceptionChange" => result.resets_on_exception_change = reader.flag(&named.setting),
                "resetStateOnRecoveryFailure" => result.resets_on_recovery_failure = reader.flag(&named.setting),
                // `SeekToCurrentErrorHandler(int maxFailures)`, up to 2.3: executions in all.
                "maxFailures" => {
                    result.retries = reader.number(&named.setting).map(|failures| match i64::try_from(failures) {
                        Ok(failures) if failures > 0 => Retries::BackOff(model::BackOff::fixed(0, failures - 1)),
                        _ => Retries::Times(1),
                    });
                }
                _ => {}
            }
        }
        result.pauses = handler.back_off_handler.as_deref() == Some("ContainerPausingBackOffHandler");
    }

    /// A failure that the handler does not retry ends the series at once.
    fn classify(&self, handler: &ErrorHandler, result: &mut Handler) {
        let names = |classes: &[backfire_jvm::ExceptionClass]| {
            classes.iter().map(|class| class.name.clone()).collect::<Vec<_>>()
        };
        let (retried, not_retried) = (names(&handler.retryable), names(&handler.not_retryable));
        let is_retried = exception::is_retried(self.raised, &retried, &not_retried);
        let is_retried = is_retried.unwrap_or(self.raised.is_empty() || handler.retries_by_default != Some(false));
        if handler.retries_by_default == Some(false) {
            // What is not named is not retried.
            result.not_retryable = None;
        }
        if !is_retried {
            let by = |class: &&backfire_jvm::ExceptionClass| {
                self.raised.iter().any(|raised| exception::is_a(raised, &class.name))
            };
            let span = handler.not_retryable.iter().find(by).map_or(&handler.span, |class| &class.span);
            result.retries = self.reader.made(Retries::Times(1), span);
        }
    }

    /// The delegate that gets what a stall raises, or what a listener of this kind raises.
    fn delegated(&self, handler: &ErrorHandler, kind: ListenerKind, depth: usize) -> Handler {
        let of_mixed = || handler.delegates.get(usize::from(kind == ListenerKind::Batch));
        let of_stall = || {
            handler.delegates.iter().find(|delegate| {
                let mut classes = delegate.exceptions.iter();
                classes.any(|class| self.raised.iter().any(|raised| exception::is_a(raised, &class.name)))
            })
        };
        let of_others = || handler.delegates.iter().find(|delegate| delegate.exceptions.is_empty());
        let delegate = match handler.kind {
            HandlerKind::Mixed => of_mixed(),
            _ => of_stall().or_else(of_others),
        };
        match delegate {
            Some(delegate) => self.linked(&delegate.handler, &handler.span, kind, depth + 1),
            None => Handler { place: self.reader.place(&handler.span), ..self.default.clone() },
        }
    }
}

/// The handler inside retry topics: nothing is retried there, and what is exhausted goes to the dead-letter topic (facts D5).
pub fn of_retry_topic(default: &Handler, retries: Setting<Retries>) -> Handler {
    Handler {
        retries,
        is_default: false,
        recoverer: Setting::new(Recoverer::DeadLetter, Source::default_of("Spring Kafka")),
        ..default.clone()
    }
}
