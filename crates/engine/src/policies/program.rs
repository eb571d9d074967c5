//! Compiled conditions, with bounds on what an evaluation may cost.

use std::sync::{Arc, LazyLock};

use cel::common::ast::{CallExpr, EntryExpr, Expr};
use cel::{Context, DeclarationError, Env, IdedExpr, Program, Value};

use super::input::{VARIABLES, Variables};
use super::instrument::{Instrumentation, TYPES, nodes};
use super::meter::{self, Bounds, Meter};
use super::pattern::Pattern;
use toolpost_core::domain::policy::MAX_EXPRESSION;

/// Maximum depth of brackets, and number of `?`, of an expression: the parser calls itself for each.
const MAX_BRACKETS: u32 = 24;
/// Maximum depth of a parsed expression: the evaluation calls itself for each level.
const MAX_DEPTH: u32 = 64;
/// The stack of the thread that compiles an expression, in bytes. Only the used part takes memory.
const STACK: usize = 256 * 1024 * 1024;
/// Maximum depth of macros over lists and maps within each other, such as `all` in `exists`.
const MAX_NESTING: u32 = 3;
/// Maximum number of parts of an expression that the async threads evaluate.
const MAX_INLINE_PARTS: usize = 500;
/// Maximum depth of macros of an expression that the async threads evaluate.
const MAX_INLINE_NESTING: u32 = 1;

static ENVIRONMENT: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// An error in an expression, with its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
pub struct ExpressionError {
    /// The line, counted from 1.
    pub line: usize,
    /// The column in characters, counted from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
}

/// A compiled condition.
#[derive(Debug)]
pub struct Condition {
    expression: IdedExpr,
    patterns: Arc<[Pattern]>,
    /// `true` if its evaluation about small arguments is short.
    is_short: bool,
}

impl Condition {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Returns an [`ExpressionError`] if it is too long, does not parse, or refers to an unknown variable.
    pub fn compile(text: &str) -> Result<Self, ExpressionError> {
        let error = |line, column, message: String| ExpressionError { line, column, message };
        if text.trim().is_empty() {
            return Err(error(1, 1, "must not be empty".to_owned()));
        }
        if text.len() > MAX_EXPRESSION {
            return Err(error(1, 1, format!("must have at most {MAX_EXPRESSION} bytes")));
        }
        if is_deep(text) {
            return Err(error(1, 1, format!("may nest brackets and `?` at most {MAX_BRACKETS} deep")));
        }
        let compile = || Self::parsed(text);
        // The parser needs more stack than a thread of the runtime has.
        let compiled = std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, compile);
            thread.ok().and_then(|thread| thread.join().ok())
        });
        compiled.unwrap_or_else(|| Err(error(1, 1, "cannot be compiled now".to_owned())))
    }

    fn parsed(text: &str) -> Result<Self, ExpressionError> {
        let error = |line, column, message: String| ExpressionError { line, column, message };
        let program = ENVIRONMENT.compile(text).map_err(|errors| match errors.errors.first() {
            Some(first) => {
                let (line, column) = (first.pos.0.max(1).unsigned_abs(), first.pos.1.max(1).unsigned_abs());
                error(line, column, first.msg.lines().next().unwrap_or_default().to_owned())
            }
            None => error(1, 1, "is not an expression".to_owned()),
        })?;
        let mut check = Check { program: &program, text, names: Vec::new(), nesting: 0, deepest: 0, depth: 0 };
        check.expression(program.expression())?;
        let nesting = check.deepest;
        if nesting > MAX_NESTING {
            return Err(error(1, 1, format!("macros may be nested at most {MAX_NESTING} deep")));
        }
        let parts = nodes(program.expression());
        let mut instrumentation = Instrumentation::default();
        let counting = instrumentation.expression(program.expression().clone());
        let expression = counting.map_err(|(id, message)| check.error(id, message))?;
        let is_short = nesting <= MAX_INLINE_NESTING && parts <= MAX_INLINE_PARTS;
        Ok(Self { expression, patterns: instrumentation.patterns.into(), is_short })
    }

    /// Returns `true` if its evaluation about small arguments is short.
    pub(super) fn is_short(&self) -> bool {
        self.is_short
    }

    /// Evaluates the condition.
    ///
    /// # Errors
    /// Returns why it cannot be evaluated: an absent member, a type that does not fit, or an exceeded bound.
    pub fn matches(&self, evaluation: &Evaluation<'_>) -> Result<bool, String> {
        let Evaluation { context, meter } = evaluation;
        meter.use_patterns(&self.patterns);
        let result = context.resolve(&self.expression);
        if let Some(reason) = meter.exceeded() {
            return Err(reason);
        }
        match result {
            Ok(Value::Bool(matches)) => Ok(matches),
            Ok(other) => Err(format!("the expression is of type {:?} and not bool", other.type_of())),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The evaluation of all conditions of a call, within common bounds.
pub struct Evaluation<'v> {
    context: Context<'v, 'v>,
    meter: Arc<Meter>,
}

impl<'v> Evaluation<'v> {
    /// Creates an evaluation with these variables.
    ///
    /// # Errors
    /// Returns a [`DeclarationError`] if the functions that count cannot be declared.
    pub fn new(variables: &'v Variables<'_>, bounds: Bounds) -> Result<Self, DeclarationError> {
        let meter = Arc::new(Meter::new(bounds));
        let mut context = Context::with_env(ENVIRONMENT.clone());
        context.set_variable_resolver(variables);
        meter::declare(&mut context, &meter)?;
        Ok(Self { context, meter })
    }
}

/// A walk over an expression that finds unknown variables and the depth of macros.
struct Check<'a> {
    program: &'a Program,
    text: &'a str,
    /// The variables of the macros around the current place.
    names: Vec<String>,
    nesting: u32,
    deepest: u32,
    depth: u32,
}

impl Check<'_> {
    fn expression(&mut self, node: &IdedExpr) -> Result<(), ExpressionError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error(node.id, format!("may be at most {MAX_DEPTH} levels deep; use several policies")));
        }
        let checked = self.children(node);
        self.depth -= 1;
        checked
    }

    fn children(&mut self, node: &IdedExpr) -> Result<(), ExpressionError> {
        match &node.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.identifier(node.id, name),
            Expr::Call(CallExpr { func_name, target, args }) => {
                let is_name = func_name.bytes().all(|byte| byte.is_ascii_alphanumeric());
                if is_name && !FUNCTIONS.contains(&func_name.as_str()) {
                    return Err(self.error(node.id, format!("unknown function `{func_name}`")));
                }
                target.iter().try_for_each(|target| self.expression(target))?;
                args.iter().try_for_each(|argument| self.expression(argument))
            }
            Expr::List(list) => list.elements.iter().try_for_each(|element| self.expression(element)),
            Expr::Select(select) => self.expression(&select.operand),
            Expr::Map(map) => map.entries.iter().try_for_each(|entry| self.entry(&entry.expr)),
            Expr::Struct(fields) => fields.entries.iter().try_for_each(|entry| self.entry(&entry.expr)),
            Expr::Comprehension(macros) => {
                self.expression(&macros.iter_range)?;
                self.expression(&macros.accu_init)?;
                let known = self.names.len();
                self.names.extend([macros.iter_var.clone(), macros.accu_var.clone()]);
                self.names.extend(macros.iter_var2.clone());
                self.nesting += 1;
                self.deepest = self.deepest.max(self.nesting);
                let inner = [&macros.loop_cond, &macros.loop_step, &macros.result];
                inner.into_iter().try_for_each(|part| self.expression(part))?;
                self.nesting -= 1;
                self.names.truncate(known);
                Ok(())
            }
        }
    }

    fn entry(&mut self, entry: &EntryExpr) -> Result<(), ExpressionError> {
        match entry {
            EntryExpr::StructField(field) => self.expression(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key)?;
                self.expression(&entry.value)
            }
        }
    }

    fn identifier(&self, id: u64, name: &str) -> Result<(), ExpressionError> {
        let is_known = VARIABLES.contains(&name) || TYPES.contains(&name) || self.names.iter().any(|own| own == name);
        if is_known {
            return Ok(());
        }
        Err(self.error(id, format!("unknown variable `{name}`; known are {}", VARIABLES.join(", "))))
    }

    /// Creates an error at the place of a node.
    fn error(&self, id: u64, message: String) -> ExpressionError {
        let start = self.program.source_info().offset_for(id).map_or(0, |(start, _)| start as usize);
        let before: String = self.text.chars().take(start).collect();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|one| *one != '\n').count() + 1;
        ExpressionError { line, column, message }
    }
}

/// Returns `true` if brackets or conditional operators are nested too deeply to be parsed.
fn is_deep(text: &str) -> bool {
    let (mut depth, mut deepest, mut conditionals) = (0_u32, 0, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'?' => conditionals += 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest > MAX_BRACKETS || conditionals > MAX_BRACKETS
}

/// The functions of the standard library of CEL.
const FUNCTIONS: [&str; 30] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "has",
    "int",
    "matches",
    "max",
    "min",
    "orValue",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
    "value",
];

#[cfg(test)]
mod tests {
    use super::super::input::Input;
    use super::*;

    fn error(text: &str) -> ExpressionError {
        Condition::compile(text).map(|_| ()).unwrap_err()
    }

    #[test]
    fn errors_have_a_position() {
        let wrong = error("tool.name ==\n  'a' &&& true");
        assert_eq!(wrong.line, 2, "{wrong}");
        let unknown = error("true &&\n  argz.a > 1");
        assert_eq!((unknown.line, unknown.column), (2, 3), "{unknown}");
        assert!(unknown.message.contains("`argz`"), "{unknown}");
        assert_eq!(error(" ").line, 1);
        assert!(error(&"1 + ".repeat(2000)).message.contains("at most 4096 bytes"));
    }

    #[test]
    fn macros_know_their_variables_and_are_bounded() {
        let nested = |depth: usize| {
            let open: String = (0..depth).map(|at| format!("args.l.exists(x{at}, ")).collect();
            format!("{open}x0 == 1{}", ")".repeat(depth))
        };
        assert!(Condition::compile(&nested(3)).is_ok());
        assert!(error(&nested(4)).message.contains("nested"));
        assert!(Condition::compile("has(args.a) && args.l.map(x, x + 1).size() > 2").is_ok());
    }

    #[test]
    fn deep_expressions_are_rejected_and_accepted_ones_fit_into_a_small_stack() {
        let nested = |depth: usize| format!("{}1 == 1{}", "(".repeat(depth), ")".repeat(depth));
        assert!(Condition::compile(&nested(24)).is_ok());
        for text in [
            nested(25),
            nested(2000),
            format!("args{} == 1", ".a".repeat(1500)),
            format!("1{} == 1", "+1".repeat(1800)),
            format!("true{}", "?true:false".repeat(300)),
            "[".repeat(4000),
        ] {
            assert!(Condition::compile(&text).is_err(), "{}", &text[..20]);
        }
        let deep = Condition::compile(&format!("1{} == 60", "+1".repeat(59))).unwrap();
        let evaluated = std::thread::Builder::new().stack_size(1024 * 1024).spawn(move || {
            let arguments = serde_json::json!({});
            let arguments = std::sync::Arc::new(arguments);
            let record = toolpost_core::domain::call::CallRecord::accepted(
                uuid::Uuid::nil(),
                "t".into(),
                None,
                arguments.clone(),
                toolpost_core::domain::Time(0),
                "n".into(),
            );
            let call = toolpost_core::domain::Call::from(record);
            let input = Input::new(&call, None, &arguments, toolpost_core::domain::Time(0));
            let variables = Variables::new(&input);
            deep.matches(&Evaluation::new(&variables, Bounds::default()).unwrap())
        });
        assert_eq!(evaluated.unwrap().join().unwrap(), Ok(true));
    }

    #[test]
    fn unknown_functions_are_rejected() {
        let unknown = error("true && foo(1)");
        assert!(unknown.message.contains("`foo`") && unknown.column > 1, "{unknown}");
    }

    proptest::proptest! {
        #[test]
        fn any_text_compiles_or_is_rejected(text in "\\PC{0,80}") {
            let _ = Condition::compile(&text);
        }

        #[test]
        fn expressions_of_any_shape_compile_or_are_rejected(
            parts in proptest::collection::vec(proptest::sample::select(vec![
                "args", ".a", "(", ")", "[", "]", "{", "}", " && ", " || ", "!", "'x'", "1", " in ", "?", ":", ".all(x, ", " == ", ",", "has(",
            ]), 0..40),
        ) {
            let _ = Condition::compile(&parts.concat());
        }
    }
}
