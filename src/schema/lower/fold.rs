//! Folds combinators into their parent: at the root, where vendors reject them, and where only their properties can be
//! kept.

use std::rc::Rc;

use serde_json::Value;

use super::conjunction::{Conjunction, NO_ANY, NO_NOTES, NO_ONE, Part, Term, flatten};
use super::describe;
use super::document::Location;
use super::kinds::Kinds;
use super::lowering::{Lowering, Step};
use super::shape::{Group, Rest, Shape};

impl<'a> Lowering<'a, '_> {
    /// Removes combinators from the root: merges them if that is equivalent, and otherwise collects their properties in
    /// one object.
    pub(super) fn fold_root(&mut self, shape: &mut Shape<'a>) -> Step<()> {
        // Each pass merges a group with only one possible branch. The bound limits the number of passes.
        for _ in 0..100 {
            let alone = shape.groups.iter().position(|group| self.possible(shape, group).len() == 1);
            let Some(index) = alone else { break };
            let group = shape.groups.remove(index);
            let branch = self.possible(shape, &group).swap_remove(0);
            self.spend(shape.parts.len())?;
            let mut conj = self.without(shape, &group, 0);
            conj.extend(branch);
            let flat = flatten(self.document, &conj);
            *shape = Shape::of(self.document, flat);
        }
        for group in std::mem::take(&mut shape.groups) {
            let branches = self.possible(shape, &group);
            if branches.is_empty() {
                shape.never = true;
                return Ok(());
            }
            let text = self.words_of(&group, shape);
            self.describe_loss(shape, group.at, group.keyword(), text, true);
            self.fold(shape, &branches, true);
        }
        if shape.values.take().is_some() {
            let text = shape.parts.iter().find_map(|part| {
                let listed = part.schema.get("enum").and_then(Value::as_array)?;
                Some(format!("The arguments must be one of {}.", describe::values(listed)))
            });
            let text = text.unwrap_or_else(|| "The arguments must be one fixed object.".to_owned());
            self.describe_loss(shape, shape.at, "enum", text, true);
        }
        self.fold_conditions(shape);
        let (refused, kept): (Vec<Rest>, _) =
            std::mem::take(&mut shape.rest).into_iter().partition(|rest| rest.keyword == "not");
        shape.rest = kept;
        for rest in refused {
            self.describe_loss(
                shape,
                rest.part.at,
                rest.keyword,
                describe::keyword(rest.keyword, rest.value, rest.part.schema),
                true,
            );
        }
        Ok(())
    }

    /// Folds in the properties that occur only in conditions, and describes the conditions as text.
    pub(super) fn fold_conditions(&mut self, shape: &mut Shape<'a>) {
        for condition in std::mem::take(&mut shape.conditions) {
            let holder = shape
                .parts
                .iter()
                .find(|part| part.schema.get("if").is_some_and(|when| std::ptr::eq(when, condition.when.schema)));
            let text =
                holder.map_or_else(String::new, |part| describe::keyword("if", condition.when.schema, part.schema));
            self.describe_loss(shape, condition.at, "if", text, true);
            let sides = [condition.then, condition.other].into_iter().flatten();
            let mut branches: Vec<Conjunction> = sides.map(|part| vec![Term::Part(part.without(NO_NOTES))]).collect();
            branches.push(vec![Term::Part(condition.when.without(NO_NOTES))]);
            let both = condition.then.is_some() && condition.other.is_some();
            let (sides, when) = branches.split_at(branches.len() - 1);
            self.fold(shape, sides, both);
            self.fold(shape, when, false);
        }
    }

    /// Folds the properties of branches into the shape: new ones in any case; existing ones only if `whole` is `true`
    /// (at least one of the branches always applies) and every branch declares them.
    pub(super) fn fold(&mut self, shape: &mut Shape<'a>, branches: &[Conjunction<'a>], whole: bool) {
        let mut shapes: Vec<Shape> = Vec::new();
        for branch in branches {
            self.shapes_of(branch, &mut shapes, 0);
        }
        let mut names: Vec<&'a str> = Vec::new();
        for (name, _) in shapes.iter().flat_map(|branch| &branch.object.properties) {
            if !names.contains(name) {
                names.push(name);
            }
        }
        for name in names {
            let found =
                shapes.iter().filter_map(|branch| branch.object.properties.iter().find(|(known, _)| *known == name));
            let conjs: Vec<Conjunction<'a>> = found.map(|(_, conj)| conj.clone()).collect();
            let everywhere = conjs.len() == shapes.len();
            let own = shape.object.properties.iter_mut().find(|(known, _)| *known == name);
            let term = |mut conjs: Vec<Conjunction<'a>>| {
                if conjs.len() == 1 { conjs.swap_remove(0) } else { vec![Term::Any(Rc::from(conjs))] }
            };
            match own {
                Some((_, own)) if whole && everywhere => own.extend(term(conjs)),
                Some(_) => {}
                None => {
                    let mut conj = shape.object.others.clone();
                    conj.extend(term(conjs));
                    shape.object.properties.push((name, conj));
                }
            }
        }
        if whole {
            let required = shapes.first().map(|branch| branch.object.required.clone()).unwrap_or_default();
            for name in required {
                let everywhere = shapes.iter().all(|branch| branch.object.required.contains(&name));
                if everywhere && !shape.object.required.contains(&name) {
                    shape.object.required.push(name);
                }
            }
        }
    }

    /// Collects the shapes of a branch; nested branches are expanded.
    fn shapes_of(&mut self, branch: &[Term<'a>], shapes: &mut Vec<Shape<'a>>, depth: usize) {
        let mut shape = Shape::of(self.document, flatten(self.document, branch));
        if let Some(group) = shape.groups.pop().filter(|_| depth < 4 && shapes.len() < 200) {
            for inner in &group.branches {
                let mut conj = self.without(&shape, &group, 0);
                conj.extend(inner.iter().cloned());
                self.shapes_of(&conj, shapes, depth + 1);
            }
        } else if !shape.never && shape.kinds.meets(Kinds::OBJECT) {
            shapes.push(shape);
        }
    }

    /// Returns the parts of a shape without a group.
    pub(super) fn without(&self, shape: &Shape<'a>, group: &Group<'a>, mask: u8) -> Conjunction<'a> {
        let hidden = if group.one { NO_ONE } else { NO_ANY };
        let part = |(index, part): (usize, &Part<'a>)| {
            Term::Part(part.without(if group.part == Some(index) { mask | hidden } else { mask }))
        };
        let mut conj: Conjunction = shape.parts.iter().enumerate().map(part).collect();
        let made = shape.groups.iter().filter(|other| other.part.is_none());
        let others = made.filter(|other| group.part.is_some() || other.made != group.made);
        conj.extend(others.map(|other| Term::Any(Rc::from(other.branches.clone()))));
        conj
    }

    /// Returns the branches of a group that do not contradict the rest of the shape.
    fn possible(&self, shape: &Shape<'a>, group: &Group<'a>) -> Vec<Conjunction<'a>> {
        let possible = |branch: &&Conjunction<'a>| {
            let mut conj = self.without(shape, group, NO_NOTES);
            conj.extend(branch.iter().cloned());
            let whole = Shape::of(self.document, flatten(self.document, &conj));
            !whole.never && whole.kinds.meets(shape.kinds.intersect(Kinds::OBJECT))
        };
        group.branches.iter().filter(possible).cloned().collect()
    }

    fn words_of(&self, group: &Group<'a>, shape: &Shape<'a>) -> String {
        let part = group.part.and_then(|index| shape.parts.get(index));
        let schemas = part.and_then(|part| part.schema.get(group.keyword())).and_then(Value::as_array);
        schemas.map_or_else(String::new, |schemas| describe::branches(schemas, group.one))
    }

    /// Adds a constraint to the description and records the loss.
    pub(super) fn describe_loss(
        &mut self,
        shape: &mut Shape<'a>,
        at: Location,
        keyword: &str,
        text: String,
        widens: bool,
    ) {
        let message = format!("{keyword} is not supported by this vendor; the description states it instead");
        self.lose(at, keyword, message, widens);
        shape.notes.constraints.push(text);
    }
}
