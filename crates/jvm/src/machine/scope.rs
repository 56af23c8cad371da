//! Where names have values while a method runs.

use std::cell::RefCell;
use std::rc::Rc;

use super::Val;
use crate::index::{ClassId, Place};

/// A method's run.
pub(crate) struct Frame<'s> {
    pub this: Option<Val<'s>>,
    pub place: Place,
    /// What the surrounding method's names mean, for a local or anonymous class.
    pub returns: RefCell<Vec<Val<'s>>>,
}

impl<'s> Frame<'s> {
    pub(crate) fn new(this: Option<Val<'s>>, file: u32, class: Option<ClassId>) -> Rc<Self> {
        Rc::new(Self { this, place: Place { file, class }, returns: RefCell::default() })
    }
}

/// A block's names; those of the blocks around it are seen through it.
pub(crate) struct Scope<'s> {
    vars: RefCell<Vec<Var<'s>>>,
    pub parent: Option<Rc<Scope<'s>>>,
    pub frame: Rc<Frame<'s>>,
    /// What a Kotlin block such as `apply { }` calls `this`.
    pub receiver: Option<Val<'s>>,
}

struct Var<'s> {
    name: &'s str,
    value: Val<'s>,
    /// How many conditions enclosed its declaration.
    branches: u32,
}

impl<'s> Scope<'s> {
    pub(crate) fn top(frame: Rc<Frame<'s>>) -> Rc<Self> {
        Rc::new(Self { vars: RefCell::default(), parent: None, frame, receiver: None })
    }

    pub(crate) fn inner(parent: &Rc<Self>) -> Rc<Self> {
        Self::with_receiver(parent, None)
    }

    pub(crate) fn with_receiver(parent: &Rc<Self>, receiver: Option<Val<'s>>) -> Rc<Self> {
        Rc::new(Self { vars: RefCell::default(), parent: Some(parent.clone()), frame: parent.frame.clone(), receiver })
    }

    /// The same names in another frame: a class inside a method.
    pub(crate) fn in_frame(parent: &Rc<Self>, frame: Rc<Frame<'s>>) -> Rc<Self> {
        Rc::new(Self { vars: RefCell::default(), parent: Some(parent.clone()), frame, receiver: None })
    }

    pub(crate) fn declare(&self, name: &'s str, value: Val<'s>, branches: u32) {
        self.vars.borrow_mut().push(Var { name, value, branches });
    }

    pub(crate) fn get(&self, name: &str) -> Option<Val<'s>> {
        let mut at = Some(self);
        while let Some(scope) = at {
            if let Some(var) = scope.vars.borrow().iter().rev().find(|var| var.name == name) {
                return Some(var.value.clone());
            }
            at = scope.parent.as_deref();
        }
        None
    }

    /// Gives a name another value; `None` says that no block has it. `join` makes one value of the old and the new where
    /// the assignment may not run.
    pub(crate) fn assign(
        &self,
        name: &str,
        value: Val<'s>,
        branches: u32,
        join: impl Fn(Vec<Val<'s>>) -> Val<'s>,
    ) -> bool {
        let mut at = Some(self);
        while let Some(scope) = at {
            if let Some(var) = scope.vars.borrow_mut().iter_mut().rev().find(|var| var.name == name) {
                let unset = matches!(var.value, Val::Void);
                var.value =
                    if branches > var.branches && !unset { join(vec![var.value.clone(), value]) } else { value };
                return true;
            }
            at = scope.parent.as_deref();
        }
        false
    }
}
