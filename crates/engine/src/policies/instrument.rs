//! Rewrites an expression so that its evaluation counts what it costs.
//!
//! Operations whose cost depends on their operands get them through a function that counts (see [`meter`]). Macros count each
//! element with the size of their body. Constant patterns are compiled here, once.

use cel::IdedExpr;
use cel::common::ast::operators as op;
use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, ListExpr, LiteralValue};

use super::meter;
use super::pattern::Pattern;

/// Functions whose results are small.
const SMALL_RESULTS: [&str; 10] =
    ["bool", "contains", "double", "duration", "endsWith", "has", "int", "startsWith", "timestamp", "uint"];

/// Names of types, which expressions may compare.
pub(super) const TYPES: [&str; 12] =
    ["bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type", "optional", "math"];

/// The rewriting of one expression.
#[derive(Default)]
pub(super) struct Instrumentation {
    /// The constant patterns, in the order of their numbers.
    pub patterns: Vec<Pattern>,
    /// The accumulators of the macros around the current place.
    accumulators: Vec<String>,
}

/// A constant pattern that does not compile: the id of its node, and what is wrong.
pub(super) type PatternError = (u64, String);

impl Instrumentation {
    /// Rewrites an expression.
    ///
    /// # Errors
    /// Returns a [`PatternError`] if a constant pattern does not compile.
    pub fn expression(&mut self, node: IdedExpr) -> Result<IdedExpr, PatternError> {
        let IdedExpr { id, expr } = node;
        let expr = match expr {
            Expr::Call(call) => return self.call(id, call),
            Expr::Comprehension(comprehension) => return self.comprehension(id, *comprehension),
            Expr::Select(mut select) => {
                *select.operand = self.expression(*select.operand)?;
                Expr::Select(select)
            }
            Expr::List(list) => {
                let ListExpr { elements, optional_indices } = list;
                let elements = elements.into_iter().map(|element| self.stored(element));
                Expr::List(ListExpr { elements: elements.collect::<Result<_, _>>()?, optional_indices })
            }
            Expr::Map(mut map) => {
                map.entries = self.entries(map.entries)?;
                Expr::Map(map)
            }
            Expr::Struct(mut fields) => {
                fields.entries = self.entries(fields.entries)?;
                Expr::Struct(fields)
            }
            leaf @ (Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_)) => leaf,
        };
        Ok(IdedExpr { id, expr })
    }

    fn entries(&mut self, entries: Vec<IdedEntryExpr>) -> Result<Vec<IdedEntryExpr>, PatternError> {
        let entry = |IdedEntryExpr { id, expr }| {
            let expr = match expr {
                EntryExpr::StructField(mut field) => {
                    field.value = self.stored(field.value)?;
                    EntryExpr::StructField(field)
                }
                EntryExpr::MapEntry(mut entry) => {
                    entry.key = self.stored(entry.key)?;
                    entry.value = self.stored(entry.value)?;
                    EntryExpr::MapEntry(entry)
                }
            };
            Ok(IdedEntryExpr { id, expr })
        };
        entries.into_iter().map(entry).collect()
    }

    /// Rewrites an expression whose value is copied into another one.
    fn stored(&mut self, node: IdedExpr) -> Result<IdedExpr, PatternError> {
        self.expression(node).map(|node| counted(meter::STORED, node))
    }

    fn operand(&mut self, node: IdedExpr) -> Result<IdedExpr, PatternError> {
        self.expression(node).map(|node| counted(meter::OPERAND, node))
    }

    fn all(
        &mut self,
        nodes: Vec<IdedExpr>,
        each: fn(&mut Self, IdedExpr) -> Result<IdedExpr, PatternError>,
    ) -> Result<Vec<IdedExpr>, PatternError> {
        nodes.into_iter().map(|node| each(self, node)).collect()
    }

    fn call(&mut self, id: u64, call: CallExpr) -> Result<IdedExpr, PatternError> {
        let CallExpr { func_name: name, target, args } = call;
        let is_accumulating = matches!(args.first().map(|first| &first.expr),
            Some(Expr::Ident(first)) if self.accumulators.contains(first));
        let call = |target, args| {
            let expr = Expr::Call(CallExpr { func_name: name.clone(), target, args });
            IdedExpr { id, expr }
        };
        match (name.as_str(), target) {
            (op::CONDITIONAL | op::LOGICAL_AND | op::LOGICAL_OR | op::LOGICAL_NOT | op::NOT_STRICTLY_FALSE, None) => {
                Ok(call(None, self.all(args, Self::expression)?))
            }
            // The step of a macro, which counts its elements.
            (op::ADD, None) if is_accumulating => Ok(call(None, self.all(args, Self::expression)?)),
            (op::ADD, None) => Ok(counted(meter::STORED, call(None, self.all(args, Self::operand)?))),
            (op::INDEX | op::OPT_INDEX | op::OPT_SELECT, None) => {
                let mut args = args.into_iter();
                let value = args.next().map(|value| self.expression(value)).transpose()?;
                let index = args.map(|index| self.operand(index)).collect::<Result<Vec<_>, _>>()?;
                let indexed = call(None, value.into_iter().chain(index).collect());
                // An optional value is a copy.
                Ok(if name == op::INDEX { indexed } else { counted(meter::STORED, indexed) })
            }
            ("matches", target) => self.matches(id, target.map(|target| *target), args),
            ("size", target) => {
                let length = |own: &mut Self, node| own.expression(node).map(|node| counted(meter::LENGTH, node));
                let target = target.map(|target| length(self, *target).map(Box::new)).transpose()?;
                let args = args.into_iter().map(|node| length(self, node)).collect::<Result<_, _>>()?;
                Ok(call(target, args))
            }
            (_, target) => {
                let target = target.map(|target| self.receiver(*target).map(Box::new)).transpose()?;
                let is_small = is_operator(&name) || SMALL_RESULTS.contains(&&*name) || name.starts_with("get");
                let call = call(target, self.all(args, Self::operand)?);
                Ok(if is_small { call } else { counted(meter::STORED, call) })
            }
        }
    }

    /// Rewrites the value on which a function is called. A name alone can be a namespace.
    fn receiver(&mut self, target: IdedExpr) -> Result<IdedExpr, PatternError> {
        match &target.expr {
            Expr::Ident(name) if TYPES.contains(&name.as_str()) => Ok(target),
            _ => self.operand(target),
        }
    }

    fn matches(&mut self, id: u64, target: Option<IdedExpr>, args: Vec<IdedExpr>) -> Result<IdedExpr, PatternError> {
        let mut all: Vec<_> = target.into_iter().chain(args).collect();
        if let [_, pattern] = &all[..]
            && let Expr::Literal(LiteralValue::String(source)) = &pattern.expr
        {
            self.patterns.push(Pattern::compile(source.inner()).map_err(|message| (pattern.id, message))?);
            let number = self.patterns.len() - 1;
            all.pop();
            all.insert(0, count(id, number));
            return Ok(function(id, meter::MATCHES, self.all(all, Self::expression)?));
        }
        Ok(function(id, meter::MATCHES_TEXT, self.all(all, Self::operand)?))
    }

    fn comprehension(&mut self, id: u64, of: ComprehensionExpr) -> Result<IdedExpr, PatternError> {
        let ComprehensionExpr { iter_range, iter_var, iter_var2, accu_var, accu_init, loop_cond, loop_step, result } =
            of;
        // Also fails if a bound is exceeded already, so that macros within a macro end.
        let iter_range = self.expression(iter_range).map(|range| counted(meter::LENGTH, range))?;
        let accu_init = self.expression(accu_init)?;
        self.accumulators.push(accu_var.clone());
        let body = 1 + nodes(&loop_step) + nodes(&loop_cond);
        let loop_cond = self.expression(loop_cond)?;
        let loop_step = self.expression(loop_step)?;
        let result = self.expression(result)?;
        self.accumulators.pop();
        let element = |node: IdedExpr| {
            let variable = IdedExpr { id, expr: Expr::Ident(iter_var.clone()) };
            function(node.id, meter::ELEMENT, vec![count(id, body), variable, node])
        };
        let loop_step = in_step(loop_step, &accu_var, element);
        let comprehension =
            ComprehensionExpr { iter_range, iter_var, iter_var2, accu_var, accu_init, loop_cond, loop_step, result };
        let node = IdedExpr { id, expr: Expr::Comprehension(Box::new(comprehension)) };
        Ok(counted(meter::STORED, node))
    }
}

/// Puts what counts an element into the step of a macro. The shape of the step stays as it is where the interpreter knows a
/// quick way for it: `accu && …`, `accu || …`, `accu + […]`, `… ? accu + … : accu`.
fn in_step(step: IdedExpr, accumulator: &str, element: impl FnOnce(IdedExpr) -> IdedExpr) -> IdedExpr {
    let is_accumulator = |node: &IdedExpr| matches!(&node.expr, Expr::Ident(name) if name == accumulator);
    let IdedExpr { id, expr } = step;
    let Expr::Call(mut call) = expr else { return element(IdedExpr { id, expr }) };
    match (call.func_name.as_str(), &mut call.args[..]) {
        (op::CONDITIONAL, [condition, ..]) => *condition = element(std::mem::take(condition)),
        (op::LOGICAL_AND | op::LOGICAL_OR, [first, other]) if is_accumulator(first) => {
            *other = element(std::mem::take(other));
        }
        (op::ADD, [first, IdedExpr { expr: Expr::List(list), .. }])
            if is_accumulator(first) && list.elements.len() == 1 =>
        {
            let only = &mut list.elements[0];
            *only = element(std::mem::take(only));
        }
        _ => return element(IdedExpr { id, expr: Expr::Call(call) }),
    }
    IdedExpr { id, expr: Expr::Call(call) }
}

/// Returns `true` for the name of an operator. Names of functions consist of letters.
fn is_operator(name: &str) -> bool {
    !name.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns a call of a function that counts.
fn counted(name: &str, node: IdedExpr) -> IdedExpr {
    function(node.id, name, vec![node])
}

fn function(id: u64, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr { id, expr: Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }) }
}

/// Returns a literal of a count.
fn count(id: u64, count: usize) -> IdedExpr {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    IdedExpr { id, expr: Expr::Literal(LiteralValue::Int(count.into())) }
}

/// Returns the number of nodes of an expression.
pub(super) fn nodes(node: &IdedExpr) -> usize {
    let of = |nodes: &[IdedExpr]| nodes.iter().map(nodes_of).sum::<usize>();
    let entries = |entries: &[IdedEntryExpr]| -> usize {
        let entry = |entry: &IdedEntryExpr| match &entry.expr {
            EntryExpr::StructField(field) => nodes(&field.value),
            EntryExpr::MapEntry(entry) => nodes(&entry.key) + nodes(&entry.value),
        };
        entries.iter().map(entry).sum()
    };
    1 + match &node.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => 0,
        Expr::Call(call) => of(&call.args) + call.target.as_ref().map_or(0, |target| nodes(target)),
        Expr::Select(select) => nodes(&select.operand),
        Expr::List(list) => of(&list.elements),
        Expr::Map(map) => entries(&map.entries),
        Expr::Struct(fields) => entries(&fields.entries),
        Expr::Comprehension(of) => {
            [&of.iter_range, &of.loop_cond, &of.loop_step, &of.result].into_iter().map(nodes).sum()
        }
    }
}

fn nodes_of(node: &IdedExpr) -> usize {
    nodes(node)
}
