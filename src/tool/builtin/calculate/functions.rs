//! Functions and constants of the calculator.

use std::f64::consts;

use super::number::Number;

/// A function of the calculator.
#[derive(Debug, Clone, Copy)]
pub struct Function {
    /// The name in lower case.
    pub name: &'static str,
    rule: Rule,
}

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

static FUNCTIONS: [(&str, Rule); 22] = [
    ("sqrt", Real(f64::sqrt)),
    ("cbrt", Real(f64::cbrt)),
    ("abs", Abs),
    ("exp", Real(f64::exp)),
    ("ln", Real(f64::ln)),
    ("log2", Real(f64::log2)),
    ("log10", Real(f64::log10)),
    ("sin", Real(f64::sin)),
    ("cos", Real(f64::cos)),
    ("tan", Real(f64::tan)),
    ("asin", Real(f64::asin)),
    ("acos", Real(f64::acos)),
    ("atan", Real(f64::atan)),
    ("sinh", Real(f64::sinh)),
    ("cosh", Real(f64::cosh)),
    ("tanh", Real(f64::tanh)),
    ("floor", Whole(f64::floor)),
    ("ceil", Whole(f64::ceil)),
    ("round", Whole(f64::round)),
    ("trunc", Whole(f64::trunc)),
    ("min", Choice(|best, next| next < best)),
    ("max", Choice(|best, next| next > best)),
];

static CONSTANTS: [(&str, f64); 4] = [("pi", consts::PI), ("π", consts::PI), ("tau", consts::TAU), ("e", consts::E)];

/// Finds a function by name, ignoring case.
#[must_use]
pub fn function(name: &str) -> Option<Function> {
    let found = FUNCTIONS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(name, rule)| Function { name, rule: *rule })
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
    FUNCTIONS.iter().map(|(name, _)| *name).chain(constants)
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
        let name = self.name;
        let one = || match args {
            [arg] => Ok(*arg),
            _ => Err(format!("{name} takes 1 argument, not {}", args.len())),
        };
        match self.rule {
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
