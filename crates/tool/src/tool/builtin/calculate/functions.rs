//! Functions and constants of the calculator.

use std::f64::consts;

use super::number::Number;

/// A function of the calculator: its name in lower case, and its rule.
#[derive(Debug, Clone, Copy)]
pub struct Function(&'static str, Rule);

#[derive(Debug, Clone, Copy)]
enum Rule {
    /// A function of one double.
    Real(fn(f64) -> f64),
    /// A function that rounds one number; it leaves integers unchanged.
    Whole(fn(f64) -> f64),
    /// The absolute value of one number.
    Abs,
    /// Chooses one of its arguments: returns `true` if the next one is better than the best so far.
    Choice(fn(f64, f64) -> bool),
}

use Rule::{Abs, Choice, Real, Whole};

static FUNCTIONS: [Function; 22] = [
    Function("sqrt", Real(f64::sqrt)),
    Function("cbrt", Real(f64::cbrt)),
    Function("abs", Abs),
    Function("exp", Real(f64::exp)),
    Function("ln", Real(f64::ln)),
    Function("log2", Real(f64::log2)),
    Function("log10", Real(f64::log10)),
    Function("sin", Real(f64::sin)),
    Function("cos", Real(f64::cos)),
    Function("tan", Real(f64::tan)),
    Function("asin", Real(f64::asin)),
    Function("acos", Real(f64::acos)),
    Function("atan", Real(f64::atan)),
    Function("sinh", Real(f64::sinh)),
    Function("cosh", Real(f64::cosh)),
    Function("tanh", Real(f64::tanh)),
    Function("floor", Whole(f64::floor)),
    Function("ceil", Whole(f64::ceil)),
    Function("round", Whole(f64::round)),
    Function("trunc", Whole(f64::trunc)),
    Function("min", Choice(|best, next| next < best)),
    Function("max", Choice(|best, next| next > best)),
];

static CONSTANTS: [(&str, f64); 4] = [("pi", consts::PI), ("π", consts::PI), ("tau", consts::TAU), ("e", consts::E)];

/// Finds a function by name, ignoring case.
#[must_use]
pub fn function(name: &str) -> Option<Function> {
    FUNCTIONS.iter().copied().find(|Function(known, _)| known.eq_ignore_ascii_case(name))
}

/// Finds a constant by name, ignoring case.
#[must_use]
pub fn constant(name: &str) -> Option<Number> {
    let found = CONSTANTS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| Number::Real(*value))
}

/// Returns the names of all functions and constants.
pub fn names() -> impl Iterator<Item = &'static str> {
    let constants = CONSTANTS.iter().map(|(name, _)| *name).filter(|name| name.is_ascii());
    FUNCTIONS.iter().map(|Function(name, _)| *name).chain(constants)
}

/// Suggests what to write instead of an unknown name.
#[must_use]
pub fn advice(unknown: &str) -> String {
    let unknown = unknown.to_lowercase();
    if unknown == "log" {
        // `log` has base e in programming languages and base 10 at school: a wrong guess would give a wrong result
        // silently.
        return "write ln, log2 or log10".to_owned();
    }
    let near = names().filter(|name| name.len() > 1).map(|name| (strsim::damerau_levenshtein(&unknown, name), name));
    match near.min() {
        Some((distance, name)) if distance <= unknown.len() / 3 => format!("did you mean {name}?"),
        _ => format!("known names are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

impl Function {
    /// Applies the function to its arguments.
    ///
    /// # Errors
    /// Returns a message if the number of arguments is wrong or the value is not finite.
    pub fn apply(self, args: &[Number]) -> Result<Number, String> {
        let Self(name, rule) = self;
        let one = || match args {
            [arg] => Ok(*arg),
            _ => Err(format!("{name} takes 1 argument, not {}", args.len())),
        };
        match rule {
            Real(function) => {
                let arg = one()?;
                let value = function(arg.real());
                if value == f64::NEG_INFINITY {
                    return Err(format!("{name}({arg}) is not a real number"));
                }
                Number::finite(value, || format!("{name}({arg})"))
            }
            Whole(function) => Ok(match one()? {
                Number::Real(real) => Number::Real(function(real)),
                int => int,
            }),
            Abs => one().map(|arg| if arg.real() < 0.0 { arg.negated() } else { arg }),
            Choice(prefers) => args
                .iter()
                .copied()
                .reduce(|best, next| if prefers(best.real(), next.real()) { next } else { best })
                .ok_or_else(|| format!("{name} takes at least 1 argument")),
        }
    }
}
