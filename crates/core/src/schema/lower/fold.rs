//! Folds combinators into their parent: at the root, where vendors reject them, and where only their properties can be
//! kept.

use std::rc::Rc;

use serde_json::Value;

use super::conjunction::{Conjunction, NO_ANY, NO_NOTES, NO_ONE, Part, Term, flatten};
use super::describe;
use super::lowering::{Lowering, Step};
use super::shape::{Group, Shape};
use crate::schema::types::Types;

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
            let schemas = group.part.and_then(|_| group.at.get(group.keyword())).and_then(Value::as_array);
            let text = schemas.map_or_else(String::new, |schemas| describe::branches(schemas, group.one));
            self.describe_loss(shape, group.at, group.keyword(), text);
            self.fold(shape, &branches, true);
        }
        if shape.values.take().is_some() {
            let text = shape.parts.iter().find_map(|part| {
                let listed = part.schema.get("enum").and_then(Value::as_array)?;
                Some(format!("The arguments must be one of {}.", describe::values(listed)))
            });
            let text = text.unwrap_or_else(|| "The arguments must be one fixed object.".to_owned());
            self.describe_loss(shape, shape.at, "enum", text);
        }
        self.fold_conditions(shape);
        for (keyword, at) in shape.rest.extract_if(.., |(keyword, _)| *keyword == "not").collect::<Vec<_>>() {
            self.describe_keyword(shape, at, keyword);
        }
        Ok(())
    }

    /// Folds in the properties that occur only in conditions, and describes the conditions as text.
    pub(super) fn fold_conditions(&mut self, shape: &mut Shape<'a>) {
        for condition in std::mem::take(&mut shape.conditions) {
            self.describe_keyword(shape, condition, "if");
            let branch = |schema| vec![Term::Part(Part { schema, mask: NO_NOTES })];
            let sides: Vec<Conjunction> =
                ["then", "else"].into_iter().filter_map(|side| condition.get(side)).map(branch).collect();
            self.fold(shape, &sides, sides.len() == 2);
            self.fold(shape, &[branch(&condition["if"])], false);
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
            let conjs: Vec<Conjunction<'a>> =
                shapes.iter().filter_map(|branch| branch.object.declared(name).cloned()).collect();
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
            for conj in self.with_each_branch(&shape, &group, 0) {
                self.shapes_of(&conj, shapes, depth + 1);
            }
        } else if !shape.never && shape.kinds.meets(Types::OBJECT) {
            shapes.push(shape);
        }
    }

    /// Returns the parts of a shape without a group.
    fn without(&self, shape: &Shape<'a>, group: &Group<'a>, mask: u8) -> Conjunction<'a> {
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

    /// Returns the parts of a shape with each branch of a group in place of the group.
    pub(super) fn with_each_branch(&self, shape: &Shape<'a>, group: &Group<'a>, mask: u8) -> Vec<Conjunction<'a>> {
        let base = self.without(shape, group, mask);
        group.branches.iter().map(|branch| base.iter().chain(branch).cloned().collect()).collect()
    }

    /// Returns the branches of a group that do not contradict the rest of the shape.
    fn possible(&self, shape: &Shape<'a>, group: &Group<'a>) -> Vec<Conjunction<'a>> {
        let is_possible = |conj: &Conjunction<'a>| {
            let whole = Shape::of(self.document, flatten(self.document, conj));
            !whole.never && whole.kinds.meets(shape.kinds.intersect(Types::OBJECT))
        };
        let whole = self.with_each_branch(shape, group, NO_NOTES);
        group.branches.iter().zip(&whole).filter(|(_, whole)| is_possible(whole)).map(|(own, _)| own.clone()).collect()
    }

    /// Describes a keyword of a subschema, and records the loss.
    pub(super) fn describe_keyword(&mut self, shape: &mut Shape<'a>, at: &'a Value, keyword: &str) {
        self.describe_loss(shape, at, keyword, describe::keyword(keyword, &at[keyword], at));
    }

    /// Adds a constraint to the description, and records the loss.
    pub(super) fn describe_loss(&mut self, shape: &mut Shape<'a>, at: &'a Value, keyword: &str, text: String) {
        let message = format!("{keyword} is not supported by this vendor; the description states it instead");
        self.lose(at, keyword, message, keyword != "format" || describe::is_asserted(at));
        shape.notes.constraints.push(text);
    }
}
