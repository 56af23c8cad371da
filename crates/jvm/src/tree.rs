//! One syntax tree for Java and Kotlin: what the analysis needs of a file, with names borrowed from its text.
//!
//! Statements are expressions, as in Kotlin. What neither language's reader understands becomes [`ExprKind::Other`], which
//! evaluates to "unknown".

use std::borrow::Cow;

use crate::span::Range;

/// A file.
#[derive(Debug, Default)]
pub(crate) struct Tree<'a> {
    pub package: &'a str,
    pub imports: Vec<Import<'a>>,
    pub classes: Vec<Class<'a>>,
    /// Kotlin's functions outside classes.
    pub functions: Vec<Method<'a>>,
    /// Kotlin's properties outside classes.
    pub fields: Vec<Field<'a>>,
    /// How many bodies are [`Body::Left`].
    pub left_out: u32,
    pub problems: Vec<(Range, String)>,
}

#[derive(Debug)]
pub(crate) struct Import<'a> {
    /// `a.b.C`, without the star.
    pub path: &'a str,
    /// The last part, or Kotlin's `as` name.
    pub name: &'a str,
    pub star: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClassKind {
    Class,
    Interface,
    Record,
    Enum,
    /// A Kotlin `object`; a companion has the name `Companion` unless it says another.
    Object,
    Annotation,
    Anonymous,
}

#[derive(Debug)]
pub(crate) struct Class<'a> {
    pub name: &'a str,
    pub kind: ClassKind,
    pub is_abstract: bool,
    pub annotations: Vec<Annotation<'a>>,
    pub type_params: Vec<TypeParam<'a>>,
    pub supers: Vec<Super<'a>>,
    pub fields: Vec<Field<'a>>,
    pub methods: Vec<Method<'a>>,
    pub constructors: Vec<Constructor<'a>>,
    /// Blocks that run with the constructor, and Java's static ones.
    pub inits: Vec<Expr<'a>>,
    pub constants: Vec<EnumConstant<'a>>,
    pub nested: Vec<Class<'a>>,
    pub name_at: Range,
}

#[derive(Debug)]
pub(crate) struct TypeParam<'a> {
    pub name: &'a str,
    pub bound: Option<Type<'a>>,
}

#[derive(Debug)]
pub(crate) struct Super<'a> {
    pub ty: Type<'a>,
    /// Kotlin's `: Base(a, b)`.
    pub args: Option<Vec<Arg<'a>>>,
    /// Kotlin's `: Interface by expression`.
    pub by: Option<Expr<'a>>,
}

#[derive(Debug)]
pub(crate) struct EnumConstant<'a> {
    pub name: &'a str,
    pub args: Vec<Arg<'a>>,
}

#[derive(Debug)]
pub(crate) struct Annotation<'a> {
    /// As written: `KafkaListener` or `org.springframework.kafka.annotation.KafkaListener`.
    pub name: &'a str,
    /// The value without a name is called `value`.
    pub args: Vec<Arg<'a>>,
    pub at: Range,
}

impl<'a> Annotation<'a> {
    /// The name without its package.
    pub(crate) fn simple(&self) -> &'a str {
        last_part(self.name)
    }

    pub(crate) fn arg(&self, name: &str) -> Option<&Expr<'a>> {
        self.args.iter().find(|arg| arg.name.unwrap_or("value") == name).map(|arg| &arg.value)
    }
}

/// The text behind the last dot.
pub(crate) fn last_part(dotted: &str) -> &str {
    dotted.rsplit('.').next().unwrap_or(dotted)
}

#[derive(Debug)]
pub(crate) struct Field<'a> {
    pub name: &'a str,
    pub ty: Option<Type<'a>>,
    pub annotations: Vec<Annotation<'a>>,
    /// The initial value; also what Kotlin writes behind `by`.
    pub value: Option<Expr<'a>>,
    pub getter: Option<Expr<'a>>,
    pub is_static: bool,
    /// Java's `final`, Kotlin's `val`.
    pub is_final: bool,
    /// A record's component or a parameter of Kotlin's primary constructor.
    pub in_constructor: bool,
    pub at: Range,
}

#[derive(Debug)]
pub(crate) struct Param<'a> {
    pub name: &'a str,
    pub ty: Option<Type<'a>>,
    pub annotations: Vec<Annotation<'a>>,
    pub default: Option<Expr<'a>>,
    pub vararg: bool,
    pub at: Range,
}

#[derive(Debug)]
pub(crate) struct Method<'a> {
    pub name: &'a str,
    pub annotations: Vec<Annotation<'a>>,
    /// The type that a Kotlin extension function extends.
    pub receiver: Option<Type<'a>>,
    pub params: Vec<Param<'a>>,
    pub ret: Option<Type<'a>>,
    pub body: Option<Body<'a>>,
    /// Kotlin's `= expression`: the body's value is the result.
    pub is_expression: bool,
    pub is_static: bool,
    pub suspend: bool,
    pub name_at: Range,
}

/// A method's body.
#[derive(Debug)]
pub(crate) enum Body<'a> {
    Read(Expr<'a>),
    /// Not read: most methods are never run, and most of a file is their bodies. [`World::body`](crate::index::World::body)
    /// reads it.
    Left(LeftOut),
}

/// A block of Java that was not read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeftOut {
    /// Which one of its file's.
    pub number: u32,
    /// With its braces.
    pub at: Range,
    /// Where the text begins that the grammar needs to read it: Kotlin takes braces alone for a lambda.
    pub from: u32,
    /// How deep it stands.
    pub depth: u32,
}

impl<'a> Body<'a> {
    /// The body where it was read with its file.
    pub(crate) fn read(&self) -> Option<&Expr<'a>> {
        match self {
            Self::Read(expr) => Some(expr),
            Self::Left(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Constructor<'a> {
    pub params: Vec<Param<'a>>,
    pub annotations: Vec<Annotation<'a>>,
    /// `this(..)` is `true`, `super(..)` is `false`.
    pub delegates: Option<(bool, Vec<Arg<'a>>)>,
    pub body: Option<Expr<'a>>,
    /// Its parameters are fields of the same names: a record, Kotlin's primary constructor.
    pub primary: bool,
}

/// A type as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Type<'a> {
    /// With dots where written: `Map.Entry`.
    pub name: &'a str,
    pub args: Vec<Type<'a>>,
    pub array: bool,
    pub at: Range,
}

#[derive(Debug)]
pub(crate) struct Arg<'a> {
    pub name: Option<&'a str>,
    pub value: Expr<'a>,
}

#[derive(Debug)]
pub(crate) struct Lambda<'a> {
    /// More than one name where the parameter is taken apart.
    pub params: Vec<LambdaParam<'a>>,
    /// Kotlin without a list: one parameter, `it`.
    pub implicit_it: bool,
    /// `return` leaves it, and not the method around it: all but Kotlin's `{ }`.
    pub own_return: bool,
    pub body: Expr<'a>,
    pub at: Range,
}

#[derive(Debug)]
pub(crate) struct LambdaParam<'a> {
    pub names: Vec<&'a str>,
    pub ty: Option<Type<'a>>,
}

#[derive(Debug)]
pub(crate) struct Expr<'a> {
    pub kind: ExprKind<'a>,
    pub at: Range,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Shl,
    Shr,
    And,
    Or,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Kotlin's `?:`.
    Elvis,
    Other,
}

#[derive(Debug)]
pub(crate) struct Catch<'a> {
    pub types: Vec<Type<'a>>,
    pub name: &'a str,
    pub body: Expr<'a>,
    pub at: Range,
}

#[derive(Debug)]
pub(crate) struct Try<'a> {
    pub resources: Vec<Expr<'a>>,
    pub body: Expr<'a>,
    pub catches: Vec<Catch<'a>>,
    pub finally: Option<Expr<'a>>,
}

#[derive(Debug)]
pub(crate) struct Arm<'a> {
    /// No condition: the default.
    pub conditions: Vec<Expr<'a>>,
    pub body: Expr<'a>,
    /// Java's old form, which falls through to the next arm.
    pub falls_through: bool,
}

#[derive(Debug)]
pub(crate) enum ExprKind<'a> {
    Int(i64),
    Float(f64),
    Bool(bool),
    Null,
    Text(Cow<'a, str>),
    /// Text put together: Kotlin's templates.
    Template(Vec<Expr<'a>>),
    Name(&'a str),
    This,
    Super,
    Select {
        target: Box<Expr<'a>>,
        name: &'a str,
    },
    Call {
        target: Option<Box<Expr<'a>>>,
        name: &'a str,
        name_at: Range,
        types: Vec<Type<'a>>,
        args: Vec<Arg<'a>>,
    },
    /// A value is called: Kotlin's `f(1)(2)`.
    Invoke {
        callee: Box<Expr<'a>>,
        args: Vec<Arg<'a>>,
    },
    New {
        ty: Type<'a>,
        args: Vec<Arg<'a>>,
        body: Option<Box<Class<'a>>>,
    },
    Object(Box<Class<'a>>),
    Lambda(Box<Lambda<'a>>),
    MethodRef {
        target: Option<Box<Expr<'a>>>,
        name: &'a str,
    },
    ClassRef(Type<'a>),
    Binary {
        op: Op,
        left: Box<Expr<'a>>,
        right: Box<Expr<'a>>,
    },
    Not(Box<Expr<'a>>),
    Neg(Box<Expr<'a>>),
    If {
        cond: Box<Expr<'a>>,
        then: Box<Expr<'a>>,
        other: Option<Box<Expr<'a>>>,
    },
    Switch {
        subject: Option<Box<Expr<'a>>>,
        arms: Vec<Arm<'a>>,
    },
    Try(Box<Try<'a>>),
    Assign {
        target: Box<Expr<'a>>,
        op: Option<Op>,
        value: Box<Expr<'a>>,
    },
    Index {
        target: Box<Expr<'a>>,
        index: Box<Expr<'a>>,
    },
    List(Vec<Expr<'a>>),
    Annotation(Box<Annotation<'a>>),
    Block(Vec<Expr<'a>>),
    /// `return`, and what a lambda's label keeps inside it.
    Return {
        value: Option<Box<Expr<'a>>>,
        from_lambda: bool,
    },
    Throw(Box<Expr<'a>>),
    /// `for (x in xs)`; the names of one element.
    ForEach {
        names: Vec<&'a str>,
        ty: Option<Type<'a>>,
        over: Box<Expr<'a>>,
        body: Box<Expr<'a>>,
    },
    /// `while`, `do` and `for (;;)`: what runs first, and what runs again and again.
    Loop {
        init: Vec<Expr<'a>>,
        repeated: Vec<Expr<'a>>,
    },
    Local {
        names: Vec<&'a str>,
        ty: Option<Type<'a>>,
        value: Option<Box<Expr<'a>>>,
    },
    LocalFunction(Box<Method<'a>>),
    LocalClass(Box<Class<'a>>),
    Cast {
        ty: Type<'a>,
        value: Box<Expr<'a>>,
    },
    /// `x is T`, `x in xs` and other tests whose result is not known; the parts are evaluated.
    Test(Vec<Expr<'a>>),
    /// `break` and `continue`.
    Jump,
    Other,
}

/// Visits an expression and what is inside it, methods of local classes too; not deeper than a limit.
pub(crate) fn walk<'a, 't>(expr: &'t Expr<'a>, depth: u32, visit: &mut impl FnMut(&'t Expr<'a>)) {
    if depth > 2 * crate::syntax::DEPTH_MAX {
        return;
    }
    visit(expr);
    let next = depth + 1;
    match &expr.kind {
        ExprKind::Template(parts) | ExprKind::List(parts) | ExprKind::Block(parts) | ExprKind::Test(parts) => {
            parts.iter().for_each(|part| walk(part, next, visit));
        }
        ExprKind::Select { target: inner, .. }
        | ExprKind::Not(inner)
        | ExprKind::Neg(inner)
        | ExprKind::Throw(inner)
        | ExprKind::Cast { value: inner, .. } => walk(inner, next, visit),
        ExprKind::Call { target, args, .. } => {
            target.iter().for_each(|target| walk(target, next, visit));
            args.iter().for_each(|arg| walk(&arg.value, next, visit));
        }
        ExprKind::Invoke { callee, args } => {
            walk(callee, next, visit);
            args.iter().for_each(|arg| walk(&arg.value, next, visit));
        }
        ExprKind::New { args, body, .. } => {
            args.iter().for_each(|arg| walk(&arg.value, next, visit));
            body.iter().for_each(|class| walk_class(class, next, visit));
        }
        ExprKind::Object(class) | ExprKind::LocalClass(class) => walk_class(class, next, visit),
        ExprKind::Lambda(lambda) => walk(&lambda.body, next, visit),
        ExprKind::MethodRef { target, .. } => target.iter().for_each(|target| walk(target, next, visit)),
        ExprKind::Binary { left, right, .. } => {
            walk(left, next, visit);
            walk(right, next, visit);
        }
        ExprKind::If { cond, then, other } => {
            walk(cond, next, visit);
            walk(then, next, visit);
            other.iter().for_each(|other| walk(other, next, visit));
        }
        ExprKind::Switch { subject, arms } => {
            subject.iter().for_each(|subject| walk(subject, next, visit));
            arms.iter().for_each(|arm| walk(&arm.body, next, visit));
        }
        ExprKind::Try(parts) => {
            parts.resources.iter().for_each(|resource| walk(resource, next, visit));
            walk(&parts.body, next, visit);
            parts.catches.iter().for_each(|catch| walk(&catch.body, next, visit));
            parts.finally.iter().for_each(|finally| walk(finally, next, visit));
        }
        ExprKind::Assign { target, value, .. } | ExprKind::Index { target, index: value } => {
            walk(target, next, visit);
            walk(value, next, visit);
        }
        ExprKind::Return { value, .. } | ExprKind::Local { value, .. } => {
            value.iter().for_each(|value| walk(value, next, visit));
        }
        ExprKind::ForEach { over, body, .. } => {
            walk(over, next, visit);
            walk(body, next, visit);
        }
        ExprKind::Loop { init, repeated } => init.iter().chain(repeated).for_each(|part| walk(part, next, visit)),
        ExprKind::LocalFunction(method) => {
            method.body.iter().filter_map(Body::read).for_each(|body| walk(body, next, visit))
        }
        _ => {}
    }
}

fn walk_class<'a, 't>(class: &'t Class<'a>, depth: u32, visit: &mut impl FnMut(&'t Expr<'a>)) {
    let bodies = class.methods.iter().flat_map(|method| &method.body);
    bodies.filter_map(Body::read).for_each(|body| walk(body, depth, visit));
    class.fields.iter().flat_map(|field| &field.value).for_each(|value| walk(value, depth, visit));
}
