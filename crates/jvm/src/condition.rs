//! Conditions on beans: `@Profile` and `@ConditionalOnProperty`, on classes and on `@Bean` methods.

use crate::index::{ClassId, World, site};
use crate::span::Site;
use crate::tree::{Annotation, Expr, ExprKind, Method};

/// What is known of a service's configuration, for the conditions on its beans.
pub trait Configuration: Sync {
    /// The value of a property.
    fn property(&self, key: &str) -> Known;
    /// Whether a profile expression such as `prod & !eu` holds. `None`: it is not known, or it is no expression.
    fn profile(&self, expression: &str) -> Option<bool>;
}

/// What is known of a property.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Known {
    /// Its value.
    Text(String),
    /// It is not set.
    Missing,
    /// It may be set, or its value cannot be seen.
    Unknown,
}

/// Whether something is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It is, or nobody asks.
    There,
    /// A condition does not hold.
    Absent,
    /// It depends on this, which is not known.
    Unknown {
        /// What it depends on.
        on: String,
        /// The condition.
        at: Site,
    },
}

impl Presence {
    pub(crate) fn is_absent(&self) -> bool {
        *self == Self::Absent
    }

    /// Both conditions have to hold.
    fn and(self, other: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Absent => Self::Absent,
            Self::There => other(),
            unknown @ Self::Unknown { .. } => match other() {
                Self::Absent => Self::Absent,
                _ => unknown,
            },
        }
    }
}

/// How deep classes stand in classes.
const NESTING_MAX: usize = 20;

impl<'s> World<'s> {
    /// Whether a class is made as a bean, as far as its conditions and those of the classes around it say.
    pub(crate) fn presence(&self, class: ClassId) -> Presence {
        let mut presence = Presence::There;
        let mut at = Some(class);
        for _ in 0..NESTING_MAX {
            let Some(id) = at else { break };
            let info = self.info(id);
            presence = presence.and(|| self.of_annotations(&info.class.annotations, info.file));
            at = info.outer;
        }
        presence
    }

    /// Whether the bean of a method is made.
    pub(crate) fn presence_of_bean(&self, class: ClassId, method: &Method<'_>) -> Presence {
        self.presence(class).and(|| self.of_annotations(&method.annotations, self.info(class).file))
    }

    fn of_annotations(&self, annotations: &[Annotation<'_>], file: u32) -> Presence {
        let Some(configuration) = self.configuration else { return Presence::There };
        annotations.iter().fold(Presence::There, |presence, annotation| {
            presence.and(|| {
                let holds = match annotation.simple() {
                    "Profile" => profile(annotation, configuration),
                    "ConditionalOnProperty" => property(annotation, configuration),
                    _ => Ok(true),
                };
                match holds {
                    Ok(true) => Presence::There,
                    Ok(false) => Presence::Absent,
                    Err(on) => Presence::Unknown { on, at: site(file, annotation.at) },
                }
            })
        })
    }
}

/// The texts of an attribute; `None`: it is not there. The inner `None`: not all of them can be seen.
fn texts(annotation: &Annotation<'_>, name: &str) -> Option<Option<Vec<String>>> {
    let value = annotation.arg(name)?;
    Some(match &value.kind {
        ExprKind::List(items) => items.iter().map(text).collect(),
        _ => text(value).map(|text| vec![text]),
    })
}

/// One of its expressions holds. `Err`: what is not known.
fn profile(annotation: &Annotation<'_>, configuration: &dyn Configuration) -> Result<bool, String> {
    // Kotlin gives several values without a list.
    let arguments = annotation.args.iter().map(|arg| match &arg.value.kind {
        ExprKind::List(items) => items.iter().map(text).collect::<Option<Vec<_>>>(),
        _ => text(&arg.value).map(|text| vec![text]),
    });
    let Some(expressions) = arguments.collect::<Option<Vec<_>>>() else { return Err("a profile".to_owned()) };
    let mut unknown = None;
    for expression in expressions.into_iter().flatten() {
        match configuration.profile(&expression) {
            Some(true) => return Ok(true),
            Some(false) => {}
            None => unknown = Some(format!("the profile {expression}")),
        }
    }
    unknown.map_or(Ok(false), Err)
}

fn text(expr: &Expr<'_>) -> Option<String> {
    match &expr.kind {
        ExprKind::Text(text) => Some(text.to_string()),
        _ => None,
    }
}

/// Spring Boot's `OnPropertyCondition`: all of the named properties fit; one that is missing does where `matchIfMissing` says
/// so; without `havingValue` every value but `false` does. `Err`: what is not known.
fn property(annotation: &Annotation<'_>, configuration: &dyn Configuration) -> Result<bool, String> {
    let one = |name: &str| match texts(annotation, name) {
        None => Ok(String::new()),
        Some(Some(mut found)) if found.len() == 1 => Ok(found.remove(0)),
        Some(_) => Err(format!("the {name} of a condition")),
    };
    let names = texts(annotation, "name").or_else(|| texts(annotation, "value"));
    let Some(Some(names)) = names else { return Err("a property".to_owned()) };
    let (wanted, mut prefix) = (one("havingValue")?, one("prefix")?.trim().to_owned());
    if !prefix.is_empty() && !prefix.ends_with('.') {
        prefix.push('.');
    }
    let if_missing = match annotation.arg("matchIfMissing").map(|value| &value.kind) {
        None => false,
        Some(ExprKind::Bool(flag)) => *flag,
        Some(_) => return Err("the matchIfMissing of a condition".to_owned()),
    };
    let mut unknown = None;
    for name in names {
        let key = format!("{prefix}{name}");
        let fits = match configuration.property(&key) {
            Known::Text(text) if wanted.is_empty() => !text.eq_ignore_ascii_case("false"),
            Known::Text(text) => text.eq_ignore_ascii_case(&wanted),
            Known::Missing => if_missing,
            Known::Unknown => {
                unknown = Some(key);
                continue;
            }
        };
        if !fits {
            return Ok(false);
        }
    }
    unknown.map_or(Ok(true), Err)
}
